//! A frontend beside the main container: a field of its own in the older version, a container of a
//! certain name in the newer.

use serde_json::{Map, Value, json};

use super::pod::only_secret;
use crate::value::{find, text};

pub const NAME: &str = "sidecar-frontend";

pub fn to_hub(said: &Value) -> Option<Value> {
    let said = said.as_object()?;
    let mut container = json!({"name": NAME});
    for (field, to) in [("image", "image"), ("args", "args"), ("envs", "env")] {
        if let Some(value) = said.get(field) {
            container[to] = value.clone();
        }
    }
    if let Some(secret) = said.get("envFromSecret") {
        container["envFrom"] = json!([{"secretRef": {"name": secret}}]);
    }
    Some(container)
}

/// Gives the service its sidecar; returns the name of the container that it was.
pub fn to_spoke(component: &Value, service: &mut Value) -> Option<String> {
    let name = text(&component["frontendSidecar"]);
    if name != NAME {
        return None;
    }
    let container = find(&component["podTemplate"]["spec"]["containers"], "name", name)?;
    let mut said = Map::new();
    for (field, value) in container.as_object()? {
        match field.as_str() {
            "name" => {}
            "image" | "args" => {
                said.insert(field.clone(), value.clone());
            }
            "env" => {
                said.insert("envs".to_owned(), value.clone());
            }
            "envFrom" => {
                said.insert("envFromSecret".to_owned(), json!(only_secret(value)?));
            }
            // It says more than the field can.
            _ => return None,
        }
    }
    service["frontendSidecar"] = Value::Object(said);
    Some(name.to_owned())
}
