//! What is never told of the past: the values of Secrets, and copies of them in annotations.

use std::sync::Arc;

use serde_json::{Value, json};
use store::Entry;

use crate::object;
use crate::persist::{self, stored};
use crate::resources::Resource;

/// In place of a value. Values of `data` are base64.
pub const HIDDEN: &str = "(hidden)";
const HIDDEN_BASE64: &str = "KGhpZGRlbik=";
/// Where kubectl keeps all of what was applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The members whose values are secret.
const MEMBERS: [&str; 2] = ["data", "stringData"];

/// Whether objects of a resource hold secrets.
pub fn is_secret(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.kind == "Secret"
}

/// An object without its secrets.
pub fn object(resource: &Resource, mut object: Value) -> Value {
    if is_secret(resource) {
        hide(&mut object);
    }
    object
}

fn hide(object: &mut Value) {
    for member in MEMBERS {
        let hidden = if member == "data" { HIDDEN_BASE64 } else { HIDDEN };
        let values = object.get_mut(member).and_then(Value::as_object_mut);
        values.into_iter().flatten().for_each(|(_, value)| *value = json!(hidden));
    }
    let annotations = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    if let Some(copy) = annotations.and_then(|all| all.get_mut(LAST_APPLIED)) {
        *copy = json!(HIDDEN);
    }
}

/// Whether the value at a path of a diff is secret.
pub fn is_hidden(path: &str) -> bool {
    let is_member = |member: &&str| {
        let rest = path.strip_prefix(*member);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    MEMBERS.iter().any(is_member) || path.contains(LAST_APPLIED) || path == "metadata.annotations"
}

/// Entries without their secrets.
pub fn entries(resource: &Resource, entries: Vec<Arc<Entry>>) -> Vec<Arc<Entry>> {
    if !is_secret(resource) {
        return entries;
    }
    entries.into_iter().map(|one| entry(resource, one)).collect()
}

/// An entry without its secrets.
pub fn entry(resource: &Resource, entry: Arc<Entry>) -> Arc<Entry> {
    if !is_secret(resource) {
        return entry;
    }
    let mut object = stored(&entry).object(entry.modified);
    hide(&mut object);
    object::remove_meta(&mut object, "resourceVersion");
    let value = persist::encode(&object, &resource.field_values(&object));
    Arc::new(Entry::new(entry.key.clone(), value, entry.created, entry.modified))
}
