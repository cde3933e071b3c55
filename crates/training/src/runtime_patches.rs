//! Lays the patches of a TrainJob over the template of its runtime, as a strategic merge patch
//! does.
//!
//! Upstream: apimachinery/pkg/util/strategicpatch/patch.go

use serde_json::{Map, Value};

use crate::value::{list, text};

/// Lists whose elements are merged, and by what.
const KEYS: [(&str, &str); 8] = [
    ("replicatedJobs", "name"),
    ("containers", "name"),
    ("initContainers", "name"),
    ("volumes", "name"),
    ("imagePullSecrets", "name"),
    ("schedulingGates", "name"),
    ("env", "name"),
    // The definition tells mounts apart by name, pods by path.
    ("volumeMounts", "mountPath"),
];

/// Lays a patch of a JobSet's specification over it. The order of its jobs stays.
pub fn apply(spec: &mut Value, patch: &Value) {
    let order: Vec<String> =
        list(&spec["replicatedJobs"]).iter().map(|job| text(&job["name"]).to_owned()).collect();
    merge(spec, patch);
    if let Some(jobs) = spec["replicatedJobs"].as_array_mut() {
        let place = |job: &Value| order.iter().position(|name| job["name"] == name.as_str());
        jobs.sort_by_key(|job| place(job).unwrap_or(usize::MAX));
    }
}

fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    for (field, change) in changes {
        let key = KEYS.iter().find(|(name, _)| name == field).map(|(_, key)| *key);
        match (key, change) {
            (Some(key), Value::Array(changes)) => merge_list(&mut value[field], changes, key),
            _ => merge(&mut value[field], change),
        }
    }
}

/// What is patched keeps the order of the patch; what is not goes before the first patched element
/// that came after it.
fn merge_list(value: &mut Value, changes: &[Value], key: &str) {
    let before = list(value).to_vec();
    let place = |item: &Value| before.iter().position(|one| one[key] == item[key]);
    let mut merged = Vec::new();
    for change in changes {
        let mut item = place(change).map_or(Value::Null, |at| before[at].clone());
        merge(&mut item, change);
        merged.push(item);
    }
    let patched = |item: &Value| changes.iter().any(|change| change[key] == item[key]);
    for (at, item) in before.iter().enumerate().filter(|(_, item)| !patched(item)) {
        let later = |one: &Value| place(one).is_some_and(|place| place > at);
        // What is new comes before what is left at the end.
        let to = merged.iter().position(later).unwrap_or(merged.len());
        merged.insert(to, item.clone());
    }
    *value = Value::Array(merged);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_merged_each_in_its_way() {
        let mut spec = json!({"replicatedJobs": [
            {"name": "a", "template": {}},
            {"name": "node", "template": {"spec": {"template": {"spec": {
                "nodeSelector": {"zone": "1"},
                "tolerations": [{"key": "old"}],
                "affinity": {"nodeAffinity": {"x": 1}},
                "containers": [{"name": "node", "image": "i",
                    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                    "volumeMounts": [{"name": "v", "mountPath": "/a"}]}]}}}}}]});
        apply(
            &mut spec,
            &json!({"replicatedJobs": [{"name": "node", "template": {"spec": {
            "template": {"spec": {
                "nodeSelector": {"gpu": "yes"},
                "tolerations": [{"key": "new"}],
                "affinity": {"podAffinity": {"y": 1}},
                "containers": [{"name": "node",
                    "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}],
                    "volumeMounts": [{"name": "v", "mountPath": "/b"}]}]}}}}}]}),
        );
        assert_eq!(spec["replicatedJobs"][0]["name"], "a");
        let pod = &spec["replicatedJobs"][1]["template"]["spec"]["template"]["spec"];
        assert_eq!(pod["nodeSelector"], json!({"zone": "1", "gpu": "yes"}));
        assert_eq!(pod["tolerations"], json!([{"key": "new"}]));
        assert_eq!(pod["affinity"], json!({"nodeAffinity": {"x": 1}, "podAffinity": {"y": 1}}));
        let node = &pod["containers"][0];
        assert_eq!(node["image"], "i");
        let names: Vec<&str> = list(&node["env"]).iter().map(|one| text(&one["name"])).collect();
        assert_eq!(names, ["A", "B", "C"]);
        assert_eq!(node["env"][1]["value"], "3");
        let paths: Vec<&str> =
            list(&node["volumeMounts"]).iter().map(|one| text(&one["mountPath"])).collect();
        assert_eq!(paths, ["/b", "/a"]);
    }
}
