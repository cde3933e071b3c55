//! The schemas of types, with what clients need to merge and to explain them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::descriptions;
use crate::facts::{Field, List, Patch, SchemaDefault, Shape, Type};
use crate::resources::Resource;

#[cfg(test)]
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// The schemas of one document: kinds, and every type they use.
#[derive(Default)]
pub struct Schemas {
    made: BTreeMap<&'static str, Value>,
    waiting: Vec<&'static Type>,
}

pub fn schema_name(resource: &Resource) -> &'static str {
    resource.facts.type_id.get().name
}

impl Schemas {
    pub fn add_kind(&mut self, resource: &Resource) {
        let of = resource.facts.type_id.get();
        self.want(of);
        for subresource in resource.facts.subresources {
            if let Some(id) = subresource.type_id {
                self.want(id.get());
            }
        }
        self.make_waiting();
        if let Some(schema) = self.made.get_mut(of.name) {
            schema["x-kubernetes-group-version-kind"] = json!([{
                "group": resource.group, "version": resource.version, "kind": resource.kind,
            }]);
        }
    }

    pub fn finish(self) -> Value {
        let mut schemas = json!({});
        for (name, schema) in self.made {
            schemas[name] = schema;
        }
        schemas
    }

    fn want(&mut self, of: &'static Type) {
        if !self.made.contains_key(of.name) {
            self.made.insert(of.name, Value::Null);
            self.waiting.push(of);
        }
    }

    fn make_waiting(&mut self) {
        while let Some(of) = self.waiting.pop() {
            let schema = self.object(of);
            self.made.insert(of.name, schema);
        }
    }

    fn object(&mut self, of: &'static Type) -> Value {
        let mut properties = json!({});
        for field in of.fields {
            let mut property = self.property(field);
            property["description"] = json!(descriptions::of_field(of, field));
            properties[field.name] = property;
        }
        let description = descriptions::of_type(of);
        let mut schema =
            json!({"description": description, "type": "object", "properties": properties});
        let required = of.fields.iter().filter(|field| field.required);
        let required: Vec<_> = required.map(|field| field.name).collect();
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        if of.atomic {
            schema["x-kubernetes-map-type"] = json!("atomic");
        }
        schema
    }

    fn property(&mut self, field: &'static Field) -> Value {
        let mut schema = self.shape(&field.shape);
        let rare = field.rare();
        match rare.list {
            List::Atomic if matches!(field.shape, Shape::List(_)) => {
                schema["x-kubernetes-list-type"] = json!("atomic");
            }
            List::Atomic => {}
            List::Set => schema["x-kubernetes-list-type"] = json!("set"),
            List::Map(keys) => {
                schema["x-kubernetes-list-type"] = json!("map");
                schema["x-kubernetes-list-map-keys"] = json!(keys);
            }
        }
        let strategy = match rare.patch {
            Patch::Unsaid => None,
            Patch::Merge => Some("merge"),
            Patch::MergeRetainKeys => Some("merge,retainKeys"),
            Patch::RetainKeys => Some("retainKeys"),
            Patch::Replace => Some("replace"),
        };
        if let Some(strategy) = strategy {
            schema["x-kubernetes-patch-strategy"] = json!(strategy);
        }
        if !rare.merge_key.is_empty() {
            schema["x-kubernetes-patch-merge-key"] = json!(rare.merge_key);
        }
        match rare.default {
            SchemaDefault::None => {}
            SchemaDefault::String(text) => schema["default"] = json!(text),
            SchemaDefault::Integer(number) => schema["default"] = json!(number),
        }
        schema
    }

    fn shape(&mut self, shape: &'static Shape) -> Value {
        match shape {
            Shape::String => json!({"type": "string"}),
            Shape::Integer32 => json!({"type": "integer", "format": "int32"}),
            Shape::Integer64 => json!({"type": "integer", "format": "int64"}),
            Shape::Double => json!({"type": "number", "format": "double"}),
            Shape::Boolean => json!({"type": "boolean"}),
            Shape::Bytes => json!({"type": "string", "format": "byte"}),
            Shape::Time | Shape::MicroTime => json!({"type": "string", "format": "date-time"}),
            Shape::Quantity => json!({"type": "string"}),
            Shape::IntOrString => json!({"type": "string", "format": "int-or-string"}),
            Shape::RawObject | Shape::FieldsV1 => json!({"type": "object"}),
            Shape::Any
            | Shape::SchemaOrArray(_)
            | Shape::SchemaOrBool(_)
            | Shape::SchemaOrStrings(_) => json!({}),
            Shape::Object(id) => {
                let of = id.get();
                self.want(of);
                // A reference with something beside it must be wrapped.
                json!({"allOf": [{"$ref": format!("#/components/schemas/{}", of.name)}]})
            }
            Shape::List(items) => json!({"type": "array", "items": self.shape(items)}),
            Shape::Map(values) => {
                json!({"type": "object", "additionalProperties": self.shape(values)})
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resources::Registry;

    #[test]
    fn a_schema_has_what_a_merge_needs() {
        let registry = Registry::builtin();
        let pods = registry.find("", "pods").unwrap();
        let mut schemas = Schemas::default();
        schemas.add_kind(&pods);
        let schemas = schemas.finish();
        let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
        assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
        assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
        assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
        assert!(schemas[format!("{META}.ObjectMeta")].is_object());
        let image = &schemas["io.k8s.api.core.v1.Container"]["properties"]["image"];
        assert_eq!(image["description"], "The image to run.");
        assert!(schemas.as_object().unwrap().values().all(|schema| !schema.is_null()));
    }
}
