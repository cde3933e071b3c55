//! Plans of TrainJobs, as data: a job and what it has in; steps, status and notices out.

use std::time::Duration;

use reconcile::{CachedObject, Step};
use serde_json::{Value, json};

use super::*;
use crate::kinds::JOB_SET;
use crate::runtimes::{self, Choice};
use crate::value::{list, text};

fn job(spec: Value, status: Value) -> Object {
    let mut whole = json!({"runtimeRef": {"name": "torch-distributed",
        "kind": "ClusterTrainingRuntime", "apiGroup": "trainer.kubeflow.org"}});
    reconcile::plan::merge(&mut whole, &spec);
    Object::new(json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"namespace": "ns", "name": "tj", "uid": "u", "generation": 3,
            "creationTimestamp": "1970-01-01T00:00:00Z"},
        "spec": whole, "status": status}))
}

fn runtime() -> Value {
    runtimes::manifests(Choice::Shipped).remove(0)
}

fn set(spec: Value, status: Value, owner: &str) -> Arc<Object> {
    Arc::new(Object::new(json!({"metadata": {"namespace": "ns", "name": "tj", "uid": "set",
        "ownerReferences": [{"uid": owner, "controller": true}]}, "spec": spec,
        "status": status})))
}

fn seen(runtime: Runtime, set: Option<Arc<Object>>) -> Observed {
    let found = set.map(|set| ((JOB_SET, "tj".to_owned()), CachedObject::Full(set)));
    let found = found.into_iter().collect();
    let (fresh, surroundings) = Default::default();
    let (is_outdated, until_deadline, until_deletion) = (false, None, None);
    Observed { is_outdated, runtime, found, surroundings, fresh, until_deadline, until_deletion }
}

fn outcome(job: &Object, observed: &Observed) -> Vec<String> {
    let at = Timestamp::from_second(100).expect("a time");
    let plan = plan::plan(&Settings::default(), job, observed, at);
    let short = |step: &Step| match step {
        Step::Apply { kind, object } => {
            let held = if object["spec"]["suspend"] == true { " held" } else { "" };
            format!("apply {} {}{held}", kind.kind, text(&object["metadata"]["name"]))
        }
        Step::Delete { target, .. } => format!("delete {} {}", target.kind.kind, target.name.name),
        step => step.to_string(),
    };
    let mut all: Vec<String> = plan.steps.iter().map(short).collect();
    let status = plan.status.unwrap_or_default();
    for one in list(&status["conditions"]) {
        let field = |name: &str| text(&one[name]).to_owned();
        let (kind, truth, reason) = (field("type"), field("status"), field("reason"));
        let time = field("lastTransitionTime");
        all.push(format!("{kind}={truth} {reason} {} at {time}", one["observedGeneration"]));
    }
    for notice in &plan.notices {
        all.push(format!("{}: {}", notice.reason, notice.message));
    }
    if let reconcile::Wake::After(after) = plan.wake {
        all.push(format!("wake after {after:?}"));
    }
    all
}

#[test]
fn a_new_job_keeps_its_runtime_and_makes_its_set() {
    let both = ["apply ConfigMap tj-runtime-snapshot", "apply JobSet tj"];
    assert_eq!(outcome(&job(json!({}), json!({})), &seen(Runtime::Live(runtime()), None)), both);
    let held = job(json!({"suspend": true}), json!({}));
    let expected = [
        "apply ConfigMap tj-runtime-snapshot",
        "apply JobSet tj held",
        "Suspended=True Suspended 3 at 1970-01-01T00:01:40Z",
    ];
    assert_eq!(outcome(&held, &seen(Runtime::Live(runtime()), None)), expected);
    let kept = seen(Runtime::Kept(runtime()), None);
    assert_eq!(outcome(&job(json!({}), json!({})), &kept), ["apply JobSet tj"]);
    // A job that went makes nothing, whatever the cache shows.
    let outdated = Observed { is_outdated: true, ..kept };
    assert_eq!(outcome(&job(json!({}), json!({})), &outdated), [""; 0]);
}

#[test]
fn a_set_that_runs_is_not_touched() {
    let plain = job(json!({}), json!({}));
    let runs = || Some(set(json!({"suspend": false, "changed": "by hand"}), json!({}), "u"));
    assert_eq!(outcome(&plain, &seen(Runtime::Kept(runtime()), runs())), [""; 0]);
    // But it is held, and let go.
    let held = job(json!({"suspend": true}), json!({}));
    let stops = outcome(&held, &seen(Runtime::Kept(runtime()), runs()));
    assert_eq!(stops[0], "apply JobSet tj held");
    let status = json!({"conditions": [{"type": "Suspended", "status": "True"}]});
    let resumed = job(json!({"suspend": false}), status);
    let stopped = Some(set(json!({"suspend": true}), json!({}), "u"));
    let goes = outcome(&resumed, &seen(Runtime::Kept(runtime()), stopped));
    let expected = ["apply JobSet tj", "Suspended=False Resumed 3 at 1970-01-01T00:01:40Z"];
    assert_eq!(goes, expected);
}

#[test]
fn a_set_that_is_held_is_applied_only_if_it_differs() {
    let held = job(json!({"suspend": true}), json!({}));
    let blueprint =
        plugins::enforce(&Settings::default(), &TrainJob::of(&held), &runtime()["spec"]);
    let mut made = plugins::job_set::build(&TrainJob::of(&held), &blueprint.expect("a blueprint"));
    made["spec"]["network"] = json!({"enableDNSHostnames": true});
    let exists = |set: &Value| {
        let set = Some(Arc::new(Object::new(set.clone())));
        outcome(&held, &seen(Runtime::Kept(runtime()), set)).len()
    };
    assert_eq!(exists(&made), 1);
    let pod = "/spec/replicatedJobs/0/template/spec/template/spec";
    made.pointer_mut(pod).expect("a pod")["nodeSelector"] = json!({"left": "over"});
    assert_eq!(exists(&made), 2);
}

#[test]
fn a_set_or_snapshot_of_another_is_not_taken() {
    let plain = job(json!({}), json!({}));
    let foreign = Some(set(json!({"suspend": true}), json!({}), "other"));
    let found = outcome(&plain, &seen(Runtime::Kept(runtime()), foreign));
    let expected = "TrainJobResourcesCreationFailed: TrainJob resources reconciliation failed: \
                    jobset.x-k8s.io/v1alpha2 JobSet ns/tj exists and belongs to another owner";
    assert_eq!(found, [expected]);
    let why = "a snapshot configmap exists but is owned by another object";
    let found = outcome(&plain, &seen(Runtime::Missing(why.to_owned()), None));
    assert!(found[0].ends_with(why), "{found:?}");
    let long = plan::failure(&"x".repeat(5_000)).message;
    assert!(long.len() <= 1_024 && long.ends_with("x ..."), "{}", long.len());
}

#[test]
fn how_a_set_ends_is_how_its_job_ends() {
    let ends = |kind: &str, reason: &str| {
        json!({"conditions": [{"type": kind, "status": "True", "reason": reason, "message": "m",
            "lastTransitionTime": "1970-01-01T00:00:42Z"}], "replicatedJobsStatus": [
            {"name": "node", "ready": 0, "succeeded": 1, "failed": 0, "active": 0}]})
    };
    let plain = job(json!({}), json!({}));
    let completed = set(json!({}), ends("Completed", "AllJobsCompleted"), "u");
    let found = outcome(&plain, &seen(Runtime::Kept(runtime()), Some(completed)));
    assert_eq!(found, ["Complete=True AllJobsCompleted 3 at 1970-01-01T00:00:42Z"]);
    let failed = set(json!({}), ends("Failed", "FailedJobs"), "u");
    let found = outcome(&plain, &seen(Runtime::Kept(runtime()), Some(failed)));
    assert_eq!(found, ["Failed=True FailedJobs 3 at 1970-01-01T00:00:42Z"]);
    // What has ended is not built again, whatever became of its set.
    let status = json!({"conditions": [{"type": "Complete", "status": "True", "reason": "R"}],
        "jobsStatus": [{"name": "node", "succeeded": 1}]});
    let over = job(json!({}), status.clone());
    let plan = plan::plan(
        &Settings::default(),
        &over,
        &seen(Runtime::Unread, None),
        Timestamp::UNIX_EPOCH,
    );
    assert!(plan.steps.is_empty());
    assert_eq!(plan.status, Some(status));
}

#[test]
fn a_job_whose_time_is_over_fails_and_loses_its_set() {
    let plain = job(json!({"activeDeadlineSeconds": 10}), json!({}));
    let runs = || Some(set(json!({"suspend": false}), json!({}), "u"));
    let observed = |left: u64| Observed {
        until_deadline: Some(Duration::from_secs(left)),
        ..seen(Runtime::Kept(runtime()), runs())
    };
    assert_eq!(outcome(&plain, &observed(7)), ["wake after 7s"]);
    let late = ["delete JobSet tj", "Failed=True DeadlineExceeded 3 at 1970-01-01T00:01:40Z"];
    assert_eq!(outcome(&plain, &observed(0)), late);
    // A deletion that failed is tried again, and what the set says then does not count.
    let status = json!({"conditions": [{"type": "Failed", "status": "True", "message": "m",
        "reason": "DeadlineExceeded", "lastTransitionTime": "1970-01-01T00:00:09Z",
        "observedGeneration": 3}]});
    let completed = json!({"conditions": [{"type": "Completed", "status": "True"}]});
    let left = seen(Runtime::Unread, Some(set(json!({}), completed, "u")));
    let again = outcome(&job(json!({}), status), &left);
    assert_eq!(
        again,
        ["delete JobSet tj", "Failed=True DeadlineExceeded 3 at 1970-01-01T00:00:09Z"]
    );
}

#[test]
fn a_set_that_has_ended_is_not_late_however_late_it_is_seen() {
    let plain = job(json!({"activeDeadlineSeconds": 10}), json!({}));
    for (theirs, expected) in [
        ("Completed", "Complete=True Done 3 at 1970-01-01T00:00:42Z"),
        ("Failed", "Failed=True Done 3 at 1970-01-01T00:00:42Z"),
    ] {
        let status = json!({"conditions": [{"type": theirs, "status": "True", "reason": "Done",
            "message": "m", "lastTransitionTime": "1970-01-01T00:00:42Z"}]});
        let late = Observed {
            until_deadline: Some(Duration::ZERO),
            ..seen(Runtime::Kept(runtime()), Some(set(json!({}), status, "u")))
        };
        assert_eq!(outcome(&plain, &late), [expected]);
    }
}

#[test]
fn a_refused_step_does_not_hide_how_the_job_is() {
    let why = Error::Other { reason: "no right to do that".to_owned() };
    let refused = |job: &Object, observed: &Observed| {
        let now = Timestamp::from_second(100).expect("a time");
        let plan = Controller::default().refused(job, observed, &why, now).expect("a report");
        assert!(plan.steps.is_empty());
        let told = plan.notices.iter().any(|one| one.message.ends_with("no right to do that"));
        assert!(told, "{plan}");
        let status = plan.status.unwrap_or_default();
        list(&status["conditions"]).iter().map(|one| text(&one["reason"]).to_owned()).collect()
    };
    let runs = || Some(set(json!({"suspend": false}), json!({}), "u"));
    let late =
        Observed { until_deadline: Some(Duration::ZERO), ..seen(Runtime::Kept(runtime()), runs()) };
    let reasons: Vec<String> = refused(&job(json!({}), json!({})), &late);
    assert_eq!(reasons, ["DeadlineExceeded"]);
    let held = job(json!({"suspend": true}), json!({}));
    let reasons: Vec<String> = refused(&held, &seen(Runtime::Kept(runtime()), runs()));
    assert_eq!(reasons, ["Suspended"]);
}

#[test]
fn time_is_counted_from_the_last_resume_and_not_while_held() {
    let timers = Timers::default();
    let at = |second| Timestamp::from_second(second).expect("a time");
    let left = |job: &Object| deadline::left(&TrainJob::of(job), &timers, at(30));
    let limit = json!({"activeDeadlineSeconds": 50});
    let seconds = |left: Option<Duration>| left.map(|left| left.as_secs_f64().ceil() as u64);
    assert_eq!(seconds(left(&job(limit.clone(), json!({})))), Some(20));
    let held = json!({"activeDeadlineSeconds": 50, "suspend": true});
    assert_eq!(left(&job(held, json!({}))), None);
    let resumed = json!({"conditions": [{"type": "Suspended", "status": "False",
        "lastTransitionTime": "1970-01-01T00:00:25Z"}]});
    assert_eq!(seconds(left(&job(limit, resumed))), Some(45));
}

#[test]
fn a_clock_that_jumps_while_a_job_is_resumed_takes_none_of_its_time() {
    let timers = Timers::default();
    let at = |second| Timestamp::from_second(second).expect("a time");
    let limit = json!({"activeDeadlineSeconds": 50});
    let suspended = |status: &str| {
        json!({"conditions": [{"type": "Suspended", "status": status,
            "lastTransitionTime": "1970-01-01T00:00:30Z"}]})
    };
    let left = |status: &str, now| {
        let job = job(limit.clone(), suspended(status));
        deadline::left(&TrainJob::of(&job), &timers, at(now))
    };
    assert_eq!(left("True", 30), None);
    let after = left("False", 3_630).map(|left| left.as_secs_f64().ceil() as u64);
    assert_eq!(after, Some(50));
}

#[test]
fn an_unsupported_runtime_fails_the_job_until_it_is_supported() {
    let other = job(json!({"runtimeRef": {"kind": "Other", "apiGroup": "acme.io"}}), json!({}));
    let found = outcome(&other, &seen(Runtime::Unsupported, None));
    let failed = "Failed=True TrainingRuntimeNotSupported 3 at 1970-01-01T00:01:40Z";
    assert_eq!(found, [failed]);
    assert_eq!(TrainJob::of(&other).runtime_key(), "Other.acme.io");
    let status = json!({"conditions": [{"type": "Failed", "status": "True",
        "reason": "TrainingRuntimeNotSupported"}]});
    let found = outcome(&job(json!({}), status), &seen(Runtime::Kept(runtime()), None));
    assert_eq!(found, ["apply JobSet tj"]);
}

#[test]
fn a_job_of_another_manager_is_left_alone() {
    let theirs = job(json!({"managedBy": "kueue.x-k8s.io/multikueue", "suspend": true}), json!({}));
    let plan = plan::plan(
        &Settings::default(),
        &theirs,
        &seen(Runtime::Unread, None),
        Timestamp::UNIX_EPOCH,
    );
    assert_eq!(plan.to_string(), "wake on change\n");
}

#[test]
fn a_snapshot_is_read_as_it_was_taken() {
    let plain = job(json!({}), json!({}));
    let job = TrainJob::of(&plain);
    let mut map = snapshot::take(&job, &runtime()).expect("a snapshot");
    let read = |map: &Value| {
        let map = CachedObject::Full(Arc::new(Object::new(map.clone())));
        snapshot::read(&job, &map)
    };
    assert_eq!(read(&map).expect("a runtime"), runtime());
    let renamed = text(&map["data"]["runtime"]).replace("torch-distributed", "other");
    map["data"]["runtime"] = json!(renamed);
    assert!(read(&map).expect_err("another runtime").contains("refers to"));
    map["metadata"]["ownerReferences"][0]["uid"] = json!("other");
    assert_eq!(
        read(&map).expect_err("another owner"),
        "a snapshot configmap exists but is owned by another object"
    );
}
