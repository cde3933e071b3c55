//! The agent against a real API server, with a runtime that runs nothing, as itself: what it may do
//! is what the server lets nodes do.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use reconcile::plan::{Deletion, Target};
use reconcile::{Context, Error, Kind, Name, Object};
use serde_json::{Value, json};
use testkit::cluster::{Cluster, until};

use crate::agent::{self, Options};
use crate::devices::Devices;
use crate::pod::prepare::{CONFIG_MAP, SECRET};
use crate::runtime::{ContainerId, PodRuntime, START_MAX};
use crate::runtimes::fake::{Fake, Fault};
use crate::simulated::{NODE, POD};

/// A cluster whose node `here` runs nothing.
async fn start() -> (Cluster, Context, Arc<Fake>, std::path::PathBuf) {
    start_with(Fake::default()).await
}

async fn start_with(runtime: Fake) -> (Cluster, Context, Arc<Fake>, std::path::PathBuf) {
    let mut cluster = Cluster::start().await;
    let admin = cluster.context();
    let node = cluster.client("system:node:here", &["system:nodes"]);
    let own = Context { client: node, ..admin.clone() };
    let runtime = Arc::new(runtime);
    let name = format!("setpoint-agent-{}-{}", std::process::id(), admin.environment.random());
    let directory = std::env::temp_dir().join(name);
    let options = Options {
        node: "here".to_owned(),
        directory: directory.clone(),
        api: SocketAddr::from((Ipv4Addr::LOCALHOST, 6443)),
        address: Ipv4Addr::new(10, 1, 2, 3).into(),
        port: None,
        absence: String::new(),
        heartbeat: Default::default(),
        runtime: Some(runtime.clone() as Arc<dyn PodRuntime>),
        devices: Arc::new(Devices::open(&directory, &Default::default())),
        network: None,
        publish_container_ports: false,
        environment: Arc::default(),
        pressure: Arc::default(),
        private: Vec::new(),
    };
    cluster.run(agent::run(own, options));
    until(&admin, NODE, |nodes| {
        nodes.iter().any(|node| reconcile::conditions::is_true(&node.value["status"], "Ready"))
    })
    .await;
    (cluster, admin, runtime, directory)
}

fn pod(node: &str, name: &str, container: Value) -> Value {
    let mut container = container;
    container["name"] = json!("main");
    container["image"] = json!("x");
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
        "spec": {"nodeName": node, "restartPolicy": "Never", "containers": [container],
            "automountServiceAccountToken": false}})
}

fn phase(pods: &[Arc<Object>], name: &str) -> String {
    let pod = pods.iter().find(|pod| &*pod.name.name == name);
    pod.map_or("gone", |pod| pod.value["status"]["phase"].as_str().unwrap_or("")).to_owned()
}

#[tokio::test]
async fn a_pod_of_this_node_runs_ends_and_goes_and_others_are_left_alone() {
    let (cluster, admin, runtime, directory) = start().await;
    cluster.create(POD, pod("elsewhere", "other", json!({"command": ["true"]}))).await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": "map"}, "data": {"color": "blue"}});
    cluster.create(CONFIG_MAP, map).await;
    let container = json!({"command": ["paint", "$(COLOR)"], "env": [
        {"name": "COLOR", "valueFrom": {"configMapKeyRef": {"name": "map", "key": "color"}}}]});
    let made = cluster.create(POD, pod("here", "one", container.clone())).await;
    until(&admin, POD, |pods| phase(pods, "one") == "Running").await;
    {
        let started = runtime.started.lock().unwrap();
        assert_eq!(started.len(), 1);
        assert_eq!(started[0].command, ["paint", "blue"]);
    }
    runtime.finish(&ContainerId::new(&made.uid, "main", 0), 0);
    until(&admin, POD, |pods| phase(pods, "one") == "Succeeded").await;
    let second = cluster.create(POD, pod("here", "two", container)).await;
    until(&admin, POD, |pods| phase(pods, "two") == "Running").await;
    let requests = admin.requests("test", Default::default());
    for made in [&made, &second] {
        requests.delete(&Target::of(POD, made), &Deletion::default()).await.unwrap();
    }
    until(&admin, POD, |pods| pods.len() == 1 && phase(pods, "other") == "Pending").await;
    assert!(runtime.containers().is_empty());
    let _ = std::fs::remove_dir_all(directory);
}

#[tokio::test]
async fn a_node_may_touch_what_is_its_own_and_nothing_else() {
    let (cluster, admin, _, directory) = start().await;
    let secret = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"namespace": "default", "name": name}, "stringData": {"k": "v"}})
    };
    cluster.create(SECRET, secret("used")).await;
    cluster.create(SECRET, secret("unused")).await;
    let container = json!({"command": ["true"], "envFrom": [{"secretRef": {"name": "used"}}]});
    cluster.create(POD, pod("here", "mine", container.clone())).await;
    let other = cluster.create(POD, pod("elsewhere", "other", container)).await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "elsewhere"}});
    let foreign = cluster.create(NODE, node).await;
    until(&admin, POD, |pods| phase(pods, "mine") == "Running").await;
    let node = cluster.client("system:node:here", &["system:nodes"]);
    let own = Context { client: node, ..admin.clone() };
    let requests = own.requests("test", Default::default());
    let get = async |kind: Kind, name: &str| {
        requests.get(kind, &Name::new("default", name)).await.map(|_| ())
    };
    assert!(get(SECRET, "used").await.is_ok());
    assert!(is_refused(get(SECRET, "unused").await));
    let list = requests.read("/api/v1/namespaces/default/secrets").await;
    assert!(is_refused(list.map(|_| ())));
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let patch = requests.patch(&Target::of(NODE, &foreign), &label).await;
    assert!(is_refused(patch.map(|_| ())));
    let delete = requests.delete(&Target::of(POD, &other), &Deletion::default()).await;
    assert!(is_refused(delete.map(|_| ())));
    // The name alone makes no node of anybody.
    let pretender = cluster.client("system:node:here", &[]);
    let pretender = Context { client: pretender, ..admin.clone() };
    let requests = pretender.requests("test", Default::default());
    let read = requests.get(SECRET, &Name::new("default", "used")).await;
    assert!(is_refused(read.map(|_| ())));
    let _ = std::fs::remove_dir_all(directory);
}

fn is_refused(answer: Result<(), Error>) -> bool {
    answer.is_err_and(|error| error.code() == Some(403))
}

/// Waits until a file holds a text.
async fn file_says(path: &std::path::Path, text: &str) {
    let look = async {
        while std::fs::read_to_string(path).unwrap_or_default() != text {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let patience = std::time::Duration::from_secs(30);
    tokio::time::timeout(patience, look).await.expect("the file must change");
}

#[tokio::test]
async fn what_a_pod_refers_to_is_followed_and_what_was_made_goes_with_it() {
    let (cluster, admin, _, directory) = start().await;
    let map = |color: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "default", "name": "map"}, "data": {"color": color}})
    };
    let map = cluster.create(CONFIG_MAP, map("blue")).await;
    let mut value = pod("here", "one", json!({"command": ["x"]}));
    value["spec"]["volumes"] = json!([{"name": "v", "configMap": {"name": "map"}}]);
    let made = cluster.create(POD, value).await;
    until(&admin, POD, |pods| phase(pods, "one") == "Running").await;
    let volumes = directory.join("volumes").join(&made.uid);
    let file = volumes.join("objects/v/color");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "blue");
    let requests = admin.requests("test", Default::default());
    for color in ["green", "red"] {
        let patch = json!({"data": {"color": color}});
        requests.patch(&Target::of(CONFIG_MAP, &map), &patch).await.unwrap();
        file_says(&file, color).await;
    }
    requests.delete(&Target::of(POD, &made), &Deletion::default()).await.unwrap();
    until(&admin, POD, |pods| pods.is_empty()).await;
    let gone = async {
        while volumes.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), gone).await.expect("it must go");
    let _ = std::fs::remove_dir_all(directory);
}

#[tokio::test]
async fn an_image_that_comes_without_us_is_not_waited_for_until_the_next_pull() {
    let (cluster, admin, runtime, directory) = start_with(Fake::with_images()).await;
    for policy in ["IfNotPresent", "Never"] {
        let name = policy.to_lowercase();
        let container = json!({"command": ["x"], "imagePullPolicy": policy});
        cluster.create(POD, pod("here", &name, container)).await;
    }
    let waits = |pod: &Arc<Object>| {
        let reason = &pod.value["status"]["containerStatuses"][0]["state"]["waiting"]["reason"];
        ["ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff"].iter().any(|it| reason == it)
    };
    until(&admin, POD, |pods| pods.len() == 2 && pods.iter().all(waits)).await;
    // Time goes by for those who look, and not for those who go by the clock of the machine.
    tokio::time::pause();
    runtime.images.as_ref().unwrap().lock().unwrap().insert("x".to_owned());
    for name in ["ifnotpresent", "never"] {
        until(&admin, POD, |pods| phase(pods, name) == "Running").await;
    }
    let _ = std::fs::remove_dir_all(directory);
}

#[tokio::test]
async fn a_program_that_cannot_be_started_fails_what_never_runs_again() {
    let (cluster, admin, _, directory) = start().await;
    for policy in ["Never", "OnFailure"] {
        let mut one = pod("here", &policy.to_lowercase(), json!({"command": ["/no/such/file"]}));
        one["spec"]["restartPolicy"] = json!(policy);
        cluster.create(POD, one).await;
    }
    let state = |name: &str| {
        let pods = admin.cache(POD).all();
        let pod = pods.iter().find(|pod| &*pod.name.name == name).unwrap().clone();
        pod.value["status"]["containerStatuses"][0]["state"].clone()
    };
    until(&admin, POD, |pods| phase(pods, "never") == "Failed").await;
    let ended = &state("never")["terminated"];
    assert_eq!((&ended["reason"], &ended["exitCode"]), (&json!("StartError"), &json!(128)));
    assert_eq!(ended["message"], "there is no \"/no/such/file\"");
    let waits = |_: &[_]| state("onfailure")["waiting"]["reason"] == "RunContainerError";
    until(&admin, POD, waits).await;
    assert_eq!(phase(&admin.cache(POD).all(), "onfailure"), "Pending");
    let _ = std::fs::remove_dir_all(directory);
}

/// More than are started at the same time.
const HUNG: usize = 20;

#[tokio::test]
async fn starts_that_hang_hold_up_nobody_and_are_given_up_after_two_minutes() {
    let (cluster, admin, runtime, directory) = start().await;
    runtime.faults.lock().unwrap().insert("main".to_owned(), Fault::HangStart);
    for number in 0..HUNG {
        let hung = pod("here", &format!("hung-{number}"), json!({"command": ["x"]}));
        cluster.create(POD, hung).await;
    }
    let mut other = pod("here", "other", json!({"command": ["x"]}));
    other["spec"]["containers"][0]["name"] = json!("other");
    cluster.create(POD, other).await;
    until(&admin, POD, |pods| phase(pods, "other") == "Running").await;
    let waiting = |pods: &[Arc<Object>], reason: &str| {
        let waits = |pod: &&Arc<Object>| {
            pod.value["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == reason
        };
        pods.iter().filter(waits).count()
    };
    until(&admin, POD, |pods| waiting(pods, "ContainerCreating") == HUNG).await;
    tokio::time::pause();
    tokio::time::sleep(START_MAX).await;
    until(&admin, POD, |pods| waiting(pods, "RunContainerError") == HUNG).await;
    assert_eq!(START_MAX.as_secs(), 120);
    let _ = std::fs::remove_dir_all(directory);
}

#[tokio::test]
async fn the_room_of_a_pod_is_free_when_its_object_is_gone() {
    let (cluster, admin, runtime, directory) = start().await;
    runtime.faults.lock().unwrap().insert("main".to_owned(), Fault::Linger);
    let node = admin.cache(NODE).get(&Name::new("", "here")).unwrap();
    let all = json!({"cpu": node.value["status"]["allocatable"]["cpu"]});
    let container = json!({"command": ["x"], "resources": {"requests": all},
        "ports": [{"containerPort": 80, "hostPort": 8080}]});
    let requests = admin.requests("test", Default::default());
    for _ in 0..5 {
        let made = cluster.create(POD, pod("here", "one", container.clone())).await;
        until(&admin, POD, |pods| ["Running", "Failed"].contains(&&*phase(pods, "one"))).await;
        assert_eq!(phase(&admin.cache(POD).all(), "one"), "Running");
        requests.delete(&Target::of(POD, &made), &Deletion::default()).await.unwrap();
        until(&admin, POD, <[_]>::is_empty).await;
    }
    // One that ended leaves its room to others at once, too.
    let made = cluster.create(POD, pod("here", "one", container.clone())).await;
    until(&admin, POD, |pods| phase(pods, "one") == "Running").await;
    runtime.finish(&ContainerId::new(&made.uid, "main", 0), 0);
    until(&admin, POD, |pods| phase(pods, "one") == "Succeeded").await;
    cluster.create(POD, pod("here", "two", container)).await;
    until(&admin, POD, |pods| phase(pods, "two") == "Running").await;
    let _ = std::fs::remove_dir_all(directory);
}

const WEBHOOK: Kind = Kind::cluster(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
);

/// A server that takes no status of pods: whom it would have to ask does not answer.
async fn refuse_status(cluster: &Cluster, admin: &Context, pod: &Object) -> Object {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
        "resources": ["pods/status"]});
    let webhook = json!({"apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration", "metadata": {"name": "nobody"},
        "webhooks": [{"name": "no.body.example", "rules": [rule], "failurePolicy": "Fail",
            "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:1/"}}]});
    let made = cluster.create(WEBHOOK, webhook).await;
    let requests = admin.requests("test", Default::default());
    let target = Target::of(POD, pod).part("status");
    let mut number = 0;
    while requests.patch(&target, &json!({"status": {"message": number.to_string()}})).await.is_ok()
    {
        number += 1;
    }
    made
}

#[tokio::test]
async fn what_is_due_is_done_while_the_server_takes_no_status() {
    let (cluster, admin, runtime, directory) = start().await;
    let mut value = pod("here", "one", json!({"command": ["x"]}));
    value["spec"]["restartPolicy"] = json!("Always");
    let made = cluster.create(POD, value).await;
    until(&admin, POD, |pods| phase(pods, "one") == "Running").await;
    let webhook = refuse_status(&cluster, &admin, &made).await;
    runtime.finish(&ContainerId::new(&made.uid, "main", 0), 1);
    let again = async {
        while runtime.started.lock().unwrap().len() < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let patience = std::time::Duration::from_secs(30);
    tokio::time::timeout(patience, again).await.expect("it must run again");
    let restarts = |pods: &[Arc<Object>]| {
        pods[0].value["status"]["containerStatuses"][0]["restartCount"].as_u64()
    };
    assert_eq!(restarts(&admin.cache(POD).all()), Some(0));
    let requests = admin.requests("test", Default::default());
    requests.delete(&Target::of(WEBHOOK, &webhook), &Deletion::default()).await.unwrap();
    until(&admin, POD, |pods| restarts(pods) == Some(1)).await;
    let _ = std::fs::remove_dir_all(directory);
}

#[tokio::test]
async fn a_worker_that_breaks_off_is_followed_by_another() {
    let (cluster, admin, runtime, directory) = start().await;
    runtime.faults.lock().unwrap().insert("main".to_owned(), Fault::BreakStart);
    cluster.create(POD, pod("here", "one", json!({"command": ["x"]}))).await;
    let broke = async {
        while !runtime.faults.lock().unwrap().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), broke).await.expect("it must break");
    tokio::time::pause();
    until(&admin, POD, |pods| phase(pods, "one") == "Running").await;
    let _ = std::fs::remove_dir_all(directory);
}

const EVENT: Kind = Kind::namespaced("", "v1", "Event", "events");

#[tokio::test]
async fn what_cannot_be_stopped_is_told_once_and_tried_ever_later() {
    let (cluster, admin, runtime, directory) = start().await;
    let made = cluster.create(POD, pod("here", "one", json!({"command": ["x"]}))).await;
    until(&admin, POD, |pods| phase(pods, "one") == "Running").await;
    runtime.faults.lock().unwrap().insert("main".to_owned(), Fault::HangStop);
    let requests = admin.requests("test", Default::default());
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let soon = Deletion { grace_seconds: Some(1), ..Deletion::default() };
    requests.delete(&Target::of(POD, &made), &soon).await.unwrap();
    let count = |events: &[Arc<Object>], reason: &str| {
        let of = events.iter().filter(|event| event.value["reason"] == reason);
        of.map(|event| event.value["count"].as_u64().unwrap_or(1)).sum::<u64>()
    };
    until(&admin, EVENT, |events| count(events, "FailedKillPod") >= 4).await;
    assert_eq!(count(&admin.cache(EVENT).all(), "Killing"), 1);
    // Two seconds each, and 1, 2 and 4 in between.
    assert!(began.elapsed().as_secs() >= 15, "{:?}", began.elapsed());
    runtime.faults.lock().unwrap().clear();
    until(&admin, POD, <[_]>::is_empty).await;
    let _ = std::fs::remove_dir_all(directory);
}
