//! Lets claims go that no pod uses any more, and volumes that no claim is bound to: until then a
//! finalizer holds them.
//!
//! Upstream: pkg/controller/volume/pvcprotection, pkg/controller/volume/pvprotection

mod plan;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::requests::Origin;
use reconcile::{Context, Error, Kind, Name, Object, Plan, Reconciler, Watches};

use crate::kinds::{PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD};
use crate::pods;

/// Holds claims.
pub struct Claims;

impl Reconciler for Claims {
    /// Whether a pod uses the claim.
    type Observed = bool;
    const NAME: &'static str = "pvc-protection-controller";
    const KIND: Kind = PERSISTENT_VOLUME_CLAIM;

    fn watches(&self, watches: &mut Watches) {
        // Only a pod that goes can let a claim go.
        watches.by(POD, |change| match (&change.old, &change.new) {
            (Some(pod), None) => plan::claims(pod),
            (Some(old), Some(new)) if old.uid != new.uid => plan::claims(old),
            _ => Vec::new(),
        });
    }

    async fn observe(&self, context: &Context, claim: &Arc<Object>) -> Result<bool, Error> {
        if !claim.is_terminating() {
            return Ok(true);
        }
        let held = context.cache(POD).in_namespace(&claim.name.namespace);
        if held.iter().any(|pod| uses(pod, &claim.name)) {
            return Ok(true);
        }
        // A pod may have come that the cache does not show.
        let requests = context.requests(Claims::NAME, Origin::default());
        let mut list = requests.read(&POD.collection(&claim.name.namespace)).await?;
        let items = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        Ok(items.into_iter().map(Object::new).any(|pod| uses(&pod, &claim.name)))
    }

    fn plan(&self, claim: &Object, is_used: &bool, _: Timestamp) -> Result<Plan, Error> {
        Ok(plan::claim(claim, *is_used))
    }
}

/// A pod that has no node yet will not get one with a claim that goes.
fn uses(pod: &Object, claim: &Name) -> bool {
    !pods::node(pod).is_empty() && plan::claims(pod).contains(claim)
}

/// Holds volumes.
pub struct Volumes;

impl Reconciler for Volumes {
    type Observed = ();
    const NAME: &'static str = "pv-protection-controller";
    const KIND: Kind = PERSISTENT_VOLUME;

    async fn observe(&self, _: &Context, _: &Arc<Object>) -> Result<(), Error> {
        Ok(())
    }

    fn plan(&self, volume: &Object, (): &(), _: Timestamp) -> Result<Plan, Error> {
        Ok(plan::volume(volume))
    }
}

#[cfg(test)]
mod tests;
