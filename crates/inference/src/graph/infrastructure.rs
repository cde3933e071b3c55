//! Servers that a graph asks for beside its components: etcd to be found by, NATS to talk over.
//!
//! Whoever has them already says so in the configuration of the operator, or in variables of the
//! graph, which win. Where pods are processes, these are the programs of the machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use reconcile::conditions;
use reconcile::{Context, Name, Object, Plan};
use serde_json::{Value, json};

use super::facts::Graph;
use crate::kinds::{DEPLOYMENT, GRAPH, SERVICE};
use crate::names;
use crate::sync_resource::{Decision, Sync};

/// A server that can be asked for.
pub struct Server {
    /// As the annotation calls it.
    pub name: &'static str,
    port: u16,
    /// What components are told of it: the variable, and what stands before the address.
    variable: &'static str,
    scheme: &'static str,
    image: &'static str,
    command: &'static [&'static str],
}

const ALL: [Server; 2] = [
    Server {
        name: "etcd",
        port: 2_379,
        variable: "ETCD_ENDPOINTS",
        scheme: "http",
        image: "quay.io/coreos/etcd:v3.5.21",
        command: &[
            "etcd",
            "--name=graph",
            "--data-dir=/var/lib/graph-server/etcd",
            "--listen-client-urls=http://$(POD_IP):2379",
            "--advertise-client-urls=http://$(POD_IP):2379",
            "--listen-peer-urls=http://$(POD_IP):2380",
            "--initial-advertise-peer-urls=http://$(POD_IP):2380",
            "--initial-cluster=graph=http://$(POD_IP):2380",
        ],
    },
    Server {
        name: "nats",
        port: 4_222,
        variable: "NATS_SERVER",
        scheme: "nats",
        image: "nats:2.10",
        command: &[
            "nats-server",
            "--jetstream",
            "--addr=$(POD_IP)",
            "--port=4222",
            "--store_dir=/var/lib/graph-server/nats",
        ],
    },
];

impl Server {
    fn object_name(&self, graph: &str) -> String {
        format!("{graph}-{}-server", self.name)
    }
}

/// The servers that a graph asks for.
pub fn asked(graph: &Graph<'_>) -> Vec<&'static Server> {
    let said = graph.object.annotation(names::INFRASTRUCTURE).unwrap_or_default();
    let words: Vec<&str> = said.split(',').map(str::trim).collect();
    ALL.iter().filter(|server| words.contains(&server.name)).collect()
}

/// What a graph asks for that nobody knows.
pub fn unknown(said: &str) -> Option<&str> {
    let mut words = said.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.find(|word| ALL.iter().all(|server| server.name != *word))
}

/// What containers of a graph are told of its servers.
pub fn environment(graph: &Graph<'_>) -> Vec<Value> {
    let address = |server: &&'static Server| {
        let (name, namespace) = (server.object_name(graph.name()), graph.namespace());
        let value = format!("{}://{name}.{namespace}:{}", server.scheme, server.port);
        json!({"name": server.variable, "value": value})
    };
    asked(graph).iter().map(address).collect()
}

/// What there is of the servers, by their names.
#[derive(Default)]
pub struct Found {
    deployments: BTreeMap<String, Arc<Object>>,
    services: BTreeMap<String, Arc<Object>>,
}

impl Found {
    pub fn observe(context: &Context, graph: &Graph<'_>) -> Found {
        let mut found = Found::default();
        for server in ALL {
            let name = server.object_name(graph.name());
            let at = Name::new(graph.namespace(), &*name);
            if let Some(object) = context.cache(DEPLOYMENT).get(&at) {
                found.deployments.insert(name.clone(), object);
            }
            if let Some(object) = context.cache(SERVICE).get(&at) {
                found.services.insert(name, object);
            }
        }
        found
    }
}

/// Keeps the servers that are asked for, and no others; returns those that do not answer yet.
pub fn sync(plan: &mut Plan, graph: &Graph<'_>, found: &Found) -> Vec<String> {
    let asked: Vec<&str> = asked(graph).iter().map(|server| server.name).collect();
    let mut waits = Vec::new();
    let mut sync = Sync::new(plan, Some((GRAPH, graph.object)));
    for server in &ALL {
        let name = server.object_name(graph.name());
        let live = found.deployments.get(&name).map(|live| &**live);
        let service = found.services.get(&name).map(|live| &**live);
        if !asked.contains(&server.name) {
            sync.drop(DEPLOYMENT, live);
            sync.drop(SERVICE, service);
            continue;
        }
        let decision = sync.keep(DEPLOYMENT, live, deployment(server, graph, &name));
        sync.keep(SERVICE, service, self::service(server, graph, &name));
        let answers = |live: &Object| conditions::is_true(&live.value["status"], "Available");
        let is_changed = matches!(decision, Decision::Create | Decision::Update);
        if is_changed || !live.is_some_and(answers) {
            waits.push(name);
        }
    }
    waits
}

fn labels(graph: &Graph<'_>, name: &str) -> Value {
    json!({names::GRAPH: graph.name(), "app.kubernetes.io/name": name,
        "app.kubernetes.io/managed-by": names::OPERATOR})
}

fn deployment(server: &Server, graph: &Graph<'_>, name: &str) -> Value {
    let volume = "data";
    let container = json!({
        "name": server.name,
        "image": server.image,
        "command": server.command,
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "ports": [{"name": "client", "containerPort": server.port, "protocol": "TCP"}],
        "readinessProbe": {"tcpSocket": {"port": "client"}, "periodSeconds": 1},
        "volumeMounts": [{"name": volume, "mountPath": "/var/lib/graph-server"}],
    });
    json!({
        "metadata": {"namespace": graph.namespace(), "name": name, "labels": labels(graph, name)},
        "spec": {
            "replicas": 1,
            // Two at once would not know each other's data.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "template": {
                "metadata": {"labels": labels(graph, name)},
                "spec": {
                    "containers": [container],
                    "volumes": [{"name": volume, "emptyDir": {}}],
                },
            },
        },
    })
}

fn service(server: &Server, graph: &Graph<'_>, name: &str) -> Value {
    json!({
        "metadata": {"namespace": graph.namespace(), "name": name, "labels": labels(graph, name)},
        "spec": {
            "type": "ClusterIP",
            "ports": [{"name": "client", "port": server.port, "targetPort": "client",
                "protocol": "TCP"}],
            "selector": {"app.kubernetes.io/name": name},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_gets_the_servers_that_it_names_and_no_others() {
        let graph = |said: &str| {
            Object::new(json!({"metadata": {"namespace": "ns", "name": "g", "uid": "u",
                "annotations": {names::INFRASTRUCTURE: said}}, "spec": {"components": []}}))
        };
        let object = graph("etcd, nats");
        let graph_of = Graph::of(&object);
        let told = environment(&graph_of);
        let expected = json!([
            {"name": "ETCD_ENDPOINTS", "value": "http://g-etcd-server.ns:2379"},
            {"name": "NATS_SERVER", "value": "nats://g-nats-server.ns:4222"},
        ]);
        assert_eq!(json!(told), expected);
        let mut plan = Plan::nothing();
        let waits = sync(&mut plan, &graph_of, &Found::default());
        assert_eq!(waits, ["g-etcd-server", "g-nats-server"]);
        let steps: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
        let expected = [
            "create apps/v1 Deployment ns/g-etcd-server",
            "create v1 Service ns/g-etcd-server",
            "create apps/v1 Deployment ns/g-nats-server",
            "create v1 Service ns/g-nats-server",
        ];
        assert_eq!(steps, expected);
        // What is not asked for any more goes, if it is the graph's.
        let object = graph("");
        let own = |kind: &str| {
            Arc::new(Object::new(json!({"kind": kind, "metadata": {"namespace": "ns",
                "name": "g-etcd-server", "uid": "d", "ownerReferences": [{"controller": true,
                "uid": "u", "kind": "DynamoGraphDeployment", "name": "g"}]}})))
        };
        let mut found = Found::default();
        found.deployments.insert("g-etcd-server".to_owned(), own("Deployment"));
        let mut plan = Plan::nothing();
        assert!(sync(&mut plan, &Graph::of(&object), &found).is_empty());
        assert_eq!(plan.steps[0].to_string(), "delete apps/v1 Deployment ns/g-etcd-server");
        assert_eq!(unknown("etcd,redis"), Some("redis"));
        assert_eq!(unknown("etcd, nats"), None);
    }
}
