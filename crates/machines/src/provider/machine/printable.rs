//! What people are shown of a machine; the first that fits. Pure.
//!
//! Upstream: kubevirt/kubevirt, pkg/virt-controller/watch/vm/vm.go (setPrintableStatus)

use reconcile::{Object, conditions};
use serde_json::Value;

use super::Observed;
use super::strategy::Strategy;
use crate::value::text;

pub fn status(
    machine: &Object,
    instance: Option<&Object>,
    observed: &Observed,
    is_starting: bool,
) -> &'static str {
    let of = instance.map_or(&Value::Null, |instance| &instance.value["status"]);
    let phase = text(&of["phase"]);
    let is_final = ["Succeeded", "Failed"].contains(&phase);
    let runs = instance.is_some() && phase == "Running";
    let has_failed = machine.value["status"]["startFailure"]["consecutiveFailCount"].as_u64();
    let again = matches!(
        Strategy::of(machine),
        Strategy::Always | Strategy::RerunOnFailure | Strategy::Once
    );
    let unplaced = conditions::find(of, "PodScheduled");
    let is_unplaced = unplaced.is_some_and(|one| one["reason"] == "Unschedulable");
    let is_unbound = |claim: &Object| claim.value["status"]["phase"] != "Bound";
    let mut claims = observed.claims.iter();
    let fill = |phase: &[&str]| {
        let mut fillers = observed.fillers.iter();
        fillers.any(|filler| phase.contains(&text(&filler.value["status"]["phase"])))
    };
    let is_filled =
        observed.fillers.iter().all(|filler| filler.value["status"]["phase"] == "Succeeded");
    let waits = observed.fillers.iter().all(|filler| {
        filler.value["status"]["phase"] == "WaitForFirstConsumer"
            || filler.value["status"]["phase"] == "Succeeded"
    });
    let comes = instance.is_some() && !is_final && !runs;
    let is_to_start = is_starting || comes;
    match () {
        () if machine.is_terminating() => "Terminating",
        () if instance.is_some_and(Object::is_terminating) && !is_final => "Stopping",
        () if runs && conditions::is_true(of, "Paused") => "Paused",
        () if runs => "Running",
        () if is_to_start && claims.any(|(_, claim)| claim.is_none()) => "ErrorPvcNotFound",
        () if fill(&["Failed", "Unknown"]) => "DataVolumeError",
        () if comes && is_unplaced => "ErrorUnschedulable",
        () if !is_filled && (!waits || is_to_start) => "Provisioning",
        () if is_to_start
            && observed
                .claims
                .iter()
                .any(|(_, claim)| claim.as_deref().is_some_and(is_unbound)) =>
        {
            "WaitingForVolumeBinding"
        }
        () if again
            && has_failed.is_some_and(|times| times > 0)
            && (instance.is_none() || is_final) =>
        {
            "CrashLoopBackOff"
        }
        () if is_to_start => "Starting",
        () => "Stopped",
    }
}
