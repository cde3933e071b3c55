//! What older graphs say of their components in one variable: `DYN_DEPLOYMENT_CONFIG`, a JSON text
//! with an entry for each component.

use serde_json::{Value, json};

use super::facts::Part;
use crate::component::Type;
use crate::names::HTTP_PORT;
use crate::value::{find, find_mut, object_mut, text};

const VARIABLE: &str = "DYN_DEPLOYMENT_CONFIG";

/// Brings a component to what its variable says, and the variable to where the component listens.
pub fn apply(part: &Part<'_>, spec: &mut Value) {
    let containers = &mut spec["podTemplate"]["spec"]["containers"];
    let Some(main) = find_mut(containers, "name", "main") else { return };
    let Some(said) = find(&main["env"], "name", VARIABLE).map(|one| text(&one["value"])) else {
        return;
    };
    let Ok(Value::Object(mut config)) = serde_json::from_str::<Value>(said) else { return };
    if part.kind() == Type::Frontend {
        let is_frontend = |name: &&String| name.eq_ignore_ascii_case("frontend");
        let entry = match config.contains_key(part.name()) {
            true => Some(part.name().to_owned()),
            false => config.keys().find(is_frontend).cloned(),
        };
        if let Some(entry) = entry {
            object_mut(&mut config[&entry]).insert("port".to_owned(), json!(HTTP_PORT));
            let text = Value::Object(config.clone()).to_string();
            if let Some(variable) = find_mut(&mut main["env"], "name", VARIABLE) {
                variable["value"] = json!(text);
            }
        }
    }
    let arguments = config.get(part.name()).map(|own| own["ServiceArgs"].clone());
    let arguments = arguments.unwrap_or_default();
    give_resources(main, &arguments["resources"]);
    if let Some(workers) = arguments["workers"].as_i64().filter(|_| spec["replicas"].is_null()) {
        spec["replicas"] = json!(workers);
    }
}

/// What is said replaces both what is requested and what is allowed.
fn give_resources(main: &mut Value, said: &Value) {
    let mut amounts = json!({});
    for (from, to) in [("cpu", "cpu"), ("memory", "memory"), ("gpu", "nvidia.com/gpu")] {
        if let Some(amount) = said.get(from).filter(|amount| !amount.is_null()) {
            amounts[to] = amount.clone();
        }
    }
    for (name, amount) in said["custom"].as_object().into_iter().flatten() {
        amounts[name] = amount.clone();
    }
    for (name, amount) in amounts.as_object().into_iter().flatten() {
        let amount = match amount {
            Value::Number(number) => json!(number.to_string()),
            other => other.clone(),
        };
        for field in ["requests", "limits"] {
            main["resources"][field][name] = amount.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(part: Value, config: Value) -> Value {
        let mut spec = part.clone();
        spec["podTemplate"]["spec"]["containers"] = json!([{"name": "main",
            "env": [{"name": VARIABLE, "value": config.to_string()}]}]);
        apply(&Part(&part), &mut spec);
        spec
    }

    #[test]
    fn one_variable_says_how_many_and_how_much() {
        let worker = json!({"name": "w", "type": "worker"});
        let config = json!({"w": {"ServiceArgs": {"workers": 3, "resources":
            {"cpu": 2, "gpu": "1", "custom": {"x.io/y": 4}}}}});
        let spec = applied(worker, config.clone());
        assert_eq!(spec["replicas"], 3);
        let amounts = json!({"cpu": "2", "nvidia.com/gpu": "1", "x.io/y": "4"});
        let main = &spec["podTemplate"]["spec"]["containers"][0];
        assert_eq!(main["resources"], json!({"requests": amounts, "limits": amounts}));
        // Who says how many keeps it.
        let two = json!({"name": "w", "type": "worker", "replicas": 2});
        assert_eq!(applied(two, config)["replicas"], 2);
    }

    #[test]
    fn a_frontend_is_told_where_it_listens() {
        let front = json!({"name": "Front", "type": "frontend"});
        for entry in ["Front", "FRONTEND"] {
            let spec = applied(front.clone(), json!({entry: {"a": 1}, "other": {}}));
            let env = &spec["podTemplate"]["spec"]["containers"][0]["env"];
            let text = env[0]["value"].as_str().expect("a text");
            let read: Value = serde_json::from_str(text).expect("JSON");
            assert_eq!(read, json!({entry: {"a": 1, "port": 8000}, "other": {}}));
        }
    }
}
