//! Whether a value has the type a schema asks for.
//!
//! Upstream: kube-openapi/pkg/validation/validate/type.go

use serde_json::Value;

use crate::formats;
use crate::node::{Kind, Node};
use crate::number::{Decoded, decode, is_integer};

pub(super) enum Verdict<'v> {
    /// The schema names no type.
    Untyped,
    Right,
    Wrong {
        wanted: String,
        found: &'v str,
    },
}

/// The type that refuses a null, if one does.
pub(super) fn refuses_null(node: &Node) -> Option<String> {
    let typed = node.int_or_string || node.kind.is_set();
    (typed && !node.nullable).then(|| names(node))
}

pub(super) fn check<'v>(value: &Value, node: &Node) -> Verdict<'v> {
    let format = effective_format(node);
    if !node.int_or_string && !node.kind.is_set() && format.is_none() {
        return Verdict::Untyped;
    }
    let (found, machine) = type_of(value);
    if accepts(node, value, found) {
        return Verdict::Right;
    }
    match format {
        // A format without a type says that strings have it, and nothing of other values.
        Some(_) if !node.int_or_string && !node.kind.is_set() && value.is_string() => {
            Verdict::Right
        }
        Some(format) if !matches!(value, Value::String(_) | Value::Array(_)) => {
            Verdict::Wrong { wanted: format.to_owned(), found: machine }
        }
        _ => Verdict::Wrong { wanted: names(node), found },
    }
}

/// The format of a node if it is one that counts for its type.
pub(super) fn effective_format(node: &Node) -> Option<&str> {
    let format = node.format.as_deref()?;
    let counts = match (&node.kind, node.int_or_string) {
        (_, true) | (Kind::Unset | Kind::String, false) => formats::is_enforced(format),
        (Kind::Integer, false) => matches!(format, "int32" | "int64"),
        (Kind::Number, false) => matches!(format, "float" | "double"),
        _ => false,
    };
    counts.then_some(format)
}

fn names(node: &Node) -> String {
    match node.int_or_string {
        true => "integer,string".to_owned(),
        false => node.kind.name().to_owned(),
    }
}

fn accepts(node: &Node, value: &Value, found: &str) -> bool {
    if node.int_or_string {
        return found == "string" || found == "integer" || whole(value);
    }
    match node.kind {
        Kind::Integer => found == "integer" || whole(value),
        Kind::Number => found == "number" || found == "integer",
        ref kind => kind.name() == found,
    }
}

fn whole(value: &Value) -> bool {
    matches!(value, Value::Number(number) if is_integer(decode(number).as_float()))
}

/// The type of a value, and the format Go gives it.
fn type_of(value: &Value) -> (&'static str, &'static str) {
    match value {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) => ("object", ""),
        Value::Number(number) => match decode(number) {
            Decoded::Integer(_) => ("integer", "int64"),
            Decoded::Float(_) => ("number", "float64"),
        },
    }
}
