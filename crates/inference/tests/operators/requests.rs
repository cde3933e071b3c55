//! Requests, from a model to the graph that serves it: rows 44 and 45 of the feature table, and
//! that one request makes one graph (DY-7) under every fault.

use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use inference::kinds::{CONFIG_MAP, GRAPH, JOB, REQUEST};
use inference::settings::Settings;
use inference::value::text;
use inference::{Enabled, manifests, request};
use reconcile::plan::{Deletion, Propagation, Target};
use reconcile::{Context, Kind, Name, conditions, run};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::manifests::bare;
use testkit::oracle::{Case, Violation};
use testkit::simulation::{self, Also, Trial};

use crate::world::World;

const DOCUMENTS: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: curves}
data: {a: b}
---
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: whatever}
spec: {components: [{name: Frontend, type: frontend, replicas: 1, podTemplate: {spec:
  {containers: [{name: main, image: 'f:1.0.0'}]}}}]}
";

/// The kinds in the version that is stored, without what their schemas say.
fn definitions() -> Vec<Value> {
    let graph = api::dynamo::definitions().into_iter().next().expect("the graph");
    vec![bare(graph), bare(api::dynamo_request::definition())]
}

pub fn request(name: &str) -> Value {
    json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeploymentRequest",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"model": "tiny", "backend": "vllm", "image": "profiler:1.0.0", "autoApply": true,
            "hardware": {"gpuSku": "l4", "vramMb": 24_000, "numGpusPerNode": 1}}})
}

/// What a profiler that succeeded leaves.
pub fn output(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": format!("dgdr-output-{name}"),
            "labels": {request::NAME_LABEL: name, request::NAMESPACE_LABEL: "default"}},
        "data": {"phase": "Done", "profiler_status": "success", "final_config.yaml": DOCUMENTS}})
}

pub async fn set_status(context: &Context, kind: Kind, name: &str, status: Value) {
    let requests = context.requests("test", Default::default());
    let found = requests.get(kind, &Name::new("default", name)).await.expect("readable");
    let target = Target::of(kind, &found.expect("it is there")).part("status");
    requests.patch(&target, &json!({"status": status})).await.expect("changed");
}

pub fn completed() -> Value {
    let condition = |kind: &str| json!({"type": kind, "status": "True"});
    json!({"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:01Z",
        "succeeded": 1, "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]})
}

fn is_in(phase: &'static str) -> impl Fn(&Value) -> bool {
    move |request: &Value| request["status"]["phase"] == phase
}

async fn world() -> World {
    let mut world = World::bare().await;
    world.install(&definitions()).await;
    let controller = request::Controller::new(Arc::new(Settings::default()));
    let context = world.context.clone();
    world.run(run::run(context, controller));
    world
}

#[tokio::test]
async fn a_request_is_measured_for_and_becomes_a_graph_that_outlives_it() {
    let world = world().await;
    world.create(REQUEST, request("r")).await;
    let profiling = world.until(REQUEST, "r", is_in("Profiling")).await;
    assert_eq!(profiling.value["status"]["profilingJobName"], "profile-r");
    let job = world.get(JOB, "profile-r").await.expect("a job");
    assert_eq!(job.controller(), Some(profiling.uid.as_str()));
    assert!(job.annotation("nvidia.com/last-applied-hash").is_some_and(|hash| hash.len() == 64));
    world.create(CONFIG_MAP, output("r")).await;
    set_status(&world.context, JOB, "profile-r", completed()).await;
    world.until(REQUEST, "r", is_in("Deploying")).await;
    let graph = world.until(GRAPH, "r-dgd", |_| true).await;
    assert_eq!(graph.controller(), None);
    assert_eq!(graph.label(request::NAME_LABEL), Some("r"));
    set_status(&world.context, GRAPH, "r-dgd", json!({"state": "successful"})).await;
    let deployed = world.until(REQUEST, "r", is_in("Deployed")).await;
    let end = conditions::find(&deployed.value["status"], "Succeeded").expect("the end");
    assert_eq!((&end["status"], &end["reason"]), (&json!("True"), &json!("Deployed")));
    // What was made beside the graph goes with it.
    let is_adopted = |map: &Value| map["metadata"]["ownerReferences"][0]["uid"] == *graph.uid;
    world.until(CONFIG_MAP, "curves", is_adopted).await;
    world.delete(GRAPH, "r-dgd").await;
    let failed = world.until(REQUEST, "r", is_in("Failed")).await;
    let end = conditions::find(&failed.value["status"], "Succeeded").expect("the end");
    assert_eq!(end["reason"], "DeploymentDeleted");
    assert!(text(&end["message"]).starts_with("Deployment failed: "), "{end}");
    assert_eq!(failed.value["status"]["dgdName"], Value::Null);
    world.delete(REQUEST, "r").await;
    world.until_gone(REQUEST, "r").await;
}

#[tokio::test]
async fn a_request_that_is_made_again_takes_nothing_of_the_one_before() {
    let world = world().await;
    let first = world.create(REQUEST, request("r")).await;
    world.until(REQUEST, "r", is_in("Profiling")).await;
    let mut left = output("r");
    left["metadata"]["ownerReferences"] = json!([{"apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeploymentRequest", "name": "r", "uid": first.uid,
        "controller": true}]);
    world.create(CONFIG_MAP, left).await;
    set_status(&world.context, JOB, "profile-r", completed()).await;
    world.until(GRAPH, "r-dgd", |_| true).await;
    world.delete(REQUEST, "r").await;
    world.until_gone(REQUEST, "r").await;
    // Nobody collects what has lost its owner here: the Job and its output are still there.
    let second = world.create(REQUEST, request("r")).await;
    let waits = |one: &Value| {
        conditions::find(&one["status"], "Profiling")
            .is_some_and(|condition| condition["reason"] == "WaitingForJobName")
    };
    world.until(REQUEST, "r", waits).await;
    let job = world.get(JOB, "profile-r").await.expect("it is there");
    let at_once = Deletion { propagation: Some(Propagation::Background), ..Deletion::default() };
    let requests = world.context.requests("test", Default::default());
    requests.delete(&Target::of(JOB, &job), &at_once).await.expect("deleted");
    let is_its = |job: &Value| job["metadata"]["ownerReferences"][0]["uid"] == *second.uid;
    world.until(JOB, "profile-r", is_its).await;
    world.until_gone(CONFIG_MAP, "dgdr-output-r").await;
    world.until(REQUEST, "r", is_in("Profiling")).await;
    // Nor is the graph of the first taken for its own.
    world.create(CONFIG_MAP, output("r")).await;
    set_status(&world.context, JOB, "profile-r", completed()).await;
    let is_taken = |one: &Value| {
        conditions::find(&one["status"], "DeploymentReady").is_some_and(|condition| {
            text(&condition["message"]).contains("was not made for this DGDR")
        })
    };
    world.until(REQUEST, "r", is_taken).await;
    world.delete(GRAPH, "r-dgd").await;
    let made = world
        .until(GRAPH, "r-dgd", |one| one["metadata"]["annotations"][request::UID] == *second.uid);
    made.await;
}

#[tokio::test]
async fn a_request_whose_measuring_fails_says_why() {
    let world = world().await;
    world.create(REQUEST, request("r")).await;
    world.until(REQUEST, "r", is_in("Profiling")).await;
    let mut failed = output("r");
    failed["data"] = json!({"phase": "SweepingDecode", "profiler_status": "failed",
        "profiler_error": "out of memory"});
    world.create(CONFIG_MAP, failed).await;
    let failed = world.until(REQUEST, "r", is_in("Failed")).await;
    let end = conditions::find(&failed.value["status"], "Succeeded").expect("the end");
    assert_eq!(end["reason"], "SweepingDecodeFailed");
    assert_eq!(end["message"], "Profiling failed: profiling failed: out of memory");
    let mut bad = request("bad");
    bad["spec"]["modelCache"] = json!({"pvcName": "nothing"});
    world.create(REQUEST, bad).await;
    let bad = world.until(REQUEST, "bad", is_in("Failed")).await;
    let end = conditions::find(&bad.value["status"], "Succeeded").expect("the end");
    assert_eq!(end["reason"], "ValidationFailed");
}

/// Plays profilers that succeed and graphs that serve. Never returns.
async fn play(context: Context) {
    let (jobs, graphs) = (context.cache(JOB), context.cache(GRAPH));
    loop {
        let seen = (jobs.seen(), graphs.seen());
        let requests = context.requests("play", Default::default());
        for job in jobs.all() {
            if conditions::is_true(&job.value["status"], "Complete") {
                continue;
            }
            let of = job.name.name.trim_start_matches("profile-");
            let _ = requests.create(CONFIG_MAP, &output(of)).await;
            let target = Target::of(JOB, &job).part("status");
            let _ = requests.patch(&target, &json!({"status": completed()})).await;
        }
        for graph in graphs.all() {
            if graph.value["status"]["state"] != "successful" {
                let target = Target::of(GRAPH, &graph).part("status");
                let serves = json!({"status": {"state": "successful"}});
                let _ = requests.patch(&target, &serves).await;
            }
        }
        tokio::select! {
            () = jobs.reaches(seen.0 + 1) => {}
            () = graphs.reaches(seen.1 + 1) => {}
        }
    }
}

/// Of one request at most one graph is ever made.
fn one_graph(case: &Case<'_>) -> Vec<Violation> {
    let graphs =
        case.run.history.iter().filter(|change| {
            change.key.contains("dynamographdeployments/") && change.old.is_none()
        });
    match graphs.count() {
        0 | 1 => Vec::new(),
        many => vec![Violation::new("DY-7", format!("{many} graphs of one request"))],
    }
}

type Workload = fn(Arc<Cluster>, Context) -> Pin<Box<dyn Future<Output = ()> + Send>>;

#[test]
fn no_fault_makes_two_graphs_of_one_request() {
    let workload: Workload = |cluster, _| {
        Box::pin(async move {
            static ALL: LazyLock<Vec<Value>> = LazyLock::new(|| {
                let enabled = Enabled { dynamo: true, leader_worker_set: false };
                [definitions(), manifests::roles(enabled)].concat()
            });
            cluster.install_all(&[], &ALL).await;
            cluster.create(REQUEST, request("r")).await;
        })
    };
    let trial = Trial {
        name: "system:serviceaccount:dynamo-system:dynamo-operator-controller-manager/request",
        seed: 1,
        component: |context| {
            let controller = request::Controller::new(Arc::new(Settings::default()));
            Box::pin(run::run(context, controller))
        },
        workload,
        play: |context| Box::pin(play(context)),
    };
    let oracles = &[one_graph as testkit::oracle::Check];
    let plans = simulation::try_with(trial, Also { oracles, samples_max: 40, ..Also::default() });
    println!("{plans} plans");
    assert!(plans > 30, "{plans}");
}
