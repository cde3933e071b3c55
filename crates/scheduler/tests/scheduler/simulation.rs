//! No fault of a request changes where pods end up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reconcile::plan::{Deletion, Target};
use reconcile::{Context, Kind, Object};
use scheduler::Options;
use scheduler::kinds::{GROUP, NODE, POD};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::simulation::{self, Also, Trial};

use crate::{kind_of, node, oracles, pod};

fn on(name: &str, cpu: &str, node: &str) -> Value {
    let mut pod = pod(name, cpu);
    pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
    pod
}

async fn untaint(context: &Context) {
    let requests = context.requests("test", Default::default());
    context.cache(NODE).reaches(1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    for node in context.cache(NODE).all() {
        let patch = json!({"spec": {"taints": null}});
        requests.patch(&Target::of(NODE, &node), &patch).await.expect("untainted");
    }
}

/// The scheduler, once what it needs is installed.
async fn component(context: Context) {
    tokio::time::sleep(Duration::from_secs(5)).await;
    scheduler::run(context, Options::default()).await;
}

async fn install(cluster: &Cluster) {
    for manifest in scheduler::manifests() {
        cluster.create(kind_of(&manifest), manifest).await;
    }
}

const CONFIG_MAP: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");

/// Looks at every change of every pod. What must never be becomes an object, so that the run
/// differs from the one without faults: more on a node than it has, a pod that changes its node.
async fn watch_over(context: Context) {
    let pods = context.cache(POD);
    context.cache(NODE).reaches(1).await;
    let seen: Mutex<BTreeMap<String, (Arc<Object>, String)>> = Mutex::default();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel::<String>();
    let nodes = context.cache(NODE);
    pods.subscribe(move |change| {
        let mut seen = seen.lock().expect("a simulation must be set up");
        let object = change.object();
        let node = object.value["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
        let before = seen.get(&object.uid).map(|(_, node)| node.clone()).unwrap_or_default();
        if !before.is_empty() && before != node {
            let _ = tell.send(format!("moved-{}", object.name.name));
        }
        match &change.new {
            Some(object) => seen.insert(object.uid.clone(), (object.clone(), node.clone())),
            None => seen.remove(&object.uid),
        };
        for held in nodes.all() {
            let on = seen.values().filter(|(_, node)| **node == *held.name.name);
            let taken: i64 = on.map(|(pod, _)| cpu(pod)).sum();
            let has = held.value["status"]["allocatable"]["cpu"].as_str().unwrap_or("0");
            if taken > has.parse().unwrap_or(0) {
                let _ = tell.send(format!("too-much-on-{}", held.name.name));
            }
        }
    });
    let requests = context.requests("test", Default::default());
    while let Some(name) = told.recv().await {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "default", "name": name}});
        let _ = requests.create(CONFIG_MAP, &object).await;
    }
}

fn cpu(pod: &Object) -> i64 {
    let requests = &pod.value["spec"]["containers"][0]["resources"]["requests"];
    requests["cpu"].as_str().and_then(|cpu| cpu.parse().ok()).unwrap_or(0)
}

fn also() -> Also {
    Also { oracles: oracles::ALL, ..Also::default() }
}

/// Two pods that fit, one that never does, and one that fits when another goes.
const SINGLES: Trial = Trial {
    name: "system:kube-scheduler/single",
    seed: 1,
    component: |context| Box::pin(component(context)),
    workload: |cluster, context| {
        Box::pin(async move {
            install(&cluster).await;
            for name in ["n1", "n2"] {
                cluster.create(NODE, node(name, "4")).await;
            }
            untaint(&context).await;
            let first = cluster.create(POD, on("first", "3", "n1")).await;
            // It wants the same room: an answer that is lost must not give it away.
            cluster.create(POD, on("third", "3", "n1")).await;
            cluster.create(POD, on("second", "3", "n2")).await;
            cluster.create(POD, pod("never", "9")).await;
            tokio::time::sleep(Duration::from_secs(900)).await;
            let requests = context.requests("test", Default::default());
            let now = Deletion { grace_seconds: Some(0), ..Deletion::default() };
            requests.delete(&Target::of(POD, &first), &now).await.expect("deleted");
        })
    },
    play: |context| Box::pin(watch_over(context)),
};

#[test]
fn no_fault_of_a_request_changes_where_pods_end_up() {
    let plans = simulation::try_with(SINGLES, also());
    println!("{plans} plans");
    assert!(plans > 50, "{plans}");
}

/// A gang of three that fits only when the second node comes.
const GANG: Trial = Trial {
    name: "system:kube-scheduler/gang",
    seed: 2,
    component: |context| Box::pin(component(context)),
    workload: |cluster, context| {
        Box::pin(async move {
            install(&cluster).await;
            cluster.create(NODE, node("n1", "2")).await;
            let group = json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
                "metadata": {"namespace": "default", "name": "g"},
                "spec": {"minMember": 3, "scheduleTimeoutSeconds": 60}});
            cluster.create(GROUP, group).await;
            for (name, node) in [("a", "n1"), ("b", "n1"), ("c", "n2")] {
                let mut pod = on(name, "1", node);
                pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = json!("g");
                cluster.create(POD, pod).await;
            }
            untaint(&context).await;
            tokio::time::sleep(Duration::from_secs(900)).await;
            cluster.create(NODE, node("n2", "1")).await;
            untaint(&context).await;
        })
    },
    play: |context| Box::pin(watch_over(context)),
};

#[test]
fn no_fault_of_a_request_tears_a_gang_apart() {
    let plans = simulation::try_with(GANG, also());
    println!("{plans} plans");
    assert!(plans > 50, "{plans}");
}

/// A pod that another must go for, played by a node that lets go after a while.
const PREEMPTION: Trial = Trial {
    name: "system:kube-scheduler/preemption",
    seed: 3,
    component: |context| Box::pin(component(context)),
    workload: |cluster, context| {
        Box::pin(async move {
            install(&cluster).await;
            cluster.create(NODE, node("n1", "4")).await;
            untaint(&context).await;
            let classes =
                Kind::cluster("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses");
            let high = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
                "metadata": {"name": "high"}, "value": 1000});
            cluster.create(classes, high).await;
            cluster.create(POD, pod("low", "3")).await;
            tokio::time::sleep(Duration::from_secs(900)).await;
            let mut vip = pod("vip", "3");
            vip["spec"]["priorityClassName"] = json!("high");
            cluster.create(POD, vip).await;
        })
    },
    play: |context| {
        Box::pin(async move {
            tokio::join!(watch_over(context.clone()), let_go(context));
        })
    },
};

/// Ends pods that are to go, ten seconds later.
async fn let_go(context: Context) {
    let pods = context.cache(POD);
    let requests = context.requests("node", Default::default());
    loop {
        let seen = pods.seen();
        for pod in pods.all().iter().filter(|pod| pod.is_terminating()) {
            tokio::time::sleep(Duration::from_secs(10)).await;
            let now = Deletion { grace_seconds: Some(0), ..Deletion::default() };
            let _ = requests.delete(&Target::of(POD, pod), &now).await;
        }
        pods.reaches(seen + 1).await;
    }
}

#[test]
fn no_fault_of_a_request_keeps_the_more_important_pod_waiting() {
    let plans = simulation::try_with(PREEMPTION, also());
    println!("{plans} plans");
    assert!(plans > 50, "{plans}");
}
