//! Hides confidential values of past objects: data of Secrets, inline cloud-init of virtual
//! machines, and copies of them in annotations.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};
use store::Entry;

use crate::object;
use crate::persist::{self, stored};
use crate::resources::Resource;
use crate::secrets_at_rest::kinds::{ConfidentialFields, confidential_fields};

/// In place of a value. Values of `data` are base64.
pub const HIDDEN: &str = "(hidden)";
const HIDDEN_BASE64: &str = "KGhpZGRlbik=";
/// Where kubectl keeps all of what was applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Members of a Secret whose values are hidden.
const MEMBERS: [&str; 2] = ["data", "stringData"];
/// Members of virtual machines whose values are hidden, at any depth.
const INLINE: [&str; 8] = [
    "userData",
    "userDataBase64",
    "networkData",
    "networkDataBase64",
    "password",
    "passwordHash",
    "kubevirt.io/ignitiondata",
    LAST_APPLIED,
];

/// Returns the confidential fields of a resource, if it has any.
pub fn fields(resource: &Resource) -> Option<ConfidentialFields> {
    confidential_fields(&resource.group, &resource.kind)
}

/// An object without its secrets.
pub fn object(resource: &Resource, mut object: Value) -> Value {
    hide(fields(resource), &mut object);
    object
}

/// Hides the confidential fields of an object.
pub fn hide(fields: Option<ConfidentialFields>, object: &mut Value) {
    match fields {
        None => {}
        Some(ConfidentialFields::SecretData) => hide_secret(object),
        Some(ConfidentialFields::InlineCloudInit) => {
            visit_inline(object, &mut |name, value| *value = json!(hidden_text(name)));
        }
    }
}

/// Returns whether an object has values that [`hide`] hides.
pub fn has_confidential_values(fields: ConfidentialFields, object: &Value) -> bool {
    let mut hidden = object.clone();
    hide(Some(fields), &mut hidden);
    hidden != *object
}

fn hidden_text(member: &str) -> &'static str {
    if member.ends_with("Base64") { HIDDEN_BASE64 } else { HIDDEN }
}

fn hide_secret(object: &mut Value) {
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

/// Visits every value of an [`INLINE`] member that is not empty.
fn visit_inline(value: &mut Value, visit: &mut dyn FnMut(&str, &mut Value)) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let is_empty = value.is_null() || value == "";
                match INLINE.contains(&name.as_str()) {
                    true if !is_empty => visit(name, value),
                    true => {}
                    false => visit_inline(value, visit),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| visit_inline(item, visit)),
        _ => {}
    }
}

/// Stand-ins for the confidential values of two versions of an object: equal values have equal
/// stand-ins, so that a comparison finds what changed without the values.
#[derive(Default)]
pub struct Masks(HashMap<String, usize>);

impl Masks {
    /// Returns the object with stand-ins.
    pub fn mask(&mut self, object: &Value) -> Value {
        let mut masked = object.clone();
        visit_inline(&mut masked, &mut |_, value| {
            let next = self.0.len();
            let number = *self.0.entry(value.to_string()).or_insert(next);
            *value = json!(mask_text(number));
        });
        masked
    }

    /// Replaces the stand-ins in a value by [`HIDDEN`].
    pub fn unmask(&self, value: &mut Value) {
        match value {
            Value::String(text) if text.contains(HIDDEN) => {
                for number in 0..self.0.len() {
                    *text = text.replace(&mask_text(number), HIDDEN);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.unmask(item)),
            Value::Object(members) => {
                members.iter_mut().for_each(|(_, member)| self.unmask(member));
            }
            _ => {}
        }
    }
}

fn mask_text(number: usize) -> String {
    format!("{HIDDEN}#{number}#")
}

/// Hides the values of one imported difference that are confidential.
pub fn hide_change(fields: Option<ConfidentialFields>, path: &str, values: [&mut Value; 2]) {
    let is_whole = match fields {
        None => return,
        Some(ConfidentialFields::SecretData) => is_hidden(path),
        Some(ConfidentialFields::InlineCloudInit) => {
            INLINE.iter().any(|name| path.ends_with(&format!(".{name}")))
                || path.contains(LAST_APPLIED)
        }
    };
    for value in values {
        match is_whole {
            true => *value = json!(HIDDEN),
            false if fields == Some(ConfidentialFields::InlineCloudInit) => hide(fields, value),
            false => {}
        }
    }
}

/// Returns whether the value at a path of the difference of two Secrets is hidden.
pub fn is_hidden(path: &str) -> bool {
    let is_member = |member: &&str| {
        let rest = path.strip_prefix(*member);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    MEMBERS.iter().any(is_member) || path.contains(LAST_APPLIED) || path == "metadata.annotations"
}

/// Entries without their secrets.
pub fn entries(resource: &Resource, entries: Vec<Arc<Entry>>) -> Vec<Arc<Entry>> {
    if fields(resource).is_none() {
        return entries;
    }
    entries.into_iter().map(|one| entry(resource, one)).collect()
}

/// An entry without its secrets.
pub fn entry(resource: &Resource, entry: Arc<Entry>) -> Arc<Entry> {
    let fields = fields(resource);
    if fields.is_none() {
        return entry;
    }
    let mut object = stored(&entry).object(entry.modified);
    hide(fields, &mut object);
    object::remove_meta(&mut object, "resourceVersion");
    let value = persist::encode(&object, &resource.field_values(&object));
    Arc::new(Entry::new(entry.key.clone(), value, entry.created, entry.modified))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::diff;

    const INLINE_FIELDS: Option<ConfidentialFields> = Some(ConfidentialFields::InlineCloudInit);

    fn machine(user_data: &str) -> Value {
        json!({
            "metadata": {"name": "vm", "annotations": {LAST_APPLIED: user_data, "a": "b"}},
            "spec": {"template": {"spec": {"volumes": [
                {"name": "seed", "cloudInitNoCloud": {"userData": user_data,
                    "networkDataBase64": user_data, "secretRef": {"name": "s"}}},
            ]}}},
        })
    }

    #[test]
    fn cloud_init_is_hidden_at_any_depth_and_references_stay() {
        let mut object = machine("marker");
        assert!(has_confidential_values(ConfidentialFields::InlineCloudInit, &object));
        hide(INLINE_FIELDS, &mut object);
        let text = object.to_string();
        assert!(!text.contains("marker"), "{text}");
        assert!(text.contains(r#""secretRef":{"name":"s"}"#), "{text}");
        assert!(text.contains(HIDDEN_BASE64) && text.contains(r#""a":"b""#), "{text}");
        let plain = json!({"spec": {"cloudInitUser": {"name": "ada", "password": ""}}});
        assert!(!has_confidential_values(ConfidentialFields::InlineCloudInit, &plain));
    }

    #[test]
    fn a_difference_says_that_cloud_init_changed_and_not_to_which_text() {
        let long = "x".repeat(10_000);
        for (before, after) in
            [(machine("old"), machine(&long)), (json!({}), machine(&format!("{long}old")))]
        {
            let mut masks = Masks::default();
            let (before, after) = (masks.mask(&before), masks.mask(&after));
            let mut changes = diff::between(&before, &after);
            assert!(!changes.is_empty());
            for change in &mut changes {
                masks.unmask(&mut change.from);
                masks.unmask(&mut change.to);
                let text = format!("{}{}", change.from, change.to);
                assert!(!text.contains("old") && !text.contains("xxx"), "{text}");
            }
        }
        let (mut from, mut to) = (json!("old"), json!({"userData": "old"}));
        hide_change(INLINE_FIELDS, "spec.volumes[a]", [&mut from, &mut to]);
        assert_eq!((from, to), (json!("old"), json!({"userData": HIDDEN})));
        let (mut from, mut to) = (json!("old"), json!(null));
        hide_change(INLINE_FIELDS, "spec.cloudInitUser.password", [&mut from, &mut to]);
        assert_eq!((from, to), (json!(HIDDEN), json!(HIDDEN)));
    }
}
