//! What a reconcile wants done, as data. `Display` is stable: goldens are made of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::kind::Kind;
use crate::object::{Name, Object};

/// Everything one reconcile does, in order: steps, then status, then notices.
#[derive(Debug, Default, Clone)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// The whole status of the object; written only if it differs.
    pub status: Option<Value>,
    pub notices: Vec<Notice>,
    /// What is to be said of other objects.
    pub about: Vec<About>,
    pub wake: Wake,
}

/// A notice about another object than the one that is reconciled: one that a step makes, or one
/// that was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct About {
    pub kind: Kind,
    pub name: Name,
    /// Of an object that was seen; what is made has one when it is made.
    pub uid: Option<String>,
    pub notice: Notice,
    pub repeat: Repeat,
}

/// Whether a fact that was told is told again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeat {
    Always,
    /// Once while this process runs.
    Never,
}

/// One write. Every one may be repeated without harm.
#[derive(Debug, Clone)]
pub enum Step {
    /// Makes an object; that it exists is not an error.
    Create { kind: Kind, object: Value },
    /// Makes the fields of an object so, by server-side apply.
    Apply { kind: Kind, object: Value },
    /// Changes an object that was seen, by a merge patch, if it is still the one.
    Patch { target: Target, patch: Value },
    /// Makes an object that was seen, or a part of it, as a whole what is given, if it still says
    /// what it said. For those who may update but not patch. The change is for people.
    Replace { target: Target, object: Value, change: Option<Value> },
    /// Deletes every object of a kind in a namespace; the server deletes what it finds by UID.
    DeleteCollection { kind: Kind, namespace: Arc<str> },
    /// Deletes an object that was seen, if it is still the one; that it is gone is not an error.
    Delete { target: Target, options: Deletion },
}

/// An object that was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    pub kind: Kind,
    pub name: Name,
    pub uid: String,
    /// Set where the decision rests on what the object says.
    pub revision: Option<u64>,
    /// The part that is changed, or empty.
    pub subresource: &'static str,
}

impl Target {
    /// The object, whatever it says.
    pub fn of(kind: Kind, object: &Object) -> Target {
        let (name, uid) = (object.name.clone(), object.uid.clone());
        Target { kind, name, uid, revision: None, subresource: "" }
    }

    /// The object, as long as it says what it said.
    pub fn unchanged(kind: Kind, object: &Object) -> Target {
        Target { revision: Some(object.revision), ..Target::of(kind, object) }
    }

    pub fn part(self, subresource: &'static str) -> Target {
        Target { subresource, ..self }
    }
}

/// How an object is deleted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Deletion {
    pub grace_seconds: Option<u32>,
    pub propagation: Option<Propagation>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    Background,
    Foreground,
    Orphan,
}

impl Propagation {
    pub fn name(self) -> &'static str {
        match self {
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
            Propagation::Orphan => "Orphan",
        }
    }
}

/// A Kubernetes Event to be recorded about the object.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    pub severity: Severity,
    pub reason: &'static str,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
    /// It does not work until somebody changes something: a warning to users, an error in the log.
    Failure,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Severity::Normal => "Normal",
            Severity::Warning | Severity::Failure => "Warning",
        }
    }
}

impl Notice {
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Notice {
        Notice { severity: Severity::Normal, reason, message: message.into() }
    }

    pub fn warning(reason: &'static str, message: impl Into<String>) -> Notice {
        Notice { severity: Severity::Warning, reason, message: message.into() }
    }

    pub fn failure(reason: &'static str, message: impl Into<String>) -> Notice {
        Notice { severity: Severity::Failure, reason, message: message.into() }
    }
}

/// When the object is looked at again.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub enum Wake {
    #[default]
    OnChange,
    After(Duration),
}

impl Wake {
    /// The earlier of two.
    pub fn or_earlier(self, other: Wake) -> Wake {
        match (self, other) {
            (Wake::OnChange, other) => other,
            (own, Wake::OnChange) => own,
            (Wake::After(own), Wake::After(other)) => Wake::After(own.min(other)),
        }
    }
}

impl Plan {
    pub fn nothing() -> Plan {
        Plan::default()
    }

    pub fn create(&mut self, kind: Kind, object: Value) {
        self.steps.push(Step::Create { kind, object });
    }

    pub fn apply(&mut self, kind: Kind, object: Value) {
        self.steps.push(Step::Apply { kind, object });
    }

    pub fn patch(&mut self, target: Target, patch: Value) {
        self.steps.push(Step::Patch { target, patch });
    }

    pub fn replace(&mut self, target: Target, object: Value) {
        self.steps.push(Step::Replace { target, object, change: None });
    }

    /// Changes an object as it was seen, whole; a change by another in between is a conflict.
    pub fn update(&mut self, kind: Kind, seen: &Object, subresource: &'static str, patch: Value) {
        let target = Target::unchanged(kind, seen).part(subresource);
        let mut object = seen.value.clone();
        merge(&mut object, &patch);
        self.steps.push(Step::Replace { target, object, change: Some(patch) });
    }

    pub fn delete(&mut self, target: Target) {
        self.steps.push(Step::Delete { target, options: Deletion::default() });
    }
}

/// Changes a value as a merge patch says.
pub fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = Value::Object(serde_json::Map::new());
    }
    for (key, change) in changes {
        if change.is_null() {
            if let Some(fields) = value.as_object_mut() {
                fields.remove(key);
            }
        } else {
            merge(&mut value[key], change);
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |object: &Value| {
            let meta = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            Name::new(meta("namespace"), meta("name"))
        };
        match self {
            Step::Create { kind, object } => write!(f, "create {kind} {}", of(object)),
            Step::Apply { kind, object } => write!(f, "apply {kind} {}", of(object)),
            Step::Patch { target, patch } => write!(f, "patch {target} {patch}"),
            Step::Replace { target, change: None, .. } => write!(f, "replace {target}"),
            Step::Replace { target, change: Some(patch), .. } => {
                write!(f, "update {target} {patch}")
            }
            Step::DeleteCollection { kind, namespace } => {
                write!(f, "delete every {kind} in {namespace}")
            }
            Step::Delete { target, .. } => write!(f, "delete {target}"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)?;
        if self.subresource.is_empty() { Ok(()) } else { write!(f, "/{}", self.subresource) }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            writeln!(f, "{step}")?;
        }
        if let Some(status) = &self.status {
            writeln!(f, "status {status}")?;
        }
        for notice in &self.notices {
            writeln!(f, "{} {}: {}", notice.severity.name(), notice.reason, notice.message)?;
        }
        for About { kind, name, notice, .. } in &self.about {
            let (severity, reason) = (notice.severity.name(), notice.reason);
            writeln!(f, "{severity} {reason} about {kind} {name}: {}", notice.message)?;
        }
        match self.wake {
            Wake::OnChange => writeln!(f, "wake on change"),
            Wake::After(after) => writeln!(f, "wake after {after:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_merge_patch_sets_removes_and_replaces() {
        let mut value = json!({"a": {"b": 1, "c": [1, 2]}, "d": 3});
        merge(&mut value, &json!({"a": {"b": null, "c": [3]}, "e": {"f": 1}}));
        assert_eq!(value, json!({"a": {"c": [3]}, "d": 3, "e": {"f": 1}}));
    }
}
