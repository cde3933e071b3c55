//! What a user says laid over what is there already.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::value::{list, object_mut, text};

/// Lays a container over another: what is set replaces, maps grow, probes are taken whole.
pub fn container(base: &mut Value, user: &Value) {
    for (field, value) in user.as_object().into_iter().flatten() {
        match field.as_str() {
            "name" => {}
            "env" => base["env"] = environment(&base["env"], value),
            "livenessProbe" | "readinessProbe" | "startupProbe" => base[field] = value.clone(),
            _ => deep(&mut base[field], value),
        }
    }
    base["env"] = environment(&base["env"], &json!([]));
}

/// Variables by name, in the order of their names; the second's win.
pub fn environment(base: &Value, over: &Value) -> Value {
    let all = list(base).iter().chain(list(over));
    let by_name: BTreeMap<&str, &Value> = all.map(|one| (text(&one["name"]), one)).collect();
    by_name.into_values().cloned().collect()
}

/// Maps are laid over each other; everything else that says something replaces.
pub fn deep(base: &mut Value, over: &Value) {
    match over {
        Value::Object(fields) => {
            let base = object_mut(base);
            for (name, value) in fields {
                deep(base.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        Value::Null => {}
        other => *base = other.clone(),
    }
}
