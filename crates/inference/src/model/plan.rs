//! What a model does next, and what it says of its servers.

use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::{self, Condition, Truth};
use reconcile::plan::{Notice, Target};
use reconcile::{Object, Plan, Wake, act};
use serde_json::{Value, json};

use super::lora::Outcome;
use super::observe::Observed;
use super::{coverage, is_lora};
use crate::kinds::MODEL;
use crate::names::FINALIZER;
use crate::value::{list, text};

pub fn plan(model: &Object, observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::nothing();
    if model.is_terminating() {
        // Whatever came of it: what cannot be reached must not keep a model for ever.
        unloaded(&mut plan, model, observed);
        if let Some(patch) = act::finalizer_patch(model, FINALIZER, false) {
            plan.patch(Target::unchanged(MODEL, model), patch);
        }
        return plan;
    }
    if let Some(patch) = act::finalizer_patch(model, FINALIZER, true) {
        plan.patch(Target::unchanged(MODEL, model), patch);
        return plan;
    }
    let told = tell(model, observed);
    let mut found = list(&model.value["status"]["conditions"]).to_vec();
    for (kind, status, reason, message) in &told.conditions {
        let condition = Condition {
            kind,
            status: *status,
            reason,
            message,
            observed_generation: Some(model.generation()),
        };
        conditions::set(&mut found, &condition, now);
    }
    let mut status = told.status;
    status["conditions"] = json!(found);
    // What is as it was is not told again.
    let before = |kind: &str| conditions::find(&model.value["status"], kind).cloned();
    let is_news =
        |kind: &str, message: &str| before(kind).is_none_or(|one| text(&one["message"]) != message);
    let is_changed = told.conditions.iter().any(|(kind, _, _, message)| is_news(kind, message));
    plan.notices.extend(told.notices.into_iter().filter(|_| is_changed || observed.is_fresh));
    if told.has_failures {
        plan.wake = Wake::After(observed.retry);
    }
    plan.status = Some(status);
    plan
}

fn unloaded(plan: &mut Plan, model: &Object, observed: &Observed) {
    if !is_lora(model) || observed.outcomes.is_empty() {
        return;
    }
    let done = observed.outcomes.iter().filter(|one| **one == Outcome::Done).count();
    let failed = failures(observed);
    if done > 0 {
        let message = format!("Unloaded LoRA from {done} endpoint(s)");
        plan.notices.push(Notice::normal("LoRAUnloaded", message));
    }
    if let Some(first) = failed.first() {
        let message = format!("Failed to unload LoRA from {} endpoint(s): {first}", failed.len());
        plan.notices.push(Notice::warning("LoRAUnloadFailed", message));
    }
}

fn failures(observed: &Observed) -> Vec<String> {
    let pairs = observed.found.candidates.iter().zip(&observed.outcomes);
    let failed = pairs.filter_map(|(candidate, outcome)| match outcome {
        Outcome::Failed(reason) => Some(format!("{}: {reason}", candidate.pod)),
        Outcome::Done | Outcome::Unable => None,
    });
    failed.collect()
}

struct Told {
    status: Value,
    conditions: [(&'static str, Truth, &'static str, String); 2],
    notices: Vec<Notice>,
    has_failures: bool,
}

fn tell(model: &Object, observed: &Observed) -> Told {
    let found = &observed.found;
    let services = match found.services.len() {
        0 => (SERVICES, Truth::False, "NoServicesFound", "No services found".to_owned()),
        many => (SERVICES, Truth::True, "ServicesFound", format!("Found {many} service(s)")),
    };
    if found.candidates.is_empty() {
        let base = text(&model.value["spec"]["baseModelName"]);
        let message = format!("No endpoint slices found for base model {base}");
        let services = (SERVICES, Truth::False, "NoServicesFound", message.clone());
        let endpoints = (ENDPOINTS, Truth::False, "NoEndpoints", message.clone());
        return Told {
            status: counts(Vec::new(), (0, 0)),
            conditions: [services, endpoints],
            notices: vec![Notice::warning("NoEndpointsFound", message)],
            has_failures: false,
        };
    }
    if !is_lora(model) {
        let message = format!("Found {} endpoint(s) for base model", found.candidates.len());
        let endpoints = found.candidates.iter();
        let endpoints = endpoints.map(|one| endpoint(&one.address, &one.pod, (false, false)));
        return Told {
            status: counts(endpoints.collect(), (0, 0)),
            conditions: [
                services,
                (ENDPOINTS, Truth::True, "EndpointsDiscovered", message.clone()),
            ],
            notices: vec![Notice::normal("EndpointsDiscovered", message)],
            has_failures: false,
        };
    }
    tell_adapter(observed, services)
}

const SERVICES: &str = "ServicesFound";
const ENDPOINTS: &str = "EndpointsReady";

fn tell_adapter(
    observed: &Observed,
    services: (&'static str, Truth, &'static str, String),
) -> Told {
    let candidates = &observed.found.candidates;
    let asked = candidates.iter().zip(&observed.outcomes);
    let covered = coverage::covered(candidates, &observed.outcomes);
    let endpoints = asked.zip(&covered).map(|((one, outcome), is_covered)| {
        endpoint(&one.address, &one.pod, (*outcome == Outcome::Done, *is_covered))
    });
    let endpoints: Vec<Value> = endpoints.collect();
    let ready = observed.outcomes.iter().filter(|one| **one == Outcome::Done).count();
    let fallback = covered.iter().filter(|is_covered| **is_covered).count();
    let total = endpoints.len();
    let (truth, reason, message) = if total > 0 && ready + fallback == total {
        let message = format!("All {total} endpoint(s) are ready or covered by a capable prefill");
        (Truth::True, "AllEndpointsReady", message)
    } else {
        let message = format!(
            "Found {ready} ready endpoint(s) and {fallback} fallback-covered endpoint(s) out of \
             {total} total"
        );
        (Truth::False, "NotReady", message)
    };
    let mut notices = vec![match truth {
        Truth::True => Notice::normal("EndpointsReady", message.clone()),
        _ => Notice::warning("NotReady", message.clone()),
    }];
    let has_failures = truth != Truth::True;
    if has_failures {
        let first = failures(observed).into_iter().next();
        let first = first.unwrap_or_else(|| "spec.source.uri is missing".to_owned());
        let message = format!("Some endpoints failed to load the LoRA: {first}");
        notices.push(Notice::warning("PartialEndpointFailure", message));
    }
    Told {
        status: counts(endpoints, (ready, fallback)),
        conditions: [services, (ENDPOINTS, truth, reason, message)],
        notices,
        has_failures,
    }
}

fn endpoint(address: &str, pod: &str, (is_ready, is_covered): (bool, bool)) -> Value {
    let mut endpoint = json!({"address": address, "podName": pod, "ready": is_ready});
    if is_covered {
        endpoint["loraFallbackCovered"] = json!(true);
    }
    endpoint
}

fn counts(endpoints: Vec<Value>, (ready, fallback): (usize, usize)) -> Value {
    let mut status = json!({"readyEndpoints": ready, "totalEndpoints": endpoints.len()});
    if fallback > 0 {
        status["loraFallbackCoveredEndpoints"] = json!(fallback);
    }
    if !endpoints.is_empty() {
        status["endpoints"] = Value::Array(endpoints);
    }
    status
}
