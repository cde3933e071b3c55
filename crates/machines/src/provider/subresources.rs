//! What may be asked of a machine beside changing its object: start, stop, restart, and volumes
//! that come and go. Pure: what is asked and what is there becomes a change, or a refusal.
//!
//! Upstream: kubevirt/kubevirt, pkg/virt-api/rest

use reconcile::Object;
use serde_json::{Value, json};

use super::machine::strategy::Strategy;
use crate::value::{find, list, text};

pub const GROUP: &str = "subresources.kubevirt.io";

/// A refusal: a code of HTTP and a text.
pub type Refusal = (u16, String);

/// What is to be written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// Merge patches of the machine, of its status, and of its instance.
    pub machine: Option<Value>,
    pub status: Option<Value>,
    pub instance: Option<Value>,
}

fn conflict(message: impl Into<String>) -> Refusal {
    (409, message.into())
}

/// The instance, if it has not ended.
fn live(instance: Option<&Object>) -> Option<&Object> {
    instance.filter(|one| !["Succeeded", "Failed"].contains(&text(&one.value["status"]["phase"])))
}

fn strategy_patch(machine: &Object, to: Strategy) -> Value {
    match machine.value["spec"]["running"].is_boolean() {
        true => json!({"spec": {"running": to == Strategy::Always}}),
        false => json!({"spec": {"runStrategy": to.name()}}),
    }
}

/// Requests that are added to those that wait; a stop must be alone or before a start.
fn requests(machine: &Object, new: &[Value]) -> Result<Value, Refusal> {
    let waiting = list(&machine.value["status"]["stateChangeRequests"]);
    let is_stop = |one: &Value| one["action"] == "Stop";
    let fits = waiting.is_empty() || (waiting.len() == 1 && is_stop(&waiting[0]) && new.len() == 1);
    let is_lone_stop = new.len() == 1 && is_stop(&new[0]);
    if !fits && !is_lone_stop {
        return Err(conflict("unable to complete request: stop/start already underway"));
    }
    let all = match is_lone_stop {
        true => new.to_vec(),
        false => [waiting, new].concat(),
    };
    Ok(json!({"status": {"stateChangeRequests": all}}))
}

pub fn start(
    machine: &Object,
    instance: Option<&Object>,
    options: &Value,
) -> Result<Change, Refusal> {
    if live(instance).is_some() {
        return Err(conflict("VM is already running"));
    }
    let is_paused = options["paused"] == true;
    let request = match is_paused {
        true => json!({"action": "Start", "data": {"paused": "true"}}),
        false => json!({"action": "Start"}),
    };
    let asked = |request: Value| {
        let status = Some(requests(machine, &[request])?);
        Ok(Change { status, ..Change::default() })
    };
    let strategy = Strategy::of(machine);
    match strategy {
        Strategy::Halted if is_paused => asked(request),
        Strategy::Halted => {
            let machine = Some(strategy_patch(machine, Strategy::Always));
            Ok(Change { machine, ..Change::default() })
        }
        Strategy::RerunOnFailure
            if instance.is_some_and(|one| one.value["status"]["phase"] == "Failed") =>
        {
            Err(conflict("RerunOnFailure does not support starting VM from failed state"))
        }
        Strategy::RerunOnFailure | Strategy::Manual => asked(request),
        Strategy::Always | Strategy::Once => {
            Err(conflict(format!("{} does not support manual start requests", strategy.name())))
        }
    }
}

pub fn stop(
    machine: &Object,
    instance: Option<&Object>,
    options: &Value,
) -> Result<Change, Refusal> {
    let running = live(instance);
    let grace = options["gracePeriod"].as_i64();
    let instance_patch = match (running, grace) {
        (Some(_), Some(grace)) => {
            Some(json!({"spec": {"terminationGracePeriodSeconds": grace.max(0)}}))
        }
        _ => None,
    };
    let change = Change { instance: instance_patch, ..Change::default() };
    match (Strategy::of(machine), running) {
        (Strategy::Halted, Some(_)) if change.instance.is_some() => Ok(change),
        (Strategy::Halted, _) => {
            Err(conflict("Halted only supports manual stop requests with a shorter graceperiod"))
        }
        (Strategy::Always | Strategy::Once, _) => {
            Ok(Change { machine: Some(strategy_patch(machine, Strategy::Halted)), ..change })
        }
        (_, None) => Err(conflict("VM is not running")),
        (_, Some(running)) => {
            let stop = json!({"action": "Stop", "uid": running.uid});
            Ok(Change { status: Some(requests(machine, &[stop])?), ..change })
        }
    }
}

pub fn restart(
    machine: &Object,
    instance: Option<&Object>,
    options: &Value,
) -> Result<Change, Refusal> {
    let strategy = Strategy::of(machine);
    if matches!(strategy, Strategy::Halted | Strategy::Once) {
        let name = strategy.name();
        return Err(conflict(format!(
            "RunStategy {name} does not support manual restart requests"
        )));
    }
    let mut change = Change::default();
    match options["gracePeriodSeconds"].as_i64() {
        None => {}
        Some(0) => change.instance = Some(json!({"spec": {"terminationGracePeriodSeconds": 1}})),
        Some(_) => {
            let why = "For force restart, only gracePeriod=0 is supported for now";
            return Err((400, why.to_owned()));
        }
    }
    let running = live(instance).ok_or_else(|| conflict("VM is not running"))?;
    let both = [json!({"action": "Stop", "uid": running.uid}), json!({"action": "Start"})];
    change.status = Some(requests(machine, &both)?);
    Ok(change)
}

/// A volume that comes while the machine runs.
pub fn add_volume(machine: &Object, options: &Value) -> Result<Change, Refusal> {
    let name = text(&options["name"]);
    let source = &options["volumeSource"];
    if name.is_empty() || !source.is_object() {
        return Err((400, "AddVolumeOptions requires name and volumeSource to be set".to_owned()));
    }
    if !api::add_ons::is_volume_name(name) {
        let why = "must be lower case letters, digits and -, at most 63 of them";
        return Err((400, format!("Unable to add volume [{name}]: its name {why}")));
    }
    let spec = &machine.value["spec"]["template"]["spec"];
    if find(&spec["volumes"], "name", name).is_some() {
        return Err(conflict(format!(
            "Unable to add volume [{name}] because volume with that name already exists"
        )));
    }
    let mut volume = source.clone();
    volume["name"] = json!(name);
    for of in ["persistentVolumeClaim", "dataVolume"] {
        if volume[of].is_object() {
            volume[of]["hotpluggable"] = json!(true);
        }
    }
    let mut disk = match options["disk"].is_object() {
        true => options["disk"].clone(),
        false => json!({"disk": {"bus": "virtio"}}),
    };
    disk["name"] = json!(name);
    let disks = &spec["domain"]["devices"]["disks"];
    Ok(volumes(&[list(&spec["volumes"]), &[volume]].concat(), &[list(disks), &[disk]].concat()))
}

pub fn remove_volume(machine: &Object, options: &Value) -> Result<Change, Refusal> {
    let name = text(&options["name"]);
    let spec = &machine.value["spec"]["template"]["spec"];
    let found = find(&spec["volumes"], "name", name);
    let plugged = found.is_some_and(|volume| {
        ["persistentVolumeClaim", "dataVolume"].iter().any(|of| volume[*of]["hotpluggable"] == true)
    });
    if !plugged {
        return Err(conflict(match found {
            None => format!("Unable to remove volume [{name}] because it does not exist"),
            Some(_) => {
                format!("Unable to remove volume [{name}] because it is not hotpluggable")
            }
        }));
    }
    let others = |all: &Value| -> Vec<Value> {
        list(all).iter().filter(|one| one["name"] != name).cloned().collect()
    };
    Ok(volumes(&others(&spec["volumes"]), &others(&spec["domain"]["devices"]["disks"])))
}

fn volumes(volumes: &[Value], disks: &[Value]) -> Change {
    let spec = json!({"volumes": volumes, "domain": {"devices": {"disks": disks}}});
    let machine = Some(json!({"spec": {"template": {"spec": spec}}}));
    Change { machine, ..Change::default() }
}

/// Whether an instance can be paused, or resumed.
pub fn check_pause(instance: &Object, wanted: bool) -> Result<(), Refusal> {
    let status = &instance.value["status"];
    let is_paused = reconcile::conditions::is_true(status, "Paused");
    match (status["phase"] == "Running", is_paused, wanted) {
        (false, _, _) => Err(conflict("VM is not running")),
        (_, true, true) => Err(conflict("VMI is already paused")),
        (_, false, false) => Err(conflict("VMI is not paused")),
        _ => Ok(()),
    }
}

/// Whether a console of an instance can be joined.
pub fn check_console(instance: &Object) -> Result<(), Refusal> {
    match text(&instance.value["status"]["phase"]) {
        "Running" => Ok(()),
        "Failed" => Err(conflict("VMI is in failed status")),
        _ => Err((400, "VMI is not running".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(strategy: &str) -> Object {
        Object::new(json!({"metadata": {"name": "a"}, "spec": {"runStrategy": strategy,
            "template": {"spec": {"volumes": [{"name": "root"}]}}}}))
    }

    fn instance(phase: &str) -> Object {
        Object::new(json!({"metadata": {"name": "a", "uid": "u"}, "status": {"phase": phase}}))
    }

    #[test]
    fn refusals_are_those_of_kubevirt() {
        let (running, failed, none) = (instance("Running"), instance("Failed"), json!({}));
        let said = |answer: Result<Change, Refusal>| answer.unwrap_err().1;
        let begin = |strategy, instance| start(&machine(strategy), instance, &none);
        assert_eq!(said(begin("Manual", Some(&running))), "VM is already running");
        assert_eq!(said(begin("Always", None)), "Always does not support manual start requests");
        let again = "RerunOnFailure does not support starting VM from failed state";
        assert_eq!(said(begin("RerunOnFailure", Some(&failed))), again);
        assert_eq!(said(stop(&machine("Manual"), None, &none)), "VM is not running");
        let halted = "Halted only supports manual stop requests with a shorter graceperiod";
        assert_eq!(said(stop(&machine("Halted"), None, &none)), halted);
        let restarted = "RunStategy Halted does not support manual restart requests";
        assert_eq!(said(restart(&machine("Halted"), None, &none)), restarted);
        let force = restart(&machine("Always"), Some(&running), &json!({"gracePeriodSeconds": 5}));
        assert_eq!(force.unwrap_err().0, 400);
    }

    #[test]
    fn what_is_asked_becomes_a_change() {
        let (running, none) = (instance("Running"), json!({}));
        let flipped = start(&machine("Halted"), None, &none).unwrap();
        assert_eq!(flipped.machine.unwrap(), json!({"spec": {"runStrategy": "Always"}}));
        let stopped = stop(&machine("Always"), Some(&running), &json!({"gracePeriod": 0})).unwrap();
        assert_eq!(stopped.machine.unwrap(), json!({"spec": {"runStrategy": "Halted"}}));
        assert_eq!(stopped.instance.unwrap()["spec"]["terminationGracePeriodSeconds"], 0);
        let both = restart(&machine("Manual"), Some(&running), &none).unwrap().status.unwrap();
        let requests = json!([{"action": "Stop", "uid": "u"}, {"action": "Start"}]);
        assert_eq!(both["status"]["stateChangeRequests"], requests);
        let options = json!({"name": "data", "volumeSource": {"dataVolume": {"name": "d"}}});
        let added = add_volume(&machine("Always"), &options).unwrap().machine.unwrap();
        let spec = &added["spec"]["template"]["spec"];
        assert_eq!(spec["volumes"][1]["dataVolume"]["hotpluggable"], true);
        assert_eq!(spec["domain"]["devices"]["disks"][0]["name"], "data");
        for name in ["../x", "a,b=c", "-a", "A"] {
            let options = json!({"name": name, "volumeSource": {"dataVolume": {"name": "d"}}});
            assert_eq!(add_volume(&machine("Always"), &options).unwrap_err().0, 400, "{name}");
        }
        let removed = remove_volume(&machine("Always"), &json!({"name": "root"}));
        assert!(removed.unwrap_err().1.ends_with("because it is not hotpluggable"));
    }
}
