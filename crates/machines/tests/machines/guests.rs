//! What must hold of guests whatever happens, judged by what a witness saw of the hypervisor
//! (`host.rs`) and by everything that was written.

use std::collections::{BTreeMap, BTreeSet};

use machines::value::{list, text};
use serde_json::Value;
use testkit::oracle::{Case, Check, Violation};
use testkit::simulation::Run;

use crate::host::WITNESS;

/// Every oracle, one line each.
pub const ALL: &[Check] = &[
    one_guest,
    nobody_is_disturbed,
    guests_stay,
    volumes_go_forward,
    all_comes_back,
    nothing_is_left,
    services_lead_to_guests,
];

/// The order in which a volume is filled.
const PHASES: [&str; 5] =
    ["Pending", "WaitForFirstConsumer", "ImportScheduled", "ImportInProgress", "Succeeded"];

/// What the witness saw, in its order.
fn seen(run: &Run) -> Vec<Value> {
    let all = run.history.iter().filter(|change| change.old.is_none());
    let events = all.filter_map(|change| change.new.as_ref());
    let events = events.filter(|event| event["reason"] == WITNESS);
    events.filter_map(|event| serde_json::from_str(text(&event["message"])).ok()).collect()
}

/// VM-1: of a machine no two guests are at once, and nobody tries to start a second.
fn one_guest(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut live: BTreeMap<String, String> = BTreeMap::new();
    for one in seen(case.run) {
        let (id, of) = (text(&one["id"]).to_owned(), text(&one["of"]).to_owned());
        match text(&one["did"]) {
            "launched" => {
                if let Some((other, _)) = live.iter().find(|(_, machine)| **machine == of) {
                    let what = format!("{id} of {of} was started while {other} ran");
                    violations.push(Violation::new("VM-1", what));
                }
                live.insert(id, of);
            }
            "refused" => {
                let what = format!("{id} of {of} was to be started beside another");
                violations.push(Violation::new("VM-1", what));
            }
            "ended" | "removed" => drop(live.remove(&id)),
            _ => {}
        }
    }
    violations
}

/// VM-7: whoever comes back takes guests up as they are. They are started and ended as often as
/// without faults, and never paused or reset.
fn nobody_is_disturbed(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    if seen(case.reference).is_empty() {
        violations.push(Violation::new("VM-7", "nothing ran at all"));
    }
    let count = |run: &Run, did: &str| seen(run).iter().filter(|one| one["did"] == did).count();
    for did in ["launched", "disturbed"] {
        let (now, usual) = (count(case.run, did), count(case.reference, did));
        if now > usual {
            let what = format!("guests were {did} {now} times, not {usual}");
            violations.push(Violation::new("VM-7", what));
        }
    }
    violations
}

/// VM-2: nothing migrates, so an instance stays on its node, and says that it will.
fn guests_stay(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for change in &case.run.history {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { continue };
        if new["kind"] != "VirtualMachineInstance" {
            continue;
        }
        let node = |object: &Value| text(&object["status"]["nodeName"]).to_owned();
        if !node(old).is_empty() && node(old) != node(new) {
            let what = format!("{} went from {} to {}", change.key, node(old), node(new));
            violations.push(Violation::new("VM-2", what));
        }
        let is_live = reconcile::conditions::is_true(&new["status"], "LiveMigratable");
        if is_live {
            let what = format!("{} says that it can be moved", change.key);
            violations.push(Violation::new("VM-2", what));
        }
    }
    violations
}

/// VM-5: a volume is filled step by step, and full when it says so.
fn volumes_go_forward(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for change in &case.run.history {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { continue };
        if new["kind"] != "DataVolume" {
            continue;
        }
        let at = |object: &Value| PHASES.iter().position(|one| object["status"]["phase"] == **one);
        if let (Some(before), Some(after)) = (at(old), at(new))
            && after < before
        {
            let what = format!("{} went back to {}", change.key, PHASES[after]);
            violations.push(Violation::new("VM-5", what));
        }
    }
    violations
}

/// VM-6: what is brought back is all of a machine, and as it was kept. It is done when it is said.
fn all_comes_back(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for one in seen(case.run).iter().filter(|one| one["did"] == "held") {
        let changed = list(&one["bytes"]).iter().filter(|byte| **byte != 0).count();
        if changed > 0 {
            let what = format!("{changed} disks are not as they were kept: {one}");
            violations.push(Violation::new("VM-6", what));
        }
    }
    for change in &case.run.history {
        let Some(new) = change.new.as_ref() else { continue };
        let is_kept =
            ["VirtualMachineSnapshot", "VirtualMachineRestore"].contains(&text(&new["kind"]));
        if is_kept && reconcile::conditions::is_true(&new["status"], "Failure") {
            let what = format!("{} failed: {}", change.key, new["status"]["error"]);
            violations.push(Violation::new("VM-6", what));
        }
    }
    violations
}

/// VM-8: of an instance that is gone nothing is left on its node.
fn nothing_is_left(case: &Case<'_>) -> Vec<Violation> {
    let mut there: BTreeSet<&str> = BTreeSet::new();
    for change in &case.run.history {
        let object = change.new.as_ref().or(change.old.as_ref());
        let Some(object) = object.filter(|one| one["kind"] == "VirtualMachineInstance") else {
            continue;
        };
        let uid = text(&object["metadata"]["uid"]);
        match change.new.is_some() {
            true => there.insert(uid),
            false => there.remove(uid),
        };
    }
    let mut left: BTreeSet<String> = BTreeSet::new();
    for one in seen(case.run) {
        let id = text(&one["id"]).to_owned();
        match text(&one["did"]) {
            "launched" => left.insert(id),
            "removed" => left.remove(&id),
            _ => false,
        };
    }
    let left = left.iter().filter(|id| !there.contains(id.as_str()));
    left.map(|id| Violation::new("VM-8", format!("{id} is gone and its machine is not"))).collect()
}

/// VM-11: what says where a machine is reached is there while its instance is, for no other, and
/// says what is open; nothing else is.
fn services_lead_to_guests(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for one in seen(case.run).iter().filter(|one| one["did"] == "served") {
        let usual = [22, 80].map(Value::from);
        if list(&one["ports"]) != usual {
            violations.push(Violation::new("VM-11", format!("other ports are open: {one}")));
        }
    }
    let mut there: BTreeMap<&str, &Value> = BTreeMap::new();
    for change in &case.run.history {
        match &change.new {
            Some(new) => there.insert(&change.key, new),
            None => there.remove(change.key.as_str()),
        };
    }
    let of = |kind: &'static str| there.values().filter(move |one| one["kind"] == kind);
    let uids: BTreeSet<&str> =
        of("VirtualMachineInstance").map(|one| text(&one["metadata"]["uid"])).collect();
    for slice in of("EndpointSlice") {
        let uid = text(&slice["metadata"]["ownerReferences"][0]["uid"]);
        if !uids.contains(uid) {
            let what = format!("{} leads to one that is gone", slice["metadata"]["name"]);
            violations.push(Violation::new("VM-11", what));
        }
    }
    violations
}
