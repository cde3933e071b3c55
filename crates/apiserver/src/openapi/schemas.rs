//! The schemas of types, with what clients need to merge and to explain them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schema::publish::{self, Identity};
use serde_json::{Value, json};

use super::descriptions;
use crate::facts::{self, Field, List, Patch, SchemaDefault, Shape, Type};
use crate::resources::Resource;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
#[cfg(test)]
const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// The schemas of one document: kinds, and every type they use.
#[derive(Default)]
pub struct Schemas {
    made: BTreeMap<Cow<'static, str>, Value>,
    waiting: Vec<&'static Type>,
}

pub fn schema_name(resource: &Resource) -> Cow<'static, str> {
    match resource.builtin_type() {
        Some(of) => of.name.into(),
        None => identity(resource).schema_name().into(),
    }
}

fn identity(resource: &Resource) -> Identity<'_> {
    Identity { group: &resource.group, version: &resource.version, kind: &resource.kind }
}

impl Schemas {
    pub fn add_kind(&mut self, resource: &Resource) {
        for id in resource.subresources.iter().filter_map(|one| one.type_id) {
            self.want(id.get());
        }
        let Some(of) = resource.builtin_type() else { return self.add_custom(resource) };
        self.want(of);
        self.make_waiting();
        if let Some(schema) = self.made.get_mut(of.name) {
            schema["x-kubernetes-group-version-kind"] = json!([{
                "group": resource.group, "version": resource.version, "kind": resource.kind,
            }]);
        }
    }

    fn add_custom(&mut self, resource: &Resource) {
        for name in [OBJECT_META, LIST_META] {
            if let Some(of) = facts::type_by_name(name) {
                self.want(of);
            }
        }
        self.make_waiting();
        let Some(version) = resource.custom() else { return };
        let identity = identity(resource);
        let mut whole = publish::resource(Some(version.schema()), &identity);
        if !version.selectable.is_empty() {
            let field = |(name, _): &(String, _)| json!({"fieldPath": name});
            let fields: Vec<_> = version.selectable.iter().map(field).collect();
            whole["x-kubernetes-selectable-fields"] = fields.into();
        }
        self.made.insert(identity.schema_name().into(), whole);
        let list = publish::list(&identity, &resource.list_kind, &resource.plural);
        let of_list = Identity { kind: &resource.list_kind, ..identity };
        self.made.insert(of_list.schema_name().into(), list);
    }

    pub fn finish(self) -> Value {
        let mut schemas = json!({});
        for (name, schema) in self.made {
            schemas[&*name] = schema;
        }
        schemas
    }

    fn want(&mut self, of: &'static Type) {
        if !self.made.contains_key(of.name) {
            self.made.insert(of.name.into(), Value::Null);
            self.waiting.push(of);
        }
    }

    fn make_waiting(&mut self) {
        while let Some(of) = self.waiting.pop() {
            let schema = self.object(of);
            self.made.insert(of.name.into(), schema);
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
