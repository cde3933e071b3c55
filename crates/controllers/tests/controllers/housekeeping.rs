//! The controllers that keep the house: finished Jobs, pods of nobody, budgets, and what every
//! namespace has.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use controllers::kinds::{
    CONFIG_MAP, DISRUPTION_BUDGET, JOB, NAMESPACE, NODE, POD, REPLICA_SET, SERVICE_ACCOUNT,
};
use controllers::{disruption, pod_garbage, root_ca, service_account, ttl_after_finished};
use reconcile::plan::{Deletion, Target};
use reconcile::{Context, Kind, Object, run};
use serde_json::{Value, json};
use testkit::cluster::until;
use testkit::simulation::{self, Trial};
use testkit::{Cluster, pods};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

fn trial(
    name: &'static str,
    component: fn(Context) -> Task,
    workload: fn(Arc<Cluster>, Context) -> Task,
) -> Trial {
    Trial { name, seed: 1, component, workload, play: |_| Box::pin(std::future::pending()) }
}

fn of(kind: Kind, namespace: &str, name: &str) -> Value {
    json!({"apiVersion": kind.api_version(), "kind": kind.kind,
        "metadata": {"namespace": namespace, "name": name}})
}

fn pod(name: &str, node: Option<&str>) -> Value {
    let mut pod = of(POD, "default", name);
    pod["metadata"]["labels"] = json!({"app": "web"});
    pod["spec"] = json!({"nodeName": node, "containers": [{"name": "c", "image": "i"}]});
    pod
}

async fn set_status(context: &Context, kind: Kind, object: &Object, status: Value) {
    let requests = context.requests("test", Default::default());
    let target = Target::of(kind, object).part("status");
    requests.patch(&target, &json!({"status": status})).await.expect("a status");
}

async fn delete(context: &Context, kind: Kind, object: &Object) {
    let requests = context.requests("test", Default::default());
    requests.delete(&Target::of(kind, object), &Deletion::default()).await.expect("deleted");
}

async fn namespaces(cluster: Arc<Cluster>, context: Context, kind: Kind, name: &str) {
    cluster.create(NAMESPACE, of(NAMESPACE, "", "fresh")).await;
    // Longer than anything is refused.
    tokio::time::sleep(Duration::from_secs(1_800)).await;
    // What is taken away comes back.
    let cache = context.cache(kind);
    cache.reaches(1).await;
    let found = cache.get(&reconcile::Name::new("fresh", name)).expect("it was made");
    delete(&context, kind, &found).await;
}

#[test]
fn every_namespace_has_an_account_whatever_happens() {
    let trial = trial(
        "service-account-controller",
        |context| Box::pin(run::run(context, service_account::Controller)),
        |cluster, context| Box::pin(namespaces(cluster, context, SERVICE_ACCOUNT, "default")),
    );
    let end = simulation::run(trial, trial.seed, Vec::new());
    assert!(end.objects.contains_key("serviceaccounts/fresh/default"));
    assert!(simulation::try_everything(trial) >= 20);
}

#[test]
fn every_namespace_has_the_certificate_whatever_happens() {
    let trial = trial(
        "root-ca-cert-publisher",
        |context| Box::pin(run::run(context, root_ca::Controller { authority_pem: "PEM".into() })),
        |cluster, context| Box::pin(namespaces(cluster, context, CONFIG_MAP, "kube-root-ca.crt")),
    );
    let end = simulation::run(trial, trial.seed, Vec::new());
    assert_eq!(end.objects["configmaps/fresh/kube-root-ca.crt"]["data"], json!({"ca.crt": "PEM"}));
    assert!(simulation::try_everything(trial) >= 20);
}

#[test]
fn a_finished_job_goes_whatever_happens() {
    let trial = trial(
        "ttl-after-finished-controller",
        |context| Box::pin(run::run(context, ttl_after_finished::Controller)),
        |cluster, context| {
            Box::pin(async move {
                let mut job = of(JOB, "default", "j");
                job["spec"] = json!({"ttlSecondsAfterFinished": 60, "template": {"spec": {
                    "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
                let job = cluster.create(JOB, job).await;
                let now = reconcile::conditions::time(context.environment.now());
                let condition =
                    |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now});
                let conditions = [condition("SuccessCriteriaMet"), condition("Complete")];
                let status = json!({"startTime": now, "completionTime": now,
                    "conditions": conditions});
                set_status(&context, JOB, &job, status).await;
            })
        },
    );
    let end = simulation::run(trial, trial.seed, Vec::new());
    // The garbage collector, which would take the finalizer away, does not run here.
    let job = &end.objects["jobs/default/j"];
    assert_eq!(job["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert!(simulation::try_everything(trial) >= 10);
}

#[test]
fn pods_of_nobody_go_whatever_happens() {
    let trial = trial(
        pod_garbage::NAME,
        |context| Box::pin(pod_garbage::run(context, 1)),
        |cluster, context| {
            Box::pin(async move {
                let node = cluster.create(NODE, of(NODE, "", "n")).await;
                cluster.create(POD, pod("lost", Some("n"))).await;
                for name in ["old", "older"] {
                    let made = cluster.create(POD, pod(name, None)).await;
                    set_status(&context, POD, &made, json!({"phase": "Succeeded"})).await;
                }
                let mut held = pod("held", None);
                held["metadata"]["finalizers"] = json!(["example.com/hold"]);
                let held = cluster.create(POD, held).await;
                delete(&context, POD, &held).await;
                tokio::time::sleep(Duration::from_secs(60)).await;
                delete(&context, NODE, &node).await;
            })
        },
    );
    let end = simulation::run(trial, trial.seed, Vec::new());
    let left: Vec<_> = end.objects.keys().filter(|key| key.starts_with("pods/")).collect();
    assert_eq!(left, ["pods/default/held", "pods/default/older"]);
    assert_eq!(end.objects["pods/default/held"]["status"]["phase"], "Failed");
    assert!(simulation::try_everything(trial) >= 30);
}

fn budgeted(context: &Context) -> Value {
    let budget = context.cache(DISRUPTION_BUDGET).all();
    budget.first().map(|budget| budget.value["status"].clone()).unwrap_or_default()
}

#[tokio::test]
async fn a_budget_follows_its_pods_and_refuses_what_it_cannot_spare() {
    let mut cluster = Cluster::start().await;
    let context = cluster.context();
    cluster.run(disruption::run(context.clone()));
    cluster.run(pods::play(context.clone()));
    let mut set = of(REPLICA_SET, "default", "web");
    set["spec"] = json!({"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template":
        {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}});
    let set = cluster.create(REPLICA_SET, set).await;
    let mut budget = of(DISRUPTION_BUDGET, "default", "web");
    budget["spec"] = json!({"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}});
    cluster.create(DISRUPTION_BUDGET, budget).await;
    for name in ["x", "y", "z"] {
        let mut pod = pod(name, Some("n"));
        pod["metadata"]["ownerReferences"] =
            json!([reconcile::owners::controller_reference(REPLICA_SET, &set)]);
        cluster.create(POD, pod).await;
    }
    until(&context, DISRUPTION_BUDGET, |_| {
        let status = budgeted(&context);
        status["expectedPods"] == 3
            && status["desiredHealthy"] == 2
            && status["currentHealthy"] == 3
            && status["disruptionsAllowed"] == 1
    })
    .await;
    let requests = context.requests("test", Default::default());
    let evict = |name: &str| {
        let body = json!({"apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"namespace": "default", "name": name}});
        let path = format!("/api/v1/namespaces/default/pods/{name}/eviction");
        let requests = requests.clone();
        async move { requests.post(&path, &body).await }
    };
    evict("x").await.expect("one can be spared");
    until(&context, POD, |pods| pods.len() == 2).await;
    until(&context, DISRUPTION_BUDGET, |_| {
        let status = budgeted(&context);
        status["currentHealthy"] == 2 && status["disruptedPods"].is_null()
    })
    .await;
    let error = evict("y").await.expect_err("no more can be spared");
    assert_eq!(error.code(), Some(429));
}

#[test]
fn a_budget_is_right_whatever_happens() {
    let trial = Trial {
        play: |context| Box::pin(pods::play(context)),
        ..trial(
            disruption::NAME,
            |context| Box::pin(disruption::run(context)),
            |cluster, context| {
                Box::pin(async move {
                    let mut budget = of(DISRUPTION_BUDGET, "default", "web");
                    budget["spec"] = json!({"minAvailable": 1,
                        "selector": {"matchLabels": {"app": "web"}}});
                    cluster.create(DISRUPTION_BUDGET, budget).await;
                    let first = cluster.create(POD, pod("x", None)).await;
                    cluster.create(POD, pod("y", None)).await;
                    tokio::time::sleep(Duration::from_secs(1_800)).await;
                    delete(&context, POD, &first).await;
                })
            },
        )
    };
    let end = simulation::run(trial, trial.seed, Vec::new());
    let budget = &end.objects["poddisruptionbudgets/default/web"];
    assert_eq!(budget["status"]["currentHealthy"], 1);
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert!(simulation::try_everything(trial) >= 30);
}
