//! Admission of pods by a node under pressure. Pure.
//!
//! Upstream: pkg/kubelet/eviction/eviction_manager.go (Admit)

use reconcile::Object;
use serde_json::Value;

use super::{EVICTED, Resource};
use crate::runtime::Refusal;

/// Lowest priority of pods that the cluster cannot do without.
const CRITICAL_PRIORITY: i64 = 2_000_000_000;
const MEMORY_TAINT: &str = "node.kubernetes.io/memory-pressure";

/// Returns whether a pod is never evicted.
pub fn is_critical(pod: &Object) -> bool {
    pod.value["spec"]["priority"].as_i64().unwrap_or(0) >= CRITICAL_PRIORITY
}

/// Returns why a new pod is not admitted under these pressures, if it is not.
pub fn refuse(pod: &Object, under: &[Resource]) -> Option<Refusal> {
    let is_admitted = match under {
        [] => true,
        _ if is_critical(pod) => true,
        // Memory that is requested was reserved by the scheduler.
        [Resource::Memory] => {
            amounts::pod::quality(&pod.value) != "BestEffort" || tolerates_memory_pressure(pod)
        }
        _ => false,
    };
    let conditions: Vec<&str> = under.iter().map(|resource| resource.condition()).collect();
    let message = format!("The node had condition: [{}]. ", conditions.join(" "));
    (!is_admitted).then_some(Refusal { reason: EVICTED, message })
}

fn tolerates_memory_pressure(pod: &Object) -> bool {
    let tolerations = pod.value["spec"]["tolerations"].as_array();
    tolerations.into_iter().flatten().any(|toleration| {
        let text = |field: &str| toleration[field].as_str().unwrap_or_default();
        let is_key = text("key") == MEMORY_TAINT
            || (toleration["key"] == Value::Null && text("operator") == "Exists");
        is_key && ["", "NoSchedule"].contains(&text("effect"))
    })
}
