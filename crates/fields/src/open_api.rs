//! A published JSON schema as a [`Shape`]: types, `x-kubernetes-*` and `$ref` as they stand.
//!
//! Reads the schema at every step and keeps nothing, which is fast enough for custom resources.
//! What a schema does not say is deduced from the value.

use serde_json::Value;

use crate::shape::{Atom, Keys, List, Map, Scalar, Shape};

/// A node of a JSON schema.
#[derive(Clone, Copy, Debug)]
pub struct OpenApi<'a> {
    /// What `$ref` is relative to.
    document: &'a Value,
    /// None for what is not said: it is deduced.
    node: Option<&'a Value>,
    /// How the field that led here says to merge the object, whatever its type says.
    map_type: Option<&'a str>,
}

/// How many `$ref` in a row are followed.
const REFERENCES_MAX: usize = 8;

/// Types whose values are scalars of more than one kind.
const MIXED_SCALARS: [&str; 2] = [".apimachinery.pkg.api.resource.Quantity", ".IntOrString"];

impl<'a> OpenApi<'a> {
    /// The root of a schema that stands alone.
    pub fn new(schema: &'a Value) -> OpenApi<'a> {
        OpenApi::within(schema, schema)
    }

    /// A schema whose `$ref` point into a document.
    pub fn within(document: &'a Value, schema: &'a Value) -> OpenApi<'a> {
        OpenApi { document, node: None, map_type: None }.at(schema)
    }

    fn at(&self, schema: &'a Value) -> OpenApi<'a> {
        let mut node = schema;
        let mut map_type = schema["x-kubernetes-map-type"].as_str();
        for _ in 0..REFERENCES_MAX {
            let Some(reference) = reference(node) else { break };
            if MIXED_SCALARS.iter().any(|name| reference.ends_with(name)) {
                return OpenApi { document: self.document, node: Some(&UNTYPED_SCALAR), map_type };
            }
            let pointer = reference.strip_prefix('#').unwrap_or(reference);
            let Some(found) = self.document.pointer(pointer) else {
                return OpenApi { document: self.document, node: None, map_type: None };
            };
            node = found;
            map_type = map_type.or(node["x-kubernetes-map-type"].as_str());
        }
        OpenApi { document: self.document, node: Some(node), map_type }
    }

    fn deduced(&self) -> OpenApi<'a> {
        OpenApi { document: self.document, node: None, map_type: None }
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        self.node?.get(name)?.as_str()
    }

    fn says(&self, name: &str) -> bool {
        self.node.is_some_and(|node| node[name] == true)
    }

    fn map(&self) -> Map {
        if self.map_type == Some("atomic") { Map::Atomic } else { Map::Granular }
    }

    fn list(&self) -> List<'a> {
        let keys = self.node.and_then(|node| node.get("x-kubernetes-list-map-keys"));
        match self.text("x-kubernetes-list-type") {
            Some("set") => List::Set,
            Some("map") => match keys.and_then(Value::as_array) {
                Some(keys) => List::Keyed(Keys::Values(keys)),
                None => List::Atomic,
            },
            Some(_) => List::Atomic,
            // Types older than list types say how a strategic patch merges them.
            None if !self.merges() => List::Atomic,
            None => match self.node.and_then(|node| node.get("x-kubernetes-patch-merge-key")) {
                Some(key) => List::Keyed(Keys::Values(std::slice::from_ref(key))),
                None => List::Set,
            },
        }
    }

    fn merges(&self) -> bool {
        let strategies = self.text("x-kubernetes-patch-strategy").unwrap_or_default();
        strategies.split(',').any(|strategy| strategy == "merge")
    }
}

static UNTYPED_SCALAR: Value = Value::Bool(true);

/// `$ref`, bare or as the only one of `allOf`.
fn reference(node: &Value) -> Option<&str> {
    match &node["$ref"] {
        Value::String(reference) => Some(reference),
        _ => match node["allOf"].as_array().map(Vec::as_slice) {
            Some([one]) => one["$ref"].as_str(),
            _ => None,
        },
    }
}

impl Shape for OpenApi<'_> {
    fn atom(&self) -> Atom<'_> {
        let Some(node) = self.node else { return Atom::DEDUCED };
        if node == &UNTYPED_SCALAR || self.says("x-kubernetes-int-or-string") {
            return Atom::scalar(Scalar::Untyped);
        }
        match self.text("type") {
            Some("integer" | "number") => Atom::scalar(Scalar::Numeric),
            Some("boolean") => Atom::scalar(Scalar::Boolean),
            Some("string") => Atom::scalar(match self.text("format") {
                None | Some("" | "byte") => Scalar::String,
                Some(_) => Scalar::Untyped,
            }),
            Some("array") => Atom::list(self.list()),
            Some("object") => Atom::map(self.map()),
            _ if node.get("properties").is_some() => Atom::map(self.map()),
            _ => Atom {
                scalar: Some(Scalar::Untyped),
                list: Some(List::Atomic),
                map: Some(self.map()),
            },
        }
    }

    fn field(&self, name: &str) -> Option<Self> {
        let schema = self.node?.get("properties")?.get(name)?;
        Some(self.at(schema))
    }

    fn values(&self) -> Option<Self> {
        let Some(node) = self.node else { return Some(self.deduced()) };
        match node.get("additionalProperties") {
            Some(schema @ Value::Object(_)) => Some(self.at(schema)),
            Some(Value::Bool(true)) => Some(self.deduced()),
            _ if self.says("x-kubernetes-preserve-unknown-fields") => Some(self.deduced()),
            _ if node.get("properties").is_none() => Some(self.deduced()),
            _ => None,
        }
    }

    fn items(&self) -> Option<Self> {
        match self.node.and_then(|node| node.get("items")) {
            Some(schema) => Some(self.at(schema)),
            None => Some(self.deduced()),
        }
    }

    fn field_default(&self, name: &str) -> Option<Value> {
        let schema = self.node?.get("properties")?.get(name)?;
        schema.get("default").filter(|default| !default.is_null()).cloned()
    }
}
