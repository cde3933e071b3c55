//! What is told of a Wukong: its phase, its conditions, its networks and volumes.

use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::{self, Condition, Truth};
use reconcile::plan::Notice;
use reconcile::{Object, Wake};
use serde_json::{Value, json};

use super::disks::{self, Disks, Expansion};
use super::exposure::Exposure;
use super::networks::{self, Networks};
use super::plan::{CREATING, ERROR_LOOK};
use super::restore::Restore;
use super::spec::Wukong;
use crate::value::{list, text};

pub const READY: &str = "Ready";
pub const NETWORKS: &str = "NetworksConfigured";
pub const VOLUMES: &str = "VolumesBound";
pub const ADD_ONS: &str = "AddOnsInstalled";
pub const EXPANDED: &str = "DisksExpanded";
pub const RESTORED: &str = "Restored";
pub const EXPOSED: &str = "ServiceExposed";
pub const RESTART: &str = "RestartRequired";
pub const SERVICE_FAILED: &str = "ServiceFailed";
pub const NETWORK_FAILED: &str = "NetworkFailed";

pub struct Status<'a> {
    wukong: Wukong<'a>,
    now: Timestamp,
    pub value: Value,
    conditions: Vec<Value>,
}

impl<'a> Status<'a> {
    pub fn of(wukong: Wukong<'a>, now: Timestamp) -> Status<'a> {
        let mut value = wukong.status().clone();
        if !value.is_object() {
            value = json!({});
        }
        let conditions = list(&value["conditions"]).to_vec();
        Status { wukong, now, value, conditions }
    }

    pub fn phase(&mut self, phase: &str) {
        self.value["phase"] = json!(phase);
    }

    pub fn set(&mut self, kind: &str, status: Truth, reason: &str, message: &str) {
        let observed_generation = Some(self.wukong.object.generation());
        let condition = Condition { kind, status, reason, message, observed_generation };
        conditions::set(&mut self.conditions, &condition, self.now);
    }

    /// A condition that is only there while there is something to say.
    pub fn clear(&mut self, kind: &str) {
        self.conditions.retain(|one| one["type"] != kind);
    }

    pub fn networks(&mut self, networks: &Networks, instance: Option<&Object>) {
        let all = networks::statuses(networks, instance);
        let configured = format!("{} networks configured", all.len());
        match &networks.state {
            networks::State::Failed(why) => {
                self.set(NETWORKS, Truth::False, NETWORK_FAILED, why);
            }
            networks::State::Pending(what) => {
                self.set(NETWORKS, Truth::False, "NetworksPending", what);
            }
            networks::State::Ready if !networks.fallen_back.is_empty() => {
                let names = networks.fallen_back.join(", ");
                let what = format!(
                    "the cluster does not know attachments of Multus: {names} fall back to the \
                     Pod network"
                );
                self.set(NETWORKS, Truth::False, "MultusMissing", &what);
            }
            networks::State::Ready => {
                self.set(NETWORKS, Truth::True, "NetworksReady", &configured);
            }
        }
        self.value["networks"] = json!(all);
    }

    pub fn volumes(&mut self, disks: &Disks) {
        self.value["volumes"] = json!(disks.statuses);
        match &disks.state {
            disks::State::Bound => {
                let bound = format!("{} volumes bound", disks.bound);
                self.set(VOLUMES, Truth::True, "VolumesReady", &bound);
            }
            disks::State::Pending { reason, message } => {
                self.set(VOLUMES, Truth::False, reason, message);
            }
            disks::State::Failed(why) => self.set(VOLUMES, Truth::False, "VolumeFailed", why),
        }
        match &disks.expansion {
            Expansion::UnderWay(what) => self.set(EXPANDED, Truth::False, "Expanding", what),
            Expansion::Failed(why) => self.set(EXPANDED, Truth::False, "ExpansionFailed", why),
            // What is over leaves no trace: whether it was ever seen is chance.
            Expansion::NotAsked => self.clear(EXPANDED),
        }
    }

    pub fn restore(&mut self, restore: &Restore) {
        let (truth, reason, message) = match restore {
            Restore::NotAsked => return self.clear(RESTORED),
            Restore::Waits { reason, message } => (Truth::False, *reason, message),
            Restore::IsHeld(what) => (Truth::False, "MachineHeld", what),
            Restore::UnderWay(what) => (Truth::False, "RestoreInProgress", what),
            Restore::Done(what) => (Truth::True, "RestoreComplete", what),
            Restore::Failed(why) => (Truth::False, "RestoreFailed", why),
        };
        self.set(RESTORED, truth, reason, message);
    }

    pub fn exposure(&mut self, exposure: &Exposure) {
        match exposure {
            Exposure::NotAsked => self.clear(EXPOSED),
            Exposure::Pending(what) => self.set(EXPOSED, Truth::False, "ServicePending", what),
            Exposure::Done(what) => self.set(EXPOSED, Truth::True, "ServiceReady", what),
            Exposure::Failed(why) => self.set(EXPOSED, Truth::False, SERVICE_FAILED, why),
        }
    }

    /// What the cluster would need for this object and does not have.
    pub fn add_ons(&mut self, missing: &[String]) {
        if missing.is_empty() {
            return self.clear(ADD_ONS);
        }
        let message = format!("the cluster does not have {}", missing.join(", "));
        self.set(ADD_ONS, Truth::False, "CustomResourceDefinitionsMissing", &message);
    }

    /// What the machine says of itself; returns when to look again.
    pub fn machine(&mut self, machine: Option<&Object>, instance: Option<&Object>) -> Wake {
        let phase = machine_phase(&self.wukong, machine, instance);
        let node = instance.map(|instance| text(&instance.value["status"]["nodeName"]));
        if let Some(fields) = self.value.as_object_mut() {
            fields.remove("nodeName");
        }
        if let Some(node) = node.filter(|node| !node.is_empty()) {
            self.value["nodeName"] = json!(node);
        }
        let why = instance.and_then(hindrance);
        let because = why.as_ref().map(|why| format!(": {}", why.message)).unwrap_or_default();
        let state = format!("Virtual machine is in {phase} state{because}");
        let is_unplaced = why.is_some_and(|why| why.is_unplaced);
        let (own, reason) = match phase {
            "Running" => ("Running", "VMRunning"),
            "Pending" if is_unplaced => ("Error", "Unschedulable"),
            "Failed" | "Unknown" => ("Error", "VMFailed"),
            "Stopped" => ("Stopped", "VMStopped"),
            "" if !self.wukong.starts_itself() => ("Stopped", "VMNotReady"),
            "" => ("Creating", "VMNotReady"),
            phase if is_broken(phase) => ("Error", "VMFailed"),
            _ => ("Creating", "VMCreating"),
        };
        self.phase(own);
        match phase {
            "Running" => self.set(READY, Truth::True, reason, "Virtual machine is running"),
            "" => self.set(READY, Truth::False, reason, "Virtual machine is not ready"),
            _ => self.set(READY, Truth::False, reason, &state),
        }
        let asks = machine.and_then(|machine| {
            let found = conditions::find(&machine.value["status"], RESTART)?;
            (found["status"] == "True").then(|| text(&found["message"]).to_owned())
        });
        match asks {
            Some(why) if !why.is_empty() => {
                self.set(RESTART, Truth::True, "RestartRequired", &why);
            }
            Some(_) => self.set(RESTART, Truth::True, "RestartRequired", "the machine says so"),
            None => self.clear(RESTART),
        }
        match own {
            "Creating" => Wake::After(CREATING),
            "Error" => Wake::After(ERROR_LOOK),
            _ => Wake::OnChange,
        }
    }

    /// What changed of the phase, for people.
    pub fn notice(&self) -> Option<Notice> {
        let (old, new) = (self.wukong.phase(), text(&self.value["phase"]));
        if old == new {
            return None;
        }
        let why = self.conditions.iter().find(|one| one["type"] == READY);
        let why = why.map_or("", |one| text(&one["message"])).to_owned();
        Some(match new {
            "Error" => Notice::warning("Failed", self.failure().unwrap_or(why)),
            "Running" => Notice::normal("Running", why),
            "Stopped" => Notice::normal("Stopped", why),
            "Creating" => Notice::normal("Creating", "its networks and disks are being made"),
            _ => Notice::normal("Pending", "it was seen"),
        })
    }

    /// What failed, of the things that a machine needs.
    fn failure(&self) -> Option<String> {
        let failed = self.conditions.iter().find(|one| {
            let reason = text(&one["reason"]);
            one["status"] == "False" && (reason.ends_with("Failed") || reason == "InvalidSpec")
        });
        failed.map(|one| text(&one["message"]).to_owned())
    }

    pub fn done(mut self) -> Value {
        if !self.conditions.is_empty() {
            self.value["conditions"] = Value::Array(self.conditions);
        }
        self.value
    }
}

/// What keeps an instance from running, as it says.
struct Hindrance {
    message: String,
    /// It is that no node can have it.
    is_unplaced: bool,
}

fn hindrance(instance: &Object) -> Option<Hindrance> {
    let of = |kind: &str| {
        let found = conditions::find(&instance.value["status"], kind)?;
        (found["status"] == "False" && !text(&found["message"]).is_empty()).then_some(found)
    };
    let unplaced = of("PodScheduled");
    let found = of("Synchronized").or(unplaced)?;
    let is_unplaced = unplaced.is_some_and(|one| one["reason"] == "Unschedulable");
    Some(Hindrance { message: text(&found["message"]).to_owned(), is_unplaced })
}

/// Whether what a machine prints means that it will not come without help.
fn is_broken(printed: &str) -> bool {
    matches!(
        printed,
        "CrashLoopBackOff"
            | "DataVolumeError"
            | "ErrImagePull"
            | "ErrorPvcNotFound"
            | "ErrorUnschedulable"
            | "ImagePullBackOff"
    )
}

/// The phase of the instance, or what its absence means: empty where there is no machine.
fn machine_phase<'b>(
    wukong: &Wukong<'_>,
    machine: Option<&'b Object>,
    instance: Option<&'b Object>,
) -> &'b str {
    let Some(machine) = machine.filter(|machine| wukong.owns(machine)) else { return "" };
    let phase = instance.map(|instance| match text(&instance.value["status"]["phase"]) {
        "" => "Pending",
        phase => phase,
    });
    let restarts = machine.value["spec"]["runStrategy"] == "Always"
        || machine.value["spec"]["running"] == true;
    let printed = text(&machine.value["status"]["printableStatus"]);
    match phase {
        // What always runs is about to run again.
        Some("Succeeded") | None if restarts => match printed {
            "" | "Stopped" | "Running" => "Starting",
            printed => printed,
        },
        Some("Succeeded") => "Stopped",
        None => match printed {
            "" | "Running" => "Stopped",
            printed => printed,
        },
        Some(phase) => phase,
    }
}
