//! Which slices a service has and what they say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reconcile::plan::Target;
use reconcile::{Object, Plan, names, owners};
use serde_json::{Value, json};

use super::distribute::{Filled, distribute};
use super::observe::Observed;
use crate::kinds::{ENDPOINT_SLICE, SERVICE};
use crate::pods;
use crate::service_pods::{self, Family, HEADLESS, Leaving, TRIGGER_TIME};

pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
pub const MANAGER: &str = "endpointslice-controller.k8s.io";

/// The endpoints that share a set of ports, by name and UID of their pods.
pub type Group = BTreeMap<(String, String), Value>;

pub fn plan(service: &Object, observed: &Observed) -> Plan {
    let mut plan = Plan::nothing();
    if service_pods::selector(service).is_none() {
        return plan;
    }
    let families = service_pods::families(service);
    let mut filled = Vec::new();
    for family in &families {
        filled.extend(fill(service, observed, *family));
    }
    let mut names = free_names(service, observed);
    for (family, slice) in filled.iter().filter(|(_, slice)| slice.slice.is_none()) {
        let name = names.next().expect("there must be a name for every number");
        plan.create(ENDPOINT_SLICE, create(service, observed, &name, *family, slice));
    }
    let is_of = |slice: &Object| families.iter().any(|it| slice.value["addressType"] == it.name());
    for (_, slice) in &filled {
        let Some(seen) = slice.slice else { continue };
        if let Some(ports) = &slice.ports {
            rewrite(&mut plan, service, observed, seen, (ports, &slice.endpoints));
        } else {
            plan.delete(Target::unchanged(ENDPOINT_SLICE, seen));
        }
    }
    for slice in observed.slices.iter().filter(|slice| !slice.is_terminating() && !is_of(slice)) {
        plan.delete(Target::unchanged(ENDPOINT_SLICE, slice));
    }
    plan
}

/// What the slices of one family hold.
fn fill<'a>(service: &Object, observed: &'a Observed, family: Family) -> Vec<(Family, Filled<'a>)> {
    let is_of = |slice: &&Arc<Object>| {
        slice.value["addressType"] == family.name() && !slice.is_terminating()
    };
    let existing: Vec<_> = observed.slices.iter().filter(is_of).collect();
    let filled = distribute(existing, wanted(service, observed, family));
    filled.into_iter().map(|slice| (family, slice)).collect()
}

/// The endpoints there are to be, by their ports.
fn wanted(service: &Object, observed: &Observed, family: Family) -> BTreeMap<String, Group> {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    let publishes_unready = service_pods::publishes_unready(service);
    for pod in &observed.pods {
        let addresses = service_pods::addresses(pod, family);
        if addresses.is_empty() || !service_pods::is_listed(pod, Leaving::Listed) {
            continue;
        }
        // A pod on a node that is gone is not there either, whatever it says.
        let has_node = observed.zones.contains_key(pods::node(pod));
        if !has_node && !publishes_unready {
            continue;
        }
        let endpoint = endpoint(service, observed, pod, addresses);
        let group = groups.entry(port_key(service_pods::ports(service, pod))).or_default();
        group.insert((pod.name.name.to_string(), pod.uid.clone()), endpoint);
    }
    groups
}

/// Ports in one order, as text, so that equal sets are equal.
pub fn port_key(mut ports: Vec<Value>) -> String {
    ports.sort_by_key(ToString::to_string);
    Value::Array(ports).to_string()
}

fn endpoint(service: &Object, observed: &Observed, pod: &Object, addresses: Vec<String>) -> Value {
    let is_serving = pods::is_ready(pod);
    let is_terminating = pod.is_terminating();
    let is_ready = service_pods::publishes_unready(service) || (is_serving && !is_terminating);
    let mut endpoint = json!({
        "addresses": addresses,
        "conditions": {
            "ready": is_ready, "serving": is_serving, "terminating": is_terminating,
        },
        "targetRef": service_pods::reference(pod),
    });
    let node = pods::node(pod);
    if !node.is_empty() {
        endpoint["nodeName"] = json!(node);
    }
    let zone = observed.zones.get(node).filter(|zone| !zone.is_empty());
    if let Some(zone) = zone {
        endpoint["zone"] = json!(zone);
    }
    if let Some(hostname) = service_pods::hostname(pod, service) {
        endpoint["hostname"] = json!(hostname);
    }
    if is_ready && let Some(hints) = hints(service, zone.map(String::as_str), node) {
        endpoint["hints"] = hints;
    }
    endpoint
}

/// Who should use an endpoint, where the service wants traffic to stay near.
fn hints(service: &Object, zone: Option<&str>, node: &str) -> Option<Value> {
    let zones = json!([{"name": zone?}]);
    match service.value["spec"]["trafficDistribution"].as_str()? {
        "PreferClose" | "PreferSameZone" => Some(json!({"forZones": zones})),
        "PreferSameNode" if !node.is_empty() => {
            Some(json!({"forZones": zones, "forNodes": [{"name": node}]}))
        }
        _ => None,
    }
}

fn labels(service: &Object) -> Value {
    let mut labels = service.value["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    labels.retain(|name, _| ![HEADLESS, SERVICE_NAME, MANAGED_BY].contains(&name.as_str()));
    if service_pods::is_headless(service) {
        labels.insert(HEADLESS.to_owned(), json!(""));
    }
    labels.insert(SERVICE_NAME.to_owned(), json!(&*service.name.name));
    labels.insert(MANAGED_BY.to_owned(), json!(MANAGER));
    Value::Object(labels)
}

fn create(
    service: &Object,
    observed: &Observed,
    name: &str,
    family: Family,
    filled: &Filled<'_>,
) -> Value {
    let mut slice = owners::child(ENDPOINT_SLICE, name, SERVICE, service);
    slice["metadata"]["labels"] = labels(service);
    slice["addressType"] = json!(family.name());
    slice["ports"] = filled.ports.clone().unwrap_or(json!([]));
    slice["endpoints"] = json!(filled.endpoints);
    note_trigger(&mut slice, service, observed);
    slice
}

/// Changes a slice, if it does not say so already.
fn rewrite(
    plan: &mut Plan,
    service: &Object,
    observed: &Observed,
    seen: &Object,
    (ports, endpoints): (&Value, &[Value]),
) {
    let list = |field: &str| seen.value[field].as_array().cloned().unwrap_or_default();
    let labels = labels(service);
    let is_same = seen.value["metadata"]["labels"] == labels
        && port_key(list("ports")) == port_key(ports.as_array().cloned().unwrap_or_default())
        && list("endpoints") == endpoints;
    if is_same {
        return;
    }
    let mut slice = seen.value.clone();
    slice["metadata"]["labels"] = labels;
    slice["ports"] = ports.clone();
    slice["endpoints"] = json!(endpoints);
    note_trigger(&mut slice, service, observed);
    plan.replace(Target::unchanged(ENDPOINT_SLICE, seen), slice);
}

fn note_trigger(slice: &mut Value, service: &Object, observed: &Observed) {
    if let Some(time) = service_pods::trigger_time(service, &observed.pods) {
        slice["metadata"]["annotations"][TRIGGER_TIME] = json!(time);
    }
}

/// Names that follow from the service and a number, so that a create whose answer was lost is found
/// again.
fn free_names<'a>(service: &'a Object, observed: &Observed) -> impl Iterator<Item = String> + 'a {
    let mut taken: BTreeSet<String> =
        observed.slices.iter().map(|slice| slice.name.name.to_string()).collect();
    let name = |number: u64| {
        let digest = names::digest(&[&service.uid, "slice", &number.to_string()]);
        names::child(&service.name.name, &digest[..5])
    };
    (0..).map(name).filter(move |name| taken.insert(name.clone()))
}
