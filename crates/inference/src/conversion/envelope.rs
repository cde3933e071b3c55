//! What one version says and the other cannot, kept beside the object as an annotation.
//!
//! Fields that depend on each other are kept and put back together. Beside what is kept stands what
//! a conversion there and back makes of it; only while that is so is it put back.

use serde_json::{Map, Value, json};

use crate::value::object_mut;

pub const GRAPH: &str = "nvidia.com/dgd-spec";
pub const COMPONENT: &str = "nvidia.com/dcd-spec";
pub const GRAPH_STATUS: &str = "nvidia.com/dgd-status";
pub const COMPONENT_STATUS: &str = "nvidia.com/dcd-status";
pub const REQUEST: &str = "nvidia.com/dgdr-spec";
pub const REQUEST_STATUS: &str = "nvidia.com/dgdr-status";

const VERSION: i64 = 1;

/// Fields that are kept together; every other field is on its own.
pub type Groups = &'static [&'static [&'static str]];

/// What is kept, and what stood in its place.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// The fields as they were said.
    pub said: Map<String, Value>,
    /// By the first field of each group: what a conversion there and back makes of its fields.
    pub live: Map<String, Value>,
}

impl Kept {
    pub fn is_empty(&self) -> bool {
        self.said.is_empty() && self.live.is_empty()
    }

    /// Finds what is lost: what was said, and what came back.
    pub fn of(said: &Value, back: &Value, groups: Groups) -> Kept {
        let mut kept = Kept::default();
        let names = [said, back].into_iter().filter_map(Value::as_object).flat_map(Map::keys);
        for name in names {
            let group = group_of(name, groups);
            let leader = group.first().copied().unwrap_or(name).to_owned();
            if kept.live.contains_key(&leader) {
                continue;
            }
            let (is, was) = (fields(said, name, group), fields(back, name, group));
            if is != was {
                kept.said.extend(is);
                kept.live.insert(leader, Value::Object(was));
            }
        }
        kept
    }

    /// Puts back what is kept, where nothing was changed since.
    pub fn restore(&self, into: &mut Value, groups: Groups) {
        let mut leaders: Vec<&str> = self.live.keys().map(String::as_str).collect();
        // Others keep no note of what stood there: nothing did.
        for name in self.said.keys() {
            let group = group_of(name, groups);
            let leader = group.first().copied().unwrap_or(name);
            if !leaders.contains(&leader) {
                leaders.push(leader);
            }
        }
        for leader in leaders {
            let group = group_of(leader, groups);
            let was = self.live.get(leader).and_then(Value::as_object).cloned().unwrap_or_default();
            if fields(into, leader, group) != was {
                continue;
            }
            let object = object_mut(into);
            object.retain(|name, _| name != leader && !group.contains(&name.as_str()));
            let said = self.said.iter();
            let own = said.filter(|(name, _)| *name == leader || group.contains(&name.as_str()));
            object.extend(own.map(|(name, value)| (name.clone(), value.clone())));
        }
    }

    pub fn read(said: &Value, live: &Value) -> Kept {
        let map = |value: &Value| value.as_object().cloned().unwrap_or_default();
        Kept { said: map(said), live: map(live) }
    }
}

/// The fields that are kept with one.
fn group_of(name: &str, groups: Groups) -> &'static [&'static str] {
    groups.iter().copied().find(|group| group.contains(&name)).unwrap_or(&[])
}

fn fields(object: &Value, name: &str, group: &[&str]) -> Map<String, Value> {
    let all = object.as_object().into_iter().flatten();
    let own = all.filter(|(field, _)| *field == name || group.contains(&field.as_str()));
    own.map(|(field, value)| (field.clone(), value.clone())).collect()
}

/// The envelope that an object carries, and the object without it.
pub fn open(object: &Value, annotation: &str) -> (Value, Value) {
    let mut object = object.clone();
    let mut envelope = Value::Null;
    if let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") {
        if let Some(Value::String(text)) = annotations.remove(annotation) {
            envelope = serde_json::from_str(&text).unwrap_or_default();
        }
        let is_empty = annotations.is_empty();
        if let (true, Some(Value::Object(meta))) = (is_empty, object.get_mut("metadata")) {
            meta.remove("annotations");
        }
    }
    if envelope["version"] != VERSION {
        envelope = Value::Null;
    }
    (object, envelope)
}

/// Has an object carry an envelope, if there is anything in it.
pub fn close(object: &mut Value, annotation: &str, content: Map<String, Value>) {
    if content.is_empty() {
        return;
    }
    let mut content = content;
    content.insert("version".to_owned(), json!(VERSION));
    object["metadata"]["annotations"][annotation] = json!(Value::Object(content).to_string());
}

/// What the older version says besides, of an object of the newer.
pub fn kept(object: &Value, annotation: &str) -> Value {
    let text = object["metadata"]["annotations"][annotation].as_str().unwrap_or_default();
    let envelope: Value = serde_json::from_str(text).unwrap_or_default();
    match envelope["version"] == VERSION {
        true => envelope["spec"].clone(),
        false => Value::Null,
    }
}

/// The annotation that keeps this.
pub fn of_kept(spec: &Value) -> String {
    json!({"version": VERSION, "spec": spec}).to_string()
}
