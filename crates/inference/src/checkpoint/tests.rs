//! A checkpoint from its first look to its end, as data.

use reconcile::Step;
use serde_json::{Value, json};

use super::*;
use crate::names;
use crate::settings::Gates;
use crate::value::{find, text};

fn settings() -> Settings {
    Settings { gates: Gates { checkpoints: true, ..Gates::default() }, ..Settings::default() }
}

fn checkpoint(status: Value) -> Object {
    Object::new(json!({
        "metadata": {"namespace": "n", "name": "c", "uid": "u"},
        "spec": {
            "identity": {"model": "m", "backendFramework": "vllm"},
            "job": {"podTemplateSpec": {"metadata": {"labels": {
                "nvidia.com/dynamo-component-type": "decode",
                "nvidia.com/dynamo-namespace": "n-g"}},
                "spec": {"containers": [{"name": "main", "image": "i:1.0.0"}]}}},
        },
        "status": status,
    }))
}

fn object(value: Value) -> Option<Arc<Object>> {
    let mut whole = json!({"metadata": {"namespace": "n", "name": "c", "uid": "x",
        "ownerReferences": [{"controller": true, "uid": "u"}]}});
    reconcile::plan::merge(&mut whole, &value);
    Some(Arc::new(Object::new(whole)))
}

/// Steps, the phase, and reasons of what is told.
fn outcome(settings: &Settings, status: Value, observed: &Observed) -> Vec<String> {
    let plan = plan::plan(settings, &checkpoint(status), observed, Timestamp::UNIX_EPOCH);
    let mut all: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
    all.extend(plan.notices.iter().map(|notice| notice.reason.to_owned()));
    all.push(text(&plan.status.expect("a status")["phase"]).to_owned());
    all
}

#[test]
fn a_worker_is_started_frozen_and_remembered() {
    let settings = settings();
    let id = identity::hash(&json!({"model": "m", "backendFramework": "vllm"}));
    assert_eq!(id.len(), 32);
    let made = [
        "create v1 ServiceAccount n/c-k8s-service-discovery",
        "create rbac.authorization.k8s.io/v1 Role n/c-k8s-service-discovery-role",
        "create rbac.authorization.k8s.io/v1 RoleBinding n/c-k8s-service-discovery-binding",
        "create batch/v1 Job n/checkpoint-c",
        "Pending",
    ];
    assert_eq!(outcome(&settings, json!({}), &Observed::default()), made);
    let started = Observed { job: object(json!({})), ..Observed::default() };
    let pending = json!({"identityHash": id, "phase": "Pending"});
    assert_eq!(outcome(&settings, pending, &started), ["Creating"]);
    let creating = || json!({"identityHash": id, "phase": "Creating", "jobName": "checkpoint-c"});
    assert_eq!(outcome(&settings, creating(), &started), ["Creating"]);
    let pod = object(json!({"metadata": {"name": "p", "uid": "p1"}}));
    let running = Observed { pod, job: object(json!({})), ..Observed::default() };
    let frozen = ["create nvidia.com/v1alpha1 PodSnapshot n/c", "PodSnapshotCreated", "Creating"];
    assert_eq!(outcome(&settings, creating(), &running), frozen);
    let ready = json!({"status": {"boundPodSnapshotContentName": "x",
        "conditions": [{"type": "Ready", "status": "True", "message": "done"}]}});
    // The Job may have gone by then.
    let done = Observed { snapshot: object(ready), ..Observed::default() };
    assert_eq!(outcome(&settings, creating(), &done), ["CheckpointReady", "Ready"]);
    let plan = plan::plan(&settings, &checkpoint(creating()), &done, Timestamp::UNIX_EPOCH);
    assert_eq!(plan.status.expect("a status")["checkpointID"], id);
}

#[test]
fn what_goes_wrong_is_told() {
    let settings = settings();
    let id = identity::hash(&json!({"model": "m", "backendFramework": "vllm"}));
    let creating = || json!({"identityHash": id, "phase": "Creating", "jobName": "checkpoint-c"});
    let failed = json!({"status": {"conditions": [{"type": "Failed", "status": "True",
        "message": "too late"}]}});
    let over = ["CheckpointFailed", "Failed"];
    let job = Observed { job: object(failed.clone()), ..Observed::default() };
    assert_eq!(outcome(&settings, creating(), &job), over);
    assert_eq!(outcome(&settings, creating(), &Observed::default()), over);
    let snapshot = Observed { snapshot: object(failed), ..Observed::default() };
    assert_eq!(outcome(&settings, creating(), &snapshot), over);
    let other = json!({"metadata": {"ownerReferences": [{"controller": true, "uid": "other"}]}});
    let taken = Observed { snapshot: object(other), ..Observed::default() };
    assert_eq!(outcome(&settings, creating(), &taken), over);
    // Where nobody can freeze pods, nothing is made.
    let off = Settings::default();
    assert_eq!(outcome(&off, json!({}), &Observed::default()), ["Pending"]);
}

#[test]
fn the_job_starts_a_worker_that_can_be_frozen() {
    let settings = settings();
    let made = job::job(&settings, &checkpoint(json!({})), &Observed::default(), "id");
    let made = made.expect("a job");
    let template = &made["spec"]["template"];
    assert_eq!(template["metadata"]["labels"][SOURCE], "true");
    assert_eq!(template["metadata"]["labels"][ID], "id");
    assert_eq!(template["metadata"]["annotations"][TARGETS], "main");
    let pod = &template["spec"];
    let main = find(&pod["containers"], "name", "main").expect("a container");
    assert_eq!(main["securityContext"]["privileged"], true);
    assert_eq!(pod["restartPolicy"], "Never");
    assert_eq!(pod["serviceAccountName"], "c-k8s-service-discovery");
    let namespace = find(&main["env"], "name", "DYN_NAMESPACE").expect("a variable");
    assert_eq!(namespace["value"], "n-g");
    let profile = &pod["securityContext"]["seccompProfile"]["localhostProfile"];
    assert_eq!(profile, "profiles/block-iouring.json");
}

#[test]
fn a_pod_starts_from_a_checkpoint_that_is_ready() {
    let pod = json!({"metadata": {"annotations": {"nvidia.com/dynamo-checkpoint-name": "c"}}});
    let of = |phase: &str| {
        json!({"spec": {"job": {}}, "status": {"phase": phase,
        "checkpointID": "id"}})
    };
    assert_eq!(restore::restored(&settings(), &pod, &of("Creating")), None);
    let made = restore::restored(&settings(), &pod, &of("Ready")).expect("restored");
    assert_eq!(made["metadata"]["labels"][ID], "id");
    assert_eq!(made["metadata"]["annotations"][TARGETS], "main");
}

/// A checkpoint that a graph had made, and that is deleted.
fn deleted(finalizers: Value, annotations: Value) -> Object {
    let mut one = checkpoint(json!({"phase": "Ready", "checkpointID": "id"})).value.clone();
    one["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    one["metadata"]["finalizers"] = finalizers;
    one["metadata"]["annotations"] = annotations;
    Object::new(one)
}

#[test]
fn what_an_automatic_checkpoint_has_left_is_removed_before_it_goes() {
    let kept = json!({"pvc": {"pvcName": "c", "basePath": "/kept", "create": true,
        "size": "1Gi"}});
    let storage = storage::Storage::read(&kept).expect("good");
    let settings = Settings { storage, ..settings() };
    let automatic = json!({names::AUTO_CHECKPOINT: "true"});
    let steps = |object: &Object, observed: &Observed| {
        let plan = plan::plan(&settings, object, observed, Timestamp::UNIX_EPOCH);
        // Of a patch only what it is of.
        let step = |step: &Step| step.to_string().split(" {").next().unwrap_or("").to_owned();
        let mut all: Vec<String> = plan.steps.iter().map(step).collect();
        all.extend(plan.notices.iter().map(|notice| notice.reason.to_owned()));
        all
    };
    // It is held before it is begun; then its claim is made first.
    let mut fresh = checkpoint(json!({})).value.clone();
    fresh["metadata"]["annotations"] = automatic.clone();
    let nothing = Observed::default();
    assert_eq!(
        steps(&Object::new(fresh.clone()), &nothing),
        ["patch nvidia.com/v1alpha1 \
        DynamoCheckpoint n/c"]
    );
    fresh["metadata"]["finalizers"] = json!([names::FINALIZER]);
    let begun = fresh.clone();
    let made = steps(&Object::new(fresh), &nothing);
    assert_eq!(made[0], "create v1 PersistentVolumeClaim n/c");
    assert_eq!(made.last().map(String::as_str), Some("create batch/v1 Job n/checkpoint-c"));
    let held = || deleted(json!([names::FINALIZER]), automatic.clone());
    assert_eq!(steps(&held(), &nothing), ["create batch/v1 Job n/checkpoint-cleanup-id"]);
    let ended_for = |uid: &str, how: &str| {
        let name = storage::cleanup_name("id");
        let cleanup = Some(Object::new(json!({"metadata": {"namespace": "n", "name": name,
            "uid": "j", "annotations": {"inference.setpoint.dev/checkpoint-uid": uid}},
            "status": {"conditions": [{"type": how, "status": "True"}]}})));
        Observed { cleanup, ..Observed::default() }
    };
    let ended = |how: &str| ended_for(&held().uid, how);
    let go = "patch nvidia.com/v1alpha1 DynamoCheckpoint n/c";
    assert!(steps(&held(), &ended("Other")).is_empty());
    assert_eq!(steps(&held(), &ended("Complete")), [go]);
    // What was removed for one before it is not what this one has left.
    let before = steps(&held(), &ended_for("before", "Complete"));
    assert_eq!(before, ["delete batch/v1 Job n/checkpoint-cleanup-id"]);
    // Nobody is started while what is kept under its name is being removed.
    assert!(steps(&Object::new(begun), &ended_for("before", "Other")).is_empty());
    assert_eq!(steps(&held(), &ended("Failed")), [go, "CheckpointCleanupFailed"]);
    // What somebody else starts from stays, and what a user made.
    let shared = Observed { is_shared: true, ..Observed::default() };
    assert_eq!(steps(&held(), &shared), [go]);
    let own = deleted(json!([names::FINALIZER]), json!({}));
    assert_eq!(steps(&own, &nothing), [go]);
    let job = job::job(&settings, &checkpoint(json!({})), &nothing, "id").expect("a job");
    let pod = &job["spec"]["template"]["spec"];
    assert!(find(&pod["volumes"], "name", "checkpoint-storage").is_some(), "{pod}");
}
