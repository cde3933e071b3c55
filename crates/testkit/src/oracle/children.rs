//! CT-5, CT-6 and the rule of owners: as many objects are made and deleted as without faults, never
//! more at a time, and each child names an owner that was there.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Case, Violation};
use crate::faults::Pattern;
use crate::record::Change;
use crate::simulation::Run;

/// Labels that give a child its place among its siblings.
const PLACES: [&str; 3] = [
    "apps.kubernetes.io/pod-index",
    "statefulset.kubernetes.io/pod-name",
    "batch.kubernetes.io/job-completion-index",
];

/// CT-5: creates and deletes of each object, where the component knew what there was.
pub fn counts(case: &Case<'_>) -> Vec<Violation> {
    let known = [Pattern::Intermediate, Pattern::Ambiguous, Pattern::Duplicate, Pattern::Refused];
    let is_known = case.is_only(&known) && case.is_comparable();
    if !is_known || case.run.planned.len() != 1 || !case.run.is_settled {
        return Vec::new();
    }
    let (expected, found) = (counted(case.reference), counted(case.run));
    let keys = expected.keys().chain(found.keys().filter(|key| !expected.contains_key(*key)));
    let mut violations = Vec::new();
    for key in keys {
        let [expected, found] = [&expected, &found].map(|of| of.get(key).copied());
        if expected != found {
            let say = |count: Option<(usize, usize)>| {
                let (made, deleted) = count.unwrap_or_default();
                format!("made {made}, deleted {deleted}")
            };
            let what = format!("{key}: {}, without faults {}", say(found), say(expected));
            violations.push(Violation::new("CT-5", what));
        }
    }
    violations
}

/// How often the component made and deleted each object.
fn counted(run: &Run) -> BTreeMap<&str, (usize, usize)> {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for change in run.own() {
        let begins = |value: &Option<Value>| match value {
            Some(value) => !value["metadata"]["deletionTimestamp"].is_null(),
            None => true,
        };
        let made = usize::from(change.old.is_none() && change.new.is_some());
        let deleted = usize::from(
            change.old.as_ref().is_some_and(|old| old["metadata"]["deletionTimestamp"].is_null())
                && begins(&change.new),
        );
        if made + deleted > 0 {
            let count = counts.entry(&change.key).or_default();
            *count = (count.0 + made, count.1 + deleted);
        }
    }
    counts
}

/// CT-6: never more children at a time than without faults, and never two in one place.
pub fn duplicates(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let (expected, found) = (peaks(case.reference), peaks(case.run));
    for (owner, peak) in &found.most {
        let expected = expected.most.get(owner).copied().unwrap_or(0);
        if *peak > expected && case.is_comparable() {
            let what = format!("{owner}: {peak} at a time, without faults {expected}");
            violations.push(Violation::new("CT-6", what));
        }
    }
    violations.extend(found.twice.into_iter().map(|what| Violation::new("CT-6", what)));
    violations
}

#[derive(Default)]
struct Peaks {
    /// The most children at a time, by owner and kind.
    most: BTreeMap<String, usize>,
    /// Places that two children had at a time.
    twice: Vec<String>,
}

fn peaks(run: &Run) -> Peaks {
    let mut peaks = Peaks::default();
    let mut living: BTreeMap<&str, &Value> = BTreeMap::new();
    for change in &run.history {
        match change.new.as_ref().filter(|new| is_living(new)) {
            Some(new) => living.insert(&change.key, new),
            None => living.remove(change.key.as_str()),
        };
        // Only what the component itself makes can be one too many of its own.
        if change.actor != run.actor || change.old.is_some() {
            continue;
        }
        let Some((new, owner)) = change.new.as_ref().and_then(|new| Some((new, owner(new)?)))
        else {
            continue;
        };
        let siblings = living.values().filter(|other| {
            other["kind"] == new["kind"]
                && self::owner(other).is_some_and(|of| of["uid"] == owner["uid"])
        });
        let siblings: Vec<&&Value> = siblings.collect();
        let name = format!("{} of {}", new["kind"], owner["name"]);
        let peak = peaks.most.entry(name).or_default();
        *peak = (*peak).max(siblings.len());
        let place = place(new);
        if place.is_some()
            && siblings.iter().filter(|other| self::place(other) == place).count() > 1
        {
            let what = format!("two {} with {}", new["kind"], place.unwrap_or_default());
            peaks.twice.push(what);
        }
    }
    peaks
}

fn is_living(object: &Value) -> bool {
    let phase = object["status"]["phase"].as_str().unwrap_or_default();
    object["metadata"]["deletionTimestamp"].is_null()
        && !(object["kind"] == "Pod" && matches!(phase, "Succeeded" | "Failed"))
}

fn owner(object: &Value) -> Option<&Value> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    owners.iter().find(|owner| owner["controller"] == json!(true))
}

fn place(object: &Value) -> Option<String> {
    let labels = &object["metadata"]["labels"];
    let found = PLACES.iter().find_map(|label| Some((label, labels[*label].as_str()?)));
    found.map(|(label, place)| format!("{label}={place}"))
}

/// Every child that is made names an owner that is, or was, and is called so.
pub fn owners(case: &Case<'_>) -> Vec<Violation> {
    let mut known: BTreeMap<&str, &Value> = BTreeMap::new();
    let mut violations = Vec::new();
    for change in &case.run.history {
        let Some(new) = &change.new else { continue };
        if let Some(uid) = new["metadata"]["uid"].as_str() {
            known.insert(uid, new);
        }
        if change.actor == case.run.actor
            && let Some(what) = misnamed(change, new, &known)
        {
            violations.push(Violation::new("CT-6", what));
        }
    }
    violations
}

fn misnamed(change: &Change, new: &Value, known: &BTreeMap<&str, &Value>) -> Option<String> {
    let reference = owner(new)?;
    let uid = reference["uid"].as_str().unwrap_or_default();
    let Some(owner) = known.get(uid) else {
        // What was there before the run began has no change.
        return (change.old.is_none() && uid.is_empty())
            .then(|| format!("{} has an owner without a UID", change.key));
    };
    let (named, of) = (&owner["metadata"], &new["metadata"]);
    let is_right = reference["name"] == named["name"]
        && reference["kind"] == owner["kind"]
        && reference["apiVersion"] == owner["apiVersion"]
        && (named["namespace"].is_null() || named["namespace"] == of["namespace"]);
    (!is_right).then(|| format!("{} misnames its owner: {reference}", change.key))
}
