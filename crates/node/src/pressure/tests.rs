//! Order, admission and thresholds as pure functions, and an agent whose readings the test sets.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use reconcile::{Context, conditions};
use serde_json::{Value, json};
use testkit::cluster::{Cluster, until};

use super::*;
use crate::agent::{self, Options};
use crate::devices::Devices;
use crate::runtime::PodRuntime;
use crate::runtimes::fake::Fake;

const GIBIBYTE: u64 = 1 << 30;

fn object(name: &str, spec: Value) -> Arc<Object> {
    let metadata = json!({"name": name, "namespace": "default", "uid": name});
    Arc::new(Object::new(json!({"metadata": metadata, "spec": spec})))
}

fn order(resource: Resource, pods: &[(&str, i64, u64, u64)]) -> String {
    let candidates = pods.iter().map(|(name, priority, usage, request)| Candidate {
        pod: object(name, json!({})),
        priority: *priority,
        usage: *usage,
        request: *request,
    });
    let ranked = rank(candidates.collect(), resource);
    ranked.iter().map(|one| &*one.pod.name.name).collect::<Vec<_>>().join(" ")
}

#[test]
fn pods_above_their_requests_go_first_then_by_priority_then_by_excess() {
    let pods =
        [("within", 0, 5, 10), ("small", 0, 20, 10), ("large", 0, 90, 10), ("dear", 7, 999, 10)];
    assert_eq!(order(Resource::Memory, &pods), "large small dear within");
    assert_eq!(order(Resource::Disk, &pods), "large small dear within");
    assert_eq!(order(Resource::Pids, &[("a", 1, 900, 0), ("b", 0, 3, 0), ("c", 0, 5, 0)]), "c b a");
}

#[test]
fn only_what_memory_pressure_cannot_hurt_is_admitted() {
    let plain = json!({"containers": [{"name": "a"}]});
    let burstable =
        json!({"containers": [{"name": "a", "resources": {"requests": {"memory": "1Mi"}}}]});
    let mut tolerant = plain.clone();
    tolerant["tolerations"] = json!([{"key": "node.kubernetes.io/memory-pressure",
        "operator": "Exists", "effect": "NoSchedule"}]);
    let mut critical = plain.clone();
    critical["priority"] = json!(2_000_000_000_u64);
    for (spec, under, is_admitted) in [
        (&plain, &[][..], true),
        (&plain, &[Resource::Memory], false),
        (&burstable, &[Resource::Memory], true),
        (&tolerant, &[Resource::Memory], true),
        (&critical, &[Resource::Memory, Resource::Disk], true),
        (&burstable, &[Resource::Disk], false),
        (&burstable, &[Resource::Memory, Resource::Pids], false),
    ] {
        let refusal = admission::refuse(&object("a", spec.clone()), under);
        assert_eq!(refusal.is_none(), is_admitted, "{spec} {under:?}");
    }
    let refusal = admission::refuse(&object("a", plain), &[Resource::Memory, Resource::Disk]);
    let message = "The node had condition: [MemoryPressure DiskPressure]. ";
    assert_eq!(refusal.unwrap().message, message);
}

#[test]
fn thresholds_are_amounts_or_shares() {
    assert_eq!(Threshold::parse("100Mi"), Some(Threshold::Amount(100 << 20)));
    assert_eq!(Threshold::parse("5%"), Some(Threshold::Percent(5)));
    for wrong in ["", "101%", "-1", "five", "%"] {
        assert_eq!(Threshold::parse(wrong), None, "{wrong}");
    }
    let disk = |available, capacity| {
        let signals = Signals { disk: Some(Amount { available, capacity }), ..Signals::default() };
        !Thresholds::default().shortages(&signals).is_empty()
    };
    assert!(disk(4 * GIBIBYTE, 100 * GIBIBYTE) && !disk(6 * GIBIBYTE, 100 * GIBIBYTE));
    // A large disk is not short of space while 10 GiB are free.
    assert!(!disk(11 * GIBIBYTE, 1_000 * GIBIBYTE) && disk(9 * GIBIBYTE, 1_000 * GIBIBYTE));
}

/// Readings that a test sets.
#[derive(Default)]
struct FakeSignals(Mutex<Signals>);

impl FakeSignals {
    fn set_memory(&self, available: u64) {
        let memory = Some(Amount { available, capacity: GIBIBYTE });
        *self.0.lock().unwrap() = Signals { memory, ..Signals::default() };
    }
}

impl SignalSource for FakeSignals {
    fn read(&self) -> Signals {
        *self.0.lock().unwrap()
    }
}

async fn start(signals: Arc<FakeSignals>) -> (Cluster, Context, PathBuf) {
    let mut cluster = Cluster::start().await;
    let admin = cluster.context();
    let node = cluster.client("system:node:here", &["system:nodes"]);
    let own = Context { client: node, ..admin.clone() };
    let name = format!("setpoint-pressure-{}-{}", std::process::id(), admin.environment.random());
    let directory = std::env::temp_dir().join(name);
    let settings = Settings {
        interval: Duration::from_millis(20),
        transition: Duration::from_millis(200),
        source: Some(signals),
        ..Settings::default()
    };
    let options = Options {
        node: "here".to_owned(),
        directory: directory.clone(),
        api: SocketAddr::from((Ipv4Addr::LOCALHOST, 6443)),
        address: Ipv4Addr::new(10, 1, 2, 3).into(),
        port: None,
        absence: String::new(),
        heartbeat: Default::default(),
        runtime: Some(Arc::new(Fake::default()) as Arc<dyn PodRuntime>),
        devices: Arc::new(Devices::open(&directory, &Default::default())),
        network: None,
        publish_container_ports: false,
        environment: Arc::default(),
        pressure: Arc::new(Pressure::new(settings)),
        private: Vec::new(),
    };
    cluster.run(agent::run(own, options));
    until(&admin, NODE, |nodes| has_condition(nodes, "Ready")).await;
    (cluster, admin, directory)
}

fn has_condition(nodes: &[Arc<Object>], condition: &str) -> bool {
    nodes.iter().any(|node| conditions::is_true(&node.value["status"], condition))
}

fn pod(name: &str, priority: i64) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
        "spec": {"nodeName": "here", "priority": priority, "restartPolicy": "Always",
            "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "x", "command": ["run"]}]}})
}

fn status<'a>(pods: &'a [Arc<Object>], name: &str, field: &str) -> &'a str {
    let pod = pods.iter().find(|pod| &*pod.name.name == name);
    pod.and_then(|pod| pod.value["status"][field].as_str()).unwrap_or_default()
}

#[tokio::test]
async fn a_node_short_of_memory_evicts_pods_until_it_is_not() {
    let signals = Arc::new(FakeSignals::default());
    signals.set_memory(GIBIBYTE / 2);
    let (cluster, admin, directory) = start(signals.clone()).await;
    cluster.create(POD, pod("first", 0)).await;
    until(&admin, POD, |pods| status(pods, "first", "phase") == "Running").await;
    signals.set_memory(50 << 20);
    until(&admin, NODE, |nodes| has_condition(nodes, "MemoryPressure")).await;
    until(&admin, POD, |pods| status(pods, "first", "reason") == EVICTED).await;
    let pods = admin.cache(POD).all();
    let message = "The node was low on resource: memory. Threshold quantity: 100Mi, \
                   available: 50Mi. ";
    assert_eq!(status(&pods, "first", "message"), message);
    assert_eq!(status(&pods, "first", "phase"), "Failed");
    cluster.create(POD, pod("refused", 0)).await;
    until(&admin, POD, |pods| status(pods, "refused", "reason") == EVICTED).await;
    let message = "The node had condition: [MemoryPressure]. ";
    assert_eq!(status(&admin.cache(POD).all(), "refused", "message"), message);
    signals.set_memory(GIBIBYTE / 2);
    until(&admin, NODE, |nodes| !has_condition(nodes, "MemoryPressure")).await;
    cluster.create(POD, pod("second", 0)).await;
    until(&admin, POD, |pods| status(pods, "second", "phase") == "Running").await;
    let _ = std::fs::remove_dir_all(directory);
}
