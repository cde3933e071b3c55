//! Graphs on trial: under every fault that the operators' own traces offer, with what must hold of
//! them (`oracles.rs`) checked over everything that was written.

use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use inference::kinds::{ADAPTER, GRAPH, POD, SECRET};
use inference::leader_worker_set::admission;
use inference::settings::{Discovery, Gates, Settings};
use inference::{Enabled, NAMESPACE, Options, WEBHOOK_SERVICE, manifests};
use reconcile::plan::Target;
use reconcile::{Context, Kind, Name, run};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::manifests::{DEFINITION, bare};
use testkit::oracle::{Case, Check, Violation};
use testkit::simulation::{self, Also, Trial};

use crate::graphs::{self, graph};
use crate::oracles::{
    self, KEPT_KEY, enough_of_component_serve, enough_serve, made_of, scales_no_more_than,
};

/// Trials are named after the user that the operators are.
macro_rules! concat_name {
    ($what:literal) => {
        concat!("system:serviceaccount:dynamo-system:dynamo-operator-controller-manager/", $what)
    };
}

type Workload = fn(Arc<Cluster>, Context) -> Pin<Box<dyn Future<Output = ()> + Send>>;

const REPLICAS: usize = 3;
/// Between what users do: longer than any fault lasts that does not last.
const WHILE: Duration = Duration::from_secs(1_800);
/// Plans of every day: a world with all of it in takes long to make.
const SAMPLES_MAX: usize = 12;

const GRAPHS_ALONE: Enabled = Enabled { dynamo: true, leader_worker_set: false };

/// The kinds without what their schemas say, and the rights of the operators: a world for each of
/// many plans must be made quickly. Of the webhooks only those that add to pods are asked.
async fn install_bare(cluster: &Cluster, enabled: Enabled) {
    cluster.answer((NAMESPACE, WEBHOOK_SERVICE), |_, path, review| {
        Box::pin(async move { admission::review(&path, &review) })
    });
    // Made once: making them took longer than most plans.
    static OF_GRAPHS: LazyLock<Vec<Value>> = LazyLock::new(|| bare_manifests(GRAPHS_ALONE));
    static OF_BOTH: LazyLock<Vec<Value>> = LazyLock::new(|| bare_manifests(BOTH));
    let all = if enabled.leader_worker_set { &OF_BOTH } else { &OF_GRAPHS };
    cluster.install_all(&[], all).await;
}

fn bare_manifests(enabled: Enabled) -> Vec<Value> {
    let is_wanted = |one: &Value| {
        let name = one["metadata"]["name"].as_str().unwrap_or_default();
        let kind = one["kind"].as_str().unwrap_or_default();
        !kind.ends_with("WebhookConfiguration") || name.starts_with("lws-")
    };
    let all = manifests::all(enabled).into_iter().filter(is_wanted);
    all.map(|one| if one["kind"] == DEFINITION.kind { bare(one) } else { one }).collect()
}

async fn operators(context: Context, enabled: Enabled) {
    let gates = Gates { leader_worker_set: enabled.leader_worker_set, ..Gates::default() };
    // How pods find each other is made once and never changed: without it worlds are made sooner.
    let discovery = Discovery::Etcd;
    let settings = Arc::new(Settings { gates, discovery, ..Settings::default() });
    let mut running = inference::start(&context, &Options { enabled, settings });
    while running.join_next().await.is_some() {}
}

const fn trial(name: &'static str, workload: Workload) -> Trial {
    Trial {
        name,
        seed: 1,
        component: |context| Box::pin(operators(context, GRAPHS_ALONE)),
        workload,
        play: |context| Box::pin(graphs::play(context)),
    }
}

fn try_everything(trial: Trial, oracles: &'static [Check]) {
    let also = Also { oracles, samples_max: SAMPLES_MAX, ..Also::default() };
    let plans = simulation::try_with(trial, also);
    println!("{plans} plans");
    assert!(plans > 50, "{plans}");
}

fn worker(name: &str, replicas: usize, image: &str) -> Value {
    json!({"name": name, "type": "decode", "replicas": replicas,
        "podTemplate": {"metadata": {"annotations": {"play/ready-after": "5"}},
            "spec": {"containers": [{"name": "main", "image": image}]}}})
}

fn scaled(replicas: usize, image: &str) -> Value {
    let mut worker = worker("decode", replicas, image);
    worker["scalingAdapter"] = json!({});
    json!([worker])
}

async fn patch(context: &Context, kind: Kind, name: &str, patch: Value) {
    tokio::time::sleep(WHILE).await;
    let requests = context.requests("test", Default::default());
    let found = requests.get(kind, &Name::new("default", name)).await.expect("readable");
    let target = Target::of(kind, &found.expect("it is there"));
    requests.patch(&target, &patch).await.expect("changed");
}

/// A quarter of three may be missing, which is none, and of four one.
fn three_serve(case: &Case<'_>) -> Vec<Violation> {
    enough_serve(case, REPLICAS)
}

/// An adapter is told another number once.
fn scales_once(case: &Case<'_>) -> Vec<Violation> {
    scales_no_more_than(case, 1)
}

#[test]
fn no_fault_changes_how_a_graph_is_made_scaled_and_replaced() {
    const ORACLES: &[Check] = &[oracles::graphs, three_serve, scales_once];
    let workload: Workload = |cluster, context| {
        Box::pin(async move {
            install_bare(&cluster, GRAPHS_ALONE).await;
            cluster.create(GRAPH, graph("g", scaled(REPLICAS, "w:1.0.0"))).await;
            let more = json!({"spec": {"replicas": REPLICAS + 1}});
            patch(&context, ADAPTER, "g-decode", more).await;
            let other = json!({"spec": {"components": scaled(REPLICAS + 1, "w:1.0.1")}});
            patch(&context, GRAPH, "g", other).await;
        })
    };
    try_everything(trial(concat_name!("graph"), workload), ORACLES);
}

/// DY-4: what served before an update that is taken back serves on; none of it begins again.
fn old_ones_stay(case: &Case<'_>) -> Vec<Violation> {
    match made_of(case, "w:1.0.0") {
        made if made <= REPLICAS => Vec::new(),
        made => vec![Violation::new("DY-4", format!("{made} pods of the old form were made"))],
    }
}

#[test]
fn no_fault_changes_how_an_update_is_taken_back() {
    const ORACLES: &[Check] = &[oracles::graphs, three_serve, old_ones_stay];
    let workload: Workload = |cluster, context| {
        Box::pin(async move {
            install_bare(&cluster, GRAPHS_ALONE).await;
            let good = worker("decode", REPLICAS, "w:1.0.0");
            cluster.create(GRAPH, graph("g", json!([good]))).await;
            let mut bad = worker("decode", REPLICAS, "w:1.0.1");
            bad["podTemplate"]["metadata"]["annotations"]["play/ready-after"] = json!("never");
            patch(&context, GRAPH, "g", json!({"spec": {"components": [bad]}})).await;
            patch(&context, GRAPH, "g", json!({"spec": {"components": [good]}})).await;
        })
    };
    try_everything(trial(concat_name!("taken-back"), workload), ORACLES);
}

/// Every pod is replaced once by a restart that was asked for once.
fn restarts_once(case: &Case<'_>) -> Vec<Violation> {
    let made = made_of(case, "a:1.0.0") + made_of(case, "b:1.0.0");
    let is_compared = case.run.is_settled && case.run.planned.is_empty();
    match made {
        made if made > 4 => vec![Violation::new("restart", format!("{made} pods were made"))],
        made if is_compared && made != 4 => {
            vec![Violation::new("restart", format!("only {made} pods were made"))]
        }
        _ => Vec::new(),
    }
}

#[test]
fn no_fault_changes_how_often_components_are_restarted() {
    const ORACLES: &[Check] = &[oracles::graphs, restarts_once];
    let workload: Workload = |cluster, context| {
        Box::pin(async move {
            install_bare(&cluster, GRAPHS_ALONE).await;
            let parts = json!([worker("a", 1, "a:1.0.0"), worker("b", 1, "b:1.0.0")]);
            cluster.create(GRAPH, graph("g", parts)).await;
            let restart = json!({"spec": {"restart": {"id": "one", "strategy":
                {"type": "Sequential", "order": ["b", "a"]}}}});
            patch(&context, GRAPH, "g", restart).await;
        })
    };
    try_everything(trial(concat_name!("restart"), workload), ORACLES);
}

const BOTH: Enabled = Enabled { dynamo: true, leader_worker_set: true };

/// What makes pods of the StatefulSets under groups, and of Deployments.
async fn play_groups(context: Context) {
    tokio::join!(
        run::run(context.clone(), controllers::stateful_set::Controller),
        graphs::play(context),
    );
}

/// A component of two pods that serve together, beside one of a single pod.
fn spread(image: &str) -> Value {
    let part = |name: &str| {
        json!({"name": name, "type": name, "replicas": 1,
            "podTemplate": {"metadata": {"annotations": {"play/grace": "2"}}, "spec":
                {"containers": [{"name": "main", "image": image, "command": ["python3"],
                    "args": ["-m", "dynamo.trtllm"],
                    "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}}})
    };
    let mut many = part("decode");
    many["multinode"] = json!({"nodeCount": 2});
    json!([many, part("prefill")])
}

/// DY-4: the worker of a single pod is replaced without a gap, though its graph has sets beside it.
fn the_single_one_serves_on(case: &Case<'_>) -> Vec<Violation> {
    enough_of_component_serve(case, "prefill", 1)
}

#[test]
fn no_fault_changes_how_a_component_of_many_pods_is_made_lost_and_replaced() {
    const ORACLES: &[Check] = &[oracles::graphs, oracles::groups, the_single_one_serves_on];
    let workload: Workload = |cluster, context| {
        Box::pin(async move {
            install_bare(&cluster, BOTH).await;
            let keys = json!({"metadata": {"namespace": NAMESPACE, "name": "mpi-run-ssh-secret"},
                "data": {"private.key": KEPT_KEY, "private.key.pub": KEPT_KEY}});
            cluster.create(SECRET, keys).await;
            cluster.create(GRAPH, graph("g", spread("w:1.0.0"))).await;
            tokio::time::sleep(WHILE).await;
            let requests = context.requests("test", Default::default());
            let all = requests.read("/api/v1/namespaces/default/pods").await.expect("readable");
            let lost = all["items"].as_array().into_iter().flatten().find(|pod| {
                pod["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/worker-index"] == "1"
            });
            let lost = reconcile::Object::new(lost.expect("a worker").clone());
            let gone = requests.delete(&Target::of(POD, &lost), &Default::default()).await;
            gone.expect("deleted");
            patch(&context, GRAPH, "g", json!({"spec": {"components": spread("w:1.0.1")}})).await;
        })
    };
    let trial = Trial {
        component: |context| Box::pin(operators(context, BOTH)),
        play: |context| Box::pin(play_groups(context)),
        ..trial(concat_name!("spread"), workload)
    };
    try_everything(trial, ORACLES);
}
