//! A DataVolume becomes a claim of its name; how the claim is filled is told in the claim's
//! annotations by the node that does it, and in the volume's status by us.
//!
//! Upstream: kubevirt/containerized-data-importer, pkg/controller/datavolume

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::{self, Condition, Truth};
use reconcile::plan::{Notice, Target};
use reconcile::{Context, Error, Kind, Name, Object, Plan, Reconciler, Watches, owners};
use serde_json::{Value, json};

use crate::kinds::{CLAIM, DATA_VOLUME, STORAGE_CLASS};
use crate::value::{list, text};

use super::SCHEDULABLE;

pub const NAME: &str = "datavolume-controller";
const PHASE: &str = "cdi.kubevirt.io/storage.pod.phase";
const PROGRESS: &str = "cdi.kubevirt.io/storage.populator.progress";
const RESTARTS: &str = "cdi.kubevirt.io/storage.pod.restarts";
const MESSAGE: &str = "cdi.kubevirt.io/storage.condition.running.message";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const IMMEDIATE: &str = "cdi.kubevirt.io/storage.bind.immediate.requested";
const NODE: Kind = Kind::cluster("", "v1", "Node", "nodes");

pub struct Controller;

pub struct Observed {
    pub claim: Option<Arc<Object>>,
    /// Whether the claim waits until somebody uses it.
    pub waits: bool,
    /// A node that could fill it.
    pub node: Option<String>,
}

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = NAME;
    const KIND: Kind = DATA_VOLUME;

    fn watches(&self, watches: &mut Watches) {
        watches.owned(CLAIM, DATA_VOLUME);
        watches.reads(STORAGE_CLASS);
        watches.reads(NODE);
    }

    async fn observe(&self, context: &Context, volume: &Arc<Object>) -> Result<Observed, Error> {
        let claim = context.cache(CLAIM).get(&volume.name);
        let waits = claim.as_ref().is_some_and(|claim| {
            let class = Name::new("", text(&claim.value["spec"]["storageClassName"]));
            let class = context.cache(STORAGE_CLASS).get(&class);
            class.is_some_and(|class| class.value["volumeBindingMode"] == "WaitForFirstConsumer")
                && claim.annotation(SELECTED_NODE).is_none()
        });
        let nodes = context.cache(NODE).all();
        let node = nodes.iter().find(|node| {
            node.label(SCHEDULABLE) == Some("true")
                && conditions::is_true(&node.value["status"], "Ready")
        });
        let node = node.map(|node| node.name.name.to_string());
        Ok(Observed { claim, waits, node })
    }

    fn plan(&self, volume: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
        Ok(plan(volume, observed, now))
    }
}

/// How a volume is.
struct Told {
    phase: &'static str,
    bound: (Truth, &'static str, String),
    running: (Truth, &'static str, String),
}

pub fn plan(volume: &Object, observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::nothing();
    if volume.is_terminating() {
        return plan;
    }
    let name = &volume.name.name;
    let Some(claim) = &observed.claim else {
        plan.create(CLAIM, wanted(volume));
        let bound = (Truth::False, "NotFound", "No PVC found".to_owned());
        let told = Told { phase: "Pending", bound, running: (Truth::False, "", String::new()) };
        plan.status = Some(status(volume, None, &told, now));
        return plan;
    };
    let is_named = owners::controller_name(claim, DATA_VOLUME).as_ref() == Some(&volume.name);
    let told = match claim.controller() == Some(&volume.uid) {
        true => look(volume, claim, observed),
        false if is_named => {
            // What it holds is of a volume that is gone, and it goes with that.
            let why = format!("PVC {name} is of a DataVolume of this name that is gone");
            let bound = (Truth::False, "Pending", why);
            Told { phase: "Pending", bound, running: (Truth::False, "", String::new()) }
        }
        false => {
            let why = format!("PVC {name} belongs to another owner");
            let bound = (Truth::Unknown, "", String::new());
            Told { phase: "Failed", bound, running: (Truth::False, "Error", why) }
        }
    };
    // Who does not want to wait for a user is filled anywhere.
    if told.phase == "WaitForFirstConsumer"
        && volume.annotation(IMMEDIATE).is_some()
        && let Some(node) = &observed.node
    {
        let patch = json!({"metadata": {"annotations": {SELECTED_NODE: node}}});
        plan.patch(Target::of(CLAIM, claim), patch);
    }
    let before = text(&volume.value["status"]["phase"]);
    if before != told.phase {
        plan.notices.extend(notice(volume, &told));
    }
    plan.status = Some(status(volume, Some(claim), &told, now));
    plan
}

fn look(volume: &Object, claim: &Object, observed: &Observed) -> Told {
    let name = &volume.name.name;
    let of = |source: &str| volume.value["spec"]["source"][source].is_object();
    let (is_clone, is_upload) = (of("pvc"), of("upload"));
    let idle = || (Truth::False, "", String::new());
    match text(&claim.value["status"]["phase"]) {
        "Bound" => {
            let bound = (Truth::True, "Bound", format!("PVC {name} Bound"));
            let message = claim.annotation(MESSAGE).unwrap_or_default().to_owned();
            let (phase, running) = match claim.annotation(PHASE) {
                Some("Succeeded") => ("Succeeded", (Truth::False, "Completed", message)),
                Some("Failed") => ("Failed", (Truth::False, "Error", message)),
                Some(_) if is_clone => ("CloneInProgress", (Truth::True, "", message)),
                Some(_) if is_upload => ("UploadReady", (Truth::True, "", message)),
                Some(_) => ("ImportInProgress", (Truth::True, "", message)),
                None if is_clone => ("CloneScheduled", idle()),
                None if is_upload => ("UploadScheduled", idle()),
                None => ("ImportScheduled", idle()),
            };
            Told { phase, bound, running }
        }
        "Lost" => {
            let bound = (Truth::False, "ClaimLost", format!("PVC {name} Lost"));
            Told { phase: "Failed", bound, running: idle() }
        }
        _ => {
            let bound = (Truth::False, "Pending", format!("PVC {name} Pending"));
            let phase = if observed.waits { "WaitForFirstConsumer" } else { "Pending" };
            Told { phase, bound, running: idle() }
        }
    }
}

fn notice(volume: &Object, told: &Told) -> Option<Notice> {
    let name = &volume.name.name;
    let why = &told.running.2;
    Some(match told.phase {
        "ImportScheduled" => {
            Notice::normal("ImportScheduled", format!("Import into {name} scheduled"))
        }
        "ImportInProgress" => {
            Notice::normal("ImportInProgress", format!("Import into {name} in progress"))
        }
        "UploadReady" => Notice::normal("UploadReady", format!("Upload into {name} can begin")),
        "Succeeded" => {
            Notice::normal("ImportSucceeded", format!("Successfully imported into PVC {name}"))
        }
        "Failed" => {
            Notice::warning("ImportFailed", format!("Failed to import into PVC {name}: {why}"))
        }
        _ => return None,
    })
}

fn wanted(volume: &Object) -> Value {
    let spec = &volume.value["spec"];
    let asked = if spec["pvc"].is_object() { &spec["pvc"] } else { &spec["storage"] };
    let mut claim = owners::child(CLAIM, &volume.name.name, DATA_VOLUME, volume);
    claim["spec"] = asked.clone();
    if list(&claim["spec"]["accessModes"]).is_empty() {
        claim["spec"]["accessModes"] = json!(["ReadWriteOnce"]);
    }
    claim["metadata"]["labels"]["app"] = json!("containerized-data-importer");
    claim["metadata"]["annotations"]["cdi.kubevirt.io/storage.contentType"] = json!("kubevirt");
    claim
}

fn status(volume: &Object, claim: Option<&Arc<Object>>, told: &Told, now: Timestamp) -> Value {
    let mut status = volume.value["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    status["claimName"] = json!(&*volume.name.name);
    status["phase"] = json!(told.phase);
    let progress = claim.and_then(|claim| claim.annotation(PROGRESS));
    status["progress"] = match (told.phase, progress) {
        ("Succeeded", _) => json!("100.0%"),
        (_, Some(progress)) => json!(progress),
        (_, None) => json!("N/A"),
    };
    let restarts = claim.and_then(|claim| claim.annotation(RESTARTS)?.parse::<u64>().ok());
    status["restartCount"] = json!(restarts.unwrap_or(0));
    let mut all = list(&status["conditions"]).to_vec();
    let ready = match told.phase {
        "Succeeded" => (Truth::True, ""),
        "ImportInProgress" | "CloneInProgress" | "UploadReady" => (Truth::False, "TransferRunning"),
        _ => (Truth::False, ""),
    };
    for (kind, status, reason, message) in [
        ("Bound", told.bound.0, told.bound.1, told.bound.2.as_str()),
        ("Ready", ready.0, ready.1, ""),
        ("Running", told.running.0, told.running.1, told.running.2.as_str()),
    ] {
        let condition = Condition { kind, status, reason, message, observed_generation: None };
        conditions::set(&mut all, &condition, now);
    }
    status["conditions"] = json!(all);
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(source: Value) -> Object {
        Object::new(json!({"metadata": {"namespace": "a", "name": "d", "uid": "u"},
            "spec": {"source": source, "pvc": {"resources": {"requests": {"storage": "1Gi"}}}}}))
    }

    fn planned(source: Value, claim: Option<(&str, Value)>, waits: bool) -> Value {
        let volume = volume(source);
        let claim = claim.map(|(phase, annotations)| {
            let mut claim = wanted(&volume);
            claim["metadata"]["annotations"] = annotations;
            claim["status"] = json!({"phase": phase});
            Arc::new(Object::new(claim))
        });
        let plan = plan(&volume, &Observed { claim, waits, node: None }, Timestamp::UNIX_EPOCH);
        plan.status.unwrap()
    }

    #[test]
    fn the_claim_of_a_former_volume_of_the_name_is_waited_out() {
        let former = volume(json!({"blank": {}}));
        let mut claim = wanted(&former);
        claim["metadata"]["annotations"][PHASE] = json!("Succeeded");
        claim["status"] = json!({"phase": "Bound"});
        let mut again = (*former.value).clone();
        again["metadata"]["uid"] = json!("u2");
        let claim = Some(Arc::new(Object::new(claim)));
        let observed = Observed { claim, waits: false, node: None };
        let planned = plan(&Object::new(again), &observed, Timestamp::UNIX_EPOCH);
        assert!(planned.steps.is_empty(), "{planned}");
        assert_eq!(planned.status.unwrap()["phase"], "Pending");
    }

    #[test]
    fn phases_follow_from_the_claim_and_what_its_node_says() {
        let http = || json!({"http": {"url": "http://x"}});
        for (claim, waits, phase, progress) in [
            (None, false, "Pending", "N/A"),
            (Some(("Pending", json!({}))), true, "WaitForFirstConsumer", "N/A"),
            (Some(("Pending", json!({}))), false, "Pending", "N/A"),
            (Some(("Bound", json!({}))), false, "ImportScheduled", "N/A"),
            (
                Some(("Bound", json!({PHASE: "Running", PROGRESS: "45.34%"}))),
                false,
                "ImportInProgress",
                "45.34%",
            ),
            (Some(("Bound", json!({PHASE: "Succeeded"}))), false, "Succeeded", "100.0%"),
            (Some(("Bound", json!({PHASE: "Failed", MESSAGE: "no"}))), false, "Failed", "N/A"),
            (Some(("Lost", json!({}))), false, "Failed", "N/A"),
        ] {
            let status = planned(http(), claim, waits);
            assert_eq!((text(&status["phase"]), text(&status["progress"])), (phase, progress));
            let is_ready = conditions::is_true(&status, "Ready");
            assert_eq!(is_ready, phase == "Succeeded");
        }
        let failed =
            planned(http(), Some(("Bound", json!({PHASE: "Failed", MESSAGE: "no"}))), false);
        assert_eq!(conditions::find(&failed, "Running").unwrap()["message"], "no");
        let clone = json!({"pvc": {"name": "x"}});
        let status = planned(clone, Some(("Bound", json!({PHASE: "Running"}))), false);
        assert_eq!(status["phase"], "CloneInProgress");
        for (annotations, phase) in [
            (json!({}), "UploadScheduled"),
            (json!({PHASE: "Running"}), "UploadReady"),
            (json!({PHASE: "Succeeded"}), "Succeeded"),
        ] {
            let status = planned(json!({"upload": {}}), Some(("Bound", annotations)), false);
            assert_eq!(status["phase"], phase);
        }
    }
}
