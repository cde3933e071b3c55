//! Strategic merge patch: a merge patch in which lists merge by a key that the type names, with
//! directives for what a merge cannot say.
//!
//! `$patch: replace|delete` is for the map or list it stands in, `$deleteFromPrimitiveList/f`
//! takes elements out of a list of scalars, `$setElementOrder/f` gives the order of a list, and
//! `$retainKeys` names the only keys that stay.
//!
//! Upstream: apimachinery/pkg/util/strategicpatch/patch.go

mod directives;
mod lists;

use serde_json::{Map, Value};

use super::Error;
use crate::facts::{Patch, Shape, Type};
use directives::Marked;

/// Patches an object of a built-in type.
pub fn apply(object: &mut Value, patch: Value, of: &'static Type) -> Result<(), Error> {
    match (object, patch) {
        (_, Value::Null) => Ok(()),
        (Value::Object(original), Value::Object(patch)) => {
            merge_maps(original, patch, Schema::Struct(of))
        }
        _ => Err(Error::Malformed("invalid JSON document".to_owned())),
    }
}

/// What the types say of a map.
#[derive(Clone, Copy)]
enum Schema {
    Struct(&'static Type),
    /// All values are of one shape.
    Map(&'static Shape),
    /// Anything: maps merge, lists are replaced.
    Unknown,
}

/// What the types say of a member of a map.
#[derive(Clone, Copy)]
struct Member {
    /// Of the member if it is a map, of its elements if it is a list.
    schema: Schema,
    strategy: Strategy,
    /// Empty where the elements have none.
    merge_key: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Strategy {
    /// Maps merge, lists are replaced.
    Unsaid,
    Merge,
    Replace,
}

impl Schema {
    fn member(self, key: &str) -> Member {
        let unknown = Member { schema: Schema::Unknown, strategy: Strategy::Unsaid, merge_key: "" };
        match self {
            Schema::Unknown => unknown,
            Schema::Map(shape) => Member { schema: Schema::within(shape), ..unknown },
            Schema::Struct(of) => of.field(key).map_or(unknown, |field| Member {
                schema: Schema::within(&field.shape),
                // Keys are retained when the patch says so, whatever the type says.
                strategy: match field.patch() {
                    Patch::Merge | Patch::MergeRetainKeys => Strategy::Merge,
                    Patch::Replace => Strategy::Replace,
                    Patch::Unsaid | Patch::RetainKeys => Strategy::Unsaid,
                },
                merge_key: field.merge_key(),
            }),
        }
    }

    /// The schema of a map, or of the elements of a list.
    fn within(shape: &'static Shape) -> Schema {
        match shape {
            Shape::Object(of)
            | Shape::SchemaOrArray(of)
            | Shape::SchemaOrBool(of)
            | Shape::SchemaOrStrings(of) => Schema::Struct(of.get()),
            Shape::Map(value) => Schema::Map(value),
            Shape::List(element) => Schema::within(element),
            _ => Schema::Unknown,
        }
    }
}

fn merge_maps(
    original: &mut Map<String, Value>,
    mut patch: Map<String, Value>,
    schema: Schema,
) -> Result<(), Error> {
    if let Some(directive) = patch.remove(directives::PATCH) {
        return match directive.as_str() {
            Some("replace") => {
                *original = directives::strip_map(patch, Marked::Dropped);
                Ok(())
            }
            Some("delete") => {
                original.clear();
                Ok(())
            }
            _ => Err(directives::unknown(&directive, &patch)),
        };
    }
    directives::retain_keys(original, &mut patch)?;
    lists::merge_ordered(original, &mut patch, schema)?;
    for (key, value) in patch {
        match key.strip_prefix(directives::DELETE_FROM) {
            Some(field) => delete_scalars(original, field, value)?,
            None => merge_member(original, key, value, schema)?,
        }
    }
    Ok(())
}

/// What a `$deleteFromPrimitiveList/f` says; `field` begins with the slash.
fn delete_scalars(
    original: &mut Map<String, Value>,
    field: &str,
    value: Value,
) -> Result<(), Error> {
    let bad = || Error::Malformed("invalid patch format of primitive list".to_owned());
    let field = field.strip_prefix('/').ok_or_else(bad)?;
    match (original.get_mut(field), value) {
        (Some(Value::Array(list)), Value::Array(unwanted)) => {
            lists::delete_scalars(list, &unwanted)
        }
        (_, Value::Array(_)) => Ok(()),
        _ => Err(bad()),
    }
}

fn merge_member(
    original: &mut Map<String, Value>,
    key: String,
    value: Value,
    schema: Schema,
) -> Result<(), Error> {
    if value.is_null() {
        original.remove(&key);
        return Ok(());
    }
    let member = schema.member(&key);
    match (original.get_mut(&key), value) {
        (Some(Value::Object(map)), Value::Object(patch))
            if member.strategy != Strategy::Replace =>
        {
            merge_maps(map, patch, member.schema)
        }
        (Some(Value::Array(list)), Value::Array(patch)) if member.strategy == Strategy::Merge => {
            lists::merge(list, patch, member)
        }
        (_, value) => {
            // There is nothing to delete, and directives are no part of the object.
            match directives::strip(value, Marked::Dropped) {
                Some(value) => original.insert(key, value),
                None => original.remove(&key),
            };
            Ok(())
        }
    }
}
