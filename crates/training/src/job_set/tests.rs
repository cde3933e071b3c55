//! Plans of JobSets, as data: a spec, a status and Jobs in; steps, status and notices out.

use std::time::Duration;

use reconcile::Step;
use serde_json::{Value, json};

use super::*;
use crate::value::{list, text};

fn replicated(name: &str, replicas: i64, more: Value) -> Value {
    let mut job = json!({"name": name, "replicas": replicas, "template": {"spec": {
        "parallelism": 2, "completions": 2, "template": {"spec": {
            "containers": [{"name": "main", "image": "i"}]}}}}});
    reconcile::plan::merge(&mut job, &more);
    job
}

fn set(spec: Value, status: Value) -> Object {
    let mut spec = spec;
    if spec["replicatedJobs"].is_null() {
        spec["replicatedJobs"] = json!([replicated("a", 2, json!({}))]);
    }
    Object::new(json!({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"namespace": "d", "name": "s", "uid": "u", "resourceVersion": "5"},
        "spec": spec, "status": status,
    }))
}

/// A Job of the set: `a-0` of an attempt, and how it is.
fn job(name: &str, attempt: i64, how: Value) -> Arc<Object> {
    let (of, index) = name.rsplit_once('-').expect("name and index");
    let mut job = json!({
        "metadata": {"namespace": "d", "name": format!("s-{of}-{index}"), "uid": name,
            "labels": {"jobset.sigs.k8s.io/replicatedjob-name": of,
                "jobset.sigs.k8s.io/restart-attempt": attempt.to_string()},
            "ownerReferences": [{"uid": "u", "controller": true}]},
        "spec": {"parallelism": 2, "completions": 2},
    });
    reconcile::plan::merge(&mut job, &how);
    Arc::new(Object::new(job))
}

fn running() -> Value {
    json!({"status": {"active": 2, "ready": 2}})
}

fn ended(kind: &str, second: u32) -> Value {
    json!({"status": {"conditions": [{"type": kind, "status": "True",
        "reason": "BackoffLimitExceeded", "message": "too often",
        "lastTransitionTime": format!("1970-01-01T00:00:{second:02}Z")}]}})
}

fn observed(jobs: Vec<Arc<Object>>) -> Observed {
    let claims = Default::default();
    Observed { is_gone: false, jobs, has_service: true, claims, until_deletion: None }
}

fn outcome(set: &Object, observed: &Observed) -> Vec<String> {
    let plan = plan::plan(set, observed, Timestamp::UNIX_EPOCH);
    let short = |step: &Step| match step {
        Step::Create { kind, object } => {
            let held = if object["spec"]["suspend"] == true { " held" } else { "" };
            format!("create {} {}{held}", kind.kind, text(&object["metadata"]["name"]))
        }
        Step::Patch { target, patch } => format!("patch {} {patch}", target.name.name),
        Step::Delete { target, .. } => format!("delete {}", target.name.name),
        Step::Replace { target, .. } => {
            format!("update {}/{}", target.name.name, target.subresource)
        }
        step => step.to_string(),
    };
    let mut all: Vec<String> = plan.steps.iter().map(short).collect();
    let status = plan.status.unwrap_or_default();
    for one in list(&status["conditions"]) {
        let field = |name: &str| text(&one[name]).to_owned();
        let (kind, truth, reason) = (field("type"), field("status"), field("reason"));
        all.push(format!("{kind}={truth} {reason}: {}", field("message")));
    }
    if status["restarts"] != 0 {
        all.push(format!("restarts {} {}", status["restarts"], status["restartsCountTowardsMax"]));
    }
    if let reconcile::Wake::After(after) = plan.wake {
        all.push(format!("wake after {after:?}"));
    }
    all
}

#[test]
fn a_new_set_makes_its_service_its_claims_and_its_jobs() {
    let spec = json!({"volumeClaimPolicies": [{"templates": [{"metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"]}}]}]});
    let nothing = Observed { has_service: false, ..observed(Vec::new()) };
    let expected = [
        "create Service s",
        "create PersistentVolumeClaim data-s",
        "create Job s-a-0",
        "create Job s-a-1",
    ];
    assert_eq!(outcome(&set(spec, json!({})), &nothing), expected);
    let nameless = set(json!({"network": {"enableDNSHostnames": false}}), json!({}));
    assert_eq!(outcome(&nameless, &nothing), ["create Job s-a-0", "create Job s-a-1"]);
}

#[test]
fn a_job_carries_where_it_belongs() {
    let groups = json!([
        replicated("a", 2, json!({"groupName": "x"})),
        replicated(
            "b",
            3,
            json!({"groupName": "x", "template": {"metadata":
            {"labels": {"own": "1", "jobset.sigs.k8s.io/job-index": "9"}}}})
        )
    ]);
    let spec = json!({"replicatedJobs": groups, "network": {"subdomain": "net"},
        "coordinator": {"replicatedJob": "a", "podIndex": 1}});
    let set = set(spec, json!({"restarts": 2}));
    let spec = Spec::of(&set);
    let made = build::job(&spec, &spec.jobs[1], 2);
    let expected = json!({
        "own": "1",
        "jobset.sigs.k8s.io/jobset-name": "s",
        "jobset.sigs.k8s.io/jobset-uid": "u",
        "jobset.sigs.k8s.io/replicatedjob-name": "b",
        "jobset.sigs.k8s.io/restart-attempt": "2",
        "jobset.sigs.k8s.io/replicatedjob-replicas": "3",
        "jobset.sigs.k8s.io/global-replicas": "5",
        "jobset.sigs.k8s.io/job-index": "2",
        "jobset.sigs.k8s.io/job-global-index": "4",
        "jobset.sigs.k8s.io/job-key": "6b1b1a4dcbf4e5b3c0ee1b3ebe5d1f6ac7cbf2c1",
        "jobset.sigs.k8s.io/group-name": "x",
        "jobset.sigs.k8s.io/group-replicas": "5",
        "jobset.sigs.k8s.io/job-group-index": "4",
        "jobset.sigs.k8s.io/coordinator": "s-a-0-1.net",
    });
    let mut found = made["metadata"]["labels"].clone();
    let key = text(&found["jobset.sigs.k8s.io/job-key"]).to_owned();
    assert_eq!(key.len(), 40);
    found["jobset.sigs.k8s.io/job-key"] = expected["jobset.sigs.k8s.io/job-key"].clone();
    assert_eq!(found, expected);
    let pod = &made["spec"]["template"];
    assert_eq!(pod["metadata"]["annotations"]["jobset.sigs.k8s.io/job-index"], "2");
    assert_eq!(pod["spec"]["subdomain"], "net");
    assert_eq!(made["spec"]["completionMode"], "Indexed");
}

#[test]
fn jobs_wait_for_what_they_depend_on() {
    let jobs = json!([
        replicated("a", 1, json!({})),
        replicated(
            "b",
            1,
            json!({"dependsOn":
        [{"name": "a", "status": "Complete"}]})
        ),
        replicated(
            "c",
            1,
            json!({"dependsOn":
        [{"name": "a", "status": "Ready"}]})
        )
    ]);
    let set = set(json!({"replicatedJobs": jobs}), json!({}));
    assert_eq!(outcome(&set, &observed(Vec::new())), ["create Job s-a-0"]);
    let ready = observed(vec![job("a-0", 0, running())]);
    assert_eq!(outcome(&set, &ready), ["create Job s-c-0"]);
    let done = observed(vec![job("a-0", 0, ended("Complete", 1))]);
    assert_eq!(outcome(&set, &done), ["create Job s-b-0", "create Job s-c-0"]);
}

#[test]
fn in_order_one_starts_after_the_other() {
    let jobs = json!([replicated("a", 1, json!({})), replicated("b", 1, json!({}))]);
    let spec = json!({"replicatedJobs": jobs,
        "startupPolicy": {"startupPolicyOrder": "InOrder"}});
    let progress = "StartupPolicyInProgress=True InOrderStartupPolicyInProgress: in order startup \
                    policy is in progress";
    let set_of = |status: Value| set(spec.clone(), status);
    let first = outcome(&set_of(json!({})), &observed(Vec::new()));
    assert_eq!(first, ["create Job s-a-0", progress]);
    let second = outcome(&set_of(json!({})), &observed(vec![job("a-0", 0, running())]));
    assert_eq!(second, ["create Job s-b-0", progress]);
    let both = vec![job("a-0", 0, running()), job("b-0", 0, running())];
    let status = json!({"conditions": [{"type": "StartupPolicyInProgress", "status": "True"}]});
    let over = outcome(&set_of(status), &observed(both));
    let expected = [
        "StartupPolicyInProgress=False InOrderStartupPolicyCompleted: in order startup policy has \
         completed",
        "StartupPolicyCompleted=True InOrderStartupPolicyCompleted: in order startup policy has \
         completed",
    ];
    assert_eq!(over, expected);
}

#[test]
fn a_set_succeeds_as_its_policy_says() {
    let jobs = || json!([replicated("a", 1, json!({})), replicated("b", 1, json!({}))]);
    let done = "Completed=True AllJobsCompleted: jobset completed successfully";
    let one = || observed(vec![job("a-0", 0, ended("Complete", 1)), job("b-0", 0, running())]);
    let with = |policy: Value| {
        outcome(&set(json!({"replicatedJobs": jobs(), "successPolicy": policy}), json!({})), &one())
    };
    assert_eq!(with(json!({"operator": "All"})), [""; 0]);
    assert_eq!(with(json!({"operator": "Any"})), [done]);
    let targeted = json!({"operator": "All", "targetReplicatedJobs": ["a"]});
    assert_eq!(with(targeted), [done]);
    // What is left is deleted, and the set after a while.
    let status = json!({"conditions": [{"type": "Completed", "status": "True",
        "reason": "AllJobsCompleted", "message": "jobset completed successfully"}]});
    let finished = set(json!({"replicatedJobs": jobs()}), status);
    assert_eq!(outcome(&finished, &one()), ["delete s-b-0", done]);
    let waits = Observed { until_deletion: Some(Duration::from_secs(7)), ..observed(Vec::new()) };
    assert_eq!(outcome(&finished, &waits), [done, "wake after 7s"]);
    let over = Observed { until_deletion: Some(Duration::ZERO), ..observed(Vec::new()) };
    assert_eq!(outcome(&finished, &over), ["delete s", done]);
}

#[test]
fn a_failure_ends_the_set_or_begins_it_again() {
    let failed =
        || observed(vec![job("a-1", 0, ended("Failed", 9)), job("a-0", 0, ended("Failed", 3))]);
    let with = |policy: Value, status: Value| {
        let mut spec = json!({});
        if !policy.is_null() {
            spec["failurePolicy"] = policy;
        }
        outcome(&set(spec, status), &failed())
    };
    let none = "Failed=True FailedJobs: jobset failed due to one or more job failures (first \
                failed job: s-a-0)";
    assert_eq!(with(Value::Null, json!({})), [none]);
    let again = "RestartingJobSet=True DefaultFailurePolicy: restarting jobset, attempt 1 (first \
                 failed job: s-a-0)";
    assert_eq!(with(json!({"maxRestarts": 1}), json!({})), [again, "restarts 1 1"]);
    let rules = |action: &str| {
        json!({"maxRestarts": 0, "rules": [
            {"name": "other", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]},
            {"name": "mine", "action": action, "onJobFailureMessagePatterns": ["^too .*n$"]}]})
    };
    let mine = "RestartingJobSet=True FailurePolicy_mine: restarting jobset, attempt 1 (first \
                failed job: s-a-0)";
    let action = "RestartJobSetAndIgnoreMaxRestarts";
    assert_eq!(with(rules(action), json!({})), [mine, "restarts 1 null"]);
    let fail = "Failed=True FailJobSetFailurePolicyAction: applying FailJobSet failure policy \
                action (first failed job: s-a-0)";
    assert_eq!(with(rules("FailJobSet"), json!({})), [fail]);
    let most = "Failed=True ReachedMaxRestarts: jobset failed due to reaching max number of \
                restarts (first failed job: s-a-0)";
    assert_eq!(with(rules("RestartJobSet"), json!({})), [most]);
}

#[test]
fn a_new_attempt_replaces_the_old_one() {
    let status = json!({"restarts": 1, "restartsCountTowardsMax": 1});
    let jobs = || vec![job("a-0", 0, running()), job("a-1", 1, running())];
    let one = set(json!({"failurePolicy": {"maxRestarts": 3}}), status.clone());
    assert_eq!(outcome(&one, &observed(jobs())), ["delete s-a-0", "restarts 1 1"]);
    // Each name is used again as it becomes free, or when all are.
    let left = || vec![job("a-1", 0, running())];
    let expected = ["delete s-a-1", "create Job s-a-0", "restarts 1 1"];
    assert_eq!(outcome(&one, &observed(left())), expected);
    let policy = json!({"maxRestarts": 3, "restartStrategy": "BlockingRecreate"});
    let blocking = set(json!({"failurePolicy": policy}), status);
    assert_eq!(outcome(&blocking, &observed(left())), ["delete s-a-1", "restarts 1 1"]);
    assert_eq!(outcome(&blocking, &observed(Vec::new())).len(), 3);
}

#[test]
fn a_set_is_held_and_goes_on() {
    let spec = json!({"suspend": true, "replicatedJobs": [replicated("a", 1, json!({}))]});
    let held = "Suspended=True SuspendedJobs: jobset is suspended";
    let new = outcome(&set(spec.clone(), json!({})), &observed(Vec::new()));
    assert_eq!(new, ["create Job s-a-0 held", held]);
    let stops = outcome(&set(spec, json!({})), &observed(vec![job("a-0", 0, running())]));
    assert_eq!(stops, [r#"patch s-a-0 {"spec":{"suspend":true}}"#, held]);
    let template = json!({"template": {"spec": {"template": {"metadata": {"labels": {"l": "1"}},
        "spec": {"nodeSelector": {"zone": "z"}}}}}});
    let spec = json!({"replicatedJobs": [replicated("a", 1, template)]});
    let status = json!({"conditions": [{"type": "Suspended", "status": "True"}]});
    let how = json!({"spec": {"suspend": true, "template": {"metadata": {}, "spec": {}}},
        "status": {"startTime": "1970-01-01T00:00:00Z"}});
    let goes = outcome(&set(spec, status), &observed(vec![job("a-0", 0, how)]));
    let expected = [
        "update s-a-0/status",
        concat!(
            r#"patch s-a-0 {"spec":{"suspend":false,"template":{"metadata":{"labels":{"l":"1"}},"#,
            r#""spec":{"nodeSelector":{"zone":"z"}}}}}"#,
        ),
        "Suspended=False ResumeJobs: jobset is resumed",
    ];
    assert_eq!(goes, expected);
}

#[test]
fn a_set_of_another_controller_and_one_that_goes_are_left_alone() {
    let foreign = set(json!({"managedBy": "acme.io/other"}), json!({}));
    assert_eq!(plan::plan(&foreign, &observed(Vec::new()), Timestamp::UNIX_EPOCH).steps.len(), 0);
    let ours = set(json!({"managedBy": CONTROLLER}), json!({}));
    assert_eq!(plan::plan(&ours, &observed(Vec::new()), Timestamp::UNIX_EPOCH).steps.len(), 2);
}

#[test]
fn counts_are_told_in_descending_order_of_names() {
    let jobs = json!([replicated("a", 2, json!({})), replicated("b", 1, json!({}))]);
    let set = set(json!({"replicatedJobs": jobs}), json!({}));
    let half = json!({"status": {"active": 2, "ready": 1}});
    let jobs =
        vec![job("a-0", 0, running()), job("a-1", 0, half), job("b-0", 0, ended("Complete", 1))];
    let plan = plan::plan(&set, &observed(jobs), Timestamp::UNIX_EPOCH);
    let expected = json!([
        {"name": "b", "ready": 0, "succeeded": 1, "failed": 0, "active": 0, "suspended": 0},
        {"name": "a", "ready": 1, "succeeded": 0, "failed": 0, "active": 2, "suspended": 0},
    ]);
    assert_eq!(plan.status.expect("a status")["replicatedJobsStatus"], expected);
}

#[test]
fn a_set_may_have_its_racks_to_itself() {
    let mut set = set(json!({}), json!({})).value.clone();
    set["metadata"]["annotations"] = json!({"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"});
    let object = Object::new(set.clone());
    let spec = Spec::of(&object);
    let made = build::job(&spec, &spec.jobs[0], 0);
    let affinity = &made["spec"]["template"]["spec"]["affinity"];
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    assert_eq!(affinity["podAffinity"][required][0]["topologyKey"], "rack");
    assert_eq!(affinity["podAntiAffinity"][required][0]["topologyKey"], "rack");
    set["metadata"]["annotations"]["alpha.jobset.sigs.k8s.io/node-selector"] = json!("true");
    let object = Object::new(set.clone());
    let spec = Spec::of(&object);
    let made = build::job(&spec, &spec.jobs[0], 0);
    let pod = &made["spec"]["template"]["spec"];
    assert_eq!(pod["nodeSelector"]["alpha.jobset.sigs.k8s.io/namespaced-job"], "d_s-a-0");
    assert!(pod["affinity"].is_null());
}

#[test]
fn a_restart_after_another_of_the_same_reason_is_told_too() {
    let status = json!({"restarts": 1, "restartsCountTowardsMax": 1, "conditions": [
        {"type": "RestartingJobSet", "status": "True", "reason": "DefaultFailurePolicy",
            "message": "restarting jobset, attempt 1 (first failed job: s-a-1)"}]});
    let set = set(json!({"failurePolicy": {"maxRestarts": 3}}), status);
    let observed = observed(vec![job("a-0", 1, ended("Failed", 7))]);
    let plan = plan::plan(&set, &observed, Timestamp::UNIX_EPOCH);
    let message = "restarting jobset, attempt 2 (first failed job: s-a-0)";
    let status = plan.status.unwrap_or_default();
    assert_eq!(status["conditions"][0]["message"], message);
    let told: Vec<&str> = plan.notices.iter().map(|one| one.message.as_str()).collect();
    assert_eq!(told, [message]);
}
