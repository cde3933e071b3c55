//! A Wukong becomes attachments to networks, disks, and a machine when those are there; what the
//! machine does is told of it.
//!
//! Upstream: kuihuar/vmoperator, internal/controller/wukong_controller.go

mod cloud_init;
mod deletion;
mod disks;
mod exposure;
mod machine;
mod networks;
mod observe;
mod plan;
mod restore;
mod spec;
mod status;
#[cfg(test)]
mod tests;
pub mod validate;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::{Change, Context, Error, Kind, Name, Object, Plan, Reconciler, Watches, owners};
use serde_json::Value;

use crate::Options;
use crate::kinds::{
    ATTACHMENT, CLAIM, DATA_VOLUME, INSTANCE, MACHINE, POLICY, RESTORE, SERVICE, STORAGE_CLASS,
    WUKONG, WUKONG_SNAPSHOT,
};
use crate::value::{list, text};

pub use cloud_init::{SHELL, SUDO};
pub use disks::CLAIM_SCHEME;
pub use observe::{Keys, Observed, keys_in};
pub use spec::{Classes, FINALIZER, machine_name, private_bridge};

pub const NAME: &str = "wukong";

pub struct Controller {
    options: Options,
}

impl Controller {
    pub fn new(options: &Options) -> Controller {
        Controller { options: *options }
    }
}

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = NAME;
    const IS_LOGGED: bool = true;
    const KIND: Kind = WUKONG;

    fn watches(&self, watches: &mut Watches) {
        let add_ons = self.options.add_ons;
        watches.children(CLAIM, WUKONG);
        watches.children(SERVICE, WUKONG);
        if add_ons.importer {
            watches.owned(DATA_VOLUME, WUKONG);
            // The claim of a volume is the volume's.
            let volumes = watches.cache(DATA_VOLUME);
            watches.children_by(CLAIM, move |change| {
                let volume = owners::controller_name(change.object(), DATA_VOLUME);
                let volume = volume.and_then(|name| volumes.get(&name));
                let owner = volume.and_then(|volume| owners::controller_name(&volume, WUKONG));
                owner.into_iter().collect()
            });
        }
        if add_ons.kubevirt {
            watches.owned(MACHINE, WUKONG);
            watches.by(INSTANCE, |change| of_machine(&change.object().name));
        }
        if add_ons.multus {
            watches.owned(ATTACHMENT, WUKONG);
            watches_named(watches, ATTACHMENT, |wukong, name| {
                let networks = list(&wukong.value["spec"]["networks"]).iter();
                let mut named = networks.map(|network| text(&network["nadName"]));
                named.any(|named| named == &*name.name || named == name.to_string())
            });
        }
        if add_ons.nmstate {
            watches.by(POLICY, of_policy);
        }
        if add_ons.snapshots {
            watches.owned(RESTORE, WUKONG);
        }
        watches_named(watches, WUKONG_SNAPSHOT, |wukong, snapshot| {
            wukong.value["spec"]["restoreFromSnapshot"] == *snapshot.name
                && wukong.name.namespace == snapshot.namespace
        });
        watches_named(watches, STORAGE_CLASS, |wukong, _| {
            let status = &wukong.value["status"];
            let grows = reconcile::conditions::find(status, status::EXPANDED);
            status["phase"] != "Running" || grows.is_some_and(|one| one["status"] != "True")
        });
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<Observed, Error> {
        observe::observe(context, object, &self.options).await
    }

    fn plan(&self, object: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
        Ok(plan::plan(object, observed, now))
    }

    fn refused(
        &self,
        object: &Object,
        observed: &Observed,
        error: &Error,
        now: Timestamp,
    ) -> Option<Plan> {
        Some(plan::refused(object, observed, error, now))
    }

    fn pause_after(&self, error: &Error) -> Duration {
        match error {
            error if error.is_refusal() => plan::ERROR_LOOK,
            error if error.is_conflict() || matches!(error, Error::Stale { .. }) => Duration::ZERO,
            // Whatever cut it short, nothing failed.
            _ => plan::CREATING,
        }
    }
}

/// A change of an object of a kind wakes those that wait for it, as the function says.
fn watches_named(watches: &mut Watches, kind: Kind, waits: fn(&Object, &Name) -> bool) {
    let wukongs = watches.cache(WUKONG);
    watches.by(kind, move |change| {
        let name = &change.object().name;
        let all = wukongs.all();
        all.iter().filter(|one| waits(one, name)).map(|one| one.name.clone()).collect()
    });
}

fn of_machine(machine: &Name) -> Vec<Name> {
    let wukong = machine.name.strip_suffix("-vm");
    wukong.map(|name| Name::new(machine.namespace.clone(), name)).into_iter().collect()
}

fn of_policy(change: &Change) -> Vec<Name> {
    let of = change.object().annotation(networks::OWNER_ANNOTATION);
    let name = of.and_then(|of| of.split_once('/'));
    name.map(|(namespace, name)| Name::new(namespace, name)).into_iter().collect()
}

/// What a plan for an object would be, for those who look at plans.
pub fn plan_of(object: &Value, observed: &Observed, now: Timestamp) -> Plan {
    plan::plan(&Object::new(object.clone()), observed, now)
}
