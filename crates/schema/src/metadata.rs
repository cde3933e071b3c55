//! `apiVersion`, `kind` and `metadata` of resources and of the resources embedded in them.
//!
//! Upstream: apiextensions-apiserver/pkg/apiserver/schema/objectmeta

use serde_json::{Map, Value};

use crate::node::{Node, Schema};
use crate::path::Path;
use crate::violation::Violation;

/// What to do with a field of the wrong type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// For requests.
    Refuse,
    /// For what is in the store.
    Drop,
}

/// Checks the metadata of an embedded resource; gets the path of the metadata and the metadata. The
/// server has these rules for its own kinds.
pub type Embedded<'a> = dyn Fn(&str, &Map<String, Value>) -> Vec<Violation> + 'a;

/// Gives the metadata of a resource, and of the resources embedded in it, the form of ObjectMeta:
/// unknown fields and empty ones are dropped. Returns the paths of the unknown ones, sorted.
///
/// # Errors
/// The first field of the wrong type, if those are refused.
pub fn coerce(
    object: &mut Value,
    schema: &Schema,
    malformed: Malformed,
) -> Result<Vec<String>, Box<Violation>> {
    let mut coercer = Coercer { malformed, unknown: Vec::new() };
    coercer.value(object, &schema.root, true, &Path::root())?;
    coercer.unknown.sort_unstable();
    Ok(coercer.unknown)
}

/// As [`coerce`], of one value whose place is given.
pub(crate) fn coerce_value(
    value: &mut Value,
    node: &Node,
    resource: bool,
    path: &Path<'_>,
) -> Result<(), Box<Violation>> {
    let mut coercer = Coercer { malformed: Malformed::Refuse, unknown: Vec::new() };
    coercer.value(value, node, resource, path)
}

struct Coercer {
    malformed: Malformed,
    unknown: Vec<String>,
}

impl Coercer {
    fn value(
        &mut self,
        value: &mut Value,
        node: &Node,
        resource: bool,
        path: &Path<'_>,
    ) -> Result<(), Box<Violation>> {
        match value {
            Value::Object(map) => {
                if resource {
                    self.resource(map, path)?;
                }
                for (name, value) in map.iter_mut() {
                    if let Some(child) = node.properties.get(name.as_str()) {
                        self.value(value, child, child.embedded_resource, &path.field(name))?;
                    } else if let Some(child) = node.additional_schema() {
                        self.value(value, child, child.embedded_resource, &path.key(name))?;
                    }
                }
            }
            Value::Array(list) => {
                if let Some(items) = &node.items {
                    for (index, value) in list.iter_mut().enumerate() {
                        self.value(value, items, items.embedded_resource, &path.index(index))?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn resource(
        &mut self,
        map: &mut Map<String, Value>,
        path: &Path<'_>,
    ) -> Result<(), Box<Violation>> {
        for name in ["apiVersion", "kind"] {
            match map.get(name) {
                None | Some(Value::String(_)) => {}
                Some(_) if self.malformed == Malformed::Drop => {
                    map.remove(name);
                }
                Some(value) => {
                    let at = path.field(name);
                    let wrong = Violation::invalid(&at, value.clone(), "must be a string");
                    return Err(Box::new(wrong));
                }
            }
        }
        let at = path.field("metadata");
        match map.get_mut("metadata") {
            None => Ok(()),
            Some(Value::Object(metadata)) => self.metadata(metadata, &at),
            Some(Value::Null) => {
                map.insert("metadata".to_owned(), Value::Object(Map::new()));
                Ok(())
            }
            Some(_) if self.malformed == Malformed::Drop => Ok(()),
            Some(value) => {
                let detail = mismatch(value, "ObjectMeta", "v1.ObjectMeta");
                Err(Box::new(Violation::invalid(&at, value.clone(), detail)))
            }
        }
    }

    fn metadata(
        &mut self,
        metadata: &mut Map<String, Value>,
        path: &Path<'_>,
    ) -> Result<(), Box<Violation>> {
        if let Err(error) = typed(metadata, OBJECT_META, "ObjectMeta") {
            if self.malformed == Malformed::Refuse {
                let value = Value::Object(metadata.clone());
                return Err(Box::new(Violation::invalid(path, value, error)));
            }
            metadata.retain(|name, value| {
                let alone = Map::from_iter([(name.clone(), value.clone())]);
                typed(&alone, OBJECT_META, "ObjectMeta").is_ok()
            });
        }
        trim(metadata, OBJECT_META, path, &mut self.unknown);
        Ok(())
    }
}

/// The types of the fields of ObjectMeta.
#[derive(Clone, Copy)]
enum Typed {
    Text,
    Integer,
    Boolean,
    Time,
    Texts,
    TextMap,
    Any,
    Structs(&'static str, &'static [(&'static str, Typed)]),
}

const OBJECT_META: &[(&str, Typed)] = &[
    ("name", Typed::Text),
    ("generateName", Typed::Text),
    ("namespace", Typed::Text),
    ("selfLink", Typed::Text),
    ("uid", Typed::Text),
    ("resourceVersion", Typed::Text),
    ("generation", Typed::Integer),
    ("creationTimestamp", Typed::Time),
    ("deletionTimestamp", Typed::Time),
    ("deletionGracePeriodSeconds", Typed::Integer),
    ("labels", Typed::TextMap),
    ("annotations", Typed::TextMap),
    ("ownerReferences", Typed::Structs("OwnerReference", OWNER_REFERENCE)),
    ("finalizers", Typed::Texts),
    ("managedFields", Typed::Structs("ManagedFieldsEntry", MANAGED_FIELDS)),
];

const OWNER_REFERENCE: &[(&str, Typed)] = &[
    ("apiVersion", Typed::Text),
    ("kind", Typed::Text),
    ("name", Typed::Text),
    ("uid", Typed::Text),
    ("controller", Typed::Boolean),
    ("blockOwnerDeletion", Typed::Boolean),
];

const MANAGED_FIELDS: &[(&str, Typed)] = &[
    ("manager", Typed::Text),
    ("operation", Typed::Text),
    ("apiVersion", Typed::Text),
    ("time", Typed::Time),
    ("fieldsType", Typed::Text),
    ("fieldsV1", Typed::Any),
    ("subresource", Typed::Text),
];

fn lookup(fields: &[(&str, Typed)], name: &str) -> Option<Typed> {
    fields.iter().find(|(field, _)| *field == name).map(|(_, typed)| *typed)
}

fn typed(map: &Map<String, Value>, fields: &[(&str, Typed)], owner: &str) -> Result<(), String> {
    for (name, value) in map {
        if let Some(wanted) = lookup(fields, name) {
            matches_type(value, wanted, &format!("{owner}.{name}"))?;
        }
    }
    Ok(())
}

fn matches_type(value: &Value, wanted: Typed, field: &str) -> Result<(), String> {
    let go_type = match (wanted, value) {
        (_, Value::Null) | (Typed::Any, _) => return Ok(()),
        (Typed::Text, Value::String(_)) | (Typed::Boolean, Value::Bool(_)) => return Ok(()),
        (Typed::Integer, Value::Number(number)) if number.is_i64() => return Ok(()),
        (Typed::Time, Value::String(text)) => {
            return match text.is_empty() || crate::formats::is_date_time(text) {
                true => Ok(()),
                false => Err(format!(
                    "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": \
                     cannot parse {text:?} as \"2006\""
                )),
            };
        }
        (Typed::Texts, Value::Array(list)) => {
            return list.iter().try_for_each(|one| matches_type(one, Typed::Text, field));
        }
        (Typed::TextMap, Value::Object(map)) => {
            return map.values().try_for_each(|one| matches_type(one, Typed::Text, field));
        }
        (Typed::Structs(owner, fields), Value::Array(list)) => {
            return list.iter().try_for_each(|one| match one {
                Value::Object(map) => typed(map, fields, owner),
                Value::Null => Ok(()),
                other => Err(mismatch(other, field, &format!("v1.{owner}"))),
            });
        }
        (Typed::Text | Typed::Time, _) => "string",
        (Typed::Integer, _) => "int64",
        (Typed::Boolean, _) => "bool",
        (Typed::Texts, _) => "[]string",
        (Typed::TextMap, _) => "map[string]string",
        (Typed::Structs(owner, _), _) => {
            return Err(mismatch(value, field, &format!("[]v1.{owner}")));
        }
    };
    Err(mismatch(value, field, go_type))
}

fn mismatch(value: &Value, field: &str, go_type: &str) -> String {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    format!("json: cannot unmarshal {found} into Go struct field {field} of type {go_type}")
}

/// Drops unknown fields and those Go would not write.
fn trim(
    map: &mut Map<String, Value>,
    fields: &[(&str, Typed)],
    path: &Path<'_>,
    unknown: &mut Vec<String>,
) {
    map.retain(|name, value| {
        let Some(wanted) = lookup(fields, name) else {
            unknown.push(path.field(name).to_string());
            return false;
        };
        match value {
            Value::Null => return false,
            // The four names of an owner are written even when they are empty.
            Value::String(text) => {
                return !text.is_empty() || fields.len() == OWNER_REFERENCE.len();
            }
            Value::Number(number) if name == "generation" => return number.as_i64() != Some(0),
            Value::Array(list) if list.is_empty() => return false,
            Value::Object(map) if map.is_empty() && name != "fieldsV1" => return false,
            _ => {}
        }
        if let (Typed::Structs(_, fields), Value::Array(list)) = (wanted, value) {
            let at = path.field(name);
            for (index, one) in list.iter_mut().enumerate() {
                if let Value::Object(map) = one {
                    trim(map, fields, &at.index(index), unknown);
                }
            }
        }
        true
    });
}

/// Checks the resources embedded in a value; the value itself too if `resource` says it is one.
pub(crate) fn embedded(
    value: &Value,
    node: &Node,
    (resource, path): (bool, &Path<'_>),
    (metadata, out): (Option<&Embedded<'_>>, &mut Vec<Violation>),
) {
    match value {
        Value::Object(map) => {
            if resource {
                identity(map, path, metadata, out);
            }
            for (name, value) in map {
                if let Some(child) = node.properties.get(name.as_str()) {
                    let at = (child.embedded_resource, &path.field(name));
                    embedded(value, child, at, (metadata, out));
                } else if let Some(child) = node.additional_schema() {
                    let at = (child.embedded_resource, &path.key(name));
                    embedded(value, child, at, (metadata, out));
                }
            }
        }
        Value::Array(list) => {
            if let Some(items) = &node.items {
                for (index, value) in list.iter().enumerate() {
                    let at = (items.embedded_resource, &path.index(index));
                    embedded(value, items, at, (metadata, out));
                }
            }
        }
        _ => {}
    }
}

fn identity(
    map: &Map<String, Value>,
    path: &Path<'_>,
    metadata: Option<&Embedded<'_>>,
    out: &mut Vec<Violation>,
) {
    for (name, check) in [("apiVersion", api_version as fn(&str) -> Option<String>), ("kind", kind)]
    {
        let at = path.field(name);
        match map.get(name) {
            None => out.push(Violation::required(&at, "")),
            Some(Value::String(text)) if text.is_empty() => {
                out.push(Violation::required(&at, ""));
            }
            Some(Value::String(text)) => {
                out.extend(
                    check(text).map(|detail| Violation::invalid(&at, text.as_str(), detail)),
                );
            }
            Some(other) => {
                out.push(Violation::invalid(&at, other.clone(), "must be a string"));
            }
        }
    }
    let at = path.field("metadata");
    match map.get("metadata") {
        None | Some(Value::Null) => {}
        Some(Value::Object(found)) => match typed(found, OBJECT_META, "ObjectMeta") {
            Err(error) => {
                out.push(Violation::invalid(&at, Value::Object(found.clone()), error));
            }
            Ok(()) => out.extend(metadata.into_iter().flat_map(|check| check(&at.text(), found))),
        },
        Some(other) => {
            let detail = mismatch(other, "ObjectMeta", "v1.ObjectMeta");
            out.push(Violation::invalid(&at, other.clone(), detail));
        }
    }
}

fn api_version(text: &str) -> Option<String> {
    let slashes = text.bytes().filter(|byte| *byte == b'/').count();
    (slashes > 1).then(|| format!("unexpected GroupVersion string: {text}"))
}

fn kind(text: &str) -> Option<String> {
    let lower = text.to_lowercase();
    let mut problems = Vec::new();
    if lower.len() > 63 {
        problems.push("must be no more than 63 bytes");
    }
    let bytes = lower.as_bytes();
    let inside = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    let starts = bytes.first().is_some_and(u8::is_ascii_lowercase);
    if !starts || !bytes.iter().all(inside) || bytes.last() == Some(&b'-') {
        problems.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start \
             with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or \
             'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
        );
    }
    match problems.is_empty() {
        true => None,
        false => {
            Some(format!("may have mixed case, but should otherwise match: {}", problems.join(",")))
        }
    }
}
