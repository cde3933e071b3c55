//! Schemas as OpenAPI v3 shows them, for `/openapi/v3` and `kubectl explain`.
//!
//! Upstream: apiextensions-apiserver/pkg/controller/openapi/builder/builder.go

use serde_json::{Map, Value, json};

use crate::node::{Additional, Bounds, Node, Schema};

const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an \
    object. Servers should convert recognized schemas to the latest internal value, and may reject \
    unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. \
    Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In \
    CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const METADATA: &str = "Standard object's metadata. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const LIST_METADATA: &str = "Standard list metadata. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const OBJECT_META: &str = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";

/// What a schema is published as.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
}

impl Identity<'_> {
    /// The name among the schemas of a document: `com.example.stable.v1.Foo`.
    pub fn schema_name(&self) -> String {
        let reversed: Vec<_> = self.group.rsplit('.').collect();
        format!("{}.{}.{}", reversed.join("."), self.version, self.kind)
    }

    fn extension(&self) -> Value {
        json!([{"group": self.group, "version": self.version, "kind": self.kind}])
    }
}

/// The schema of a kind. Without a schema that is structural, it is only said to be an object.
pub fn resource(schema: Option<&Schema>, identity: &Identity<'_>) -> Value {
    let mut map = match schema {
        Some(schema) => {
            let mut map = node(&schema.root);
            add_resource_fields(&mut map);
            map
        }
        None => Map::from_iter([("type".to_owned(), json!("object"))]),
    };
    map.insert("x-kubernetes-group-version-kind".to_owned(), identity.extension());
    Value::Object(map)
}

/// The schema of the list of a kind.
pub fn list(identity: &Identity<'_>, list_kind: &str, plural: &str) -> Value {
    let item = format!("#/components/schemas/{}", identity.schema_name());
    let of_list = Identity { kind: list_kind, ..*identity };
    let more =
        "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
    json!({
        "description": format!("{list_kind} is a list of {}", identity.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"description": API_VERSION, "type": "string"},
            "kind": {"description": KIND, "type": "string"},
            "metadata": {"description": LIST_METADATA, "allOf": [{"$ref": LIST_META}]},
            "items": {
                "description": format!("List of {plural}. More info: {more}"),
                "type": "array",
                "items": {"$ref": item},
            },
        },
        "x-kubernetes-group-version-kind": of_list.extension(),
    })
}

fn add_resource_fields(map: &mut Map<String, Value>) {
    let properties = map.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(properties) = properties {
        properties
            .insert("apiVersion".to_owned(), json!({"description": API_VERSION, "type": "string"}));
        properties.insert("kind".to_owned(), json!({"description": KIND, "type": "string"}));
        properties.insert(
            "metadata".to_owned(),
            json!({"description": METADATA, "allOf": [{"$ref": OBJECT_META}]}),
        );
    }
}

/// One node with everything it says, in the form of JSONSchemaProps.
pub fn node(node: &Node) -> Map<String, Value> {
    let mut map = Map::new();
    let mut put = |name: &str, value: Value| {
        map.insert(name.to_owned(), value);
    };
    let texts = [
        ("title", &node.title),
        ("description", &node.description),
        ("format", &node.format),
        ("x-kubernetes-list-type", &node.list_type),
        ("x-kubernetes-map-type", &node.map_type),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            put(name, Value::from(&**text));
        }
    }
    if node.kind.is_set() {
        put("type", Value::from(node.kind.name()));
    }
    let values = [
        ("default", &node.default),
        ("example", &node.example),
        ("externalDocs", &node.external_docs),
    ];
    for (name, value) in values {
        if let Some(value) = value {
            put(name, (**value).clone());
        }
    }
    let flags = [
        ("nullable", node.nullable),
        ("x-kubernetes-preserve-unknown-fields", node.preserves_unknown()),
        ("x-kubernetes-embedded-resource", node.embedded_resource),
        ("x-kubernetes-int-or-string", node.int_or_string),
    ];
    for (name, flag) in flags {
        if flag {
            put(name, Value::Bool(true));
        }
    }
    if !node.required.is_empty() {
        put("required", names(&node.required));
    }
    if !node.list_map_keys.is_empty() {
        put("x-kubernetes-list-map-keys", names(&node.list_map_keys));
    }
    if !node.enumeration.is_empty() {
        put("enum", Value::Array(node.enumeration.clone()));
    }
    if !node.rules.is_empty() {
        let rules = node.rules.iter().map(|rule| rule.to_json()).collect();
        put("x-kubernetes-validations", Value::Array(rules));
    }
    children(node, &mut map);
    if let Some(bounds) = &node.bounds {
        limits(bounds, &mut map);
    }
    if node.embedded_resource {
        add_resource_fields(&mut map);
    }
    map
}

fn names(names: &[Box<str>]) -> Value {
    names.iter().map(|name| Value::from(&**name)).collect()
}

fn children(one: &Node, map: &mut Map<String, Value>) {
    let object = |child: &Node| Value::Object(node(child));
    if !one.properties.is_empty() {
        let properties =
            one.properties.iter().map(|(name, child)| (name.to_string(), object(child)));
        map.insert("properties".to_owned(), Value::Object(properties.collect()));
    }
    match &one.additional {
        Some(Additional::Schema(child)) => {
            map.insert("additionalProperties".to_owned(), object(child));
        }
        Some(Additional::Allowed(allowed)) => {
            map.insert("additionalProperties".to_owned(), Value::Bool(*allowed));
        }
        None => {}
    }
    if let Some(items) = &one.items {
        map.insert("items".to_owned(), object(items));
    }
    for (name, nodes) in [("allOf", &one.all_of), ("anyOf", &one.any_of), ("oneOf", &one.one_of)] {
        if !nodes.is_empty() {
            let list = nodes.iter().map(|child| object(child)).collect();
            map.insert(name.to_owned(), Value::Array(list));
        }
    }
    if let Some(not) = &one.not {
        map.insert("not".to_owned(), object(not));
    }
    // What the extension means, for those who do not know it.
    if one.int_or_string && one.any_of.is_empty() && one.all_of.is_empty() {
        map.insert("anyOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
    }
}

fn limits(bounds: &Bounds, map: &mut Map<String, Value>) {
    let numbers = [
        ("maximum", bounds.maximum),
        ("minimum", bounds.minimum),
        ("multipleOf", bounds.multiple_of),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            let whole = number.fract() == 0.0 && number.abs() < 9e15;
            let value = if whole { Value::from(number as i64) } else { Value::from(number) };
            map.insert(name.to_owned(), value);
        }
    }
    let sizes = [
        ("maxLength", bounds.max_length),
        ("minLength", bounds.min_length),
        ("maxItems", bounds.max_items),
        ("minItems", bounds.min_items),
        ("maxProperties", bounds.max_properties),
        ("minProperties", bounds.min_properties),
    ];
    for (name, size) in sizes {
        if let Some(size) = size {
            map.insert(name.to_owned(), Value::from(size));
        }
    }
    let flags = [
        ("exclusiveMaximum", bounds.exclusive_maximum),
        ("exclusiveMinimum", bounds.exclusive_minimum),
        ("uniqueItems", bounds.unique_items),
    ];
    for (name, flag) in flags {
        if flag {
            map.insert(name.to_owned(), Value::Bool(true));
        }
    }
    if let Some(pattern) = &bounds.pattern {
        map.insert("pattern".to_owned(), Value::from(&*pattern.text));
    }
}
