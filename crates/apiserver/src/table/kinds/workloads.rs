//! What keeps pods running: deployments, sets and what they are made of.
//!
//! Upstream: pkg/printers/internalversion/printers.go

use serde_json::Value;

use super::super::read::{
    age, at, bare_selector, containers, integer, labels, list, name, selector, text,
};
use super::super::{Column, Printer, cells};

pub static PRINTERS: &[Printer] = &[
    Printer::new("apps", "Deployment", DEPLOYMENT, deployment),
    Printer::new("apps", "ReplicaSet", REPLICAS, |object, now| {
        replicas(object, selector(at(object, &["spec", "selector"])), now)
    }),
    Printer::new("", "ReplicationController", REPLICAS, |object, now| {
        replicas(object, labels(at(object, &["spec", "selector"])), now)
    }),
    Printer::new("apps", "StatefulSet", STATEFUL_SET, stateful_set),
    Printer::new("apps", "DaemonSet", DAEMON_SET, daemon_set),
    Printer::new("apps", "ControllerRevision", CONTROLLER_REVISION, controller_revision),
];

const DEPLOYMENT: &[Column] = &[
    Column::NAME,
    Column::text("Ready", "How many of the wanted pods are ready."),
    Column::text("Up-to-date", "How many pods are of the newest template."),
    Column::text("Available", "How many pods have been ready for long enough."),
    Column::AGE,
    Column::CONTAINERS,
    Column::IMAGES,
    Column::SELECTOR,
];

const REPLICAS: &[Column] = &[
    Column::NAME,
    Column::integer("Desired", "How many pods are wanted."),
    Column::integer("Current", "How many pods there are."),
    Column::integer("Ready", "How many pods are ready."),
    Column::AGE,
    Column::CONTAINERS,
    Column::IMAGES,
    Column::SELECTOR,
];

const STATEFUL_SET: &[Column] = &[
    Column::NAME,
    Column::text("Ready", "How many of the wanted pods are ready."),
    Column::AGE,
    Column::CONTAINERS,
    Column::IMAGES,
];

const DAEMON_SET: &[Column] = &[
    Column::NAME,
    Column::integer("Desired", "How many nodes should run the pod."),
    Column::integer("Current", "How many nodes run the pod and should."),
    Column::integer("Ready", "How many of the pods are ready."),
    Column::integer("Up-to-date", "How many pods are of the newest template."),
    Column::integer("Available", "How many pods have been ready for long enough."),
    Column::text("Node Selector", "Which nodes should run the pod."),
    Column::AGE,
    Column::CONTAINERS,
    Column::IMAGES,
    Column::SELECTOR,
];

const CONTROLLER_REVISION: &[Column] = &[
    Column::NAME,
    Column::text("Controller", "The object whose template the revision keeps."),
    Column::text("Revision", "The number of the revision."),
    Column::AGE,
];

fn deployment(object: &Value, now: i64) -> Vec<Value> {
    let (names, images) = template_containers(object);
    cells![
        name(object),
        ready_of_wanted(object),
        integer(object, &["status", "updatedReplicas"]),
        integer(object, &["status", "availableReplicas"]),
        age(object, now),
        names,
        images,
        bare_selector(at(object, &["spec", "selector"])),
    ]
}

fn replicas(object: &Value, selector: String, now: i64) -> Vec<Value> {
    let (names, images) = template_containers(object);
    cells![
        name(object),
        integer(object, &["spec", "replicas"]),
        integer(object, &["status", "replicas"]),
        integer(object, &["status", "readyReplicas"]),
        age(object, now),
        names,
        images,
        selector,
    ]
}

fn stateful_set(object: &Value, now: i64) -> Vec<Value> {
    let (names, images) = template_containers(object);
    cells![name(object), ready_of_wanted(object), age(object, now), names, images]
}

fn daemon_set(object: &Value, now: i64) -> Vec<Value> {
    let (names, images) = template_containers(object);
    cells![
        name(object),
        integer(object, &["status", "desiredNumberScheduled"]),
        integer(object, &["status", "currentNumberScheduled"]),
        integer(object, &["status", "numberReady"]),
        integer(object, &["status", "updatedNumberScheduled"]),
        integer(object, &["status", "numberAvailable"]),
        labels(at(object, &["spec", "template", "spec", "nodeSelector"])),
        age(object, now),
        names,
        images,
        selector(at(object, &["spec", "selector"])),
    ]
}

fn controller_revision(object: &Value, now: i64) -> Vec<Value> {
    let owners = list(object, &["metadata", "ownerReferences"]);
    let controller = match owners.iter().find(|one| one["controller"] == true) {
        Some(owner) => {
            let kind = text(owner, &["kind"]).to_lowercase();
            let group = text(owner, &["apiVersion"]).split_once('/').map(|(group, _)| group);
            let dotted = group.map(|group| format!(".{group}")).unwrap_or_default();
            format!("{kind}{dotted}/{}", text(owner, &["name"]))
        }
        None => "<none>".to_owned(),
    };
    cells![name(object), controller, integer(object, &["revision"]), age(object, now)]
}

fn ready_of_wanted(object: &Value) -> String {
    let ready = integer(object, &["status", "readyReplicas"]);
    format!("{ready}/{}", integer(object, &["spec", "replicas"]))
}

fn template_containers(object: &Value) -> (String, String) {
    containers(at(object, &["spec", "template", "spec"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::check;

    #[test]
    fn deployments() {
        check(
            "apps",
            "Deployment",
            json!({
                "spec": {
                    "replicas": 3,
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": {"spec": {"containers": [
                        {"name": "a", "image": "nginx:1"}, {"name": "b", "image": "log"},
                    ]}},
                },
                "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1},
            }),
            json!(["x", "1/3", 2, 1, "5m", "a,b", "nginx:1,log", "app=web"]),
        );
        check("apps", "Deployment", json!({}), json!(["x", "0/0", 0, 0, "5m", "", "", ""]));
    }

    #[test]
    fn replica_sets_and_controllers() {
        let template = json!({"spec": {"containers": [{"name": "a", "image": "i"}]}});
        check(
            "apps",
            "ReplicaSet",
            json!({
                "spec": {"replicas": 2, "template": template, "selector": {
                    "matchLabels": {"b": "1"},
                    "matchExpressions": [{"key": "a", "operator": "In", "values": ["y", "x"]}],
                }},
                "status": {"replicas": 2, "readyReplicas": 1},
            }),
            json!(["x", 2, 2, 1, "5m", "a", "i", "a in (x,y),b=1"]),
        );
        check(
            "",
            "ReplicationController",
            json!({"spec": {"replicas": 1, "template": template, "selector": {"app": "web"}}}),
            json!(["x", 1, 0, 0, "5m", "a", "i", "app=web"]),
        );
        check("apps", "ReplicaSet", json!({}), json!(["x", 0, 0, 0, "5m", "", "", "<none>"]));
    }

    #[test]
    fn stateful_and_daemon_sets() {
        let template = json!({"spec": {
            "containers": [{"name": "a", "image": "i"}], "nodeSelector": {"disk": "ssd"},
        }});
        check(
            "apps",
            "StatefulSet",
            json!({"spec": {"replicas": 3, "template": template}, "status": {"readyReplicas": 3}}),
            json!(["x", "3/3", "5m", "a", "i"]),
        );
        check(
            "apps",
            "DaemonSet",
            json!({
                "spec": {"template": template, "selector": {"matchLabels": {"app": "d"}}},
                "status": {
                    "desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3,
                    "updatedNumberScheduled": 2, "numberAvailable": 1,
                },
            }),
            json!(["x", 5, 4, 3, 2, 1, "disk=ssd", "5m", "a", "i", "app=d"]),
        );
    }

    #[test]
    fn controller_revisions() {
        let owner = json!({"kind": "DaemonSet", "apiVersion": "apps/v1", "name": "d",
            "controller": true});
        check(
            "apps",
            "ControllerRevision",
            json!({"metadata": {"ownerReferences": [{"kind": "Y"}, owner]}, "revision": 7}),
            json!(["x", "daemonset.apps/d", 7, "5m"]),
        );
        check("apps", "ControllerRevision", json!({}), json!(["x", "<none>", 0, "5m"]));
    }
}
