//! What a request says of its graph, laid over what the profiler generated: maps field by field,
//! lists of things with names name by name, everything else whole; null takes away.
//!
//! Who, where and how the graph is are not the user's to say here, but for its name.

use api::dynamo::{GROUP, HUB, SPOKE};
use serde_json::Value;

use crate::conversion;
use crate::value::{list, list_mut, object_mut, text};

/// Lays the one over the other; an error says why that cannot be.
pub fn apply(graph: &mut Value, said: &Value) -> Result<(), String> {
    if !said.is_object() {
        return Ok(());
    }
    let said = in_version_of(graph, said)?;
    for field in ["labels", "annotations"] {
        if said["metadata"][field].is_object() {
            lay(&mut graph["metadata"][field], &said["metadata"][field]);
        }
    }
    if said["spec"].is_object() {
        lay(&mut graph["spec"], &said["spec"]);
    }
    Ok(())
}

/// The override as the version of the graph writes it. One that does not name its version is of the
/// graph's.
fn in_version_of(graph: &Value, said: &Value) -> Result<Value, String> {
    let (own, wanted) = (text(&said["apiVersion"]), text(&graph["apiVersion"]));
    if own.is_empty() || own == wanted {
        return Ok(said.clone());
    }
    let is_known = [HUB, SPOKE].iter().any(|version| own == format!("{GROUP}/{version}"));
    let mut whole = said.clone();
    whole["kind"] = graph["kind"].clone();
    let made = match is_known {
        true => conversion::convert(&whole, wanted),
        false => Err(format!("nobody knows {own:?}")),
    };
    let mut made =
        made.map_err(|why| format!("spec.overrides.dgd cannot be read as {wanted}: {why}"))?;
    // Who says nothing of components takes none away.
    if let Some(spec) = made["spec"].as_object_mut() {
        spec.retain(|_, value| value.as_array().is_none_or(|items| !items.is_empty()));
    }
    Ok(made)
}

fn lay(base: &mut Value, over: &Value) {
    match over {
        Value::Object(fields) => {
            let base = object_mut(base);
            for (name, value) in fields {
                match value {
                    Value::Null => {
                        base.remove(name);
                    }
                    value => lay(base.entry(name.clone()).or_insert(Value::Null), value),
                }
            }
        }
        Value::Array(items) if has_names(over) && (has_names(base) || base.is_null()) => {
            for item in items {
                let all = list_mut(base);
                match all.iter_mut().find(|one| one["name"] == item["name"]) {
                    Some(one) => lay(one, item),
                    None => all.push(item.clone()),
                }
            }
        }
        other => *base = other.clone(),
    }
}

/// Whether all items of a list have names of their own: mounts of one volume are told apart by
/// where they are.
fn has_names(items: &Value) -> bool {
    let has_name = |one: &Value| one["name"].is_string() && one["mountPath"].is_null();
    !list(items).is_empty() && list(items).iter().all(has_name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn generated() -> Value {
        json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
            "metadata": {"name": "x", "labels": {"a": "1"}},
            "spec": {"backendFramework": "vllm", "components": [
                {"name": "Frontend", "type": "frontend"},
                {"name": "decode", "type": "decode", "replicas": 2, "podTemplate": {"spec":
                    {"containers": [{"name": "main", "image": "i:1.0.0", "args": ["-m", "a"],
                        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}]}}}]}})
    }

    #[test]
    fn what_a_request_says_of_its_graph_is_laid_over_what_was_generated() {
        let mut graph = generated();
        let said = json!({"metadata": {"name": "mine", "labels": {"b": "2"}, "uid": "no"},
            "spec": {"env": [{"name": "X", "value": "y"}], "backendFramework": null,
                "components": [{"name": "decode", "replicas": 3, "podTemplate": {"spec":
                    {"containers": [{"name": "main", "args": ["-m", "b"],
                        "env": [{"name": "B", "value": "3"}]}, {"name": "side", "image": "s"}]}}},
                    {"name": "plan", "type": "planner"}]}});
        apply(&mut graph, &said).expect("it can be");
        let expected = json!({"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
            "metadata": {"name": "x", "labels": {"a": "1", "b": "2"}},
            "spec": {"env": [{"name": "X", "value": "y"}], "components": [
                {"name": "Frontend", "type": "frontend"},
                {"name": "decode", "type": "decode", "replicas": 3, "podTemplate": {"spec":
                    {"containers": [{"name": "main", "image": "i:1.0.0", "args": ["-m", "b"],
                        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "3"}]},
                        {"name": "side", "image": "s"}]}}},
                {"name": "plan", "type": "planner"}]}});
        assert_eq!(graph, expected);
    }

    #[test]
    fn an_override_of_the_other_version_is_understood() {
        let mut graph = generated();
        let said = json!({"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment",
            "spec": {"services": {"decode": {"replicas": 5}}}});
        apply(&mut graph, &said).expect("it can be");
        let decode = &graph["spec"]["components"][1];
        assert_eq!((&decode["name"], &decode["replicas"]), (&json!("decode"), &json!(5)));
        assert_eq!(decode["type"], "decode");
        let before = graph.clone();
        let bare = json!({"apiVersion": "nvidia.com/v1alpha1", "metadata": {"name": "mine"}});
        apply(&mut graph, &bare).expect("it can be");
        assert_eq!(graph, before);
        let strange = json!({"apiVersion": "nvidia.com/v9", "spec": {}});
        let why = apply(&mut graph, &strange).expect_err("nobody knows it");
        assert!(why.contains("nobody knows \"nvidia.com/v9\""), "{why}");
    }
}
