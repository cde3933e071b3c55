//! A pod that started from a checkpoint has its weights from the server beside it. When that began
//! again they are gone, and the engine cannot tell: the pod is replaced.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::Target;
use reconcile::{Context, Error, Kind, Object, Plan, Reconciler};

use crate::checkpoint::{ID, SOURCE};
use crate::kinds::POD;
use crate::pods::SERVER;
use crate::value::find;

pub const NAME: &str = "gms-pod-replacement";

#[derive(Clone, Copy, Debug, Default)]
pub struct Controller;

impl Reconciler for Controller {
    type Observed = ();
    const NAME: &'static str = NAME;
    const KIND: Kind = POD;

    fn concerns(pod: &Object) -> bool {
        is_lost(pod)
    }

    async fn observe(&self, _: &Context, _: &Arc<Object>) -> Result<(), Error> {
        Ok(())
    }

    fn plan(&self, pod: &Object, (): &(), _: Timestamp) -> Result<Plan, Error> {
        Ok(plan(pod))
    }
}

/// Whether the weights of a pod that started from a checkpoint are gone, and somebody will make it
/// anew.
fn is_lost(pod: &Object) -> bool {
    let server = find(&pod.value["status"]["initContainerStatuses"], "name", SERVER);
    let restarts = server.and_then(|server| server["restartCount"].as_i64()).unwrap_or(0);
    let is_restored = pod.label(ID).is_some() && pod.label(SOURCE).is_none();
    is_restored && restarts > 0 && pod.controller().is_some()
}

pub fn plan(pod: &Object) -> Plan {
    let mut plan = Plan::nothing();
    if is_lost(pod) && !pod.is_terminating() {
        plan.delete(Target::of(POD, pod));
    }
    plan
}
