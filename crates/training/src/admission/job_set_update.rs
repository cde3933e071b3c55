//! What may change of a JobSet that exists.

use serde_json::Value;

use crate::field_error::FieldError;
use crate::value::{list, object_mut};

/// What of a pod may change while nothing runs.
const OF_POD: [&str; 3] = ["nodeSelector", "tolerations", "schedulingGates"];
const OF_METADATA: [&str; 2] = ["labels", "annotations"];

pub fn validate(errors: &mut Vec<FieldError>, old: &Value, new: &Value) {
    let is_held = old["suspend"] == true || new["suspend"] == true;
    let (before, after) = match is_held {
        true => (without_mutable(old), without_mutable(new)),
        false => (old["replicatedJobs"].clone(), new["replicatedJobs"].clone()),
    };
    if before != after {
        let value = new["replicatedJobs"].clone();
        errors.push(FieldError::invalid("spec.replicatedJobs", value, "field is immutable"));
    }
    if old["managedBy"] != new["managedBy"] {
        let value = new["managedBy"].clone();
        errors.push(FieldError::invalid("spec.managedBy", value, "field is immutable"));
    }
}

/// The jobs without what may change.
fn without_mutable(spec: &Value) -> Value {
    let jobs = list(&spec["replicatedJobs"]).iter().cloned();
    let strip = |mut job: Value| {
        let pod = &mut job["template"]["spec"]["template"];
        for field in OF_METADATA {
            object_mut(&mut pod["metadata"]).remove(field);
        }
        for field in OF_POD {
            object_mut(&mut pod["spec"]).remove(field);
        }
        job
    };
    jobs.map(strip).collect()
}
