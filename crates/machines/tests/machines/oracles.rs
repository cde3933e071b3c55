//! What must hold of machines whatever happens: VM-1, VM-3 to VM-6 and VM-8 as far as they are the
//! operator's, and the order of things, each judged over everything that was written in a run. What
//! a hypervisor must keep to (VM-2, VM-7, VM-9, VM-10) is not decided here.

use std::collections::{BTreeMap, BTreeSet};

use machines::value::{list, text};
use machines::wukong::FINALIZER;
use serde_json::Value;
use testkit::oracle::{Case, Check, Violation};
use testkit::record::Change;

/// Every oracle, one line each.
pub const ALL: &[Check] = &[
    one_machine,
    machines_come_last,
    networks_come_first,
    nothing_before_the_finalizer,
    who_stops_is_heard,
    machines_are_written_whole,
    volumes_are_left_alone,
    restores_are_of_what_rests,
    goes_in_order,
    leaves_nothing,
    nothing_is_an_error,
];

type Objects<'a> = BTreeMap<&'a str, &'a Value>;

/// The world after each change: every object that there is, by key.
fn replay<'a>(case: &'a Case<'_>, mut look: impl FnMut(&Objects<'a>, &'a Change)) {
    let mut world: Objects<'a> = BTreeMap::new();
    for change in &case.run.history {
        match &change.new {
            Some(new) => world.insert(&change.key, new),
            None => world.remove(change.key.as_str()),
        };
        look(&world, change);
    }
}

fn is(object: &Value, kind: &str) -> bool {
    object["kind"] == kind
}

fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

fn controller(object: &Value) -> &str {
    text(&object["metadata"]["ownerReferences"][0]["uid"])
}

fn uid(object: &Value) -> &str {
    text(&object["metadata"]["uid"])
}

/// What the operator made just then.
fn made<'a>(case: &Case<'_>, change: &'a Change, kind: &str) -> Option<&'a Value> {
    let new = change.new.as_ref().filter(|new| is(new, kind))?;
    (change.old.is_none() && change.actor == case.run.actor).then_some(new)
}

/// What the operator began to delete just then.
fn deleted<'a>(case: &Case<'_>, change: &'a Change) -> Option<&'a Value> {
    let old = change.old.as_ref()?;
    let is_first = old["metadata"]["deletionTimestamp"].is_null();
    let is_going =
        change.new.as_ref().is_none_or(|new| !new["metadata"]["deletionTimestamp"].is_null());
    (is_first && is_going && change.actor == case.run.actor).then_some(old)
}

fn owner<'a>(world: &Objects<'a>, object: &Value) -> Option<&'a Value> {
    world.values().find(|one| is(one, "Wukong") && uid(one) == controller(object)).copied()
}

/// VM-1: a Wukong has one machine in its life.
fn one_machine(case: &Case<'_>) -> Vec<Violation> {
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for change in &case.run.history {
        if let Some(machine) = made(case, change, "VirtualMachine") {
            *count.entry(controller(machine)).or_default() += 1;
        }
    }
    let many = count.into_iter().filter(|(_, count)| *count > 1);
    many.map(|(uid, count)| Violation::new("VM-1", format!("{count} machines of {uid}"))).collect()
}

/// A machine is made when its networks are there and its volumes are bound, and not before.
fn machines_come_last(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    replay(case, |world, change| {
        let Some(machine) = made(case, change, "VirtualMachine") else { return };
        let spec = &machine["spec"]["template"]["spec"];
        let there = |kind: &str, wanted: &str| {
            world.values().find(|one| is(one, kind) && name(one) == wanted).copied()
        };
        for volume in list(&spec["volumes"]) {
            let Some(claim) = volume["persistentVolumeClaim"]["claimName"].as_str() else {
                continue;
            };
            let found = there("PersistentVolumeClaim", claim);
            let is_bound = found.is_some_and(|one| one["status"]["phase"] == "Bound");
            let is_full = there("DataVolume", claim)
                .is_none_or(|volume| volume["status"]["phase"] == "Succeeded");
            if !is_bound || !is_full {
                let what = format!("{} is there before {claim}", change.key);
                violations.push(Violation::new("order", what));
            }
        }
        for network in list(&spec["networks"]) {
            let Some(attachment) = network["multus"]["networkName"].as_str() else { continue };
            if there("NetworkAttachmentDefinition", attachment).is_none() {
                let what = format!("{} is there before {attachment}", change.key);
                violations.push(Violation::new("order", what));
            }
        }
    });
    violations
}

/// Volumes are made after the attachments of the networks.
fn networks_come_first(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    replay(case, |world, change| {
        let volume = made(case, change, "DataVolume")
            .or_else(|| made(case, change, "PersistentVolumeClaim"));
        let Some(wukong) = volume.and_then(|volume| owner(world, volume)) else { return };
        for network in list(&wukong["spec"]["networks"]) {
            let wanted = format!("{}-{}-nad", name(wukong), text(&network["name"]));
            let is_there =
                |one: &&&Value| is(one, "NetworkAttachmentDefinition") && name(one) == wanted;
            if network["name"] != "default" && world.values().find(is_there).is_none() {
                let what = format!("{} is there before {wanted}", change.key);
                violations.push(Violation::new("order", what));
            }
        }
    });
    violations
}

/// What has to be cleaned up is made only for those who will be.
fn nothing_before_the_finalizer(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    replay(case, |world, change| {
        if change.old.is_some() || change.actor != case.run.actor {
            return;
        }
        let Some(wukong) = change.new.as_ref().and_then(|new| owner(world, new)) else { return };
        let finalizers = list(&wukong["metadata"]["finalizers"]);
        if !finalizers.iter().any(|one| one == FINALIZER) {
            let what = format!("{} is there before the finalizer", change.key);
            violations.push(Violation::new("order", what));
        }
    });
    violations
}

/// VM-3: a machine that somebody else stopped is not started by us, unless its Wukong is asked to.
fn who_stops_is_heard(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut stopped: BTreeMap<&str, Value> = BTreeMap::new();
    replay(case, |world, change| {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { return };
        if !is(new, "VirtualMachine") || old["spec"]["runStrategy"] == new["spec"]["runStrategy"] {
            return;
        }
        let asked = owner(world, new).map(|wukong| {
            let spec = &wukong["spec"];
            Value::Array(vec![spec["startStrategy"].clone(), spec["restoreFromSnapshot"].clone()])
        });
        let asked = asked.unwrap_or_default();
        if change.actor != case.run.actor {
            if new["spec"]["runStrategy"] == "Halted" {
                stopped.insert(&change.key, asked);
            }
        } else if stopped.get(change.key.as_str()) == Some(&asked) {
            let what = format!("{} was started though somebody stopped it", change.key);
            violations.push(Violation::new("VM-3", what));
        }
    });
    violations
}

/// VM-4: what is written of a machine is what its Wukong says, at one time or another, whole.
fn machines_are_written_whole(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut said: BTreeSet<(String, String)> = BTreeSet::new();
    for change in &case.run.history {
        let Some(new) = &change.new else { continue };
        if is(new, "Wukong") {
            said.insert((new["spec"]["cpu"].to_string(), new["spec"]["memory"].to_string()));
        }
        if is(new, "VirtualMachine") && change.actor == case.run.actor {
            let domain = &new["spec"]["template"]["spec"]["domain"];
            let pair = (domain["cpu"]["cores"].to_string(), domain["memory"]["guest"].to_string());
            if !said.contains(&pair) {
                violations.push(Violation::new("VM-4", format!("{} has {pair:?}", change.key)));
            }
        }
    }
    violations
}

/// VM-5: a volume that was made is neither changed nor made again, and deleted only at the end.
fn volumes_are_left_alone(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    replay(case, |world, change| {
        let Some(old) = change.old.as_ref().filter(|old| is(old, "DataVolume")) else { return };
        if change.actor != case.run.actor {
            return;
        }
        let wukong = owner(world, old);
        let is_going =
            wukong.is_none_or(|wukong| !wukong["metadata"]["deletionTimestamp"].is_null());
        if !is_going {
            violations.push(Violation::new("VM-5", format!("{} was touched", change.key)));
        }
    });
    violations
}

/// VM-6: nothing runs of what is brought back, and nothing else is done to it meanwhile.
fn restores_are_of_what_rests(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    replay(case, |world, change| {
        let mut wrong = |what: String| violations.push(Violation::new("VM-6", what));
        if let Some(restore) = made(case, change, "VirtualMachineRestore") {
            let target = text(&restore["spec"]["target"]["name"]);
            let runs = |one: &&&Value| is(one, "VirtualMachineInstance") && name(one) == target;
            if world.values().find(runs).is_some() {
                wrong(format!("{} is of what runs", change.key));
            }
            let machine =
                world.values().find(|one| is(one, "VirtualMachine") && name(one) == target);
            if machine.is_none_or(|machine| machine["spec"]["runStrategy"] != "Halted") {
                wrong(format!("{} is of what may start", change.key));
            }
            return;
        }
        if change.actor != case.run.actor {
            return;
        }
        let Some(new) = &change.new else { return };
        let is_kept = ["VirtualMachine", "PersistentVolumeClaim", "DataVolume"]
            .iter()
            .any(|kind| is(new, kind));
        let goes_on = |one: &&&Value| {
            is(one, "VirtualMachineRestore")
                && one["status"]["complete"] != true
                && controller(one) == controller(new)
        };
        let is_going = owner(world, new)
            .is_none_or(|wukong| !wukong["metadata"]["deletionTimestamp"].is_null());
        if is_kept && !is_going && world.values().find(goes_on).is_some() {
            wrong(format!("{} was written while it is brought back", change.key));
        }
    });
    violations
}

/// What goes when: the machine, then volumes, then claims, then networks.
const STAGES: [&[&str]; 4] = [
    &["VirtualMachine", "VirtualMachineRestore", "Service"],
    &["DataVolume"],
    &["PersistentVolumeClaim"],
    &["NetworkAttachmentDefinition", "NodeNetworkConfigurationPolicy"],
];

fn stage(object: &Value) -> usize {
    let found = STAGES.iter().position(|kinds| kinds.iter().any(|kind| is(object, kind)));
    found.unwrap_or(STAGES.len())
}

fn is_of(object: &Value, wukong: &str) -> bool {
    controller(object) == wukong
        || object["metadata"]["labels"]["vm.novasphere.dev/wukong-uid"] == wukong
}

/// VM-8: what a Wukong has goes in order, and the Wukong last.
fn goes_in_order(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    replay(case, |world, change| {
        if let Some(gone) = deleted(case, change) {
            let of = match text(&gone["metadata"]["labels"]["vm.novasphere.dev/wukong-uid"]) {
                "" => controller(gone),
                labelled => labelled,
            };
            let own = stage(gone);
            // A claim may be that of a volume, which is gone by then.
            let earlier =
                world.values().find(|one| is_of(one, of) && stage(one) < own && own < STAGES.len());
            if let Some(earlier) = earlier {
                let what = format!("{} goes before {}", change.key, name(earlier));
                violations.push(Violation::new("VM-8", what));
            }
        }
        let (Some(old), None) = (&change.old, &change.new) else { return };
        if is(old, "Wukong") {
            let left = world.values().find(|one| is_of(one, uid(old)));
            if let Some(left) = left {
                let what = format!("{} goes before {}", change.key, name(left));
                violations.push(Violation::new("VM-8", what));
            }
            let machine = format!("{}-vm", name(old));
            let runs = |one: &&&Value| is(one, "VirtualMachineInstance") && name(one) == machine;
            if world.values().find(runs).is_some() {
                let what = format!("{} goes while its machine runs", change.key);
                violations.push(Violation::new("VM-8", what));
            }
        }
    });
    violations
}

/// VM-8: what is gone leaves nothing.
fn leaves_nothing(case: &Case<'_>) -> Vec<Violation> {
    if !case.run.is_settled {
        return Vec::new();
    }
    let objects = case.run.objects.values();
    let wukongs: BTreeSet<&str> =
        objects.clone().filter(|one| is(one, "Wukong")).map(name).collect();
    let kinds: Vec<&str> = STAGES.concat();
    let mut violations = Vec::new();
    for one in objects.filter(|one| kinds.iter().any(|kind| is(one, kind))) {
        let owner = one["metadata"]["ownerReferences"][0]["name"].as_str();
        let policy = one["metadata"]["annotations"]["vm.novasphere.dev/wukong"].as_str();
        let owner = owner.or(policy.and_then(|policy| policy.split('/').next_back()));
        let is_kept = owner.is_none_or(|owner| {
            wukongs.contains(owner) || wukongs.iter().any(|one| owner.starts_with(one))
        });
        if !is_kept {
            violations.push(Violation::new("VM-8", format!("{} is left", name(one))));
        }
    }
    violations
}

/// Nothing fails in these worlds but requests, and what is cut short is no error of the object's.
fn nothing_is_an_error(case: &Case<'_>) -> Vec<Violation> {
    let wrong = case.run.history.iter().filter(|change| {
        let new = change.new.as_ref().filter(|new| is(new, "Wukong") || is(new, "WukongSnapshot"));
        new.is_some_and(|new| {
            ["Error", "Failed"].iter().any(|phase| new["status"]["phase"] == *phase)
        })
    });
    wrong
        .map(|change| {
            let new = change.new.as_ref().map(|new| new["status"].to_string()).unwrap_or_default();
            Violation::new("VM-E", format!("{} is an error: {new}", change.key))
        })
        .collect()
}
