//! How much of each resource a pod takes: containers, init containers, sidecars, overhead.
//!
//! Upstream: component-helpers/resource/helpers.go

use std::collections::BTreeMap;

use serde_json::Value;

use crate::labels::{list, text};
use crate::quantity;

/// What a container without a request counts as when nodes are compared.
const CPU_UNSAID: i64 = 100;
const MEMORY_UNSAID: i64 = 200 * 1024 * 1024;

/// Amounts by the name of the resource: cpu in thousandths, the rest in units.
pub type Amounts = BTreeMap<String, i64>;

/// What must be free on a node.
pub fn needed(spec: &Value) -> Amounts {
    total(spec, &|container| read(&container["resources"]["requests"]))
}

/// The same for comparing nodes: a container that says nothing counts as a small one.
pub fn compared(spec: &Value) -> Amounts {
    let says_for_all = |name: &str| !spec["resources"]["requests"][name].is_null();
    total(spec, &|container| {
        let mut amounts = read(&container["resources"]["requests"]);
        for (name, unsaid) in [("cpu", CPU_UNSAID), ("memory", MEMORY_UNSAID)] {
            if !says_for_all(name) {
                amounts.entry(name.to_owned()).or_insert(unsaid);
            }
        }
        amounts
    })
}

pub fn read(requests: &Value) -> Amounts {
    let requests = requests.as_object().into_iter().flatten();
    requests.map(|(name, amount)| (name.clone(), amount_of(name, amount))).collect()
}

pub fn amount_of(name: &str, amount: &Value) -> i64 {
    if name == "cpu" { quantity::thousandths(amount) } else { quantity::units(amount) }
}

fn total(spec: &Value, of: &dyn Fn(&Value) -> Amounts) -> Amounts {
    let mut sum = Amounts::new();
    for container in list(&spec["containers"]) {
        add(&mut sum, &of(container));
    }
    // An init container runs beside the sidecars that were started before it.
    let mut sidecars = Amounts::new();
    let mut peak = Amounts::new();
    for container in list(&spec["initContainers"]) {
        let mut at_once = of(container);
        if text(&container["restartPolicy"]) == "Always" {
            add(&mut sum, &at_once);
            add(&mut sidecars, &at_once);
            at_once = sidecars.clone();
        } else {
            add(&mut at_once, &sidecars);
        }
        raise(&mut peak, &at_once);
    }
    raise(&mut sum, &peak);
    // What is said for the pod as a whole counts instead of the sum.
    for (name, amount) in read(&spec["resources"]["requests"]) {
        sum.insert(name, amount);
    }
    add(&mut sum, &read(&spec["overhead"]));
    sum
}

fn add(into: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        let held = into.entry(name.clone()).or_default();
        *held = held.saturating_add(*amount);
    }
}

fn raise(into: &mut Amounts, amounts: &Amounts) {
    for (name, amount) in amounts {
        let held = into.entry(name.clone()).or_default();
        *held = (*held).max(*amount);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn container(cpu: &str) -> Value {
        json!({"name": "c", "resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn sidecars_run_beside_containers_and_later_init_containers() {
        let mut sidecar = container("1");
        sidecar["restartPolicy"] = json!("Always");
        let spec = json!({
            "containers": [container("1"), container("2")],
            "initContainers": [container("4"), sidecar, container("3500m")],
        });
        // While running: 3 + 1. While starting: 4, then 1 + 3.5.
        assert_eq!(needed(&spec)["cpu"], 4_500);
    }

    #[test]
    fn overhead_is_added_and_a_request_of_the_pod_counts_instead() {
        let spec = json!({"containers": [container("1")], "overhead": {"cpu": "250m"}});
        assert_eq!(needed(&spec)["cpu"], 1_250);
        let spec = json!({"containers": [container("1")], "overhead": {"cpu": "250m"},
            "resources": {"requests": {"cpu": "3"}}});
        assert_eq!(needed(&spec)["cpu"], 3_250);
    }

    #[test]
    fn a_container_that_says_nothing_is_compared_as_a_small_one() {
        let spec = json!({"containers": [{"name": "a"}, container("1")]});
        assert!(!needed(&spec).contains_key("memory"));
        assert_eq!(compared(&spec)["cpu"], 1_100);
        assert_eq!(compared(&spec)["memory"], 2 * MEMORY_UNSAID);
    }
}
