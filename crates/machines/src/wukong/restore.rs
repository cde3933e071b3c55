//! A Wukong that is to be as a snapshot of it was: one VirtualMachineRestore, made while the
//! machine does not run.

use reconcile::plan::Target;
use reconcile::{Object, Step, conditions};
use serde_json::json;

use super::observe::Observed;
use super::spec::Wukong;
use crate::kinds::{MACHINE, RESTORE};
use crate::value::text;

/// How that fares.
#[derive(Debug, PartialEq, Eq)]
pub enum Restore {
    NotAsked,
    /// Something has to be first.
    Waits {
        reason: &'static str,
        message: String,
    },
    /// The machine must not start, so that it can be.
    IsHeld(String),
    /// Nothing else may be done to the machine and its disks.
    UnderWay(String),
    Done(String),
    Failed(String),
}

pub fn look(steps: &mut Vec<Step>, wukong: &Wukong<'_>, observed: &Observed) -> Restore {
    let wanted = wukong.restores_from();
    let name = wanted.map(|snapshot| wukong.restore_name(snapshot));
    let (current, others): (Vec<&Object>, Vec<&Object>) = observed
        .restores
        .iter()
        .map(|restore| &**restore)
        .partition(|restore| name.as_deref() == Some(&*restore.name.name));
    // One that goes on must end, whatever is wished for meanwhile.
    if let Some(other) = others.iter().find(|other| is_under_way(other)) {
        return Restore::UnderWay(format!("VirtualMachineRestore {} goes on", other.name));
    }
    for other in others.iter().filter(|other| !other.is_terminating()) {
        steps
            .push(Step::Delete { target: Target::of(RESTORE, other), options: Default::default() });
    }
    let (Some(snapshot), Some(name)) = (wanted, name) else { return Restore::NotAsked };
    if let Some(current) = current.first() {
        return progress(current, snapshot);
    }
    begin(steps, wukong, observed, (snapshot, &name))
}

fn is_under_way(restore: &Object) -> bool {
    restore.value["status"]["complete"] != true && failure(restore).is_none()
}

fn failure(restore: &Object) -> Option<String> {
    let status = &restore.value["status"];
    let failed = conditions::find(status, "Failure").filter(|one| one["status"] == "True");
    failed.map(|one| text(&one["message"]).to_owned())
}

fn progress(restore: &Object, snapshot: &str) -> Restore {
    if restore.value["status"]["complete"] == true {
        return Restore::Done(format!("the machine is as WukongSnapshot {snapshot} was"));
    }
    match failure(restore) {
        Some(why) => {
            Restore::Failed(format!("VirtualMachineRestore {} failed: {why}", restore.name))
        }
        None => {
            let why = match text(&restore.value["status"]["error"]["message"]) {
                "" => String::new(),
                why => format!(": {why}"),
            };
            Restore::UnderWay(format!("VirtualMachineRestore {} goes on{why}", restore.name))
        }
    }
}

fn begin(
    steps: &mut Vec<Step>,
    wukong: &Wukong<'_>,
    observed: &Observed,
    (snapshot, name): (&str, &str),
) -> Restore {
    let waits = |reason, message: String| Restore::Waits { reason, message };
    if !observed.add_ons.snapshots {
        return waits("AddOnMissing", "the cluster does not know snapshots of machines".to_owned());
    }
    let Some(found) = &observed.snapshot else {
        return waits("SnapshotNotFound", format!("WukongSnapshot {snapshot} is not found"));
    };
    let of = text(&found.value["spec"]["wukongName"]);
    if of != wukong.name() {
        let message = format!("WukongSnapshot {snapshot} is of Wukong {of}, not of this one");
        return waits("SnapshotOfAnother", message);
    }
    let status = &found.value["status"];
    if status["phase"] != "Succeeded" {
        let phase = text(&status["phase"]);
        let message = format!("WukongSnapshot {snapshot} is in {phase:?} phase");
        return waits("SnapshotNotReady", message);
    }
    if observed.instance.is_some() {
        let message = "Restore target VMI must be powered off before restore operation";
        return waits("MachineRunning", message.to_owned());
    }
    let is_halted = observed
        .machine
        .as_ref()
        .is_some_and(|machine| machine.value["spec"]["runStrategy"] == "Halted");
    if !is_halted {
        return Restore::IsHeld(format!("the machine is held for WukongSnapshot {snapshot}"));
    }
    let mut object = wukong.child(RESTORE, name);
    object["spec"] = json!({
        "target": {"apiGroup": MACHINE.group, "kind": MACHINE.kind, "name": wukong.machine_name()},
        "virtualMachineSnapshotName": status["snapshotName"],
        "targetReadinessPolicy": "FailImmediate",
        // Claims keep the names that follow from the disks.
        "volumeRestorePolicy": "InPlace",
    });
    steps.push(Step::Create { kind: RESTORE, object });
    Restore::UnderWay(format!("VirtualMachineRestore {name} is being made"))
}
