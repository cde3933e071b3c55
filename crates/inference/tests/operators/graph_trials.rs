//! Graphs on trial: under every fault that the operators' own traces offer, with what must hold of
//! them (DY-4, DY-5) checked over everything that was written.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use inference::kinds::{ADAPTER, GRAPH};
use inference::settings::{Discovery, Gates, Settings};
use inference::{Enabled, Options, manifests};
use reconcile::plan::Target;
use reconcile::{Context, Name, conditions};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::oracle::{Case, Check, Violation};
use testkit::simulation::{self, Also, Trial};

use crate::graphs::{graph, play};
use crate::world::KINDS;

/// Trials are named after the user that the operators are.
macro_rules! concat_name {
    ($what:literal) => {
        concat!("system:serviceaccount:dynamo-system:dynamo-operator-controller-manager/", $what)
    };
}

type Workload = fn(Arc<Cluster>, Context) -> Pin<Box<dyn Future<Output = ()> + Send>>;

const REPLICAS: i64 = 3;

/// The kinds without what their schemas say, and the rights of the operators: a world for each of
/// many plans must be made quickly.
async fn install_bare(cluster: &Cluster) {
    let enabled = Enabled { dynamo: true, leader_worker_set: false };
    for mut manifest in manifests::all(enabled) {
        let word = manifest["kind"].as_str().unwrap_or_default();
        if word.ends_with("WebhookConfiguration") {
            continue;
        }
        if let Some(Value::Array(versions)) = manifest.pointer_mut("/spec/versions") {
            versions.retain(|version| version["storage"] == true);
            for version in versions {
                version["schema"]["openAPIV3Schema"] =
                    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            }
            manifest["spec"].as_object_mut().expect("an object").remove("conversion");
        }
        let kind = KINDS.iter().find(|kind| manifest["kind"] == kind.kind).expect("a known kind");
        cluster.install(*kind, &manifest).await;
    }
}

const fn trial(name: &'static str, workload: Workload) -> Trial {
    Trial {
        name,
        seed: 1,
        component: |context| {
            Box::pin(async move {
                let gates = Gates { leader_worker_set: false };
                // How pods find each other is made once and never changed: without it worlds are
                // made sooner.
                let discovery = Discovery::Etcd;
                let settings = Arc::new(Settings { gates, discovery, ..Settings::default() });
                let enabled = Enabled { dynamo: true, leader_worker_set: false };
                let mut running = inference::start(&context, &Options { enabled, settings });
                while running.join_next().await.is_some() {}
            })
        },
        workload,
        play: |context| Box::pin(play(context)),
    }
}

fn workers(replicas: i64, image: &str) -> Value {
    json!([{"name": "decode", "type": "decode", "replicas": replicas, "scalingAdapter": {},
        "podTemplate": {"metadata": {"annotations": {"play/ready-after": "5"}},
            "spec": {"containers": [{"name": "main", "image": image}]}}}])
}

/// From when all serve, never fewer do than may: a quarter of three is none, and of four one.
fn enough_serve(case: &Case<'_>) -> Vec<Violation> {
    let mut serving: BTreeSet<String> = BTreeSet::new();
    let mut is_whole = false;
    let mut violations = Vec::new();
    for change in case.run.history.iter().filter(|change| change.key.starts_with("pods/")) {
        let serves = change.new.as_ref().is_some_and(|pod| {
            conditions::is_true(&pod["status"], "Ready")
                && pod["metadata"]["deletionTimestamp"].is_null()
        });
        match serves {
            true => serving.insert(change.key.clone()),
            false => serving.remove(&change.key),
        };
        let count = i64::try_from(serving.len()).unwrap_or(i64::MAX);
        is_whole |= count >= REPLICAS;
        if is_whole && count < REPLICAS {
            violations.push(Violation::new("DY-4", format!("{count} serve after {}", change.key)));
        }
    }
    violations
}

/// What an adapter says reaches the graph once, and stays.
fn scales_once(case: &Case<'_>) -> Vec<Violation> {
    let changes = case.run.history.iter().filter(|change| {
        change.key.contains("dynamographdeployments/")
            || change.key.contains("dynamographdeployments.")
    });
    let replicas = |object: &Value| object["spec"]["components"][0]["replicas"].as_i64();
    let moves = changes.filter(|change| match (&change.old, &change.new) {
        (Some(old), Some(new)) => replicas(old) != replicas(new),
        _ => false,
    });
    match moves.count() {
        0 | 1 => Vec::new(),
        count => vec![Violation::new("DY-5", format!("replicas changed {count} times"))],
    }
}

#[test]
fn no_fault_changes_how_a_graph_is_made_scaled_and_replaced() {
    let workload: Workload = |cluster, context| {
        Box::pin(async move {
            install_bare(&cluster).await;
            let made = cluster.create(GRAPH, graph("g", workers(REPLICAS, "w:1.0.0"))).await;
            tokio::time::sleep(Duration::from_secs(1_800)).await;
            let requests = context.requests("test", Default::default());
            let name = Name::new("default", "g-decode");
            let adapter = context.get_live(ADAPTER, &name).await.expect("readable");
            let adapter = adapter.expect("an adapter");
            let patch = json!({"spec": {"replicas": REPLICAS + 1}});
            requests.patch(&Target::of(ADAPTER, &adapter), &patch).await.expect("changed");
            tokio::time::sleep(Duration::from_secs(1_800)).await;
            let patch = json!({"spec": {"components": workers(REPLICAS + 1, "w:1.0.1")}});
            requests.patch(&Target::of(GRAPH, &made), &patch).await.expect("changed");
        })
    };
    let trial = trial(concat_name!("graph"), workload);
    let oracles = &[enough_serve as Check, scales_once];
    let plans = simulation::try_with(trial, Also { oracles, ..Also::default() });
    println!("{plans} plans");
    assert!(plans > 50, "{plans}");
}
