//! TrainJobs from their first moment to their end: rows 19 to 35 of the feature table.

use std::sync::Arc;

use reconcile::{Error, Name, Object};
use serde_json::{Value, json};
use testkit::cluster::until;
use training::kinds::{
    CLUSTER_TRAINING_RUNTIME, CONFIG_MAP, COSCHEDULING_GROUP, JOB, JOB_SET, LIMIT_RANGE,
    RUNTIME_CLASS, SECRET, TRAIN_JOB, TRAINING_RUNTIME,
};
use training::train_job::{Controller, Watcher};
use training::value::text;

use crate::world::{POD, World, has_condition, job, runtime};

const EVENT: reconcile::Kind = reconcile::Kind::namespaced("", "v1", "Event", "events");

fn ends(how: &str) -> Value {
    json!({"play/ends": how})
}

#[tokio::test]
async fn a_job_runs_and_completes_and_its_end_is_final() {
    let world = World::start().await;
    world.create(TRAINING_RUNTIME, runtime("own", ends("Succeeded"))).await;
    world.create(TRAIN_JOB, job("good", json!({"trainer": {"numNodes": 3}}))).await;
    let done = world.until_job("good", "Complete").await;
    let condition = &done.value["status"]["conditions"][0];
    assert_eq!(condition["reason"], "AllJobsCompleted");
    assert_eq!(condition["message"], "jobset completed successfully");
    let expected = json!([{"name": "node", "ready": 0, "succeeded": 1, "failed": 0, "active": 0,
        "suspended": 0}]);
    assert_eq!(done.value["status"]["jobsStatus"], expected);
    assert_eq!(done.value["status"]["conditions"].as_array().map(Vec::len), Some(1));
    // Its set may go; it does not come back.
    let before = world.get(TRAIN_JOB, "good").await.expect("the job");
    world.delete(JOB_SET, "good").await;
    world.until_gone(JOB_SET, "good").await;
    world.patch(TRAIN_JOB, "good", json!({"metadata": {"labels": {"touched": "1"}}})).await;
    world.until(TRAIN_JOB, "good", |job| job["metadata"]["labels"]["touched"] == "1").await;
    assert!(world.get(JOB_SET, "good").await.is_none());
    let after = world.get(TRAIN_JOB, "good").await.expect("the job");
    assert_eq!(after.value["status"], before.value["status"]);
}

#[tokio::test]
async fn a_failure_is_told_with_the_job_that_failed_first() {
    let world = World::start().await;
    world.create(TRAINING_RUNTIME, runtime("own", ends("Failed"))).await;
    world.create(TRAIN_JOB, job("bad", json!({}))).await;
    let failed = world.until_job("bad", "Failed").await;
    let condition = &failed.value["status"]["conditions"][0];
    assert_eq!(condition["reason"], "FailedJobs");
    let expected = "jobset failed due to one or more job failures (first failed job: bad-node-0)";
    assert_eq!(condition["message"], expected);
    let over =
        |pods: &[Arc<Object>]| pods.iter().all(|pod| pod.value["status"]["phase"] == "Failed");
    until(&world.context, POD, over).await;
}

#[tokio::test]
async fn a_job_is_held_and_goes_on_and_tells_so() {
    let world = World::start().await;
    world.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
    world.create(TRAIN_JOB, job("held", json!({"suspend": true}))).await;
    world.until_job("held", "Suspended").await;
    let set = world.until_set("held", "Suspended").await;
    assert_eq!(set.value["spec"]["suspend"], true);
    assert!(world.get(CONFIG_MAP, "held-runtime-snapshot").await.is_some());
    world.patch(TRAIN_JOB, "held", json!({"spec": {"suspend": false}})).await;
    let resumed = world.until_job("held", "Suspended=False").await;
    assert_eq!(resumed.value["status"]["conditions"][0]["reason"], "Resumed");
    let ready = |job: &Value| job["status"]["jobsStatus"][0]["ready"] == 1;
    world.until(TRAIN_JOB, "held", ready).await;
    world.patch(TRAIN_JOB, "held", json!({"spec": {"suspend": true}})).await;
    let held = |job: &Value| {
        job["status"]["jobsStatus"][0]["suspended"] == 1 && has_condition(job, "Suspended")
    };
    world.until(TRAIN_JOB, "held", held).await;
    until(&world.context, POD, |pods| pods.is_empty()).await;
    world.patch(TRAIN_JOB, "held", json!({"spec": {"suspend": false}})).await;
    world.until(TRAIN_JOB, "held", ready).await;
}

#[tokio::test]
async fn a_job_keeps_the_runtime_it_began_with() {
    let world = World::start().await;
    world.create(TRAINING_RUNTIME, runtime("own", json!({"play/ready-after": "0"}))).await;
    world.create(TRAIN_JOB, job("kept", json!({"suspend": true}))).await;
    let name = "kept-runtime-snapshot";
    let map = world.until(CONFIG_MAP, name, |_| true).await;
    let owner = &map.value["metadata"]["ownerReferences"][0];
    assert_eq!((text(&owner["kind"]), text(&owner["name"])), ("TrainJob", "kept"));
    let kept = text(&map.value["data"]["runtime"]).to_owned();
    assert!(kept.contains("kind: TrainingRuntime") && kept.contains("name: own"), "{kept}");
    let image = |image: &str| {
        let mut changed = runtime("own", json!({}))["spec"].clone();
        let job = &mut changed["template"]["spec"]["replicatedJobs"][0]["template"];
        job["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
        json!({"spec": changed})
    };
    world.patch(TRAINING_RUNTIME, "own", image("new")).await;
    world.patch(TRAIN_JOB, "kept", json!({"spec": {"suspend": false}})).await;
    world.until(JOB_SET, "kept", |set| set["spec"]["suspend"] == false).await;
    let set = world.get(JOB_SET, "kept").await.expect("the set");
    let place = "/spec/replicatedJobs/0/template/spec/template/spec/containers/0/image";
    assert_eq!(set.value.pointer(place), Some(&json!("i")));
    // Removed by hand, a new one is taken; with the job, all goes.
    world.delete(CONFIG_MAP, name).await;
    let old = map.uid.clone();
    let renewed = world.until(CONFIG_MAP, name, |map| map["metadata"]["uid"] != old.as_str()).await;
    assert!(text(&renewed.value["data"]["runtime"]).contains("image: new"));
    world.delete(TRAIN_JOB, "kept").await;
    for (kind, name) in [(CONFIG_MAP, name), (JOB_SET, "kept"), (JOB, "kept-node-0")] {
        world.until_gone(kind, name).await;
    }
}

#[tokio::test]
async fn what_another_made_stands_in_the_way_and_is_told() {
    let world = World::start().await;
    world.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
    let map = json!({"metadata": {"namespace": "default", "name": "late-runtime-snapshot"},
        "data": {"runtime": "{}"}});
    world.create(CONFIG_MAP, map).await;
    world.create(TRAIN_JOB, job("late", json!({}))).await;
    let told = |event: &Arc<Object>| {
        event.value["reason"] == "TrainJobResourcesCreationFailed"
            && text(&event.value["message"]).contains("is owned by another object")
            && event.value["firstTimestamp"].is_string()
    };
    until(&world.context, EVENT, |events| events.iter().any(told)).await;
    assert!(world.get(JOB_SET, "late").await.is_none());
    world.delete(CONFIG_MAP, "late-runtime-snapshot").await;
    world.until(JOB_SET, "late", |_| true).await;
}

#[tokio::test]
async fn a_set_or_a_key_of_another_is_not_used_and_the_job_goes_on_without_it() {
    let world = World::start().await;
    world.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
    let set = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"namespace": "default", "name": "plain"}, "spec": {"suspend": true,
        "replicatedJobs": [{"name": "a", "template": {"spec": {"template": {"spec":
            {"containers": [{"name": "c", "image": "i"}]}}}}}]}});
    let key = json!({"metadata": {"namespace": "default", "name": "mpi-mpi-ssh-auth"},
        "stringData": {"ssh-privatekey": "theirs", "ssh-publickey": "theirs"}});
    let foreign = world.create(JOB_SET, set).await.uid;
    world.create(SECRET, key).await;
    let mpi = json!({"runtimeRef": {"name": "mpi-local", "kind": "ClusterTrainingRuntime"}});
    world.create(TRAIN_JOB, job("plain", json!({}))).await;
    world.create(TRAIN_JOB, job("mpi", mpi)).await;
    for of in ["plain", "mpi"] {
        let told = |event: &Arc<Object>| {
            event.value["involvedObject"]["name"] == of
                && text(&event.value["message"]).contains("belongs to another owner")
        };
        until(&world.context, EVENT, |events| events.iter().any(told)).await;
    }
    assert!(world.get(JOB_SET, "mpi").await.is_none());
    world.delete(JOB_SET, "plain").await;
    let is_own = |set: &Value| set["metadata"]["uid"] != foreign.as_str();
    world.until(JOB_SET, "plain", is_own).await;
    world.delete(SECRET, "mpi-mpi-ssh-auth").await;
    world.until(JOB_SET, "mpi", |_| true).await;
    let key = world.get(SECRET, "mpi-mpi-ssh-auth").await.expect("a key");
    assert_eq!(key.value["type"], "kubernetes.io/ssh-auth");
}

#[tokio::test]
async fn the_set_belongs_to_the_trainer_and_is_left_alone_while_it_runs() {
    let world = World::start().await;
    world.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
    world.create(TRAIN_JOB, job("runs", json!({}))).await;
    let ready = |job: &Value| job["status"]["jobsStatus"][0]["ready"] == 1;
    world.until(TRAIN_JOB, "runs", ready).await;
    let set = world.get(JOB_SET, "runs").await.expect("the set");
    let managers = set.value["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let own = managers.iter().find(|one| one["manager"] == "trainer").expect("its manager");
    assert_eq!(own["operation"], "Apply");
    assert_eq!(set.value["metadata"]["generation"], 1);
    let label = json!({"metadata": {"labels": {"mine": "1"}}});
    world.patch(JOB_SET, "runs", label.clone()).await;
    world.patch(TRAIN_JOB, "runs", label).await;
    // A job that comes after both was looked at after both.
    world.create(TRAIN_JOB, job("after", json!({"suspend": true}))).await;
    world.until_set("after", "Suspended").await;
    let set = world.get(JOB_SET, "runs").await.expect("the set");
    assert_eq!(set.value["metadata"]["labels"]["mine"], "1");
    assert_eq!(set.value["metadata"]["generation"], 1);
}

#[tokio::test]
async fn a_job_of_another_manager_is_never_touched() {
    let world = World::start().await;
    world.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
    let theirs = json!({"managedBy": "kueue.x-k8s.io/multikueue"});
    let made = world.create(TRAIN_JOB, job("theirs", theirs)).await;
    world.create(TRAIN_JOB, job("ours", json!({}))).await;
    world.until(JOB_SET, "ours", |_| true).await;
    let same = world.get(TRAIN_JOB, "theirs").await.expect("the job");
    assert_eq!(same.revision, made.revision);
    assert!(world.get(JOB_SET, "theirs").await.is_none());
    assert!(world.get(CONFIG_MAP, "theirs-runtime-snapshot").await.is_none());
}

#[tokio::test]
async fn a_job_whose_time_is_over_fails_for_good() {
    let world = World::start().await;
    world.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
    let limit = json!({"activeDeadlineSeconds": 1});
    world.create(TRAIN_JOB, job("late", limit)).await;
    let failed = world.until_job("late", "Failed").await;
    assert_eq!(failed.value["status"]["conditions"][0]["reason"], "DeadlineExceeded");
    world.until_gone(JOB_SET, "late").await;
    until(&world.context, POD, |pods| pods.is_empty()).await;
    world.patch(TRAIN_JOB, "late", json!({"metadata": {"labels": {"a": "b"}}})).await;
    let held = json!({"activeDeadlineSeconds": 1, "suspend": true});
    world.create(TRAIN_JOB, job("held", held)).await;
    world.until_job("held", "Suspended").await;
    let late = world.get(TRAIN_JOB, "late").await.expect("the job");
    assert!(has_condition(&late.value, "Failed"));
    // Resumed, its time begins.
    world.patch(TRAIN_JOB, "held", json!({"spec": {"suspend": false}})).await;
    world.until_job("held", "Failed").await;
}

#[tokio::test]
async fn a_job_goes_some_time_after_its_end_if_it_says_so() {
    let world = World::start().await;
    world.create(TRAINING_RUNTIME, runtime("own", ends("Succeeded"))).await;
    let mut short = job("short", json!({}));
    short["metadata"]["annotations"] =
        json!({"trainer.kubeflow.org/ttl-seconds-after-finished": "0"});
    world.create(TRAIN_JOB, short).await;
    world.until(JOB_SET, "short", |_| true).await;
    world.until_gone(TRAIN_JOB, "short").await;
    world.until_gone(JOB_SET, "short").await;
}

/// Tells what it is told.
#[derive(Debug)]
struct Listener(tokio::sync::mpsc::UnboundedSender<String>);

impl Watcher for Listener {
    fn changed(&self, old: Option<&Object>, new: Option<&Object>) {
        let is_held = |job: &Object| has_condition(&job.value, "Suspended");
        let of = |job: Option<&Object>| match job {
            None => "nothing",
            Some(job) if is_held(job) => "held",
            Some(_) => "there",
        };
        let _ = self.0.send(format!("{} to {}", of(old), of(new)));
    }
}

/// Tells which looks ended.
#[derive(Debug)]
struct Counter(tokio::sync::mpsc::UnboundedSender<(String, bool)>);

impl Watcher for Counter {
    fn reconciled(&self, job: &Name, result: Result<(), &Error>) {
        let _ = self.0.send((job.to_string(), result.is_ok()));
    }
}

#[tokio::test]
async fn watchers_are_told_of_every_look_that_has_ended() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let watchers: Vec<Arc<dyn Watcher>> = vec![Arc::new(Counter(tell))];
    let options = training::Options { watchers, ..training::Options::default() };
    let world = World::start_with(Controller::new(&options)).await;
    // There is nothing to report of it, and it was looked at.
    let theirs = json!({"managedBy": "kueue.x-k8s.io/multikueue"});
    world.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
    world.create(TRAIN_JOB, job("theirs", theirs)).await;
    assert_eq!(told.recv().await, Some(("default/theirs".to_owned(), true)));
}

#[tokio::test]
async fn watchers_are_told_how_jobs_change() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let watchers: Vec<Arc<dyn Watcher>> = vec![Arc::new(Listener(tell))];
    let options = training::Options { watchers, ..training::Options::default() };
    let world = World::start_with(Controller::new(&options)).await;
    world.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
    world.create(TRAIN_JOB, job("seen", json!({"suspend": true}))).await;
    assert_eq!(told.recv().await.as_deref(), Some("nothing to there"));
    // A reconcile that has reported.
    assert_eq!(told.recv().await.as_deref(), Some("there to held"));
    world.delete(TRAIN_JOB, "seen").await;
    assert_eq!(told.recv().await.as_deref(), Some("held to nothing"));
}

#[tokio::test]
async fn nothing_is_written_when_nothing_changed() {
    let world = World::start().await;
    world.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
    world.create(TRAIN_JOB, job("still", json!({}))).await;
    let ready = |job: &Value| job["status"]["jobsStatus"][0]["ready"] == 1;
    let before = world.until(TRAIN_JOB, "still", ready).await;
    let note = json!({"metadata": {"annotations": {"a": "b"}}});
    world.patch(JOB, "still-node-0", note).await;
    world.create(TRAIN_JOB, job("after", json!({"suspend": true}))).await;
    world.until_set("after", "Suspended").await;
    let after = world.get(TRAIN_JOB, "still").await.expect("the job");
    assert_eq!(after.revision, before.revision);
}

#[tokio::test]
async fn a_runtime_may_go_while_it_is_used_and_an_old_one_is_warned_of() {
    let world = World::start().await;
    let mut old = runtime("own", json!({}));
    old["metadata"]["finalizers"] = json!(["trainer.kubeflow.org/resource-in-use"]);
    old["metadata"]["labels"] = json!({"trainer.kubeflow.org/support": "deprecated"});
    world.create(TRAINING_RUNTIME, old).await;
    world.until(TRAINING_RUNTIME, "own", |one| one["metadata"]["finalizers"].is_null()).await;
    let told = |event: &Arc<Object>| {
        event.value["reason"] == "Deprecated"
            && event.value["message"] == "This runtime is deprecated"
            && event.value["involvedObject"]["kind"] == "TrainingRuntime"
    };
    until(&world.context, EVENT, |events| events.iter().any(told)).await;
    world.create(TRAIN_JOB, job("uses", json!({}))).await;
    world.until(JOB_SET, "uses", |_| true).await;
    world.delete(TRAINING_RUNTIME, "own").await;
    world.until_gone(TRAINING_RUNTIME, "own").await;
    let ready = |job: &Value| job["status"]["jobsStatus"][0]["ready"] == 1;
    world.until(TRAIN_JOB, "uses", ready).await;
}

#[tokio::test]
async fn a_gang_that_is_held_follows_what_its_pods_will_request() {
    let world = World::start().await;
    let mut gang = runtime("own", json!({}));
    gang["spec"]["podGroupPolicy"] = json!({"coscheduling": {}});
    let job_of = &mut gang["spec"]["template"]["spec"]["replicatedJobs"][0]["template"];
    job_of["spec"]["template"]["spec"]["runtimeClassName"] = json!("vm");
    let class = |memory: &str| {
        json!({"metadata": {"name": "vm"}, "handler": "vm",
            "overhead": {"podFixed": {"memory": memory}}})
    };
    world.create(TRAINING_RUNTIME, gang).await;
    let held = json!({"suspend": true, "trainer": {"numNodes": 2}});
    world.create(TRAIN_JOB, job("held", held)).await;
    let resources =
        |expected: Value| move |group: &Value| group["spec"]["minResources"] == expected;
    world.until(COSCHEDULING_GROUP, "held", resources(json!({}))).await;
    world.create(RUNTIME_CLASS, class("64Mi")).await;
    world.until(COSCHEDULING_GROUP, "held", resources(json!({"memory": "128Mi"}))).await;
    let range = json!({"metadata": {"namespace": "default", "name": "range"}, "spec": {"limits": [
        {"type": "Container", "defaultRequest": {"cpu": "2"}}]}});
    world.create(LIMIT_RANGE, range).await;
    let both = json!({"cpu": "4", "memory": "128Mi"});
    world.until(COSCHEDULING_GROUP, "held", resources(both.clone())).await;
    // The gang of a job that runs stays.
    world.patch(TRAIN_JOB, "held", json!({"spec": {"suspend": false}})).await;
    world.until(JOB_SET, "held", |set| set["spec"]["suspend"] == false).await;
    world.delete(LIMIT_RANGE, "range").await;
    world.create(TRAIN_JOB, job("after", json!({"suspend": true}))).await;
    world.until(COSCHEDULING_GROUP, "after", |_| true).await;
    let group = world.get(COSCHEDULING_GROUP, "held").await.expect("its gang");
    assert_eq!(group.value["spec"]["minResources"], both);
}

#[tokio::test]
async fn an_mpi_job_starts_its_launcher_last_and_ends_with_it() {
    let world = World::start().await;
    let found = world.get(CLUSTER_TRAINING_RUNTIME, "mpi-local").await.expect("the runtime");
    let mut mpi = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime",
        "metadata": {"namespace": "default", "name": "own"}, "spec": found.value["spec"]});
    let jobs = &mut mpi["spec"]["template"]["spec"]["replicatedJobs"];
    jobs[0]["template"]["spec"]["template"]["metadata"] =
        json!({"annotations": {"play/ready-after": "1"}});
    jobs[1]["template"]["spec"]["template"]["metadata"] = json!({"annotations": ends("Succeeded")});
    mpi["spec"]["podGroupPolicy"] = json!({"coscheduling": {}});
    world.create(TRAINING_RUNTIME, mpi).await;
    world.create(TRAIN_JOB, job("mpi", json!({"trainer": {"numNodes": 3}}))).await;
    let launcher = world.until(JOB, "mpi-launcher-0", |_| true).await;
    let set = world.get(JOB_SET, "mpi").await.expect("the set");
    let node = &set.value["status"]["replicatedJobsStatus"][0];
    assert_eq!((&node["name"], &node["ready"]), (&json!("node"), &json!(1)), "{launcher:?}");
    let secret = world.get(SECRET, "mpi-mpi-ssh-auth").await.expect("a secret");
    assert_eq!(secret.value["type"], "kubernetes.io/ssh-auth");
    assert_eq!(secret.value["immutable"], true);
    let hosts = world.get(CONFIG_MAP, "mpi-mpi-hostfile").await.expect("a map");
    let expected = "mpi-node-0-0.mpi slots=1\nmpi-node-0-1.mpi slots=1\n\
                    mpi-launcher-0-0.mpi slots=1\n";
    assert_eq!(hosts.value["data"]["hostfile"], expected);
    let group = world.get(COSCHEDULING_GROUP, "mpi").await.expect("a group");
    assert_eq!(group.value["spec"]["minMember"], 2);
    world.until_job("mpi", "Complete").await;
    world.until_gone(JOB, "mpi-node-0").await;
    world.delete(TRAIN_JOB, "mpi").await;
    for (kind, name) in [
        (SECRET, "mpi-mpi-ssh-auth"),
        (CONFIG_MAP, "mpi-mpi-hostfile"),
        (COSCHEDULING_GROUP, "mpi"),
        (JOB_SET, "mpi"),
    ] {
        world.until_gone(kind, name).await;
    }
}
