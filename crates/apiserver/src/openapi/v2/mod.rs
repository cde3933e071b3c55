//! `/openapi/v2`: all groups in one document, which older clients ask for, mostly in protobuf.
//!
//! It is the schemas and operations of the newer documents, said in the older words.

mod protobuf;

use bytes::Bytes;
use http::header::{ACCEPT, ETAG, IF_NONE_MATCH, VARY};
use http::request::Parts;
use serde_json::{Map, Value, json};

use super::{operations, schemas};
use crate::answer::Answer;
use crate::endpoints::discovery::fingerprint;
use crate::resources::Registry;

/// How clients ask for protobuf, up to where their spellings part.
const PROTOBUF_ASKED: &str = "application/com.github.proto-openapi.spec.v2";
const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const JSON: &str = "application/json";

/// The document in both its forms.
pub struct Document {
    json: Bytes,
    protobuf: Bytes,
}

impl Document {
    pub fn make(registry: &Registry) -> Document {
        let document = describe(registry);
        let protobuf = protobuf::document(&document).into();
        Document { json: document.to_string().into(), protobuf }
    }

    pub fn answer(&self, parts: &Parts) -> Answer {
        let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let (content_type, bytes) = match header(ACCEPT) {
            Some(accept) if accept.contains(PROTOBUF_ASKED) => (PROTOBUF, &self.protobuf),
            _ => (JSON, &self.json),
        };
        let tag = format!("\"{:016X}\"", fingerprint(bytes));
        let answer = match header(IF_NONE_MATCH) {
            Some(known) if known == tag => Answer::of(304, content_type, Bytes::new()),
            _ => Answer::of(200, content_type, bytes.clone()),
        };
        answer.with(ETAG, tag).with(VARY, "Accept")
    }
}

fn describe(registry: &Registry) -> Value {
    let mut paths = json!({});
    let mut schemas = schemas::Schemas::default();
    for resource in registry.all() {
        operations::describe(resource, &mut paths);
        schemas.add_kind(resource);
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.36.4"},
        "paths": each(&paths, |item| each(item, part)),
        "definitions": each(&schemas.finish(), schema),
    })
}

fn each(map: &Value, change: impl Fn(&Value) -> Value) -> Value {
    let map = map.as_object().into_iter().flatten();
    Value::Object(map.map(|(name, value)| (name.clone(), change(value))).collect())
}

/// A schema, with references beside whatever else is said.
fn schema(of: &Value) -> Value {
    let mut changed = Map::new();
    let keeps_unknown = of["x-kubernetes-preserve-unknown-fields"] == true;
    for (name, value) in of.as_object().into_iter().flatten() {
        match name.as_str() {
            // What the older words cannot say is left out.
            "anyOf" | "oneOf" | "not" | "nullable" => {}
            "properties" | "items" if keeps_unknown => {}
            "allOf" if value[0].get("$ref").is_none() => {}
            "allOf" => changed.extend(schema(&value[0]).as_object().cloned().unwrap_or_default()),
            "$ref" => {
                let text = value.as_str().unwrap_or_default();
                let text = text.replacen("#/components/schemas/", "#/definitions/", 1);
                changed.insert(name.clone(), text.into());
            }
            "properties" => drop(changed.insert(name.clone(), each(value, schema))),
            "items" | "additionalProperties" => {
                changed.insert(name.clone(), schema(value));
            }
            _ => drop(changed.insert(name.clone(), value.clone())),
        }
    }
    Value::Object(changed)
}

/// A part of a path: an operation, or the parameters that all its operations have.
fn part(of: &Value) -> Value {
    match of {
        Value::Array(parameters) => parameters.iter().map(parameter).collect(),
        _ => operation(of),
    }
}

/// An operation, whose body is a parameter and whose answers say their schema themselves.
fn operation(of: &Value) -> Value {
    let mut changed = of.clone();
    let parameters = of["parameters"].as_array().into_iter().flatten();
    let mut parameters: Vec<Value> = parameters.map(parameter).collect();
    if let Some(body) = of["requestBody"]["content"].as_object().and_then(|all| all.values().next())
    {
        let schema = schema(&body["schema"]);
        parameters.push(json!({"name": "body", "in": "body", "required": true, "schema": schema}));
    }
    changed["parameters"] = parameters.into();
    if let Some(changed) = changed.as_object_mut() {
        changed.remove("requestBody");
    }
    changed["responses"] = each(&of["responses"], |response| {
        let of = &response["content"]["application/json"]["schema"];
        json!({"description": response["description"], "schema": schema(of)})
    });
    changed
}

/// A parameter, which says its type itself.
fn parameter(of: &Value) -> Value {
    let mut changed = of.clone();
    if let Some(parameter) = changed.as_object_mut()
        && let Some(Value::Object(schema)) = parameter.remove("schema")
    {
        parameter.extend(schema);
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_somewhere_and_what_a_merge_needs_is_there() {
        let document = describe(&Registry::builtin());
        let text = document.to_string();
        assert!(!text.contains("#/components/"));
        let definitions = document["definitions"].as_object().unwrap();
        for part in text.split("\"#/definitions/").skip(1) {
            let (name, _) = part.split_once('"').unwrap();
            assert!(definitions.contains_key(name), "{name}");
        }
        let pod = &definitions["io.k8s.api.core.v1.PodSpec"]["properties"];
        assert_eq!(pod["containers"]["x-kubernetes-patch-merge-key"], "name");
        let container = "#/definitions/io.k8s.api.core.v1.Container";
        assert_eq!(pod["containers"]["items"]["$ref"], container);
        let patch = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"];
        assert_eq!(patch["parameters"][0]["name"], "dryRun");
        assert_eq!(patch["parameters"][0]["type"], "string");
        assert_eq!(
            patch["responses"]["200"]["schema"]["$ref"],
            "#/definitions/io.k8s.api.core.v1.Pod"
        );
    }
}
