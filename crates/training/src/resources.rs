//! What a node of a training job asks for, and how many devices that is.

use amounts::quantity::Quantity;
use serde_json::Value;

use crate::value::{list, list_mut, object_mut, overlay, upsert};

/// Lays what a job asks for over what its runtime does, resource by resource.
pub fn merge(runtime: &mut Value, job: &Value) {
    object_mut(runtime);
    for part in ["limits", "requests"] {
        overlay(runtime, part, &job[part]);
    }
    for claim in list(&job["claims"]) {
        list_mut(&mut runtime["claims"]);
        upsert(&mut runtime["claims"], "name", claim.clone());
    }
}

/// How many GPUs: of the first resource whose name says so, requested or else limited.
pub fn gpus(resources: &Value) -> i64 {
    let of = |part: &str| {
        let entries = resources[part].as_object().into_iter().flatten();
        let mut gpus = entries.filter(|(name, _)| name.to_lowercase().contains("gpu"));
        gpus.next().and_then(|(_, amount)| Quantity::read(amount)).map_or(0, |q| q.value())
    };
    match of("requests") {
        0 => of("limits"),
        requested => requested,
    }
}

/// How many whole CPUs, rounded up.
pub fn cpus(resources: &Value) -> i64 {
    let of = |part: &str| Quantity::read(&resources[part]["cpu"]).map_or(0, |cpu| cpu.value());
    match of("requests") {
        0 => of("limits"),
        requested => requested,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn resources_are_laid_over_one_by_one() {
        let mut runtime =
            json!({"limits": {"cpu": "4"}, "requests": {"cpu": "2", "memory": "1Gi"}});
        merge(&mut runtime, &json!({"limits": {"nvidia.com/gpu": 2}}));
        assert_eq!(
            runtime,
            json!({"limits": {"cpu": "4", "nvidia.com/gpu": 2},
            "requests": {"cpu": "2", "memory": "1Gi"}})
        );
        let mut nothing = Value::Null;
        merge(&mut nothing, &json!({}));
        assert_eq!(nothing, json!({}));
    }

    #[test]
    fn devices_are_counted_up() {
        let cases = [
            (json!({"requests": {"cpu": "2.5"}}), (0, 3)),
            (json!({"requests": {"cpu": "700m"}}), (0, 1)),
            (json!({"limits": {"cpu": "3.7", "nvidia.com/gpu": "2"}}), (2, 4)),
            (json!({"requests": {"gpu.intel.com/i915": 1}, "limits": {"amd.com/gpu": 4}}), (1, 0)),
            (json!({"limits": {"nvidia.com/mig-1g.5gb": 1, "google.com/tpu": 4}}), (0, 0)),
        ];
        for (resources, expected) in cases {
            assert_eq!((gpus(&resources), cpus(&resources)), expected, "{resources}");
        }
    }
}
