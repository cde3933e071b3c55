//! JobSets from their first moment to their end: rows 59 to 65 of the feature table. That pods
//! find each other by name is shown by the tests of the program.

use serde_json::{Value, json};
use testkit::cluster::until;
use training::kinds::{JOB, JOB_SET, PERSISTENT_VOLUME_CLAIM, SERVICE};
use training::value::text;

use crate::world::{POD, World};

fn replicated(name: &str, annotations: Value, more: Value) -> Value {
    let mut job = json!({"name": name, "replicas": 1, "template": {"spec": {"backoffLimit": 0,
        "parallelism": 1, "completions": 1, "template": {
            "metadata": {"annotations": annotations},
            "spec": {"restartPolicy": "Never",
                "containers": [{"name": "c", "image": "i"}]}}}}});
    reconcile::plan::merge(&mut job, &more);
    job
}

fn set(name: &str, jobs: Vec<Value>, more: Value) -> Value {
    let mut spec = json!({"replicatedJobs": jobs});
    reconcile::plan::merge(&mut spec, &more);
    json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"namespace": "default", "name": name}, "spec": spec})
}

fn ends(how: &str) -> Value {
    json!({"play/ends": how})
}

#[tokio::test]
async fn a_set_has_a_service_and_jobs_with_marks() {
    let world = World::start().await;
    let jobs = vec![replicated("a", json!({}), json!({"replicas": 2}))];
    let made = world.create(JOB_SET, set("s", jobs, json!({}))).await;
    let service = world.until(SERVICE, "s", |_| true).await;
    assert_eq!(service.value["spec"]["clusterIP"], "None");
    assert_eq!(service.value["spec"]["publishNotReadyAddresses"], true);
    assert_eq!(service.controller(), Some(made.uid.as_str()));
    let all = |pods: &[std::sync::Arc<reconcile::Object>]| pods.len() == 2;
    until(&world.context, POD, all).await;
    let pods = world.context.cache(POD).all();
    let pod = pods.iter().find(|pod| pod.meta("name").starts_with("s-a-1-0-")).expect("a pod");
    assert_eq!(pod.value["spec"]["hostname"], "s-a-1-0");
    assert_eq!(pod.value["spec"]["subdomain"], "s");
    for (label, value) in [
        ("jobset.sigs.k8s.io/jobset-name", "s"),
        ("jobset.sigs.k8s.io/replicatedjob-name", "a"),
        ("jobset.sigs.k8s.io/job-index", "1"),
        ("jobset.sigs.k8s.io/restart-attempt", "0"),
        ("batch.kubernetes.io/job-completion-index", "0"),
    ] {
        assert_eq!(
            (pod.label(label), pod.annotation(label)),
            (Some(value), Some(value)),
            "{label}"
        );
    }
    world.delete(SERVICE, "s").await;
    let old = service.uid.clone();
    world.until(SERVICE, "s", |service| service["metadata"]["uid"] != old.as_str()).await;
}

#[tokio::test]
async fn jobs_wait_for_those_they_depend_on() {
    let world = World::start().await;
    let on = json!({"dependsOn": [{"name": "first", "status": "Complete"}]});
    let slow = json!({"play/ends": "Succeeded", "play/ends-after": "1"});
    let jobs =
        vec![replicated("first", slow, json!({})), replicated("second", ends("Succeeded"), on)];
    world.create(JOB_SET, set("s", jobs, json!({}))).await;
    let second = world.until(JOB, "s-second-0", |_| true).await;
    let first = world.get(JOB, "s-first-0").await.expect("the first");
    assert!(first.value["status"]["succeeded"] == 1, "{second:?} was too early");
    world.until_set("s", "Completed").await;
}

#[tokio::test]
async fn what_is_left_when_a_set_succeeds_goes() {
    let world = World::start().await;
    let jobs = vec![
        replicated("runs", json!({}), json!({})),
        replicated("ends", ends("Succeeded"), json!({})),
    ];
    let any = json!({"successPolicy": {"operator": "Any"}});
    world.create(JOB_SET, set("s", jobs, any)).await;
    let done = world.until_set("s", "Completed").await;
    assert_eq!(done.value["status"]["terminalState"], "Completed");
    world.until_gone(JOB, "s-runs-0").await;
    assert!(world.get(JOB, "s-ends-0").await.is_some());
}

#[tokio::test]
async fn a_set_begins_again_as_often_as_it_may() {
    let world = World::start().await;
    let jobs = || {
        vec![replicated("bad", ends("Failed"), json!({})), replicated("good", json!({}), json!({}))]
    };
    let twice = json!({"failurePolicy": {"maxRestarts": 2}});
    world.create(JOB_SET, set("s", jobs(), twice)).await;
    let failed = world.until_set("s", "Failed").await;
    let condition = failed.value["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let failure = condition.iter().find(|one| one["type"] == "Failed").expect("a condition");
    assert_eq!(failure["reason"], "ReachedMaxRestarts");
    assert_eq!(failed.value["status"]["restarts"], 2);
    assert_eq!(failed.value["status"]["terminalState"], "Failed");
    let bad = world.get(JOB, "s-bad-0").await.expect("the last attempt");
    assert_eq!(bad.label("jobset.sigs.k8s.io/restart-attempt"), Some("2"));
    world.until_gone(JOB, "s-good-0").await;
    until(&world.context, POD, |pods| {
        pods.iter().all(|pod| matches!(text(&pod.value["status"]["phase"]), "Failed" | "Succeeded"))
    })
    .await;
    // Without a policy the first failure is the last.
    world.create(JOB_SET, set("once", jobs(), json!({}))).await;
    let failed = world.until_set("once", "Failed").await;
    assert_eq!(failed.value["status"]["restarts"], 0);
}

#[tokio::test]
async fn a_set_that_may_begin_again_completes_when_it_need_not() {
    let world = World::start().await;
    let jobs = vec![replicated("a", json!({"play/ends": "Succeeded"}), json!({}))];
    let policy = json!({"failurePolicy": {"maxRestarts": 1, "rules": [
        {"name": "again", "action": "RestartJobSetAndIgnoreMaxRestarts",
            "onJobFailureReasons": ["BackoffLimitExceeded"]}]}});
    world.create(JOB_SET, set("s", jobs, policy)).await;
    world.until_set("s", "Completed").await;
}

#[tokio::test]
async fn a_set_that_failed_begins_again_and_completes() {
    let world = World::start().await;
    let fails = json!({"play/ends": "Succeeded", "play/fails-attempts": "2"});
    let jobs = vec![
        replicated("a", fails, json!({"replicas": 2})),
        replicated("b", json!({"play/ends": "Succeeded", "play/ends-after": "2"}), json!({})),
    ];
    let policy = json!({"failurePolicy": {"maxRestarts": 3}});
    world.create(JOB_SET, set("s", jobs, policy)).await;
    let done = world.until_set("s", "Completed").await;
    let status = &done.value["status"];
    assert_eq!((&status["restarts"], &status["restartsCountTowardsMax"]), (&json!(2), &json!(2)));
    assert_eq!(status["terminalState"], "Completed");
    let restarting = reconcile::conditions::find(status, "RestartingJobSet").expect("a condition");
    assert_eq!(restarting["status"], "False");
    for name in ["s-a-0", "s-a-1", "s-b-0"] {
        let job = world.get(JOB, name).await.expect("the last attempt");
        assert_eq!(job.label("jobset.sigs.k8s.io/restart-attempt"), Some("2"), "{name}");
    }
}

#[tokio::test]
async fn a_set_may_share_claims_and_keep_them() {
    let world = World::start().await;
    let mount = json!({"template": {"spec": {"template": {"spec": {"containers": [
        {"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"},
            {"name": "kept", "mountPath": "/k"}]}]}}}}});
    let claim = |name: &str| {
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}})
    };
    let policies = json!({"volumeClaimPolicies": [{"templates": [claim("data")]},
        {"templates": [claim("kept")], "retentionPolicy": {"whenDeleted": "Retain"}}]});
    let jobs = vec![replicated("a", json!({}), mount)];
    world.create(JOB_SET, set("s", jobs, policies)).await;
    let job = world.until(JOB, "s-a-0", |_| true).await;
    let volumes = job.value["spec"]["template"]["spec"]["volumes"].clone();
    let expected = json!([
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-s"}},
        {"name": "kept", "persistentVolumeClaim": {"claimName": "kept-s"}},
    ]);
    assert_eq!(volumes, expected);
    world.until(PERSISTENT_VOLUME_CLAIM, "kept-s", |_| true).await;
    world.delete(JOB_SET, "s").await;
    // A finalizer of the server protects it for as long as pods use it.
    let goes = |claim: &Value| claim["metadata"]["deletionTimestamp"].is_string();
    world.until(PERSISTENT_VOLUME_CLAIM, "data-s", goes).await;
    assert!(world.get(PERSISTENT_VOLUME_CLAIM, "kept-s").await.is_some());
    // What was kept is taken by who keeps it, and by nobody else.
    world.until_gone(JOB_SET, "s").await;
    let mount = json!({"template": {"spec": {"template": {"spec": {"containers": [
        {"name": "c", "image": "i", "volumeMounts": [{"name": "kept", "mountPath": "/k"}]}]}}}}});
    let again = |policy: &str| {
        let claims = json!({"volumeClaimPolicies": [{"templates": [claim("kept")],
            "retentionPolicy": {"whenDeleted": policy}}]});
        set("s", vec![replicated("a", json!({}), mount.clone())], claims)
    };
    let error = world.try_create(JOB_SET, again("Delete")).await.expect_err("refused");
    assert!(error.code() == Some(422) && error.said().contains("kept-s exists"), "{error:?}");
    world.create(JOB_SET, again("Retain")).await;
    world.until(JOB, "s-a-0", |_| true).await;
}

#[tokio::test]
async fn a_set_goes_some_time_after_its_end() {
    let world = World::start().await;
    let jobs = vec![replicated("a", ends("Succeeded"), json!({}))];
    world.create(JOB_SET, set("s", jobs, json!({"ttlSecondsAfterFinished": 1}))).await;
    world.until_set("s", "Completed").await;
    world.until_gone(JOB_SET, "s").await;
    world.until_gone(JOB, "s-a-0").await;
}

#[tokio::test]
async fn jobs_start_in_order_if_they_are_to() {
    let world = World::start().await;
    let slow = json!({"play/ready-after": "1"});
    let jobs = vec![replicated("a", slow, json!({})), replicated("b", json!({}), json!({}))];
    let order = json!({"startupPolicy": {"startupPolicyOrder": "InOrder"}});
    world.create(JOB_SET, set("s", jobs, order)).await;
    world.until(JOB, "s-b-0", |_| true).await;
    let set = world.get(JOB_SET, "s").await.expect("the set");
    let jobs = set.value["status"]["replicatedJobsStatus"].as_array().cloned().unwrap_or_default();
    let first = jobs.iter().find(|job| job["name"] == "a").expect("the first");
    assert_eq!(first["ready"], 1);
    world.until_set("s", "StartupPolicyCompleted").await;
    world.until_set("s", "StartupPolicyInProgress=False").await;
}

#[tokio::test]
async fn a_job_that_is_let_go_takes_what_changed_meanwhile() {
    let world = World::start().await;
    let jobs = vec![replicated("a", json!({}), json!({}))];
    world.create(JOB_SET, set("s", jobs, json!({}))).await;
    until(&world.context, POD, |pods| pods.len() == 1).await;
    world.patch(JOB_SET, "s", json!({"spec": {"suspend": true}})).await;
    world.until_set("s", "Suspended").await;
    until(&world.context, POD, |pods| pods.is_empty()).await;
    let set = world.get(JOB_SET, "s").await.expect("the set");
    let mut jobs = set.value["spec"]["replicatedJobs"].clone();
    let pod = &mut jobs[0]["template"]["spec"]["template"];
    pod["spec"]["nodeSelector"] = json!({"zone": "a"});
    pod["metadata"]["labels"] = json!({"mine": "1"});
    world.patch(JOB_SET, "s", json!({"spec": {"replicatedJobs": jobs}})).await;
    world.patch(JOB_SET, "s", json!({"spec": {"suspend": false}})).await;
    let placed = |pods: &[std::sync::Arc<reconcile::Object>]| {
        pods.iter().any(|pod| {
            pod.value["spec"]["nodeSelector"]["zone"] == "a" && pod.label("mine") == Some("1")
        })
    };
    until(&world.context, POD, placed).await;
    world.until_set("s", "Suspended=False").await;
}
