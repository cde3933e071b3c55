//! Performs a plan: its steps, then the status, then the notices.
//!
//! Steps are started in order. Neighbours of the same sort do not depend on each other and run
//! together, at first few and then more, so that a refusal is met before a thousand requests.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::Error;
use crate::caches::{Caches, Lookup};
use crate::defects::{Defect, is_planted};
use crate::kind::Kind;
use crate::object::{Name, Object};
use crate::plan::{Step, Target};
use crate::requests::Requests;

/// Stands for kinds where they do not matter.
const ANY: Kind = Kind::cluster("", "", "", "");
/// Steps that run together at most.
const STEPS_TOGETHER_MAX: usize = 256;

/// What was written, so that the next reconcile can wait until the caches show it.
#[derive(Debug, Default)]
pub struct Written {
    /// The newest revision written, by kind.
    pub revisions: BTreeMap<Kind, u64>,
    /// The UIDs of what was made.
    pub made: BTreeMap<(Kind, Name), String>,
    /// Objects that went at once.
    pub lost: Vec<(Kind, Name, String)>,
    /// How many writes there were.
    pub writes: u64,
}

impl Written {
    fn saw(&mut self, kind: Kind, revision: u64) {
        let newest = self.revisions.entry(kind).or_default();
        *newest = (*newest).max(revision);
    }
}

/// What one step led to.
enum Done {
    At(Kind, u64),
    Made(Kind, Object),
    Lost(Kind, Name, String),
    Nothing,
}

/// Performs steps; what was written is noted even when a later step fails.
pub async fn perform(
    (requests, caches): (&Requests, &Caches),
    steps: &[Step],
    written: &mut Written,
) -> Result<(), Error> {
    let requests = &requests.brief();
    let mut together = 1;
    let mut rest = steps;
    while let Some(first) = rest.first() {
        let same = rest.iter().take_while(|step| sort(step) == sort(first)).count();
        let (batch, after) = rest.split_at(same.min(together));
        let mut running = Vec::with_capacity(batch.len());
        for step in batch {
            running.push(perform_one(requests, caches, step));
        }
        let done = futures::future::join_all(running).await;
        let mut failure = None;
        for done in done {
            match done {
                Err(error) if is_ignored(&error) => {}
                Ok(Done::At(kind, revision)) => {
                    written.saw(kind, revision);
                    written.writes += 1;
                }
                Ok(Done::Made(kind, object)) => {
                    written.saw(kind, object.revision);
                    written.writes += 1;
                    written.made.insert((kind, object.name), object.uid);
                }
                Ok(Done::Lost(kind, name, uid)) => {
                    written.lost.push((kind, name, uid));
                    written.writes += 1;
                }
                Ok(Done::Nothing) => {}
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        if let Some(error) = failure {
            return Err(error);
        }
        // Only a whole run of one sort may grow: what comes next is of another.
        together =
            if same > batch.len() { (together * 2).min(STEPS_TOGETHER_MAX) } else { together };
        rest = after;
    }
    Ok(())
}

/// Whether a failure is taken for a success; only ever so in a build that is meant to be wrong.
fn is_ignored(error: &Error) -> bool {
    is_planted(Defect::IgnoreLostAnswer) && error.class() == "connection"
}

fn sort(step: &Step) -> (u8, Kind) {
    match step {
        Step::Create { kind, .. } => (0, *kind),
        Step::Apply { kind, .. } => (1, *kind),
        Step::Patch { target, .. } => (2, target.kind),
        Step::Delete { target, .. } => (3, target.kind),
        Step::Replace { target, .. } => (4, target.kind),
        // Kinds in one namespace do not depend on each other.
        Step::DeleteCollection { .. } => (5, ANY),
    }
}

async fn perform_one(requests: &Requests, caches: &Caches, step: &Step) -> Result<Done, Error> {
    match step {
        Step::Create { kind, object } => create(requests, caches, *kind, object).await,
        Step::Apply { kind, object } => {
            let object = requests.apply(*kind, object).await?;
            Ok(Done::At(*kind, object.revision))
        }
        Step::Patch { target, patch } => {
            let object = requests.patch(target, patch).await?;
            Ok(Done::At(target.kind, object.revision))
        }
        Step::Replace { target, object, .. } => {
            let object = requests.replace(target, object).await?;
            Ok(Done::At(target.kind, object.revision))
        }
        Step::DeleteCollection { kind, namespace } => {
            requests.delete_collection(*kind, namespace).await?;
            Ok(Done::Nothing)
        }
        Step::Delete { target, options } => match requests.delete(target, options).await {
            Ok(Some(going)) if going.is_terminating() => Ok(Done::At(target.kind, going.revision)),
            Ok(_) => Ok(Done::Lost(target.kind, target.name.clone(), target.uid.clone())),
            // What we meant is not there any more.
            Err(error) if error.is_not_found() => Ok(Done::Nothing),
            Err(error) if error.is_conflict() && is_replaced(caches, target) => Ok(Done::Nothing),
            Err(error) => Err(error),
        },
    }
}

/// Whether another object has the name of one that was seen. While the cache shows the one that was
/// meant, it is behind or the server refused for another reason: then somebody has to look again,
/// for no change may come that says so.
fn is_replaced(caches: &Caches, target: &Target) -> bool {
    let is_other = match caches.lookup(target.kind, &target.name) {
        Lookup::KindNotHeld => false,
        Lookup::Absent => true,
        Lookup::Present(found) => found.uid() != target.uid,
    };
    target.revision.is_none() && is_other
}

/// Makes an object. If there is one of the name, it must be the one we meant to make; few roles
/// allow to read it, so the cache is asked. One that the cache does not show yet is met again when
/// it does.
async fn create(
    requests: &Requests,
    caches: &Caches,
    kind: Kind,
    object: &Value,
) -> Result<Done, Error> {
    let error = match requests.create(kind, object).await {
        Ok(made) => return Ok(Done::Made(kind, made)),
        Err(error) if error.is_conflict() => error,
        Err(error) => return Err(error),
    };
    let wanted = Object::new(object.clone());
    match caches.lookup(kind, &wanted.name) {
        Lookup::Present(found) if found.controller() == wanted.controller() => {
            Ok(Done::At(kind, found.revision()))
        }
        Lookup::Present(_) => Err(Error::Other {
            reason: format!("{kind} {} exists and belongs to another owner", wanted.name),
        }),
        Lookup::Absent | Lookup::KindNotHeld => Err(error),
    }
}

/// Writes the status if it differs from what the object says. The whole object is sent: the roles
/// of controllers allow them to update a status, not to patch it.
pub async fn write_status(
    requests: &Requests,
    kind: Kind,
    object: &Object,
    status: &Value,
    written: &mut Written,
) -> Result<(), Error> {
    let is_same = difference(&object.value["status"], status).is_none();
    if is_same && !is_planted(Defect::StatusEveryTime) {
        return Ok(());
    }
    let target = Target::unchanged(kind, object).part("status");
    let whole = with_status(&object.value, status);
    let object = match requests.brief().replace_by(&target, whole).await {
        Err(error) if is_ignored(&error) => return Ok(()),
        answer => answer?,
    };
    written.saw(kind, object.revision);
    written.writes += 1;
    Ok(())
}

/// The object with another status.
fn with_status(object: &Value, status: &Value) -> Value {
    let fields = object.as_object().into_iter().flatten();
    let others = fields.filter(|(name, _)| *name != "status");
    let mut whole: Map<String, Value> =
        others.map(|(name, value)| (name.clone(), value.clone())).collect();
    whole.insert("status".to_owned(), status.clone());
    Value::Object(whole)
}

/// Adds or removes a finalizer.
pub fn finalizer_patch(object: &Object, name: &str, is_wanted: bool) -> Option<Value> {
    let has = object.finalizers().any(|one| one == name);
    if has == is_wanted {
        return None;
    }
    let mut finalizers: Vec<&str> = object.finalizers().filter(|one| *one != name).collect();
    if is_wanted {
        finalizers.push(name);
    }
    Some(json!({"metadata": {"finalizers": finalizers}}))
}

/// The merge patch that makes one value of another; `None` if they are equal.
pub fn difference(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(old), Value::Object(fields)) = (old, new) else { return Some(new.clone()) };
    let mut patch = serde_json::Map::new();
    for (key, value) in fields {
        let changed = match old.get(key) {
            Some(before) => difference(before, value),
            None => Some(value.clone()),
        };
        if let Some(changed) = changed {
            patch.insert(key.clone(), changed);
        }
    }
    for key in old.keys().filter(|key| !fields.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_the_smallest_merge_patch() {
        let cases = [
            (json!({"a": 1}), json!({"a": 1}), None),
            (json!({"a": 1, "b": 2}), json!({"a": 1}), Some(json!({"b": null}))),
            (
                json!({"a": {"b": 1, "c": 2}}),
                json!({"a": {"b": 1, "c": 3}}),
                Some(json!({"a": {"c": 3}})),
            ),
            (Value::Null, json!({"a": 1}), Some(json!({"a": 1}))),
            (json!({"a": [1]}), json!({"a": [1, 2]}), Some(json!({"a": [1, 2]}))),
        ];
        for (old, new, expected) in cases {
            assert_eq!(difference(&old, &new), expected, "{old} {new}");
        }
    }

    #[test]
    fn a_finalizer_is_added_and_removed_once() {
        let object = Object::new(json!({"metadata": {"name": "a", "finalizers": ["x", "y"]}}));
        assert_eq!(finalizer_patch(&object, "x", true), None);
        let removed = finalizer_patch(&object, "x", false);
        assert_eq!(removed, Some(json!({"metadata": {"finalizers": ["y"]}})));
    }
}
