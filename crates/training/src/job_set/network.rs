//! The headless service that gives pods their names.

use reconcile::{Plan, owners};
use serde_json::json;

use super::build::JOB_SET_NAME;
use super::observe::Observed;
use super::spec::Spec;
use crate::kinds::{JOB_SET, SERVICE};

pub fn service_name<'a>(spec: &Spec<'a>) -> Option<&'a str> {
    spec.subdomain()
}

/// Makes the service, unless one of its name is there.
pub fn make_service(plan: &mut Plan, spec: &Spec<'_>, observed: &Observed) {
    let Some(name) = service_name(spec).filter(|_| !observed.has_service) else { return };
    let publish = spec.value()["network"]["publishNotReadyAddresses"].as_bool().unwrap_or(true);
    let mut service = owners::child(SERVICE, name, JOB_SET, spec.set);
    service["spec"] = json!({
        "clusterIP": "None",
        "selector": {JOB_SET_NAME: spec.name()},
        "publishNotReadyAddresses": publish,
    });
    plan.create(SERVICE, service);
}
