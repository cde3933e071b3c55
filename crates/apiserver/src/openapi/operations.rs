//! The operations of a resource: enough for clients to see what can be asked, with which options.

use serde_json::{Value, json};

use super::schemas::schema_name;
use crate::resources::Resource;

/// Options of every write.
const OF_WRITES: [&str; 3] = ["dryRun", "fieldManager", "fieldValidation"];

pub fn describe(resource: &Resource, paths: &mut Value) {
    let base = match resource.group.as_str() {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    };
    let collection = if resource.namespaced {
        format!("{base}/namespaces/{{namespace}}/{}", resource.plural)
    } else {
        format!("{base}/{}", resource.plural)
    };
    let item = format!("{collection}/{{name}}");
    let mut of_collection = json!({});
    let mut of_item = json!({});
    for (verb, method, on_item) in [
        ("list", "get", false),
        ("create", "post", false),
        ("deletecollection", "delete", false),
        ("get", "get", true),
        ("update", "put", true),
        ("patch", "patch", true),
        ("delete", "delete", true),
    ] {
        if resource.serves(verb) {
            let place = if on_item { &mut of_item } else { &mut of_collection };
            place[method] = operation(resource, verb);
        }
    }
    for (path, operations) in [(collection, of_collection), (item, of_item)] {
        if operations.as_object().is_some_and(|operations| !operations.is_empty()) {
            paths[path] = operations;
        }
    }
}

fn operation(resource: &Resource, verb: &str) -> Value {
    let mut names: Vec<&str> = match verb {
        "create" | "update" => OF_WRITES.to_vec(),
        "patch" => [&OF_WRITES[..], &["force"]].concat(),
        "delete" => vec!["dryRun", "gracePeriodSeconds", "propagationPolicy"],
        _ => vec!["labelSelector", "fieldSelector", "limit", "continue", "resourceVersion"],
    };
    names.sort_unstable();
    let schema_of_text = json!({"type": "string", "uniqueItems": true});
    let parameter = |name: &&str| json!({"name": name, "in": "query", "schema": schema_of_text});
    let schema = json!({"$ref": format!("#/components/schemas/{}", schema_name(resource))});
    json!({
        "operationId": format!("{verb}{}{}", resource.version, resource.kind),
        "parameters": names.iter().map(parameter).collect::<Vec<_>>(),
        "responses": {"200": {
            "description": "OK",
            "content": {"application/json": {"schema": schema}},
        }},
        "x-kubernetes-action": verb,
        "x-kubernetes-group-version-kind": {
            "group": resource.group, "version": resource.version, "kind": resource.kind,
        },
    })
}
