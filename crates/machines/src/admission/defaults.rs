//! What is filled in where a Wukong says nothing.

use serde_json::{Value, json};

use crate::value::text;
use crate::wukong::{SHELL, SUDO};

const MEMORY: &str = "2Gi";

pub fn fill_in(spec: &mut Value, default_class: Option<&str>) {
    fill(spec, "memory", MEMORY);
    if spec["startStrategy"].is_null() {
        spec["startStrategy"] = json!({"autoStart": true});
    }
    let policy = text(&spec["highAvailability"]["restartPolicy"]).to_owned();
    let start = &mut spec["startStrategy"];
    if start["autoStart"] == true {
        match policy.as_str() {
            // There is no word for it here: the operator knows.
            "Never" => {}
            "OnFailure" => fill(start, "runStrategy", "RerunOnFailure"),
            _ => fill(start, "runStrategy", "Always"),
        }
    }
    for network in items(&mut spec["networks"]) {
        if network["name"] != api::wukong::POD_NETWORK {
            fill(network, "type", "bridge");
        }
    }
    for disk in items(&mut spec["disks"]) {
        if let Some(class) = default_class {
            fill(disk, "storageClassName", class);
        }
    }
    if spec["cloudInitUser"].is_object() {
        fill(&mut spec["cloudInitUser"], "sudo", SUDO);
        fill(&mut spec["cloudInitUser"], "shell", SHELL);
    }
    // Asking for a field makes one that is null.
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
}

fn fill(object: &mut Value, field: &str, with: &str) {
    if text(&object[field]).is_empty() {
        object[field] = json!(with);
    }
}

fn items(list: &mut Value) -> impl Iterator<Item = &mut Value> {
    let items = list.as_array_mut().into_iter().flatten();
    items.filter(|item| item.is_object())
}
