//! Frees pods whose Job is gone: nobody will count them.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::Target;
use reconcile::{Context, Error, Kind, Object, Plan, Reconciler, Watches, act, owners};

use super::spec::{TRACKING, is_tracked};
use crate::kinds::{JOB, POD};

pub struct Orphans;

/// Whether the job that would count the pod is there.
pub enum Counter {
    There,
    Gone,
}

impl Reconciler for Orphans {
    type Observed = Counter;
    const NAME: &'static str = super::NAME;
    const KIND: Kind = POD;

    fn concerns(pod: &Object) -> bool {
        is_tracked(pod)
    }

    fn watches(&self, watches: &mut Watches) {
        let pods = watches.cache(POD);
        watches.by(JOB, move |change| match (&change.old, &change.new) {
            (Some(job), None) => {
                pods.owned_by(&job.uid).iter().map(|pod| pod.name.clone()).collect()
            }
            _ => Vec::new(),
        });
    }

    async fn observe(&self, context: &Context, pod: &Arc<Object>) -> Result<Counter, Error> {
        if !is_tracked(pod) {
            return Ok(Counter::There);
        }
        let Some(name) = owners::controller_name(pod, JOB) else { return Ok(Counter::Gone) };
        let is_counter = |job: &Object| Some(job.uid.as_str()) == pod.controller();
        if context.cache(JOB).get(&name).is_some_and(|job| is_counter(&job)) {
            return Ok(Counter::There);
        }
        // The pod may be known before its job is.
        let live = context.get_live(JOB, &name).await?;
        Ok(if live.is_some_and(|job| is_counter(&job)) { Counter::There } else { Counter::Gone })
    }

    fn plan(&self, pod: &Object, counter: &Counter, _: Timestamp) -> Result<Plan, Error> {
        let mut plan = Plan::nothing();
        if let (Counter::Gone, Some(patch)) = (counter, act::finalizer_patch(pod, TRACKING, false))
        {
            plan.patch(Target::unchanged(POD, pod), patch);
        }
        Ok(plan)
    }
}
