//! Plans of Jobs, as data: a spec, a status and pods in; steps, status and notices out.

use serde_json::{Value, json};

use super::spec::TRACKING;
use super::*;

fn merge(base: &mut Value, more: &Value) {
    match (base, more) {
        (Value::Object(base), Value::Object(more)) => {
            for (key, value) in more {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, more) => *base = more.clone(),
    }
}

fn job(more: Value) -> Object {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"namespace": "a", "name": "sum", "uid": "u", "resourceVersion": "5"},
        "spec": {"parallelism": 2, "completions": 3, "backoffLimit": 6,
            "completionMode": "NonIndexed", "suspend": false,
            "podReplacementPolicy": "TerminatingOrFailed",
            "selector": {"matchLabels": {"job": "sum"}},
            "template": {"metadata": {"labels": {"job": "sum"}},
                "spec": {"containers": [{"name": "main"}]}}},
        "status": {"startTime": "1970-01-01T00:00:00Z"},
    });
    merge(&mut job, &more);
    Object::new(job)
}

fn pod(name: &str, phase: &str, more: Value) -> Arc<Object> {
    let mut pod = json!({
        "metadata": {"namespace": "a", "name": name, "uid": name, "labels": {"job": "sum"},
            "resourceVersion": "9", "finalizers": [TRACKING],
            "ownerReferences": [{"uid": "u", "controller": true}]},
        "status": {"phase": phase},
    });
    merge(&mut pod, &more);
    Arc::new(Object::new(pod))
}

fn index(number: u32) -> Value {
    json!({"metadata": {"annotations": {"batch.kubernetes.io/job-completion-index":
        number.to_string()}}})
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

/// Steps without the bodies of patches, then what is special in the status, then the notices.
fn outcome(job: &Object, pods: Vec<Arc<Object>>, second: i64) -> Vec<String> {
    let observed = Observed { owned: pods, orphans: Vec::new() };
    let plan = plan::plan(job, &observed, at(second)).expect("a plan");
    let short = |step: &reconcile::Step| match step {
        reconcile::Step::Create { object, .. } => {
            let index =
                &object["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"];
            format!("create {}", index.as_str().unwrap_or("pod"))
        }
        reconcile::Step::Patch { target, .. } => format!("free {}", target.name.name),
        reconcile::Step::Delete { target, .. } => format!("delete {}", target.name.name),
        step => step.to_string(),
    };
    let mut all: Vec<String> = plan.steps.iter().map(short).collect();
    let status = plan.status.unwrap_or_default();
    for field in ["active", "succeeded", "failed", "completedIndexes", "failedIndexes"] {
        if let Some(value) = status.get(field) {
            all.push(format!("{field} {value}"));
        }
    }
    for field in ["succeeded", "failed"] {
        if let Some(uids) = status["uncountedTerminatedPods"].get(field) {
            all.push(format!("uncounted {field} {uids}"));
        }
    }
    for one in status["conditions"].as_array().into_iter().flatten() {
        let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
        let (kind, truth) = (text("type"), text("status"));
        all.push(format!("{kind}={truth} {}: {}", text("reason"), text("message")));
    }
    if let reconcile::Wake::After(after) = plan.wake {
        all.push(format!("wake after {after:?}"));
    }
    all
}

#[test]
fn as_many_pods_run_as_may_and_no_more_than_are_wanted() {
    assert_eq!(outcome(&job(json!({})), Vec::new(), 0), ["create pod", "create pod", "active 2"]);
    let status = json!({"status": {"succeeded": 2}});
    assert_eq!(outcome(&job(status), Vec::new(), 0), ["create pod", "active 1", "succeeded 2"]);
    let running = vec![pod("x", "Running", json!({})), pod("y", "Pending", json!({}))];
    let smaller = job(json!({"spec": {"parallelism": 1}}));
    assert_eq!(outcome(&smaller, running, 0), ["free y", "delete y", "active 1"]);
}

#[test]
fn a_pod_is_noted_then_freed_and_counted() {
    let one = |status: Value| job(json!({"spec": {"completions": 1}, "status": status}));
    let done = || vec![pod("x", "Succeeded", json!({}))];
    let noted = outcome(&one(json!({})), done(), 0);
    let met =
        "SuccessCriteriaMet=True CompletionsReached: Reached expected number of succeeded pods";
    assert_eq!(noted, [r#"uncounted succeeded ["x"]"#, met]);
    let status = json!({"uncountedTerminatedPods": {"succeeded": ["x"]}, "conditions": [
        {"type": "SuccessCriteriaMet", "status": "True", "reason": "CompletionsReached",
            "message": "Reached expected number of succeeded pods"}]});
    let over = "Complete=True CompletionsReached: Reached expected number of succeeded pods";
    assert_eq!(outcome(&one(status.clone()), done(), 0), ["free x", "succeeded 1", met, over]);
    // The pod went, or lost its finalizer, and the job was not told.
    assert_eq!(outcome(&one(status.clone()), Vec::new(), 0), ["succeeded 1", met, over]);
    let freed = pod("x", "Succeeded", json!({"metadata": {"finalizers": []}}));
    assert_eq!(outcome(&one(status), vec![freed], 0), ["succeeded 1", met, over]);
}

#[test]
fn failed_pods_are_replaced_after_a_while() {
    let ended = |second: &str| {
        json!({"status": {"containerStatuses": [{"state": {"terminated": {
            "finishedAt": format!("1970-01-01T00:00:{second}Z"), "exitCode": 1}}}]}})
    };
    let pods = || vec![pod("x", "Failed", ended("00")), pod("y", "Failed", ended("05"))];
    let expected = [r#"uncounted failed ["x","y"]"#, "wake after 15s"];
    assert_eq!(outcome(&job(json!({})), pods(), 10), expected);
    let later = outcome(&job(json!({})), pods(), 25);
    assert_eq!(later, ["create pod", "create pod", "active 2", r#"uncounted failed ["x","y"]"#]);
}

#[test]
fn a_clock_that_was_set_back_is_not_waited_for() {
    let ended = json!({"status": {"containerStatuses": [{"state": {"terminated": {
        "finishedAt": "1970-01-01T02:00:00Z", "exitCode": 1}}}]}});
    let again = outcome(&job(json!({})), vec![pod("x", "Failed", ended)], 3_600);
    assert_eq!(again, ["create pod", "create pod", "active 2", r#"uncounted failed ["x"]"#]);
}

#[test]
fn too_many_failures_end_the_job_and_its_pods() {
    let strict = |status: Value| job(json!({"spec": {"backoffLimit": 0}, "status": status}));
    let pods = || vec![pod("x", "Failed", json!({})), pod("y", "Running", json!({}))];
    let target =
        "FailureTarget=True BackoffLimitExceeded: Job has reached the specified backoff limit";
    assert_eq!(
        outcome(&strict(json!({})), pods(), 0),
        ["delete y", r#"uncounted failed ["x","y"]"#, target]
    );
    let status = json!({"uncountedTerminatedPods": {"failed": ["x", "y"]}, "conditions": [
        {"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded",
            "message": "Job has reached the specified backoff limit"}]});
    let failed = "Failed=True BackoffLimitExceeded: Job has reached the specified backoff limit";
    let going = json!({"metadata": {"deletionTimestamp": "1970-01-01T00:00:00Z"}});
    let pods = vec![pod("x", "Failed", json!({})), pod("y", "Running", going)];
    assert_eq!(outcome(&strict(status.clone()), pods, 0), ["free x", "free y", "failed 2", target]);
    let counted = json!({"failed": 2, "conditions": status["conditions"]});
    assert_eq!(outcome(&strict(counted), Vec::new(), 0), ["failed 2", target, failed]);
}

#[test]
fn a_deadline_ends_the_job() {
    let limited = job(json!({"spec": {"activeDeadlineSeconds": 30}}));
    let running = || vec![pod("x", "Running", json!({})), pod("y", "Running", json!({}))];
    assert_eq!(outcome(&limited, running(), 10), ["active 2", "wake after 20s"]);
    let late = outcome(&limited, running(), 30);
    let target =
        "FailureTarget=True DeadlineExceeded: Job was active longer than specified deadline";
    assert_eq!(late, ["delete x", "delete y", r#"uncounted failed ["x","y"]"#, target]);
}

#[test]
fn a_suspended_job_has_no_pods_and_no_failures() {
    let job = |status| job(json!({"spec": {"suspend": true}, "status": status}));
    let running = vec![pod("x", "Running", json!({}))];
    let suspended = "Suspended=True JobSuspended: Job suspended";
    assert_eq!(outcome(&job(json!({})), running, 0), ["free x", "delete x", suspended]);
    let conditions = json!({"conditions": [{"type": "Suspended", "status": "True",
        "reason": "JobSuspended", "message": "Job suspended"}]});
    assert_eq!(outcome(&job(conditions), Vec::new(), 0), [suspended]);
}

#[test]
fn an_indexed_job_runs_each_index_once() {
    let indexed = |more: Value| {
        let mut spec = json!({"spec": {"completionMode": "Indexed", "completions": 4,
            "parallelism": 3}});
        merge(&mut spec, &more);
        job(spec)
    };
    assert_eq!(
        outcome(&indexed(json!({})), Vec::new(), 0),
        ["create 0", "create 1", "create 2", "active 3"]
    );
    let pods = vec![
        pod("p0", "Succeeded", index(0)),
        pod("p1", "Running", index(1)),
        pod("p1-again", "Pending", index(1)),
        pod("p9", "Running", index(9)),
    ];
    assert_eq!(
        outcome(&indexed(json!({})), pods, 0),
        [
            "free p9",
            "free p1-again",
            "delete p9",
            "delete p1-again",
            "active 1",
            "succeeded 1",
            "completedIndexes \"0\""
        ]
    );
    let done = indexed(json!({"status": {"completedIndexes": "0,2", "succeeded": 2}}));
    let pods = vec![pod("p0", "Succeeded", index(0)), pod("p1", "Running", index(1))];
    assert_eq!(
        outcome(&done, pods, 0),
        ["free p0", "create 3", "active 2", "succeeded 2", "completedIndexes \"0,2\""]
    );
}

#[test]
fn indexes_fail_on_their_own() {
    let job = |spec: Value, status: Value| {
        let mut all = json!({"spec": {"completionMode": "Indexed", "completions": 2,
            "parallelism": 2, "backoffLimit": 2_147_483_647, "backoffLimitPerIndex": 1}});
        merge(&mut all, &json!({"spec": spec, "status": status}));
        job(all)
    };
    let failed = |number: u32, before: &str| {
        let mut all = index(number);
        merge(
            &mut all,
            &json!({"metadata": {"annotations": {
            "batch.kubernetes.io/job-index-failure-count": before}}, "status": {
            "containerStatuses": [{"state": {"terminated": {"exitCode": 1,
                "finishedAt": "1970-01-01T00:00:00Z"}}}]}}),
        );
        all
    };
    // The first failure waits ten seconds; its pod is kept until then.
    let pods = || vec![pod("p0", "Failed", failed(0, "0")), pod("p1", "Running", index(1))];
    let waits = ["active 1", "failedIndexes \"\"", "wake after 10s"];
    assert_eq!(outcome(&job(json!({}), json!({})), pods(), 0), waits);
    let again = ["create 0", "active 2", "failedIndexes \"\""];
    assert_eq!(outcome(&job(json!({}), json!({})), pods(), 10), again);
    // The second failure is the last.
    let pods = vec![pod("p0", "Failed", failed(0, "1")), pod("p1", "Succeeded", index(1))];
    let ended = outcome(&job(json!({}), json!({})), pods, 0);
    assert_eq!(
        ended,
        [
            "succeeded 1",
            "completedIndexes \"1\"",
            "failedIndexes \"0\"",
            "uncounted failed [\"p0\"]",
            "FailureTarget=True FailedIndexes: Job has failed indexes",
        ]
    );
    let pods = vec![pod("p0", "Failed", failed(0, "1")), pod("p1", "Running", index(1))];
    let ended = outcome(&job(json!({"maxFailedIndexes": 0}), json!({})), pods, 0);
    let reason = "FailureTarget=True MaxFailedIndexesExceeded: Job has exceeded the specified \
                  maximal number of failed indexes";
    assert!(ended.contains(&reason.to_owned()), "{ended:?}");
}

#[test]
fn what_another_manages_or_what_is_over_is_left_alone() {
    let other = job(json!({"spec": {"managedBy": "example.com/other"}}));
    assert!(outcome(&other, Vec::new(), 0).is_empty());
    let over = job(json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}}));
    assert_eq!(outcome(&over, vec![pod("x", "Succeeded", json!({}))], 0), ["free x"]);
    let freed = pod("x", "Succeeded", json!({"metadata": {"finalizers": []}}));
    assert!(outcome(&over, vec![freed], 0).is_empty());
}

#[test]
fn a_job_that_goes_frees_its_pods_and_makes_no_more() {
    let going = job(json!({"metadata": {"deletionTimestamp": "1970-01-01T00:00:00Z"}}));
    let pods = vec![pod("x", "Running", json!({}))];
    assert_eq!(outcome(&going, pods, 0), ["free x", "active 1"]);
}

#[test]
fn the_rules_of_a_job_decide_about_failures() {
    let rules = json!([
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]);
    let policy = json!({"spec": {"podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": rules}}});
    let exited = |code: i64| {
        json!({"status": {"containerStatuses": [
            {"name": "main", "state": {"terminated": {"exitCode": code}}}],
            "conditions": [{"type": "DisruptionTarget", "status": "True"}]}})
    };
    let failed = outcome(&job(policy.clone()), vec![pod("x", "Failed", exited(42))], 0);
    assert_eq!(
        failed,
        [
            "uncounted failed [\"x\"]",
            "FailureTarget=True PodFailurePolicy: Container main for pod a/x failed with exit \
             code 42 matching FailJob rule at index 0",
        ]
    );
    let ignored = outcome(&job(policy), vec![pod("x", "Failed", exited(1))], 0);
    assert_eq!(ignored, ["free x", "create pod", "create pod", "active 2"]);
}

#[test]
fn pods_that_ended_are_noted_also_while_no_pod_can_be_made() {
    let indexed = json!({"spec": {"completionMode": "Indexed", "completions": 2}});
    let going = json!({"metadata": {"deletionTimestamp": "1970-01-01T00:00:00Z"}});
    let (mut done, mut cut) = (index(0), index(1));
    merge(&mut done, &going);
    merge(&mut cut, &going);
    let owned = vec![pod("x", "Succeeded", done), pod("y", "Running", cut)];
    let observed = Observed { owned, orphans: Vec::new() };
    let error = Error::Other { reason: "the namespace is being terminated".to_owned() };
    let report = plan::refused(&job(indexed.clone()), &observed, &error, at(0));
    let noted = report.status.expect("a status");
    assert_eq!(noted["completedIndexes"], "0");
    assert_eq!(noted["uncountedTerminatedPods"], json!({"failed": ["y"]}));
    // The next plan frees both before it makes the missing one.
    let mut job = job(indexed);
    job.value["status"] = noted;
    let freed = outcome(&job, observed.owned, 60);
    assert_eq!(freed[..3], ["free x", "free y", "create 1"], "{freed:?}");
}

#[test]
fn a_pod_of_an_index_knows_it() {
    let job = job(json!({"spec": {"completionMode": "Indexed", "completions": 1}}));
    let plan = plan::plan(&job, &Observed::default(), at(0)).expect("a plan");
    let reconcile::Step::Create { object, .. } = &plan.steps[0] else { panic!("a pod") };
    let name = object["metadata"]["name"].as_str().expect("a name");
    assert!(name.starts_with("sum-0-") && name.len() == "sum-0-".len() + 5, "{name}");
    assert_eq!(object["spec"]["hostname"], "sum-0");
    assert_eq!(object["metadata"]["finalizers"], json!([TRACKING]));
    assert_eq!(
        object["spec"]["containers"][0]["env"][0]["valueFrom"]["fieldRef"]["fieldPath"],
        "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    );
}
