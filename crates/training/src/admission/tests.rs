//! Questions and answers, as data.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::runtimes::{self, Choice};

fn question<'a>(request: &'a Value, new: &'a Value, old: &'a Value) -> Question<'a> {
    Question { request, new, old }
}

fn refusal(answer: &Answer) -> String {
    answer.refusal.as_ref().map(|one| one.message.clone()).unwrap_or_default()
}

#[test]
fn patches_carry_when_they_were_made() {
    let patch = |manager: &str, label: &str, time: Value| {
        let mut patch = json!({"manager": manager, "trainingRuntimeSpec": {"template":
            {"metadata": {"labels": {"l": label}}}}});
        if !time.is_null() {
            patch["time"] = time;
        }
        patch
    };
    let job = |patches: &[Value]| json!({"spec": {"runtimePatches": patches}});
    let now = Timestamp::from_second(60).expect("a time");
    let (minute, said, old) =
        ("1970-01-01T00:01:00Z", json!("2000-01-01T00:00:00Z"), json!("1999-01-01T00:00:00Z"));
    let times = |new: &Value, old: &Value| {
        let answer = train_job::default(&question(&Value::Null, new, old), now);
        let spec = answer.object.unwrap_or_else(|| new.clone())["spec"].clone();
        let patches = spec["runtimePatches"].as_array().cloned().unwrap_or_default();
        patches.iter().map(|one| one["time"].clone()).collect::<Vec<_>>()
    };
    let created = job(&[patch("a.io/a", "1", Value::Null), patch("b.io/b", "1", said.clone())]);
    assert_eq!(times(&created, &Value::Null), [json!(minute), said.clone()]);
    let before = job(&[patch("a.io/a", "1", old.clone()), patch("b.io/b", "1", old.clone())]);
    let after = job(&[
        patch("a.io/a", "1", said.clone()),
        patch("b.io/b", "2", said.clone()),
        patch("c.io/c", "1", Value::Null),
        patch("d.io/d", "1", said.clone()),
    ]);
    assert_eq!(times(&after, &before), [old, json!(minute), json!(minute), said]);
}

#[test]
fn a_runtime_has_one_replica_and_the_container_of_each_step() {
    let mut runtime = runtimes::manifests(Choice::Shipped).remove(5);
    let judge = |runtime: &Value, scope| {
        let answer = runtime::validate(&question(&Value::Null, runtime, &Value::Null), scope);
        (refusal(&answer), answer.warnings)
    };
    assert_eq!(judge(&runtime, runtime::Scope::Cluster), (String::new(), Vec::new()));
    let job = &mut runtime["spec"]["template"]["spec"]["replicatedJobs"][0];
    job["replicas"] = json!(2);
    job["template"]["spec"]["template"]["spec"]["containers"] = json!([]);
    let (why, _) = judge(&runtime, runtime::Scope::Namespace);
    let expected = "[spec.template.spec.replicatedJobs[0].replicas: Invalid value: 2: always must \
                    be 1, spec.template.spec.replicatedJobs[0].template.spec.template.spec.\
                    containers: Invalid value: []: must contain the required container for the \
                    ancestor: dataset-initializer]";
    assert_eq!(why, expected);
    let mut old = runtimes::manifests(Choice::Shipped).remove(0);
    old["metadata"]["labels"]["trainer.kubeflow.org/support"] = json!("deprecated");
    let (_, warnings) = judge(&old, runtime::Scope::Cluster);
    assert!(warnings[0].starts_with("ClusterTrainingRuntime \"torch-distributed\" is deprecated"));
    assert!(warnings[0].ends_with(runtime::DEPRECATION_POLICY));
    assert_eq!(judge(&old, runtime::Scope::Namespace).1.len(), 0);
}

fn set(spec: Value) -> Value {
    let mut whole = json!({"replicatedJobs": [{"name": "a", "replicas": 1, "template": {"spec":
        {"template": {"spec": {"containers": [{"name": "c"}]}}}}}]});
    reconcile::plan::merge(&mut whole, &spec);
    json!({"metadata": {"name": "s"}, "spec": whole})
}

#[test]
fn a_set_gets_what_it_lacks() {
    let nothing = Value::Null;
    let new = set(json!({"failurePolicy": {"rules": [{"action": "FailJobSet"}]},
        "volumeClaimPolicies": [{"templates": []}], "network": {"subdomain": "x"}}));
    let answer = job_set::default(&question(&nothing, &new, &nothing));
    let spec = answer.object.expect("something was missing")["spec"].clone();
    assert_eq!(spec["successPolicy"], json!({"operator": "All"}));
    assert_eq!(spec["startupPolicy"], json!({"startupPolicyOrder": "AnyOrder"}));
    let network =
        json!({"subdomain": "x", "enableDNSHostnames": true, "publishNotReadyAddresses": true});
    assert_eq!(spec["network"], network);
    assert_eq!(spec["failurePolicy"]["rules"][0]["name"], "failurePolicyRule0");
    assert_eq!(spec["volumeClaimPolicies"][0]["retentionPolicy"]["whenDeleted"], "Delete");
    let job = &spec["replicatedJobs"][0]["template"]["spec"];
    assert_eq!(job["completionMode"], "Indexed");
    assert_eq!(job["template"]["spec"]["restartPolicy"], "OnFailure");
    let whole = json!({"metadata": {"name": "s"}, "spec": spec});
    assert!(job_set::default(&question(&nothing, &whole, &nothing)).object.is_none());
}

#[test]
fn a_set_that_cannot_work_is_refused() {
    let job = |name: &str, more: Value| {
        let mut job = json!({"name": name, "template": {"spec": {}}});
        reconcile::plan::merge(&mut job, &more);
        job
    };
    let on = |name: &str| json!({"dependsOn": [{"name": name, "status": "Ready"}]});
    let cases = [
        (json!({"replicatedJobs": [job("a", on("b"))]}), "DependsOn can't be set for the first"),
        (
            json!({"replicatedJobs": [job("a", json!({})), job("b", on("c"))]}),
            "does not come before",
        ),
        (json!({"network": {"subdomain": "a.b"}}), "spec.network.subdomain"),
        (json!({"managedBy": "me"}), "spec.managedBy"),
        (
            json!({"replicatedJobs": [job("a".repeat(60).as_str(), json!({}))]}),
            "JobSet name is too long, job names generated",
        ),
        (
            json!({"replicatedJobs": [job("a".repeat(52).as_str(),
            json!({"template": {"spec": {"completions": 11}}}))]}),
            "JobSet name is too long, pod names generated",
        ),
        (
            json!({"successPolicy": {"operator": "All", "targetReplicatedJobs": ["x"]}}),
            "spec.successPolicy.targetReplicatedJobs",
        ),
        (
            json!({"failurePolicy": {"rules": [{"name": "1a", "action": "FailJobSet"}]}}),
            "spec.failurePolicy.rules[0].name",
        ),
        (
            json!({"failurePolicy": {"rules": [{"name": "a", "action": "FailJobSet"},
            {"name": "a", "action": "FailJobSet"}]}}),
            "Duplicate value",
        ),
        (
            json!({"failurePolicy": {"rules": [{"name": "a", "action": "FailJobSet",
            "onJobFailureReasons": ["X"]}]}}),
            "onJobFailureReasons",
        ),
        (
            json!({"failurePolicy": {"rules": [{"name": "a", "action": "RestartJob"}]}}),
            "RestartJob",
        ),
        (json!({"failurePolicy": {"restartStrategy": "InPlaceRestart"}}), "InPlaceRestart"),
        (json!({"coordinator": {"replicatedJob": "x"}}), "replicatedJob does not exist"),
        (json!({"coordinator": {"replicatedJob": "a", "jobIndex": 1}}), "out of range"),
        (
            json!({"volumeClaimPolicies": [{"templates": [{"metadata": {"name": "v"}}]}]}),
            "must be mounted",
        ),
    ];
    let nothing = Value::Null;
    for (spec, expected) in cases {
        let new = set(spec);
        let answer = job_set::judge(&question(&nothing, &new, &nothing));
        assert!(refusal(&answer).contains(expected), "{expected}: {}", refusal(&answer));
        assert_eq!(answer.refusal.map(|refusal| refusal.code), Some(422));
    }
    let good = set(json!({}));
    assert!(job_set::judge(&question(&nothing, &good, &nothing)).refusal.is_none());
}

#[test]
fn of_a_set_only_what_places_pods_may_change_and_only_while_it_is_held() {
    let pod = |field: &str, value: Value, suspend: bool| {
        let mut set = set(json!({"suspend": suspend}));
        let pod = "/spec/replicatedJobs/0/template/spec/template/spec";
        set.pointer_mut(pod).expect("a pod")[field] = value;
        set
    };
    let nothing = Value::Null;
    let judge = |old: &Value, new: &Value| refusal(&job_set::judge(&question(&nothing, new, old)));
    let selector = || json!({"zone": "a"});
    let held = set(json!({"suspend": true}));
    assert_eq!(judge(&held, &pod("nodeSelector", selector(), true)), "");
    assert_eq!(judge(&held, &pod("nodeSelector", selector(), false)), "");
    let running = set(json!({"suspend": false}));
    let why = judge(&running, &pod("nodeSelector", selector(), false));
    assert!(why.contains("spec.replicatedJobs") && why.ends_with("field is immutable"), "{why}");
    let image = json!([{"name": "c", "image": "other"}]);
    assert!(judge(&held, &pod("containers", image, true)).ends_with("field is immutable"));
}

#[test]
fn a_claim_that_is_there_is_taken_if_it_is_the_same_and_kept() {
    let claim = |storage: &str| {
        let resources = json!({"requests": {"storage": storage}});
        json!({"accessModes": ["ReadWriteOnce"], "resources": resources})
    };
    let wants = |policy: &str, spec: Value| {
        set(json!({"volumeClaimPolicies": [{"retentionPolicy": {"whenDeleted": policy},
            "templates": [{"metadata": {"name": "v"}, "spec": spec}]}]}))
    };
    let mut there = json!({"metadata": {"name": "v-s"}, "spec": claim("1Gi")});
    there["spec"]["volumeName"] = json!("given");
    let judge = |set: &Value, found: &[Value]| {
        let errors = job_set_claims::judge(set, found);
        refusal(&Answer::judge_by(422, &errors))
    };
    let there = [there];
    assert_eq!(judge(&wants("Delete", claim("1Gi")), &[]), "");
    assert_eq!(judge(&wants("Retain", claim("1024Mi")), &there), "");
    let why = judge(&wants("Delete", claim("1Gi")), &there);
    assert!(why.contains("only a policy that says Retain takes it"), "{why}");
    let why = judge(&wants("Retain", claim("2Gi")), &there);
    assert!(why.contains("the claim v-s exists and has another specification"), "{why}");
}
