//! Jobs in a cluster whose pods end as they are told.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use controllers::kinds::{JOB, NAMESPACE, POD};
use controllers::{job, namespace};
use reconcile::plan::{Deletion, Propagation, Target};
use reconcile::{Context, Object, conditions, run};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::cluster::until;
use testkit::simulation::{self, Trial};

/// How a pod ends: `succeed`, `fail` or, for the index in the text, `fail-index-0`.
const ENDS: &str = "test/ends";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Plays pods: they run, end, and go when they are deleted. Never returns.
async fn play(context: Context) {
    let cache = context.cache(POD);
    loop {
        let seen = cache.seen();
        for pod in cache.all() {
            play_one(&context, &pod).await;
        }
        cache.reaches(seen + 1).await;
    }
}

async fn play_one(context: &Context, pod: &Object) {
    let requests = context.requests("node", Default::default());
    let target = Target::of(POD, pod);
    if pod.is_terminating() {
        let now = Deletion { grace_seconds: Some(0), ..Deletion::default() };
        let _ = requests.delete(&target, &now).await;
        return;
    }
    let end = match pod.annotation(ENDS) {
        Some("succeed") => "Succeeded",
        Some("fail") => "Failed",
        Some("run") | None => "Running",
        Some(text) if text.strip_prefix("fail-index-") == pod.annotation(INDEX) => "Failed",
        Some(_) => "Succeeded",
    };
    let now = conditions::time(context.environment.now());
    let ready =
        |truth: &str| json!([{"type": "Ready", "status": truth, "lastTransitionTime": now}]);
    let status = match pod.value["status"]["phase"].as_str().unwrap_or_default() {
        "Pending" => json!({"phase": "Running", "conditions": ready("True")}),
        "Running" if end != "Running" => {
            let code = i32::from(end == "Failed");
            json!({"phase": end, "conditions": ready("False"), "containerStatuses": [
                {"name": "main", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                    "state": {"terminated": {"exitCode": code}}}]})
        }
        _ => return,
    };
    let _ = requests.patch(&target.part("status"), &json!({"status": status})).await;
}

fn job(name: &str, ends: &str, spec: Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"namespace": "default", "name": name},
        "spec": spec,
    });
    job["spec"]["template"] = json!({"metadata": {"annotations": {ENDS: ends}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]}});
    job
}

async fn ended(context: &Context, name: &str, condition: &str) -> Value {
    let find = |all: &[Arc<Object>]| {
        let job = all.iter().find(|one| &*one.name.name == name);
        job.map(|job| job.value["status"].clone())
    };
    until(context, JOB, |all| {
        find(all).is_some_and(|status| conditions::is_true(&status, condition))
    })
    .await;
    find(&context.cache(JOB).all()).expect("the job")
}

async fn start() -> (Cluster, Context) {
    let mut cluster = Cluster::start().await;
    let context = cluster.context();
    cluster.run(job::run(context.clone()));
    cluster.run(play(context.clone()));
    (cluster, context)
}

#[tokio::test]
async fn jobs_end_well_or_badly_and_every_pod_is_counted() {
    let (cluster, context) = start().await;
    let spec = json!({"completions": 7, "parallelism": 3});
    cluster.create(JOB, job("good", "succeed", spec)).await;
    let spec = json!({"completions": 2, "parallelism": 2, "backoffLimit": 1});
    cluster.create(JOB, job("bad", "fail", spec)).await;
    let spec = json!({"completions": 5, "parallelism": 2, "completionMode": "Indexed",
        "successPolicy": {"rules": [{"succeededIndexes": "1", "succeededCount": 1}]}});
    cluster.create(JOB, job("enough", "succeed", spec)).await;
    let spec = json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed",
        "backoffLimitPerIndex": 0});
    cluster.create(JOB, job("partly", "fail-index-1", spec)).await;

    let good = ended(&context, "good", "Complete").await;
    assert_eq!(good["succeeded"], 7);
    assert_eq!(good["uncountedTerminatedPods"], json!({}));
    assert!(good["completionTime"].is_string());
    let bad = ended(&context, "bad", "Failed").await;
    assert_eq!(bad["failed"], 2);
    let enough = ended(&context, "enough", "Complete").await;
    let complete = conditions::find(&enough, "Complete").expect("complete");
    assert_eq!(complete["reason"], "SuccessPolicy");
    assert_eq!(complete["message"], "Matched rules at index 0");
    let partly = ended(&context, "partly", "Failed").await;
    assert_eq!(partly["completedIndexes"], "0,2");
    assert_eq!(partly["failedIndexes"], "1");
    assert_eq!(partly["failed"], 1);
    until(&context, POD, |pods| pods.iter().all(|pod| pod.finalizers().next().is_none())).await;
}

#[tokio::test]
async fn a_job_is_suspended_resumed_and_cut_off() {
    let (cluster, context) = start().await;
    let spec = json!({"completions": 2, "parallelism": 2, "suspend": true});
    let made = cluster.create(JOB, job("held", "run", spec)).await;
    ended(&context, "held", "Suspended").await;
    assert!(context.cache(POD).is_empty());
    let requests = context.requests("test", Default::default());
    let target = Target::of(JOB, &made);
    requests.patch(&target, &json!({"spec": {"suspend": false}})).await.expect("resumed");
    until(&context, JOB, |jobs| jobs[0].value["status"]["ready"] == 2).await;
    requests.patch(&target, &json!({"spec": {"suspend": true}})).await.expect("suspended");
    until(&context, POD, |pods| pods.is_empty()).await;
    let held = ended(&context, "held", "Suspended").await;
    assert!(held["failed"].is_null(), "{held}");
    let patch = json!({"spec": {"suspend": false, "activeDeadlineSeconds": 1}});
    requests.patch(&target, &patch).await.expect("resumed");
    let cut = ended(&context, "held", "Failed").await;
    let failed = conditions::find(&cut, "Failed").expect("failed");
    assert_eq!(failed["reason"], "DeadlineExceeded");
    assert_eq!(cut["failed"], 2);
}

#[tokio::test]
async fn two_jobs_that_select_the_same_pods_do_not_share_them() {
    let (cluster, context) = start().await;
    for name in ["one", "two"] {
        let spec = json!({"completions": 2, "parallelism": 2, "manualSelector": true,
            "selector": {"matchLabels": {"app": "same"}}});
        let mut job = job(name, "succeed", spec);
        job["spec"]["template"]["metadata"]["labels"] = json!({"app": "same"});
        cluster.create(JOB, job).await;
    }
    for name in ["one", "two"] {
        assert_eq!(ended(&context, name, "Complete").await["succeeded"], 2);
    }
    assert_eq!(context.cache(POD).len(), 4);
}

#[tokio::test]
async fn pods_of_a_job_that_is_gone_are_not_held() {
    let (cluster, context) = start().await;
    let spec = json!({"completions": 1, "parallelism": 1});
    let made = cluster.create(JOB, job("gone", "run", spec)).await;
    until(&context, POD, |pods| pods.len() == 1).await;
    let requests = context.requests("test", Default::default());
    let background = Deletion { propagation: Some(Propagation::Background), grace_seconds: None };
    requests.delete(&Target::of(JOB, &made), &background).await.expect("deleted");
    until(&context, POD, |pods| pods.iter().all(|pod| pod.finalizers().next().is_none())).await;
}

#[tokio::test]
async fn a_namespace_is_deleted_while_its_jobs_still_want_pods() {
    let (mut cluster, context) = start().await;
    cluster.run(run::run(context.clone(), namespace::Controller));
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}});
    let made = cluster.create(NAMESPACE, object).await;
    for (name, more) in [("plain", json!({})), ("indexed", json!({"backoffLimitPerIndex": 3}))] {
        let mut spec = json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed"});
        spec.as_object_mut().expect("an object").extend(more.as_object().cloned().unwrap());
        let mut job = job(name, "run", spec);
        job["metadata"]["namespace"] = json!("a");
        cluster.create(JOB, job).await;
    }
    let is_running = |pod: &Arc<Object>| pod.value["status"]["phase"] == "Running";
    until(&context, POD, |pods| pods.iter().filter(|pod| is_running(pod)).count() == 4).await;
    let requests = context.requests("test", Default::default());
    requests.delete(&Target::of(NAMESPACE, &made), &Deletion::default()).await.expect("deleted");
    until(&context, NAMESPACE, |all| all.iter().all(|one| &*one.name.name != "a")).await;
}

/// A trial of one job, from its first moment.
const fn trial(name: &'static str, workload: Workload) -> Trial {
    Trial {
        name,
        seed: 1,
        component: |context| Box::pin(job::run(context)),
        workload,
        play: |context| Box::pin(play(context)),
    }
}

type Workload = fn(Arc<Cluster>, Context) -> Pin<Box<dyn Future<Output = ()> + Send>>;

fn try_everything(trial: Trial, plans_min: usize) {
    let plans = simulation::try_everything(trial);
    println!("{plans} plans");
    assert!(plans > plans_min, "{plans}");
}

#[test]
fn no_fault_changes_how_a_job_succeeds() {
    let workload: Workload = |cluster, _| {
        Box::pin(async move {
            let spec = json!({"completions": 3, "parallelism": 2});
            cluster.create(JOB, job("good", "succeed", spec)).await;
        })
    };
    try_everything(trial("job-controller/success", workload), 50);
}

#[test]
fn no_fault_changes_how_a_job_fails() {
    let workload: Workload = |cluster, _| {
        Box::pin(async move {
            let spec = json!({"completions": 2, "parallelism": 1, "backoffLimit": 1});
            cluster.create(JOB, job("bad", "fail", spec)).await;
        })
    };
    try_everything(trial("job-controller/failure", workload), 50);
}

#[test]
fn no_fault_changes_how_indexes_fail() {
    let workload: Workload = |cluster, _| {
        Box::pin(async move {
            let spec = json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed",
                "backoffLimitPerIndex": 1});
            cluster.create(JOB, job("partly", "fail-index-1", spec)).await;
        })
    };
    try_everything(trial("job-controller/indexes", workload), 50);
}

#[test]
fn no_fault_changes_how_a_job_is_held_and_goes() {
    let workload: Workload = |cluster, context| {
        Box::pin(async move {
            let spec = json!({"completions": 2, "parallelism": 2});
            let held = cluster.create(JOB, job("held", "run", spec)).await;
            let requests = context.requests("test", Default::default());
            let target = Target::of(JOB, &held);
            for suspend in [true, false] {
                tokio::time::sleep(Duration::from_secs(1_800)).await;
                let patch = json!({"spec": {"suspend": suspend}});
                requests.patch(&target, &patch).await.expect("changed");
            }
            tokio::time::sleep(Duration::from_secs(1_800)).await;
            let options =
                Deletion { propagation: Some(Propagation::Background), grace_seconds: None };
            requests.delete(&target, &options).await.expect("deleted");
        })
    };
    try_everything(trial("job-controller/held", workload), 50);
}
