//! What a version says beside its schema: printer columns, selectable fields, subresources.

use std::collections::HashSet;

use serde_json::Value;

use super::field_path::{Brackets, resolve};
use crate::jsonpath::simple;
use crate::limits::SELECTABLE_FIELDS_MAX;
use crate::node::{Kind, Schema};
use crate::path::Path;
use crate::violation::Violation;

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// Checks `additionalPrinterColumns`; `path` is that of the list.
pub fn columns(columns: &[Value], path: &Path<'_>) -> Vec<Violation> {
    let mut out = Vec::new();
    for (index, column) in columns.iter().enumerate() {
        let at = path.index(index);
        let text = |name: &str| column.get(name).and_then(Value::as_str).unwrap_or_default();
        if text("name").is_empty() {
            out.push(Violation::required(&at.field("name"), ""));
        }
        let detail = format!("must be one of {}", COLUMN_TYPES.join(","));
        match text("type") {
            "" => out.push(Violation::required(&at.field("type"), detail)),
            known if COLUMN_TYPES.contains(&known) => {}
            other => out.push(Violation::invalid(&at.field("type"), other, detail)),
        }
        let format = text("format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            out.push(Violation::invalid(&at.field("format"), format, detail));
        }
        match text("jsonPath") {
            "" => out.push(Violation::required(&at.field("JSONPath"), "")),
            text => out.extend(simple_path(text, &at.field("JSONPath"))),
        }
    }
    out
}

/// Checks `selectableFields`; `path` is that of the list.
pub fn selectable_fields(fields: &[Value], schema: &Schema, path: &Path<'_>) -> Vec<Violation> {
    let mut out = Vec::new();
    let mut seen = HashSet::new();
    for (index, field) in fields.iter().enumerate() {
        let item = path.index(index);
        let at = item.field("jsonPath");
        let text = field.get("jsonPath").and_then(Value::as_str).unwrap_or_default();
        if text.is_empty() {
            out.push(Violation::required(&at, ""));
            continue;
        }
        let (found, node) = match resolve(text, &schema.root, Brackets::Refused) {
            Ok(resolved) => resolved,
            Err(error) => {
                let detail = format!("is an invalid path: {error}");
                out.push(Violation::invalid(&at, text, detail));
                continue;
            }
        };
        if found == "metadata" || found.starts_with("metadata.") {
            let detail = "must not point to fields in metadata";
            out.push(Violation::invalid(&at, text, detail));
        }
        if !matches!(node.kind, Kind::String | Kind::Boolean | Kind::Integer) {
            let detail = "must point to a field of type string, boolean or integer. Enum string \
                          fields and strings with formats are allowed.";
            out.push(Violation::invalid(&at, text, detail));
        }
        if !seen.insert(found) {
            out.push(Violation::duplicate(&at, text));
        }
    }
    if seen.len() > SELECTABLE_FIELDS_MAX {
        out.push(Violation::too_many(path, seen.len(), SELECTABLE_FIELDS_MAX as i64));
    }
    out
}

/// Checks `subresources`; `path` is that of the object.
pub fn subresources(subresources: &Value, path: &Path<'_>) -> Vec<Violation> {
    let mut out = Vec::new();
    let Some(scale) = subresources.get("scale").filter(|scale| !scale.is_null()) else {
        return out;
    };
    let scale_path = path.field("scale");
    let text = |name: &str| scale.get(name).and_then(Value::as_str).unwrap_or_default();
    for (name, prefixes, required) in [
        ("specReplicasPath", [".spec.", ".spec."], true),
        ("statusReplicasPath", [".status.", ".status."], true),
        ("labelSelectorPath", [".spec.", ".status."], false),
    ] {
        let at = scale_path.field(name);
        let text = text(name);
        if text.is_empty() {
            if required {
                out.push(Violation::required(&at, ""));
            }
            continue;
        }
        if let Some(violation) = simple_path(text, &at) {
            out.push(violation);
        } else if !prefixes.iter().any(|prefix| text.starts_with(prefix)) {
            let under = match name {
                "specReplicasPath" => "should be a json path under .spec",
                "statusReplicasPath" => "should be a json path under .status",
                _ => "should be a json path under either .spec or .status",
            };
            out.push(Violation::invalid(&at, text, under));
        }
    }
    out
}

fn simple_path(text: &str, path: &Path<'_>) -> Option<Violation> {
    simple(text).err().map(|detail| Violation::invalid(path, text, detail))
}
