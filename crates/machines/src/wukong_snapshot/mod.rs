//! A moment of a Wukong: one VirtualMachineSnapshot, of a name that is written down before it is
//! made.
//!
//! Upstream: kuihuar/vmoperator, internal/controller/snapshot_controller.go

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::Notice;
use reconcile::{
    Context, Error, Kind, Name, Object, Plan, Reconciler, Wake, Watches, conditions, owners,
};
use serde_json::{Value, json};

use crate::add_ons::{AddOns, definition_name};
use crate::kinds::{MACHINE, SNAPSHOT, WUKONG, WUKONG_SNAPSHOT};
use crate::value::text;
use crate::{Bridges, Options};

pub const NAME: &str = "wukongsnapshot";

/// When is looked again though nothing changed.
const MAKING: Duration = Duration::from_secs(5);
const WAITING: Duration = Duration::from_secs(10);
/// Letters of its UID that tell a snapshot from another of the same second.
const APART_LETTERS: usize = 8;

/// Tells nodes of ours to keep the memory of a machine that runs as well.
const INCLUDE_MEMORY: &str = "setpoint.dev/include-memory";

pub struct Controller {
    add_ons: AddOns,
    bridges: Bridges,
}

#[derive(Default)]
pub struct Observed {
    /// It goes or is gone, though the cache does not show that.
    pub is_gone: bool,
    pub add_ons: AddOns,
    /// Who makes bridges also says whose machines these are: nodes of ours keep memory.
    pub bridges: Bridges,
    pub wukong: Option<Arc<Object>>,
    /// The snapshot of the name that is its own, or would be.
    pub snapshot: Option<Arc<Object>>,
}

impl Controller {
    pub fn new(options: &Options) -> Controller {
        Controller { add_ons: options.add_ons, bridges: options.bridges }
    }
}

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = NAME;
    const IS_LOGGED: bool = true;
    const KIND: Kind = WUKONG_SNAPSHOT;

    fn watches(&self, watches: &mut Watches) {
        if self.add_ons.snapshots {
            watches.owned(SNAPSHOT, WUKONG_SNAPSHOT);
        }
        let snapshots = watches.cache(WUKONG_SNAPSHOT);
        watches.by(WUKONG, move |change| {
            let of = &change.object().name;
            let all = snapshots.in_namespace(&of.namespace);
            let waits = |one: &&Arc<Object>| {
                one.value["spec"]["wukongName"] == *of.name && !is_over(&one.value["status"])
            };
            all.iter().filter(waits).map(|one| one.name.clone()).collect()
        });
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<Observed, Error> {
        let mut found =
            Observed { add_ons: self.add_ons, bridges: self.bridges, ..Observed::default() };
        if is_over(&object.value["status"]) || object.is_terminating() {
            return Ok(found);
        }
        // That it failed is said once and for ever, so caches do not decide it.
        let wukong =
            Name::new(object.name.namespace.clone(), text(&object.value["spec"]["wukongName"]));
        found.wukong = context.get_live(WUKONG, &wukong).await?.map(Arc::new);
        if self.add_ons.snapshots {
            let name = Name::new(object.name.namespace.clone(), name_of(object));
            found.snapshot = context.get_live(SNAPSHOT, &name).await?.map(Arc::new);
        }
        if found.snapshot.is_none() {
            let live = context.get_live(WUKONG_SNAPSHOT, &object.name).await?;
            found.is_gone = live.is_none_or(|live| live.uid != object.uid || live.is_terminating());
        }
        Ok(found)
    }

    fn plan(&self, object: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
        Ok(plan(object, observed, now))
    }

    fn refused(&self, object: &Object, _: &Observed, error: &Error, _: Timestamp) -> Option<Plan> {
        let mut told = Told::of(object);
        told.status["error"] = json!(error.said());
        Some(told.wake(Wake::OnChange))
    }

    fn pause_after(&self, error: &Error) -> Duration {
        if error.is_refusal() { Duration::from_secs(30) } else { Duration::ZERO }
    }
}

fn is_over(status: &Value) -> bool {
    matches!(text(&status["phase"]), "Succeeded" | "Failed")
}

/// The name that was written down, or the one that would be.
fn name_of(object: &Object) -> String {
    match text(&object.value["status"]["snapshotName"]) {
        "" => first_name(object),
        known => known.to_owned(),
    }
}

fn first_name(object: &Object) -> String {
    let wukong = text(&object.value["spec"]["wukongName"]);
    let seconds = object.created().map_or(0, |at| at.as_second());
    format!("{wukong}-snapshot-{seconds}")
}

/// What is told, before it is.
struct Told<'a> {
    object: &'a Object,
    status: Value,
    steps: Vec<reconcile::Step>,
}

impl<'a> Told<'a> {
    fn of(object: &'a Object) -> Told<'a> {
        let mut status = object.value["status"].clone();
        if !status.is_object() {
            status = json!({});
        }
        Told { object, status, steps: Vec::new() }
    }

    fn phase(mut self, phase: &str) -> Told<'a> {
        self.status["phase"] = json!(phase);
        if let Some(fields) = self.status.as_object_mut() {
            fields.remove("error");
        }
        self
    }

    fn error(mut self, why: impl Into<String>) -> Told<'a> {
        self.status["error"] = json!(why.into());
        self
    }

    fn wake(self, wake: Wake) -> Plan {
        let (old, new) = (text(&self.object.value["status"]["phase"]), text(&self.status["phase"]));
        let error = text(&self.status["error"]).to_owned();
        let notice = match new {
            new if new == old => None,
            "Failed" => Some(Notice::warning("Failed", error)),
            "Succeeded" => Some(Notice::normal("Succeeded", "the snapshot can be used")),
            "Creating" => Some(Notice::normal("Creating", "the snapshot is being made")),
            _ => None,
        };
        let notices = notice.into_iter().collect();
        Plan { steps: self.steps, status: Some(self.status), notices, wake, ..Plan::nothing() }
    }
}

pub fn plan(object: &Object, observed: &Observed, now: Timestamp) -> Plan {
    let told = Told::of(object);
    if is_over(&told.status) || object.is_terminating() || observed.is_gone {
        return Plan::nothing();
    }
    let wukong = text(&object.value["spec"]["wukongName"]);
    let Some(found) = &observed.wukong else {
        return told
            .phase("Failed")
            .error(format!("Wukong {wukong} not found"))
            .wake(Wake::OnChange);
    };
    if !observed.add_ons.snapshots {
        let why = format!("the cluster does not have {}", definition_name(SNAPSHOT));
        return told.phase("Pending").error(why).wake(Wake::After(WAITING));
    }
    if object.value["spec"]["includeMemory"] == true && observed.bridges == Bridges::ByPolicy {
        let why = "spec.includeMemory: KubeVirt keeps no memory of machines: leave it out";
        return told.phase("Failed").error(why).wake(Wake::OnChange);
    }
    if text(&told.status["snapshotName"]).is_empty() {
        let name = match &observed.snapshot {
            // Another of the same second has the name.
            Some(other) if other.controller() != Some(&object.uid) => {
                let letters: String = object.uid.chars().take(APART_LETTERS).collect();
                format!("{}-{letters}", first_name(object))
            }
            _ => first_name(object),
        };
        let mut told = told.phase("Pending");
        told.status["snapshotName"] = json!(name);
        return told.wake(Wake::After(MAKING));
    }
    match &observed.snapshot {
        None => make(told, text(&found.value["status"]["vmName"])),
        Some(snapshot) if snapshot.controller() != Some(&object.uid) => {
            let why = format!("VirtualMachineSnapshot {} belongs to another owner", snapshot.name);
            told.phase("Failed").error(why).wake(Wake::OnChange)
        }
        Some(snapshot) => follow(told, snapshot, now),
    }
}

fn make(told: Told<'_>, machine: &str) -> Plan {
    if told.status["phase"] == "Creating" {
        let why = format!("VirtualMachineSnapshot {} is gone", text(&told.status["snapshotName"]));
        return told.phase("Failed").error(why).wake(Wake::OnChange);
    }
    if machine.is_empty() {
        let why = "the Wukong has no machine yet";
        return told.phase("Pending").error(why).wake(Wake::After(MAKING));
    }
    let name = text(&told.status["snapshotName"]).to_owned();
    let mut snapshot = owners::child(SNAPSHOT, &name, WUKONG_SNAPSHOT, told.object);
    snapshot["spec"] = json!({"source": {"apiGroup": MACHINE.group, "kind": MACHINE.kind,
        "name": machine}});
    if told.object.value["spec"]["includeMemory"] == true {
        snapshot["metadata"]["annotations"][INCLUDE_MEMORY] = json!("true");
    }
    let mut told = told.phase("Creating");
    told.steps.push(reconcile::Step::Create { kind: SNAPSHOT, object: snapshot });
    told.wake(Wake::After(MAKING))
}

/// Tells what became of a snapshot that was made.
fn follow(told: Told<'_>, snapshot: &Object, now: Timestamp) -> Plan {
    let status = &snapshot.value["status"];
    if status["readyToUse"] == true {
        let mut told = told.phase("Succeeded");
        told.status["creationTime"] = match &status["creationTime"] {
            Value::String(at) => json!(at),
            _ => json!(conditions::time(now)),
        };
        return told.wake(Wake::OnChange);
    }
    if status["phase"] == "Failed" {
        let said = text(&status["error"]["message"]);
        let failed = conditions::find(status, "Failure").map(|one| text(&one["message"]));
        let why = [Some(said), failed].into_iter().flatten().find(|why| !why.is_empty());
        let why = why.unwrap_or("the snapshot failed").to_owned();
        return told.phase("Failed").error(why).wake(Wake::OnChange);
    }
    let told = told.phase("Creating");
    let told = match text(&status["error"]["message"]) {
        "" => told,
        // It is tried again.
        why => told.error(why),
    };
    told.wake(Wake::After(WAITING))
}
