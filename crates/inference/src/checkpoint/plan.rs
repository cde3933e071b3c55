//! What a checkpoint does next.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::act::finalizer_patch;
use reconcile::conditions::{self, Condition, Truth, time};
use reconcile::plan::{About, Notice, Repeat, Target};
use reconcile::{Error, Object, Plan, Wake, owners};
use serde_json::{Value, json};

use super::{ID, OWNER, Observed, identity, job, storage};
use crate::discovery_account;
use crate::kinds::{CHECKPOINT, JOB, PERSISTENT_VOLUME_CLAIM, POD_SNAPSHOT};
use crate::names;
use crate::settings::Settings;
use crate::sync_resource::Sync;
use crate::value::{list, object_mut, text};

const CREATED: &str = "JobCreated";
const COMPLETED: &str = "JobCompleted";
/// How soon is looked again at what is not watched.
const LOOK: Duration = Duration::from_secs(5);
const DISABLED: &str = "checkpoint functionality is disabled in the operator configuration";

pub fn plan(settings: &Settings, checkpoint: &Object, observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::nothing();
    if checkpoint.is_terminating() {
        return end(settings, checkpoint, observed);
    }
    // What is kept for it is removed before it goes.
    let is_kept_here = settings.storage.is_some() && is_automatic(checkpoint);
    if is_kept_here && let Some(patch) = finalizer_patch(checkpoint, names::FINALIZER, true) {
        plan.patch(Target::unchanged(CHECKPOINT, checkpoint), patch);
        return plan;
    }
    let mut next = Next::of(checkpoint, now);
    let id = identity::hash(&checkpoint.value["spec"]["identity"]);
    if next.value["identityHash"] != id {
        next.set("identityHash", json!(id));
        next.set("phase", json!("Pending"));
    }
    match text(&next.value["phase"]) {
        "Ready" | "Failed" => {}
        _ if !settings.gates.checkpoints => {
            next.set("message", json!(DISABLED));
            say_once(&mut plan, checkpoint, Notice::warning("CheckpointDisabled", DISABLED));
        }
        "Creating" => create(&mut plan, checkpoint, observed, (&mut next, &id)),
        _ => prepare(&mut plan, (settings, checkpoint), observed, (&mut next, &id)),
    }
    plan.status = Some(next.value);
    plan
}

/// Whether a graph had it made; one that a user made, or a graph let go of, is the user's.
fn is_automatic(checkpoint: &Object) -> bool {
    checkpoint.annotation(names::AUTO_CHECKPOINT) == Some("true")
}

/// Removes what a checkpoint has left, then lets it go. What cannot be removed is told, and holds
/// nobody up.
fn end(settings: &Settings, checkpoint: &Object, observed: &Observed) -> Plan {
    let mut plan = Plan::nothing();
    let Some(patch) = finalizer_patch(checkpoint, names::FINALIZER, false) else { return plan };
    let id = text(&checkpoint.value["status"]["checkpointID"]);
    let storage = settings
        .storage
        .as_ref()
        .filter(|_| is_automatic(checkpoint) && !observed.is_shared && !id.is_empty());
    if let Some(storage) = storage {
        match observed.cleanup.as_ref().map(|job| (job, ended(job))) {
            None => {
                plan.create(JOB, storage.cleanup(&settings.cleanup_image, checkpoint, id));
                plan.wake = Wake::After(LOOK);
                return plan;
            }
            // It removed what one before this had left.
            Some((job, Some(_))) if !storage::is_for(job, checkpoint) => {
                plan.delete(Target::of(JOB, job));
                plan.wake = Wake::After(LOOK);
                return plan;
            }
            Some((_, None)) => {
                plan.wake = Wake::After(LOOK);
                return plan;
            }
            Some((_, Some(End::Complete))) => {}
            Some((_, Some(End::Failed))) => {
                let message = format!(
                    "{}/{id} of PVC {} could not be removed; remove it by hand",
                    storage.base_path, storage.claim
                );
                plan.notices.push(Notice::warning("CheckpointCleanupFailed", message));
            }
        }
    }
    plan.patch(Target::unchanged(CHECKPOINT, checkpoint), patch);
    plan
}

enum End {
    Complete,
    Failed,
}

/// How a Job ended, if it has.
fn ended(job: &Object) -> Option<End> {
    let is = |kind: &str| conditions::is_true(&job.value["status"], kind);
    match (is("Complete"), is("Failed")) {
        (true, _) => Some(End::Complete),
        (false, true) => Some(End::Failed),
        (false, false) => None,
    }
}

fn say_once(plan: &mut Plan, checkpoint: &Object, notice: Notice) {
    let (name, uid) = (checkpoint.name.clone(), Some(checkpoint.uid.clone()));
    plan.about.push(About { kind: CHECKPOINT, name, uid, notice, repeat: Repeat::Never });
}

/// Makes what starts the worker.
fn prepare(
    plan: &mut Plan,
    (settings, checkpoint): (&Settings, &Object),
    observed: &Observed,
    (next, id): (&mut Next, &str),
) {
    if observed.job.is_some() {
        next.set("phase", json!("Creating"));
        next.set("jobName", json!(job::name(checkpoint)));
        next.clear("message");
        let message = format!("Checkpoint job {} created", job::name(checkpoint));
        next.condition(CREATED, Truth::True, "JobCreated", &message);
        return;
    }
    if observed.cleanup.as_ref().is_some_and(|job| ended(job).is_none()) {
        // What is kept under the same name is being removed.
        plan.wake = Wake::After(LOOK);
        return;
    }
    if let Some(storage) = settings.storage.as_ref().filter(|_| !observed.has_claim) {
        match storage.claim(&checkpoint.name.namespace) {
            Ok(claim) => plan.create(PERSISTENT_VOLUME_CLAIM, claim),
            Err(why) => {
                // Somebody may make it yet.
                next.set("message", json!(why));
                say_once(plan, checkpoint, Notice::warning("CheckpointStorageMissing", why));
                plan.wake = Wake::After(LOOK);
                return;
            }
        }
    }
    match job::job(settings, checkpoint, observed, id) {
        Ok(wanted) => {
            let mut sync = Sync::new(plan, Some((CHECKPOINT, checkpoint)));
            let (namespace, name) = (&*checkpoint.name.namespace, &*checkpoint.name.name);
            discovery_account::sync(&mut sync, namespace, name, &observed.discovery);
            sync.keep(JOB, None, wanted);
        }
        Err(why) => {
            next.condition(CREATED, Truth::False, "JobCreationFailed", &why);
            fail(plan, next, why);
        }
    }
}

/// Has the worker frozen, and looks what came of it.
fn create(
    plan: &mut Plan,
    checkpoint: &Object,
    observed: &Observed,
    (next, id): (&mut Next, &str),
) {
    let job_failed = observed.job.as_ref().and_then(|job| {
        let status = &job.value["status"];
        let failed = conditions::find(status, "Failed").filter(|one| one["status"] == "True")?;
        Some(format!("checkpoint job failed: {}", text(&failed["message"])))
    });
    let Some(snapshot) = &observed.snapshot else {
        match (job_failed, &observed.job, &observed.pod) {
            (Some(why), ..) => {
                next.condition(COMPLETED, Truth::False, "JobFailed", &why);
                fail(plan, next, why);
            }
            (None, None, _) => {
                let why = "Checkpoint job was deleted";
                next.condition(CREATED, Truth::False, "JobDeleted", why);
                fail(plan, next, "checkpoint job was deleted".to_owned());
            }
            (None, Some(_), Some(pod)) => {
                let made = snapshot_of(checkpoint, pod, id);
                let message = format!("Created PodSnapshot {}", checkpoint.name.name);
                plan.notices.push(Notice::normal("PodSnapshotCreated", message));
                plan.create(POD_SNAPSHOT, made);
                next.set("podSnapshotName", json!(&*checkpoint.name.name));
            }
            // Whoever makes the pod will be heard.
            (None, Some(_), None) => {}
        }
        return;
    };
    if snapshot.controller() != Some(&checkpoint.uid) {
        let why = format!("PodSnapshot {} belongs to another owner", snapshot.name.name);
        next.condition(COMPLETED, Truth::False, "PodSnapshotNameConflict", &why);
        return fail(plan, next, why);
    }
    next.set("podSnapshotName", json!(&*snapshot.name.name));
    let status = &snapshot.value["status"];
    let said = |kind: &str| {
        let found = conditions::find(status, kind).map(|one| text(&one["message"]));
        found.unwrap_or_default().to_owned()
    };
    if conditions::is_true(status, "Failed") {
        let why = said("Failed");
        next.condition(COMPLETED, Truth::False, "PodSnapshotFailed", &why);
        return fail(plan, next, why);
    }
    let is_bound = !text(&status["boundPodSnapshotContentName"]).is_empty();
    if is_bound && conditions::is_true(status, "Ready") {
        next.set("phase", json!("Ready"));
        next.set("checkpointID", json!(id));
        next.set("createdAt", json!(time(next.now)));
        next.clear("message");
        next.condition(COMPLETED, Truth::True, "PodSnapshotReady", &said("Ready"));
        plan.notices.push(Notice::normal("CheckpointReady", said("Ready")));
    } else if let Some(why) = job_failed {
        next.condition(COMPLETED, Truth::False, "JobFailed", &why);
        fail(plan, next, why);
    }
}

fn fail(plan: &mut Plan, next: &mut Next, why: String) {
    next.set("phase", json!("Failed"));
    next.set("message", json!(why));
    plan.notices.push(Notice::failure("CheckpointFailed", why));
}

/// The request to freeze the container of a pod, and no other pod of its name.
fn snapshot_of(checkpoint: &Object, pod: &Object, id: &str) -> Value {
    let mut made = owners::child(POD_SNAPSHOT, &checkpoint.name.name, CHECKPOINT, checkpoint);
    made["metadata"]["labels"] = json!({OWNER: &*checkpoint.name.name, ID: id});
    made["spec"] = json!({"source": {"podRef": {"name": &*pod.name.name, "uid": pod.uid,
        "containers": [job::target(checkpoint)]}}});
    made
}

/// What is reported when a step was refused.
pub fn refused(checkpoint: &Object, error: &Error, now: Timestamp) -> Option<Plan> {
    if let Error::Other { .. } = error {
        // Whoever is in the way may go.
        let notices = vec![Notice::warning("JobCreationFailed", error.said())];
        return Some(Plan { notices, ..Plan::nothing() });
    }
    if !error.is_refusal() {
        return None;
    }
    let mut plan = Plan::nothing();
    let mut next = Next::of(checkpoint, now);
    next.condition(CREATED, Truth::False, "JobCreationFailed", &error.said());
    fail(&mut plan, &mut next, error.said());
    plan.status = Some(next.value);
    Some(plan)
}

/// A status while it is changed.
struct Next {
    value: Value,
    now: Timestamp,
}

impl Next {
    fn of(checkpoint: &Object, now: Timestamp) -> Next {
        let mut value = checkpoint.value["status"].clone();
        object_mut(&mut value);
        Next { value, now }
    }

    fn set(&mut self, field: &str, value: Value) {
        self.value[field] = value;
    }

    fn clear(&mut self, field: &str) {
        object_mut(&mut self.value).remove(field);
    }

    fn condition(&mut self, kind: &str, status: Truth, reason: &str, message: &str) {
        let mut all = list(&self.value["conditions"]).to_vec();
        let condition = Condition { kind, status, reason, message, observed_generation: None };
        conditions::set(&mut all, &condition, self.now);
        self.value["conditions"] = json!(all);
    }
}
