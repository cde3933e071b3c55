//! Run strategies: what is done with the instance of a machine. Pure.
//!
//! Upstream: kubevirt/kubevirt, pkg/virt-controller/watch/vm/vm.go (syncRunStrategy)

use reconcile::Object;
use serde_json::{Value, json};

use crate::value::text;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    Always,
    RerunOnFailure,
    Manual,
    Halted,
    Once,
}

impl Strategy {
    pub fn of(machine: &Object) -> Strategy {
        let spec = &machine.value["spec"];
        match (text(&spec["runStrategy"]), spec["running"].as_bool()) {
            ("Always", _) | ("", Some(true)) => Strategy::Always,
            ("RerunOnFailure", _) => Strategy::RerunOnFailure,
            ("Manual", _) => Strategy::Manual,
            ("Once", _) => Strategy::Once,
            _ => Strategy::Halted,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Strategy::Always => "Always",
            Strategy::RerunOnFailure => "RerunOnFailure",
            Strategy::Manual => "Manual",
            Strategy::Halted => "Halted",
            Strategy::Once => "Once",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    Stay,
    Start,
    /// Ends the instance; what follows is decided when it is gone.
    Delete,
    /// Changes the strategy.
    Flip(Strategy),
}

/// What is done. Requests that are done, or are about an instance that is gone, go.
pub fn decide(
    strategy: Strategy,
    instance: Option<&Object>,
    requests: &mut Vec<Value>,
    is_new: bool,
) -> Move {
    requests.retain(|one| {
        one["action"] != "Stop" || instance.is_some_and(|instance| one["uid"] == *instance.uid)
    });
    let is_stopped = requests.iter().any(|one| one["action"] == "Stop");
    let is_started = requests.iter().any(|one| one["action"] == "Start");
    let phase = instance.map(|instance| text(&instance.value["status"]["phase"]));
    let (failed, succeeded) = (phase == Some("Failed"), phase == Some("Succeeded"));
    // What goes already is left to go.
    if instance.is_some_and(Object::is_terminating) {
        return Move::Stay;
    }
    match (strategy, instance.is_some()) {
        (Strategy::Always, false) => Move::Start,
        (Strategy::Always, true) if is_stopped || failed || succeeded => Move::Delete,
        (Strategy::RerunOnFailure, false) if is_started || is_new => Move::Start,
        (Strategy::RerunOnFailure, true) if failed => {
            if !is_started {
                requests.push(json!({"action": "Start"}));
            }
            Move::Delete
        }
        (Strategy::RerunOnFailure, true) if succeeded || is_stopped => Move::Delete,
        (Strategy::Manual, false) if is_started => Move::Start,
        (Strategy::Manual, true) if is_stopped => Move::Delete,
        (Strategy::Halted, false) if is_started => Move::Flip(Strategy::Always),
        (Strategy::Halted, true) => Move::Delete,
        (Strategy::Once, false) if is_new => Move::Start,
        _ => Move::Stay,
    }
}
