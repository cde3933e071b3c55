//! What is deleted next, and when the namespace may go.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::{Deletion, Propagation, Target};
use reconcile::{Object, Plan, Step, Wake};
use serde_json::{Value, json};

use super::observe::{Content, Observed, is_to_be_emptied};
use super::status;
use crate::kinds::NAMESPACE;

pub const FINALIZER: &str = "kubernetes";
/// How soon a namespace is looked at again after something was deleted.
const SOON: Duration = Duration::from_millis(10);
/// How often one is looked at whose content takes its time: the longer, the more seldom.
const LOOK_MIN: Duration = Duration::from_millis(250);
const LOOK_MAX: Duration = Duration::from_secs(30);

pub fn plan(namespace: &Object, observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::nothing();
    if !is_to_be_emptied(namespace) {
        return plan;
    }
    if observed.content.is_empty() && observed.stale.is_empty() {
        plan.replace(Target::unchanged(NAMESPACE, namespace).part("finalize"), freed(namespace));
        return plan;
    }
    for content in &observed.content {
        plan.steps.extend(deletions(namespace, content));
    }
    plan.wake = Wake::After(SOON);
    if plan.steps.is_empty() {
        // Everything that is left is on its way: say what it is.
        plan.status = Some(status::status(namespace, observed, None, now));
        plan.wake = Wake::After(patience(namespace, now));
    }
    plan
}

fn deletions(namespace: &Object, content: &Content) -> Vec<Step> {
    let kind = content.served.kind;
    if content.staying.is_empty() {
        return Vec::new();
    }
    if content.served.can_delete_collection {
        return vec![Step::DeleteCollection { kind, namespace: namespace.name.name.clone() }];
    }
    let options = Deletion { propagation: Some(Propagation::Background), grace_seconds: None };
    let delete =
        |target: &Target| Step::Delete { target: target.clone(), options: options.clone() };
    content.staying.iter().map(delete).collect()
}

fn freed(namespace: &Object) -> Value {
    let mut freed = namespace.value.clone();
    let finalizers = namespace.value["spec"]["finalizers"].as_array();
    let left = finalizers.into_iter().flatten().filter(|one| *one != FINALIZER);
    freed["spec"]["finalizers"] = json!(left.collect::<Vec<_>>());
    freed
}

fn patience(namespace: &Object, now: Timestamp) -> Duration {
    let since: Option<Timestamp> = namespace.meta("deletionTimestamp").parse().ok();
    let waited = since.map_or(0, |since| now.as_millisecond() - since.as_millisecond());
    Duration::from_millis(waited.max(0).unsigned_abs() / 4).clamp(LOOK_MIN, LOOK_MAX)
}
