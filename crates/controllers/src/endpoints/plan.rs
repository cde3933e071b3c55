//! What the Endpoints of a service say.

use reconcile::plan::{Notice, Target};
use reconcile::{Error, Object, Plan};
use serde_json::{Value, json};

use super::observe::Observed;
use super::subsets::{self, Subsets};
use crate::kinds::ENDPOINTS;
use crate::service_pods::{self, HEADLESS, TRIGGER_TIME};

pub const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
pub const MANAGER: &str = "endpoint-controller";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

pub fn plan(service: &Object, observed: &Observed) -> Plan {
    let mut plan = Plan::nothing();
    if service_pods::selector(service).is_none() {
        return plan;
    }
    let wanted = subsets::of(service, &observed.pods);
    match &observed.endpoints {
        None => {
            let mut object = json!({
                "apiVersion": "v1", "kind": "Endpoints",
                "metadata": {"namespace": &*service.name.namespace, "name": &*service.name.name},
            });
            fill(&mut object, service, observed, &wanted);
            plan.create(ENDPOINTS, object);
        }
        Some(seen) if !seen.is_terminating() && differs(service, seen, &wanted) => {
            let mut object = seen.value.clone();
            fill(&mut object, service, observed, &wanted);
            plan.replace(Target::unchanged(ENDPOINTS, seen), object);
        }
        Some(_) => {}
    }
    plan
}

/// What is reported when Endpoints could not be written.
pub fn refused(service: &Object, error: &Error) -> Plan {
    let failure = error.chain();
    let message = format!("Failed to update endpoint {}: {failure}", service.name);
    Plan { notices: vec![Notice::warning("FailedToUpdateEndpoint", message)], ..Plan::nothing() }
}

fn differs(service: &Object, seen: &Object, wanted: &Subsets) -> bool {
    let list = seen.value["subsets"].as_array().cloned().unwrap_or_default();
    list != wanted.list
        || seen.value["metadata"]["labels"] != labels(service)
        || seen.annotation(OVER_CAPACITY).is_some() != wanted.is_truncated
}

fn fill(object: &mut Value, service: &Object, observed: &Observed, wanted: &Subsets) {
    object["subsets"] = json!(wanted.list);
    let metadata = &mut object["metadata"];
    metadata["labels"] = labels(service);
    if let Some(time) = service_pods::trigger_time(service, &observed.pods) {
        metadata["annotations"][TRIGGER_TIME] = json!(time);
    }
    if wanted.is_truncated {
        metadata["annotations"][OVER_CAPACITY] = json!("truncated");
    } else if let Some(annotations) = metadata["annotations"].as_object_mut() {
        annotations.remove(OVER_CAPACITY);
    }
}

fn labels(service: &Object) -> Value {
    let mut labels = service.value["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    labels.remove(HEADLESS);
    if service_pods::is_headless(service) {
        labels.insert(HEADLESS.to_owned(), json!(""));
    }
    labels.insert(MANAGED_BY.to_owned(), json!(MANAGER));
    Value::Object(labels)
}
