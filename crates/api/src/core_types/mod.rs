//! Schemas of built-in types, for custom resources that hold pods and jobs.
//!
//! The types are in `types.txt`, made by `cargo xtask codegen`: a line for each type, and under it
//! a line for each field: its name (`!` if it is required), its shape, how an apply merges it, and
//! its default.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

const TYPES: &str = include_str!("types.txt");

/// The lines of each type.
type Types = BTreeMap<&'static str, Type>;

#[derive(Default)]
struct Type {
    is_atomic: bool,
    fields: Vec<&'static str>,
}

/// The schema of a type: `of("PodSpec")`. That there is no such type is a mistake of ours.
pub fn of(name: &str) -> Value {
    object(types(), name)
}

/// The schema of a shape: `[]EnvVar`, `map:Quantity`, `int32`.
pub fn shape(text: &str) -> Value {
    shaped(types(), text)
}

fn types() -> &'static Types {
    static READ: OnceLock<Types> = OnceLock::new();
    READ.get_or_init(|| {
        let mut types = Types::new();
        let mut current = "";
        for line in TYPES.lines() {
            if let Some(field) = line.strip_prefix(' ') {
                types.entry(current).or_default().fields.push(field);
                continue;
            }
            let (name, atomic) = line.split_once(' ').unwrap_or((line, ""));
            current = name;
            types.entry(current).or_default().is_atomic = atomic == "atomic";
        }
        types
    })
}

fn object(types: &Types, name: &str) -> Value {
    let of = types.get(name).expect("a schema must name types that there are");
    let mut properties = Map::new();
    let mut required = Vec::new();
    for line in &of.fields {
        let mut words = line.split(' ');
        let field = words.next().unwrap_or_default();
        let plain = field.trim_end_matches('!');
        if plain != field {
            required.push(plain);
        }
        let mut schema = shaped(types, words.next().unwrap_or_default());
        for word in words {
            merging(&mut schema, word);
        }
        properties.insert(plain.to_owned(), schema);
    }
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if of.is_atomic {
        schema["x-kubernetes-map-type"] = json!("atomic");
    }
    schema
}

/// How an apply merges a field, or its default.
fn merging(schema: &mut Value, word: &str) {
    if let Some(default) = word.strip_prefix('=') {
        schema["default"] = serde_json::from_str(default).unwrap_or_default();
    } else if let Some(keys) = word.strip_prefix("map(") {
        let keys: Vec<&str> = keys.trim_end_matches(')').split(',').collect();
        schema["x-kubernetes-list-type"] = json!("map");
        schema["x-kubernetes-list-map-keys"] = json!(keys);
    } else if schema["type"] == "array" {
        schema["x-kubernetes-list-type"] = json!(word);
    } else {
        schema["x-kubernetes-map-type"] = json!(word);
    }
}

fn shaped(types: &Types, text: &str) -> Value {
    if let Some(items) = text.strip_prefix("[]") {
        return json!({"type": "array", "items": shaped(types, items)});
    }
    if let Some(values) = text.strip_prefix("map:") {
        return json!({"type": "object", "additionalProperties": shaped(types, values)});
    }
    match text {
        "string" | "boolean" => json!({"type": text}),
        "int32" | "int64" => json!({"type": "integer", "format": text}),
        "Time" => json!({"type": "string", "format": "date-time"}),
        "Quantity" => json!({
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": concat!(
                r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))",
                r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
            ),
            "x-kubernetes-int-or-string": true,
        }),
        "IntOrString" => json!({
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": true,
        }),
        // Of an object within another only these mean something.
        "ObjectMeta" => json!({"type": "object", "properties": {
            "annotations": shaped(types, "map:string"),
            "finalizers": shaped(types, "[]string"),
            "labels": shaped(types, "map:string"),
            "name": {"type": "string"},
            "namespace": {"type": "string"},
        }}),
        name => object(types, name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_say_how_they_are_merged_and_fields_their_defaults() {
        let container = of("Container");
        let ports = &container["properties"]["ports"];
        assert_eq!(ports["x-kubernetes-list-type"], "map");
        assert_eq!(ports["x-kubernetes-list-map-keys"], json!(["containerPort", "protocol"]));
        assert_eq!(ports["items"]["properties"]["protocol"]["default"], "TCP");
        assert_eq!(container["properties"]["command"]["x-kubernetes-list-type"], "atomic");
        assert_eq!(container["required"], json!(["name"]));
        let limits = &container["properties"]["resources"]["properties"]["limits"];
        assert_eq!(limits["additionalProperties"]["x-kubernetes-int-or-string"], true);
    }

    #[test]
    fn an_embedded_object_has_little_metadata() {
        let template = of("PodTemplateSpec");
        let names: Vec<&String> = template["properties"]["metadata"]["properties"]
            .as_object()
            .into_iter()
            .flat_map(Map::keys)
            .collect();
        assert_eq!(names, ["annotations", "finalizers", "labels", "name", "namespace"]);
    }
}
