//! What differs between two objects, path by path.

use serde_json::{Map, Value, json};

use super::redact::{self, HIDDEN, Masks};
use crate::resources::Resource;
use crate::secrets_at_rest::kinds::ConfidentialFields;

/// Differences that are told of one change.
const CHANGES_MAX: usize = 500;
/// Values longer than this are told in part.
const VALUE_BYTES_MAX: usize = 4 << 10;
/// What changes with every write and says nothing.
const BOOKKEEPING: [&str; 4] = ["resourceVersion", "managedFields", "generation", "selfLink"];
/// By which members of a list are told apart.
const NAMES: [&str; 4] = ["name", "type", "uid", "key"];

/// One difference.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// `spec.template.spec.containers[web].image`.
    pub path: String,
    /// Null where there was nothing.
    pub from: Value,
    pub to: Value,
}

impl Change {
    pub fn to_json(&self) -> Value {
        json!({"path": self.path, "from": self.from, "to": self.to})
    }

    /// Whether somebody wanted it: all but the status and what the server counts.
    pub fn is_wanted(&self) -> bool {
        let is_at = |root: &str| {
            let rest = self.path.strip_prefix(root);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        let is_kept = ["metadata.labels", "metadata.annotations", "metadata.finalizers"];
        !is_at("status") && (!is_at("metadata") || is_kept.iter().any(|root| is_at(root)))
    }
}

/// The differences of an object of a resource, confidential values hidden.
pub fn of(resource: &Resource, before: &Value, after: &Value) -> Vec<Change> {
    match redact::fields(resource) {
        None => between(before, after),
        Some(ConfidentialFields::SecretData) => between_secrets(before, after),
        Some(ConfidentialFields::InlineCloudInit) => {
            let mut masks = Masks::default();
            let (before, after) = (masks.mask(before), masks.mask(after));
            let mut changes = between(&before, &after);
            for change in &mut changes {
                masks.unmask(&mut change.from);
                masks.unmask(&mut change.to);
            }
            changes
        }
    }
}

fn between_secrets(before: &Value, after: &Value) -> Vec<Change> {
    let mut changes = between(before, after);
    for change in changes.iter_mut().filter(|change| redact::is_hidden(&change.path)) {
        for value in [&mut change.from, &mut change.to] {
            if !value.is_null() {
                *value = json!(HIDDEN);
            }
        }
    }
    changes
}

/// The differences, in the order of the fields.
pub fn between(before: &Value, after: &Value) -> Vec<Change> {
    let mut changes = Vec::new();
    let empty = Map::new();
    let (before, after) = (before.as_object(), after.as_object());
    let (before, after) = (before.unwrap_or(&empty), after.unwrap_or(&empty));
    members("", before, after, &mut changes);
    changes
}

fn members(
    path: &str,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    changes: &mut Vec<Change>,
) {
    let new = after.iter().filter(|(key, _)| !before.contains_key(*key));
    for (key, value) in before.iter().chain(new) {
        if path == "metadata" && BOOKKEEPING.contains(&key.as_str()) {
            continue;
        }
        let old = before.get(key).unwrap_or(&Value::Null);
        let new =
            if before.contains_key(key) { after.get(key).unwrap_or(&Value::Null) } else { value };
        compare(&join(path, key), old, new, changes);
    }
}

fn compare(path: &str, before: &Value, after: &Value, changes: &mut Vec<Change>) {
    if before == after || changes.len() >= CHANGES_MAX {
        return;
    }
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => members(path, before, after, changes),
        (Value::Array(before), Value::Array(after)) => lists(path, before, after, changes),
        _ => changes.push(Change { path: path.to_owned(), from: short(before), to: short(after) }),
    }
}

fn lists(path: &str, before: &[Value], after: &[Value], changes: &mut Vec<Change>) {
    let by = NAMES.iter().find(|by| is_named(before, by) && is_named(after, by));
    let Some(by) = by else {
        let (from, to) = (short(&json!(before)), short(&json!(after)));
        return changes.push(Change { path: path.to_owned(), from, to });
    };
    let name = |item: &Value| item[*by].as_str().unwrap_or_default().to_owned();
    let find = |list: &[Value], wanted: &str| {
        list.iter().find(|item| name(item) == wanted).cloned().unwrap_or_default()
    };
    let known: Vec<String> = before.iter().map(name).collect();
    let new = after.iter().map(name).filter(|name| !known.contains(name));
    for one in known.iter().cloned().chain(new) {
        compare(&format!("{path}[{one}]"), &find(before, &one), &find(after, &one), changes);
    }
}

/// Whether all items are objects with different names.
fn is_named(list: &[Value], by: &str) -> bool {
    let mut names: Vec<&str> = list.iter().filter_map(|item| item[by].as_str()).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    count == list.len() && names.len() == count
}

fn join(path: &str, key: &str) -> String {
    let is_plain = !key.contains(['.', '/', '[']);
    match (path.is_empty(), is_plain) {
        (true, _) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (false, false) => format!("{path}[{key}]"),
    }
}

fn short(value: &Value) -> Value {
    let text = value.to_string();
    if text.len() <= VALUE_BYTES_MAX {
        return value.clone();
    }
    let end = (0..=VALUE_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    json!(format!("{}... ({} bytes)", &text[..end], text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_told_by_their_paths() {
        let before = json!({
            "metadata": {"resourceVersion": "1", "annotations": {"a.b/c": "1"}},
            "spec": {"replicas": 1, "containers": [{"name": "web", "image": "a"}], "args": ["x"]},
        });
        let after = json!({
            "metadata": {"resourceVersion": "2", "annotations": {"a.b/c": "2"}},
            "spec": {"replicas": 2, "args": ["x", "y"],
                "containers": [{"name": "side"}, {"name": "web", "image": "b"}]},
            "status": {"x": 1},
        });
        let told: Vec<String> = between(&before, &after)
            .iter()
            .map(|change| format!("{} {} {}", change.path, change.from, change.to))
            .collect();
        assert_eq!(
            told,
            [
                "metadata.annotations[a.b/c] \"1\" \"2\"",
                "spec.args [\"x\"] [\"x\",\"y\"]",
                "spec.containers[web].image \"a\" \"b\"",
                "spec.containers[side] null {\"name\":\"side\"}",
                "spec.replicas 1 2",
                "status null {\"x\":1}",
            ]
        );
    }

    #[test]
    fn what_somebody_wanted_is_not_the_status() {
        let change = |path: &str| Change { path: path.into(), from: json!(1), to: json!(2) };
        for wanted in ["spec.replicas", "data.x", "metadata.labels.a", "metadata.annotations[a/b]"]
        {
            assert!(change(wanted).is_wanted(), "{wanted}");
        }
        for other in ["status", "status.phase", "metadata.uid", "metadata.creationTimestamp"] {
            assert!(!change(other).is_wanted(), "{other}");
        }
    }
}
