//! Brings claims and volumes together, follows their phases, and makes volumes that are directories
//! of a node for claims that want them.
//!
//! A volume is bound before its claim, and only if it says what it said: of two claims that want
//! one volume, one wins. Whatever is done half is found again in the volume's `claimRef`.
//!
//! | file | |
//! |---|---|
//! | `claim.rs` | what a claim needs next |
//! | `volume.rs` | which phase a volume is in, and what happens to it after its claim |
//! | `matching.rs` | which volume fits a claim |
//! | `provision.rs` | volumes made for a claim |
//!
//! Upstream: pkg/controller/volume/persistentvolume/pv_controller.go

mod claim;
mod matching;
mod observe;
mod provision;
mod volume;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::entry::Task;
use reconcile::value::text;
use reconcile::{
    Cache, Change, Context, Error, Kind, Name, Object, Plan, Reconciler, Watches, run,
};

use crate::kinds::{NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS};

pub use observe::{ForClaim, ForVolume};
pub use provision::{PROVISIONER, default_class, install_default_class};

/// Set on both sides when the controller chose; what a user chose is kept when it is undone.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// Set on a claim when both sides know each other.
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The node that the scheduler chose for the first pod.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// Binds claims.
pub struct Claims;

impl Reconciler for Claims {
    type Observed = ForClaim;
    const NAME: &'static str = "persistent-volume-binder";
    const KIND: Kind = PERSISTENT_VOLUME_CLAIM;

    fn watches(&self, watches: &mut Watches) {
        let claims = watches.cache(PERSISTENT_VOLUME_CLAIM);
        watches.by(PERSISTENT_VOLUME, move |change| claims_of_volume(&claims, change));
        let claims = watches.cache(PERSISTENT_VOLUME_CLAIM);
        watches.by(STORAGE_CLASS, move |_| waiting(&claims));
        watches.reads(NODE);
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<ForClaim, Error> {
        Ok(observe::for_claim(context, object))
    }

    fn plan(&self, object: &Object, observed: &ForClaim, _: Timestamp) -> Result<Plan, Error> {
        Ok(claim::plan(object, observed))
    }
}

/// Follows volumes.
pub struct Volumes;

impl Reconciler for Volumes {
    type Observed = ForVolume;
    const NAME: &'static str = "persistent-volume-binder";
    const KIND: Kind = PERSISTENT_VOLUME;

    fn watches(&self, watches: &mut Watches) {
        let volumes = watches.cache(PERSISTENT_VOLUME);
        watches.by(PERSISTENT_VOLUME_CLAIM, move |change| volumes_of_claim(&volumes, change));
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<ForVolume, Error> {
        observe::for_volume(context, object).await
    }

    fn plan(&self, object: &Object, observed: &ForVolume, _: Timestamp) -> Result<Plan, Error> {
        Ok(volume::plan(object, observed))
    }
}

/// Runs both halves.
pub fn start(context: Context) -> Task {
    Box::pin(async move {
        tokio::join!(run::run(context.clone(), Claims), run::run(context, Volumes));
    })
}

/// The claims that a volume is bound to, and those that wait if it is free.
fn claims_of_volume(claims: &Cache, change: &Change) -> Vec<Name> {
    let sides = [&change.old, &change.new].into_iter().flatten();
    let mut names: Vec<Name> = sides.filter_map(|volume| claim_name(volume)).collect();
    let is_free = |volume: &Arc<Object>| volume.value["spec"]["claimRef"].is_null();
    if change.new.as_ref().is_some_and(is_free) || names.is_empty() {
        names.extend(waiting(claims));
    }
    names
}

fn waiting(claims: &Cache) -> Vec<Name> {
    let mut all = claims.all();
    all.retain(|claim| claim.annotation(BIND_COMPLETED).is_none());
    all.iter().map(|claim| claim.name.clone()).collect()
}

/// The volumes that a claim names, and those that name it.
fn volumes_of_claim(volumes: &Cache, change: &Change) -> Vec<Name> {
    let claim = &change.object().name;
    let sides = [&change.old, &change.new].into_iter().flatten();
    let named = sides.filter_map(|claim| claim.value["spec"]["volumeName"].as_str());
    let mut names: Vec<Name> = named.map(|name| Name::new("", name)).collect();
    let naming = volumes.all().into_iter().filter(|it| claim_name(it).as_ref() == Some(claim));
    names.extend(naming.map(|volume| volume.name.clone()));
    names
}

/// The claim that a volume is for.
fn claim_name(volume: &Object) -> Option<Name> {
    let reference = &volume.value["spec"]["claimRef"];
    Some(Name::new(reference["namespace"].as_str()?, reference["name"].as_str()?))
}

/// Whether a volume is for a claim and not for another one that had its name.
fn is_for(volume: &Object, claim: &Object) -> bool {
    let uid = volume.value["spec"]["claimRef"]["uid"].as_str().unwrap_or_default();
    claim_name(volume).as_ref() == Some(&claim.name) && (uid.is_empty() || uid == claim.uid)
}

#[cfg(test)]
mod tests;
