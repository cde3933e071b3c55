//! The pods that a set would have, node by node, for whoever plans: by the same functions that make
//! them.

use reconcile::{Object, owners};
use serde_json::{Value, json};

use super::placement::{self, Placement};
use super::pod;
use crate::kinds::DAEMON_SET;

/// What a set is to the nodes of a cluster.
#[derive(Debug, Default, PartialEq)]
pub struct Foreseen {
    /// A pod for each node that one is started on, named after the node.
    pub pods: Vec<Value>,
    /// Names of nodes that are passed over, for their labels or their taints.
    pub passed_over: Vec<String>,
}

pub fn foresee(set: &Object, nodes: &[Object]) -> Foreseen {
    let mut template = set.value["spec"]["template"]["spec"].clone();
    let mut foreseen = Foreseen::default();
    if !template.is_object() {
        return foreseen;
    }
    placement::add_tolerations(&mut template);
    for node in nodes {
        let on = &*node.name.name;
        if placement::of(&template, node) != Placement::Run {
            foreseen.passed_over.push(on.to_owned());
            continue;
        }
        let name = format!("{}-{on}", set.name.name);
        let mut pod = pod::made(set, &name, on, "");
        pod["metadata"]["uid"] = json!(format!("plan-{}-{name}", set.name.namespace));
        foreseen.pods.push(pod);
    }
    foreseen
}

/// The one node that a pod can go to, if it is a daemon's.
pub fn node_of(pod: &Object) -> Option<&str> {
    owners::controller_name(pod, DAEMON_SET)?;
    Some(pod::node(pod)).filter(|node| !node.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, labels: Value, taints: Value) -> Object {
        Object::new(json!({"metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints}}))
    }

    #[test]
    fn a_set_has_a_pod_on_every_node_that_it_selects_and_tolerates() {
        let set = Object::new(json!({"metadata": {"name": "log", "namespace": "a", "uid": "u"},
            "spec": {"template": {"metadata": {"labels": {"app": "log"}},
                "spec": {"nodeSelector": {"disk": "fast"}, "containers": [{"name": "c"}]}}}}));
        let fast = json!({"disk": "fast"});
        let taint = |key: &str| json!([{"key": key, "effect": "NoSchedule"}]);
        let nodes = [
            node("one", fast.clone(), json!([])),
            node("slow", json!({}), json!([])),
            node("kept", fast.clone(), taint("team")),
            node("cordoned", fast, taint("node.kubernetes.io/unschedulable")),
        ];
        let foreseen = foresee(&set, &nodes);
        let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
        let names: Vec<String> = foreseen.pods.iter().map(name).collect();
        assert_eq!(names, ["log-one", "log-cordoned"]);
        assert_eq!(foreseen.passed_over, ["slow", "kept"]);
        let pod = Object::new(foreseen.pods[1].clone());
        assert_eq!(node_of(&pod), Some("cordoned"));
        assert_eq!(pod.uid, "plan-a-log-cordoned");
    }

    #[test]
    fn a_set_without_a_template_has_no_pods() {
        let set = Object::new(json!({"metadata": {"name": "log"}, "spec": {"template": "x"}}));
        assert_eq!(foresee(&set, &[node("n", json!({}), json!([]))]), Foreseen::default());
    }
}
