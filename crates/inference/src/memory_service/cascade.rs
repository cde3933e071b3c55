//! Engines that share weights across pods fail together: one that ended takes the others of its
//! group with it, so that all begin again from the same weights.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/internal/controller, gms failover cascade

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::{Deletion, Notice, Target};
use reconcile::{Context, Error, Kind, Object, Plan, Reconciler, Step};

use crate::checkpoint::ID;
use crate::kinds::POD;

pub const NAME: &str = "gms-failover-cascade";
pub const MEMBER: &str = "nvidia.com/dynamo-failover-engine-group-member";
/// What Grove says of a pod; those that say the same are one group.
pub const GROUP: [&str; 3] = [
    "grove.io/podcliquescalinggroup",
    "grove.io/podcliquescalinggroup-replica-index",
    "grove.io/podclique-pod-index",
];

#[derive(Clone, Copy, Debug, Default)]
pub struct Controller;

/// The pods of the group that are still there.
pub type Observed = Vec<Arc<Object>>;

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = NAME;
    const KIND: Kind = POD;

    fn concerns(pod: &Object) -> bool {
        has_ended(pod)
    }

    async fn observe(&self, context: &Context, pod: &Arc<Object>) -> Result<Observed, Error> {
        if !has_ended(pod) {
            return Ok(Vec::new());
        }
        let all = context.cache(POD).in_namespace(&pod.name.namespace).into_iter();
        Ok(all.filter(|other| is_of_group(pod, other)).collect())
    }

    fn plan(&self, pod: &Object, observed: &Observed, _: Timestamp) -> Result<Plan, Error> {
        Ok(plan(pod, observed))
    }
}

/// Whether a member ended. One that starts from a checkpoint is replaced alone.
fn has_ended(pod: &Object) -> bool {
    let is_over = matches!(pod.value["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
    pod.label(MEMBER) == Some("true") && is_over && pod.label(ID).is_none()
}

fn is_of_group(pod: &Object, other: &Object) -> bool {
    let same = |name: &&str| pod.label(name).is_some() && pod.label(name) == other.label(name);
    GROUP.iter().all(same)
}

pub fn plan(pod: &Object, group: &Observed) -> Plan {
    let mut plan = Plan::nothing();
    let left = group.iter().filter(|other| !other.is_terminating());
    for other in left {
        let options = Deletion { grace_seconds: Some(0), propagation: None };
        plan.steps.push(Step::Delete { target: Target::of(POD, other), options });
    }
    if !plan.steps.is_empty() {
        let message = format!(
            "Pod {} ended; deleting the {} pods of its failover group",
            pod.name.name,
            plan.steps.len()
        );
        plan.notices.push(Notice::warning("FailoverCascade", message));
    }
    plan
}
