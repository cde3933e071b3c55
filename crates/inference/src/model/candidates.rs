//! The servers of a base model: endpoints of the services that carry its hash.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use reconcile::{Object, conditions};
use serde_json::Value;

use crate::names;
use crate::value::{list, text};

const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// Where servers are administered.
const SYSTEM_PORT: u16 = 9090;

/// One server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// Of its pod.
    pub uid: String,
    pub pod: String,
    pub address: String,
    pub is_ready: bool,
    /// How often containers of its pod began again: each time adapters are lost.
    pub restarts: i64,
    /// Others of this group may stand in for it, if it cannot take adapters.
    pub fallback: Option<String>,
}

/// What is known of the servers of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub services: BTreeSet<String>,
    /// In the order of their pods' names.
    pub candidates: Vec<Candidate>,
}

/// The servers that slices tell of; one that several slices name is one.
pub fn find(slices: &[Arc<Object>]) -> Found {
    let mut found = Found::default();
    let mut by_pod: BTreeMap<String, Candidate> = BTreeMap::new();
    for slice in slices {
        let service = slice.label(SERVICE_LABEL).filter(|name| !name.is_empty());
        found.services.extend(service.map(str::to_owned));
        for endpoint in list(&slice.value["endpoints"]) {
            let Some(candidate) = candidate(endpoint) else { continue };
            let key = match candidate.uid.as_str() {
                "" => candidate.pod.clone(),
                uid => uid.to_owned(),
            };
            let is_ready = candidate.is_ready;
            let known = by_pod.entry(key).or_insert(candidate);
            known.is_ready |= is_ready;
        }
    }
    found.candidates = by_pod.into_values().collect();
    found.candidates.sort_by(|one, other| one.pod.cmp(&other.pod));
    found
}

fn candidate(endpoint: &Value) -> Option<Candidate> {
    let target = &endpoint["targetRef"];
    let address = list(&endpoint["addresses"]).first().and_then(Value::as_str)?;
    if target["kind"] != "Pod" {
        return None;
    }
    let address = match address.parse() {
        Ok(IpAddr::V6(address)) => format!("http://[{address}]:{SYSTEM_PORT}"),
        _ => format!("http://{address}:{SYSTEM_PORT}"),
    };
    Some(Candidate {
        uid: text(&target["uid"]).to_owned(),
        pod: text(&target["name"]).to_owned(),
        address,
        // Whoever says nothing is ready.
        is_ready: endpoint["conditions"]["ready"] != false,
        restarts: 0,
        fallback: None,
    })
}

/// Adds what the pod of a server says: one that is gone is not ready.
pub fn describe(candidate: &mut Candidate, pod: Option<&Object>) {
    let Some(pod) = pod.filter(|pod| pod.uid == candidate.uid || candidate.uid.is_empty()) else {
        candidate.is_ready = false;
        return;
    };
    let status = &pod.value["status"];
    candidate.is_ready = conditions::is_true(status, "Ready");
    let restarts = list(&status["containerStatuses"]).iter();
    candidate.restarts = restarts.filter_map(|one| one["restartCount"].as_i64()).sum();
    candidate.fallback = fallback(pod);
}

/// The group of a server that only fills caches with vLLM, which cannot take adapters everywhere.
fn fallback(pod: &Object) -> Option<String> {
    let kind = match pod.label(names::COMPONENT_TYPE) {
        Some("worker") => pod.label(names::SUB_COMPONENT_TYPE),
        kind => kind,
    };
    if kind != Some("prefill") || !runs_vllm(pod) {
        return None;
    }
    if let Some(graph) = pod.label(names::GRAPH) {
        return Some(format!("graph:{graph}"));
    }
    let owners = list(&pod.value["metadata"]["ownerReferences"]);
    let controller = owners.iter().find(|owner| owner["controller"] == true);
    let controller = controller.map(|owner| text(&owner["name"]));
    let workload = pod.label(names::SELECTOR).or(controller)?;
    Some(format!("workload:{workload}"))
}

fn runs_vllm(pod: &Object) -> bool {
    let containers = list(&pod.value["spec"]["containers"]).iter();
    let mut main = containers.filter(|one| one["name"] == "main");
    main.any(|one| {
        let words = list(&one["command"]).iter().chain(list(&one["args"]));
        words.into_iter().any(|word| text(word).contains("dynamo.vllm"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn slice(service: &str, endpoints: Value) -> Arc<Object> {
        Arc::new(Object::new(json!({"metadata": {"name": service, "labels":
            {SERVICE_LABEL: service}}, "endpoints": endpoints})))
    }

    fn endpoint(pod: &str, address: &str, ready: Value) -> Value {
        json!({"addresses": [address], "conditions": {"ready": ready},
            "targetRef": {"kind": "Pod", "name": pod, "uid": pod}})
    }

    #[test]
    fn servers_are_the_pods_behind_the_slices() {
        let other = json!({"addresses": ["10.0.0.9"], "targetRef": {"kind": "Node", "name": "n"}});
        let found = find(&[
            slice(
                "a",
                json!([endpoint("p2", "10.0.0.2", json!(false)), other,
                {"addresses": [], "targetRef": {"kind": "Pod", "name": "none"}}]),
            ),
            slice(
                "b",
                json!([
                    endpoint("p2", "10.0.0.2", json!(true)),
                    endpoint("p1", "fd00::1", json!(null))
                ]),
            ),
        ]);
        let shown: Vec<_> = found
            .candidates
            .iter()
            .map(|one| (one.pod.as_str(), one.address.as_str(), one.is_ready))
            .collect();
        assert_eq!(
            shown,
            [("p1", "http://[fd00::1]:9090", true), ("p2", "http://10.0.0.2:9090", true)]
        );
        assert_eq!(found.services.len(), 2);
    }

    #[test]
    fn only_a_prefill_of_vllm_may_be_stood_in_for() {
        let pod = |labels: Value, command: &str| {
            Object::new(json!({"metadata": {"name": "p", "uid": "p", "labels": labels,
                "ownerReferences": [{"controller": true, "name": "set"}]},
                "spec": {"containers": [{"name": "main", "args": [command]}]}}))
        };
        let vllm = "python3 -m dynamo.vllm --model m";
        let prefill = json!({names::COMPONENT_TYPE: "prefill"});
        assert_eq!(fallback(&pod(prefill.clone(), vllm)), Some("workload:set".to_owned()));
        assert_eq!(fallback(&pod(prefill, "python3 -m dynamo.sglang")), None);
        let graph = json!({names::COMPONENT_TYPE: "worker",
            names::SUB_COMPONENT_TYPE: "prefill", names::GRAPH: "g"});
        assert_eq!(fallback(&pod(graph, vllm)), Some("graph:g".to_owned()));
        assert_eq!(fallback(&pod(json!({names::COMPONENT_TYPE: "decode"}), vllm)), None);
    }
}
