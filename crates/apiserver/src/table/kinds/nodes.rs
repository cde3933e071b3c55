//! Nodes, and what they run pods with.
//!
//! Upstream: pkg/printers/internalversion/printers.go (printNode)

use serde_json::Value;

use super::super::read::{age, at, condition, is_true, list, name, text, text_or};
use super::super::{Column, Printer, cells};

pub static PRINTERS: &[Printer] = &[
    Printer::new("", "Node", NODE, node),
    Printer::new("node.k8s.io", "RuntimeClass", RUNTIME_CLASS, |object, now| {
        cells![name(object), text(object, &["handler"]), age(object, now)]
    }),
    Printer::new("coordination.k8s.io", "Lease", LEASE, |object, now| {
        cells![name(object), text(object, &["spec", "holderIdentity"]), age(object, now)]
    }),
];

const NODE: &[Column] = &[
    Column::NAME,
    Column::text("Status", "Whether the node is ready, and whether it takes pods."),
    Column::text("Roles", "The roles that labels give the node."),
    Column::AGE,
    Column::text("Version", "The version of the node's agent."),
    Column::text("Internal-IP", "The address inside the cluster.").wide(),
    Column::text("External-IP", "The address outside the cluster.").wide(),
    Column::text("OS-Image", "The operating system.").wide(),
    Column::text("Kernel-Version", "The version of the kernel.").wide(),
    Column::text("Container-Runtime", "What runs the containers, and its version.").wide(),
];

const RUNTIME_CLASS: &[Column] =
    &[Column::NAME, Column::text("Handler", "What runs pods of the class."), Column::AGE];

const LEASE: &[Column] =
    &[Column::NAME, Column::text("Holder", "Who holds the lease."), Column::AGE];

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE_LABEL: &str = "kubernetes.io/role";

fn node(object: &Value, now: i64) -> Vec<Value> {
    let info = at(object, &["status", "nodeInfo"]);
    cells![
        name(object),
        status(object),
        roles(object),
        age(object, now),
        text(info, &["kubeletVersion"]),
        address(object, "InternalIP"),
        address(object, "ExternalIP"),
        text_or(info, &["osImage"], "<unknown>"),
        text_or(info, &["kernelVersion"], "<unknown>"),
        text_or(info, &["containerRuntimeVersion"], "<unknown>"),
    ]
}

fn status(node: &Value) -> String {
    let ready = match condition(node, "Ready").map(|one| text(one, &["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let closed = if is_true(node, &["spec", "unschedulable"]) { ",SchedulingDisabled" } else { "" };
    format!("{ready}{closed}")
}

fn roles(node: &Value) -> String {
    let labels = at(node, &["metadata", "labels"]).as_object().into_iter().flatten();
    let mut roles: Vec<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix(ROLE_PREFIX) {
            Some(role) => Some(role),
            None if key == ROLE_LABEL => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") }
}

fn address<'a>(node: &'a Value, type_: &str) -> &'a str {
    let addresses = list(node, &["status", "addresses"]);
    let found = addresses.iter().find(|one| text(one, &["type"]) == type_);
    found.map(|one| text(one, &["address"])).unwrap_or("<none>")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::row;
    use super::super::super::tests::{NOW, check};

    #[test]
    fn nodes() {
        check(
            "",
            "Node",
            json!({
                "metadata": {"labels": {
                    "node-role.kubernetes.io/worker": "",
                    "node-role.kubernetes.io/control-plane": "",
                    "kubernetes.io/role": "gpu", "node-role.kubernetes.io/": "",
                }},
                "spec": {"unschedulable": true},
                "status": {
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "addresses": [{"type": "Hostname", "address": "h"},
                        {"type": "InternalIP", "address": "10.0.0.1"}],
                    "nodeInfo": {"kubeletVersion": "v1.36.4", "osImage": "Linux",
                        "kernelVersion": "6.1", "containerRuntimeVersion": "containerd://2"},
                },
            }),
            json!([
                "x",
                "Ready,SchedulingDisabled",
                "control-plane,gpu,worker",
                "5m",
                "v1.36.4",
                "10.0.0.1",
                "<none>",
                "Linux",
                "6.1",
                "containerd://2"
            ]),
        );
    }

    #[test]
    fn a_node_is_ready_not_ready_or_unknown() {
        let cases = [
            (json!([{"type": "Ready", "status": "True"}]), "Ready"),
            (json!([{"type": "Ready", "status": "False"}]), "NotReady"),
            (json!([{"type": "Ready", "status": "Unknown"}]), "NotReady"),
            (json!([{"type": "DiskPressure", "status": "True"}]), "Unknown"),
        ];
        for (conditions, status) in cases {
            let node = json!({"status": {"conditions": conditions}});
            let cells = row("", "Node", &node, NOW).cells;
            assert_eq!(cells[1], status);
            assert_eq!(cells[2..4], [json!("<none>"), json!("<unknown>")]);
            assert_eq!(cells[7..], vec![Value::from("<unknown>"); 3]);
        }
    }

    #[test]
    fn leases_and_runtime_classes() {
        let lease = json!({"spec": {"holderIdentity": "me"}});
        check("coordination.k8s.io", "Lease", lease, json!(["x", "me", "5m"]));
        check(
            "node.k8s.io",
            "RuntimeClass",
            json!({"handler": "kata"}),
            json!(["x", "kata", "5m"]),
        );
    }
}
