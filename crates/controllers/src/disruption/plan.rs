//! How many pods may be spared.

use std::time::Duration;

use amounts::share::{self, Round};
use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::{self, Condition, Truth};
use reconcile::plan::Notice;
use reconcile::{Object, Plan, Wake};
use serde_json::{Map, Value, json};

use super::observe::{Observed, Scale};
use crate::pods;

/// How long an eviction that was allowed may take to become a deletion.
const DELETION_SECONDS_MAX: i64 = 120;

/// What a budget comes to.
struct Count {
    expected: usize,
    desired: usize,
    healthy: usize,
}

pub fn plan(budget: &Object, observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::nothing();
    if observed.pods.is_empty() {
        plan.notices.push(Notice::normal("NoPods", "No matching pods found"));
    }
    if observed.unmanaged > 0 {
        let text = "Pods selected by this PodDisruptionBudget were found to be unmanaged. As a \
                    result, the status of the PDB cannot be calculated correctly, which may \
                    result in undefined behavior. To account for these pods please set \
                    \".spec.minAvailable\" field of the PDB to an integer value.";
        plan.notices.push(Notice::warning("UnmanagedPods", text));
    }
    let scale = match &observed.scale {
        Scale::Known(scale) => *scale,
        Scale::Unknown(why) => {
            let text = format!("Failed to calculate the number of expected pods: {why}");
            plan.notices.push(Notice::warning("CalculateExpectedPodCountFailed", text));
            plan.status = Some(unknown(budget, why, now));
            return plan;
        }
    };
    let disrupted = disrupted(&mut plan, budget, observed, now);
    let (expected, desired) = wanted(&budget.value["spec"], observed.pods.len(), scale);
    let is_healthy = |pod: &&std::sync::Arc<Object>| {
        !pod.is_terminating() && !disrupted.contains_key(&*pod.name.name) && pods::is_ready(pod)
    };
    let healthy = observed.pods.iter().filter(is_healthy).count();
    let count = Count { expected, desired, healthy };
    plan.status = Some(status(budget, &count, disrupted, now));
    plan
}

/// How many pods there should be, and how many must be healthy.
fn wanted(spec: &Value, pods: usize, scale: usize) -> (usize, usize) {
    let least = &spec["minAvailable"];
    if !spec["maxUnavailable"].is_null() {
        return (scale, scale.saturating_sub(share_of(&spec["maxUnavailable"], scale)));
    }
    match least {
        Value::String(_) => (scale, share_of(least, scale)),
        least => (pods, share_of(least, pods)),
    }
}

fn share_of(value: &Value, total: usize) -> usize {
    let total = i64::try_from(total).unwrap_or(i64::MAX);
    usize::try_from(share::of(value, total, Round::Up, 0)).unwrap_or(0)
}

/// The pods whose eviction was allowed and that are not going yet.
fn disrupted(
    plan: &mut Plan,
    budget: &Object,
    observed: &Observed,
    now: Timestamp,
) -> Map<String, Value> {
    let known = budget.value["status"]["disruptedPods"].as_object();
    let mut left = Map::new();
    for (name, since) in known.into_iter().flatten() {
        let pod = observed.pods.iter().find(|pod| *pod.name.name == **name);
        if pod.is_none_or(|pod| pod.is_terminating()) {
            continue;
        }
        let at: Option<Timestamp> = since.as_str().and_then(|text| text.parse().ok());
        let Some(at) = at else { continue };
        let seconds = at.as_second() + DELETION_SECONDS_MAX - now.as_second();
        if seconds <= 0 {
            let Object { name: budget, .. } = budget;
            let text =
                format!("Pod {name} was expected by PDB {budget} to be deleted but it wasn't");
            plan.notices.push(Notice::warning("NotDeleted", text));
            continue;
        }
        left.insert(name.clone(), since.clone());
        plan.wake = plan.wake.or_earlier(Wake::After(Duration::from_secs(seconds.unsigned_abs())));
    }
    left
}

fn status(budget: &Object, count: &Count, disrupted: Map<String, Value>, now: Timestamp) -> Value {
    let spare = count.healthy.saturating_sub(count.desired);
    let allowed = if count.expected == 0 { 0 } else { spare };
    let mut status = json!({
        "observedGeneration": budget.generation(),
        "disruptionsAllowed": allowed,
        "currentHealthy": count.healthy,
        "desiredHealthy": count.desired,
        "expectedPods": count.expected,
    });
    if !disrupted.is_empty() {
        status["disruptedPods"] = Value::Object(disrupted);
    }
    let condition = match allowed {
        0 => (Truth::False, "InsufficientPods", ""),
        _ => (Truth::True, "SufficientPods", ""),
    };
    status["conditions"] = said(budget, condition, now);
    status
}

/// Nothing may be spared while nobody knows.
fn unknown(budget: &Object, why: &str, now: Timestamp) -> Value {
    let mut status = budget.value["status"].clone();
    for field in ["currentHealthy", "desiredHealthy", "expectedPods"] {
        if status[field].is_null() {
            status[field] = json!(0);
        }
    }
    status["observedGeneration"] = json!(budget.generation());
    status["disruptionsAllowed"] = json!(0);
    status["conditions"] = said(budget, (Truth::False, "SyncFailed", why), now);
    status
}

fn said(budget: &Object, condition: (Truth, &str, &str), now: Timestamp) -> Value {
    let known = budget.value["status"]["conditions"].as_array();
    let mut conditions = known.cloned().unwrap_or_default();
    let (status, reason, message) = condition;
    let condition = Condition {
        kind: "DisruptionAllowed",
        status,
        reason,
        message,
        observed_generation: Some(budget.generation()),
    };
    conditions::set(&mut conditions, &condition, now);
    // Conditions of this kind always have a message, which the server fills in: one without would
    // look changed for ever.
    for one in conditions.iter_mut().filter(|one| one["message"].is_null()) {
        one["message"] = json!("");
    }
    json!(conditions)
}
