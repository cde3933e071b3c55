//! What a pod's containers share, as its object says: names, ports of the machine, resolving.

use reconcile::Object;
use serde_json::Value;

use super::worker::Shared;
use crate::runtime::{Dns, HostPort, Refusal, SandboxSpec};

/// The reason of the event when there is none.
pub const FAILED: &str = "FailedCreatePodSandBox";

/// Makes the pod's sandbox, or finds it again.
pub async fn make(shared: &Shared, pod: &Object) -> Result<(), Refusal> {
    let made = shared.runtime.sandbox(&spec(pod, Dns::default())).await;
    made.map(drop).map_err(|refusal| Refusal {
        reason: FAILED,
        message: format!("Failed to create pod sandbox: {}", refusal.message),
    })
}

fn spec(pod: &Object, dns: Dns) -> SandboxSpec {
    SandboxSpec {
        pod: pod.uid.clone(),
        namespace: pod.name.namespace.to_string(),
        pod_name: pod.name.name.to_string(),
        hostname: hostname(pod),
        host_network: is_host_network(pod),
        host_ports: host_ports(pod),
        dns,
    }
}

/// The name by which the pod knows itself, without its domain.
pub fn hostname(pod: &Object) -> String {
    let own = pod.value["spec"]["hostname"].as_str().filter(|name| !name.is_empty());
    let name: String = own.unwrap_or(&pod.name.name).chars().take(63).collect();
    // What is cut may not end with what joins.
    name.trim_end_matches(['-', '.']).to_owned()
}

pub fn is_host_network(pod: &Object) -> bool {
    pod.value["spec"]["hostNetwork"] == true
}

fn host_ports(pod: &Object) -> Vec<HostPort> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let spec = &pod.value["spec"];
    let containers = [list(&spec["initContainers"]), list(&spec["containers"])].concat();
    let ports = containers.iter().flat_map(|container| list(&container["ports"]));
    let number = |value: &Value| value.as_u64().and_then(|number| u16::try_from(number).ok());
    let of_port = |port: Value| {
        Some(HostPort {
            host_address: port["hostIP"].as_str().and_then(|text| text.parse().ok()),
            host_port: number(&port["hostPort"]).filter(|port| *port != 0)?,
            container_port: number(&port["containerPort"])?,
            protocol: port["protocol"].as_str().unwrap_or("TCP").to_owned(),
        })
    };
    ports.filter_map(of_port).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_says_its_name_and_the_ports_it_wants_of_the_machine() {
        let long = "a".repeat(62) + "-b";
        let pod = Object::new(json!({"metadata": {"name": long, "namespace": "n", "uid": "u"},
        "spec": {"containers": [{"ports": [
            {"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1"},
            {"containerPort": 81}, {"containerPort": 53, "hostPort": 53, "protocol": "UDP"},
        ]}]}}));
        let spec = spec(&pod, Dns::default());
        assert_eq!(spec.hostname, "a".repeat(62));
        assert!(!spec.host_network);
        let ports: Vec<_> =
            spec.host_ports.iter().map(|port| (port.host_port, &*port.protocol)).collect();
        assert_eq!(ports, [(8080, "TCP"), (53, "UDP")]);
    }
}
