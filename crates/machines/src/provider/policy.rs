//! Says of every policy of NMState that it is not made so. Bridges are made where machines start,
//! and interfaces of a node are not put into them: that could cut the node off.
//!
//! Upstream: nmstate/kubernetes-nmstate, pkg/enactmentstatus

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::{self, Condition, Truth};
use reconcile::{Context, Error, Kind, Object, Plan, Reconciler};
use serde_json::json;

use crate::kinds::POLICY;
use crate::value::list;

pub const NAME: &str = "network-policy-controller";
const WHY: &str = "nodes of this cluster do not change their own interfaces: leave \
                   physicalInterface out, and the bridge is made where the machine starts";

pub struct Controller;

impl Reconciler for Controller {
    type Observed = ();
    const NAME: &'static str = NAME;
    const KIND: Kind = POLICY;

    async fn observe(&self, _: &Context, _: &Arc<Object>) -> Result<(), Error> {
        Ok(())
    }

    fn plan(&self, policy: &Object, (): &(), now: Timestamp) -> Result<Plan, Error> {
        let mut plan = Plan::nothing();
        if policy.is_terminating() {
            return Ok(plan);
        }
        let mut status = policy.value["status"].clone();
        if !status.is_object() {
            status = json!({});
        }
        let mut all = list(&status["conditions"]).to_vec();
        for (kind, status) in [("Available", Truth::False), ("Degraded", Truth::True)] {
            let condition = Condition {
                kind,
                status,
                reason: "FailedToConfigure",
                message: WHY,
                observed_generation: None,
            };
            conditions::set(&mut all, &condition, now);
        }
        status["conditions"] = json!(all);
        plan.status = Some(status);
        Ok(plan)
    }
}
