//! Takes back what was said of a pod that was to be disrupted and was not.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::{self, time};
use reconcile::plan::Target;
use reconcile::{Context, Error, Kind, Object, Plan, Reconciler, Wake};
use serde_json::json;

use crate::kinds::POD;
use crate::pods;

const CONDITION: &str = "DisruptionTarget";
/// How long whoever disrupts may take.
const SECONDS_MAX: i64 = 120;

pub struct Stale;

impl Reconciler for Stale {
    type Observed = ();
    const NAME: &'static str = super::NAME;
    const KIND: Kind = POD;

    fn concerns(pod: &Object) -> bool {
        conditions::find(&pod.value["status"], CONDITION).is_some()
    }

    async fn observe(&self, _: &Context, _: &Arc<Object>) -> Result<(), Error> {
        Ok(())
    }

    fn plan(&self, pod: &Object, (): &(), now: Timestamp) -> Result<Plan, Error> {
        Ok(plan(pod, now))
    }
}

pub fn plan(pod: &Object, now: Timestamp) -> Plan {
    let mut plan = Plan::nothing();
    let status = &pod.value["status"];
    let Some(found) = conditions::find(status, CONDITION) else { return plan };
    let since: Option<Timestamp> =
        found["lastTransitionTime"].as_str().and_then(|text| text.parse().ok());
    let (true, Some(since)) = (found["status"] == "True", since) else { return plan };
    if pods::is_finished(pod) || pod.is_terminating() {
        return plan;
    }
    let left = since.as_second() + SECONDS_MAX - now.as_second();
    if left > 0 {
        plan.wake = Wake::After(Duration::from_secs(left.unsigned_abs()));
        return plan;
    }
    let mut all = status["conditions"].as_array().cloned().unwrap_or_default();
    all.retain(|one| one["type"] != CONDITION);
    all.push(json!({"type": CONDITION, "status": "False", "lastTransitionTime": time(now)}));
    let target = Target::unchanged(POD, pod).part("status");
    plan.patch(target, json!({"status": {"conditions": all}}));
    plan
}
