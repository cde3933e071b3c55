//! CT-4, CT-11, CT-13, CT-14: the world ends as it would have without faults.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Case, Violation};
use crate::faults::Pattern;
use crate::simulation::Run;

/// Differences that are told.
const TOLD_MAX: usize = 3;
/// How often whoever fills a claim began again.
const RESTARTS: &str = "cdi.kubevirt.io/storage.pod.restarts";

pub fn end_state(case: &Case<'_>) -> Vec<Violation> {
    // One that never came to rest has no end.
    if !case.run.is_settled || !case.is_comparable() {
        return Vec::new();
    }
    let id = match case {
        case if never_tried_again(case) => "CT-13",
        case if case.has(&[Pattern::Unobserved, Pattern::Stale]) => "CT-11",
        _ => "CT-4",
    };
    differences(case, id)
}

/// CT-14: a value that was changed and changed back leaves nothing behind.
pub fn rollback(case: &Case<'_>) -> Vec<Violation> {
    if !case.run.is_settled {
        return vec![Violation::new("CT-1", "the world does not come to rest")];
    }
    differences(case, "CT-14")
}

fn differences(case: &Case<'_>, id: &'static str) -> Vec<Violation> {
    let counts = match case.run.planned.iter().any(|one| one.fault.is_crash()) {
        true => Counts::LeftOut,
        false => Counts::Compared,
    };
    let (mut expected, mut found) = (alike(case.reference, counts), alike(case.run, counts));
    // What is on both sides as often is no difference.
    for (key, objects) in &mut expected {
        let Some(others) = found.get_mut(key) else { continue };
        objects.retain(|object| match others.iter().position(|other| other == object) {
            Some(at) => {
                others.swap_remove(at);
                false
            }
            None => true,
        });
    }
    let mut wrong = Vec::new();
    for (key, objects) in expected {
        let mut others = found.remove(&key).unwrap_or_default().into_iter();
        for object in objects {
            wrong.push(match others.next() {
                Some(other) => format!("{key} differs: {}", difference(&object, &other, "")),
                None => format!("{key} is missing"),
            });
        }
        wrong.extend(others.map(|_| format!("{key} should not be there")));
    }
    let surplus = found.into_iter().filter(|(_, objects)| !objects.is_empty());
    wrong.extend(surplus.map(|(key, _)| format!("{key} should not be there")));
    wrong.into_iter().take(TOLD_MAX).map(|what| Violation::new(id, what)).collect()
}

/// The first place where two values differ.
fn difference(one: &Value, other: &Value, path: &str) -> String {
    match (one, other) {
        (Value::Object(ones), Value::Object(others)) => {
            let keys = ones.keys().chain(others.keys());
            let mut differing = keys.filter(|key| ones.get(*key) != others.get(*key));
            let Some(key) = differing.next() else { return String::new() };
            difference(&one[key.as_str()], &other[key.as_str()], &format!("{path}.{key}"))
        }
        (Value::Array(ones), Value::Array(others)) if ones.len() == others.len() => {
            let mut pairs = ones.iter().zip(others).enumerate();
            let Some((at, (one, other))) = pairs.find(|(_, (one, other))| one != other) else {
                return String::new();
            };
            difference(one, other, &format!("{path}[{at}]"))
        }
        _ => format!("{path} is {other}, without faults {one}"),
    }
}

/// Objects by key, where names that follow from a number are all the same: which of its like is
/// left is nobody's promise.
fn alike(run: &Run, counts: Counts) -> BTreeMap<String, Vec<Value>> {
    let mut alike: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (key, object) in &run.objects {
        let mut object = object.clone();
        blur(&mut object);
        if counts == Counts::LeftOut {
            leave_out_counts(&mut object);
        }
        alike.entry(blurred(key)).or_default().push(object);
    }
    alike
}

/// How often a disk was begun again. Whoever dies while one is filled has it begun again; nobody
/// else has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counts {
    Compared,
    LeftOut,
}

fn leave_out_counts(object: &mut Value) {
    let (place, field) = match object["kind"].as_str() {
        Some("DataVolume") => ("/status", "restartCount"),
        Some("PersistentVolumeClaim") => ("/metadata/annotations", RESTARTS),
        _ => return,
    };
    if let Some(fields) = object.pointer_mut(place).and_then(Value::as_object_mut) {
        fields.remove(field);
    }
}

fn blur(value: &mut Value) {
    match value {
        Value::String(text) => *text = blurred(text),
        Value::Array(items) => items.iter_mut().for_each(blur),
        Value::Object(fields) => fields.values_mut().for_each(blur),
        _ => {}
    }
}

/// A name without the letters that tell it from its siblings.
fn blurred(text: &str) -> String {
    const LETTERS: &str = "bcdfghjklmnpqrstvwxz2456789";
    match text.rsplit_once('-') {
        Some((name, end))
            if end.len() == 5 && end.chars().all(|letter| LETTERS.contains(letter)) =>
        {
            format!("{name}-*")
        }
        _ => text.to_owned(),
    }
}

/// Whether a write that failed was simply forgotten.
fn never_tried_again(case: &Case<'_>) -> bool {
    let failed = case.run.made.iter().find(|made| {
        made.fault.is_some_and(|fault| fault.pattern() == Pattern::Refused) && made.code != 200
    });
    failed.is_some_and(|failed| {
        let is_same = |path: &str| path == failed.path;
        let mut later = case.run.made.iter().filter(|made| made.at > failed.at);
        !later.any(|made| made.sort == failed.sort && is_same(&made.path))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::faults::{Fault, Planned, Sort};
    use crate::simulation::Also;

    fn run(restarts: u64, planned: Vec<Planned>) -> Run {
        let volume = json!({"kind": "DataVolume", "status": {"restartCount": restarts}});
        let pod = json!({"kind": "Pod", "status": {"restartCount": 0}});
        let objects = [("datavolumes/default/v".to_owned(), volume), ("pods/p".to_owned(), pod)];
        Run { planned, objects: objects.into(), is_settled: true, ..Run::default() }
    }

    #[test]
    fn how_often_a_disk_was_begun_is_compared_unless_somebody_died() {
        let sort = Sort { method: "PATCH".to_owned(), route: "/claims/*".to_owned() };
        let reference = run(0, Vec::new());
        for (fault, is_told) in [
            (Fault::Refuse(500), true),
            (Fault::LoseAnswer, true),
            (Fault::CrashBefore, false),
            (Fault::Bounce(1), false),
        ] {
            let planned = vec![Planned { sort: sort.clone(), number: 0, fault }];
            let run = run(1, planned);
            let case = Case { reference: &reference, run: &run, also: Also::default() };
            let told = differences(&case, "CT-4");
            assert_eq!(!told.is_empty(), is_told, "{fault:?}: {told:?}");
        }
    }
}
