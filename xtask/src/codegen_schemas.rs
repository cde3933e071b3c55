//! The second table of `cargo xtask codegen`: the built-in types that custom resources hold, as
//! the lines that `crates/api/src/core_types` reads.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde_json::{Map, Value};

pub const OUT: &str = "crates/api/src/core_types/types.txt";
/// Everything that custom resources of ours hold is reached from here.
const ROOT: &str = "io.k8s.api.batch.v1.JobSpec";
/// Types that `core_types` knows itself.
const KNOWN: &[&str] = &["ObjectMeta", "Time", "Quantity", "IntOrString"];

pub fn print(types: &Map<String, Value>) -> Result<String> {
    let mut lines = BTreeMap::new();
    let mut pending = vec![ROOT];
    while let Some(name) = pending.pop() {
        let short = short(name);
        if KNOWN.contains(&short) || lines.contains_key(short) {
            continue;
        }
        let of = types.get(name).with_context(|| format!("no type {name:?}"))?;
        lines.insert(short, print_type(short, of));
        let fields = of["fields"].as_object().into_iter().flatten();
        pending.extend(fields.map(|(_, field)| leaf(said(field))).filter(|t| t.starts_with("io.")));
    }
    Ok(lines.into_values().collect())
}

fn print_type(name: &str, of: &Value) -> String {
    let mut out = String::from(name);
    if of["map-type"] == "atomic" {
        out.push_str(" atomic");
    }
    out.push('\n');
    let required = of["required"].as_array().cloned().unwrap_or_default();
    for (field, fact) in of["fields"].as_object().into_iter().flatten() {
        let is_required = required.iter().any(|one| one == field);
        let mark = if is_required { "!" } else { "" };
        let _ = write!(out, " {field}{mark} {}", shape(said(fact)));
        match fact["list"].as_str() {
            Some("map") => {
                let keys = fact["keys"].as_array().into_iter().flatten();
                let keys: Vec<&str> = keys.filter_map(Value::as_str).collect();
                let _ = write!(out, " map({})", keys.join(","));
            }
            Some(other) => {
                let _ = write!(out, " {other}");
            }
            None => {}
        }
        if let Some(merging) = fact["map"].as_str() {
            let _ = write!(out, " {merging}");
        }
        // What is required needs no default; an empty object says nothing.
        let default = &fact["default"];
        if !is_required && !default.is_null() && !default.is_object() {
            let _ = write!(out, " ={default}");
        }
        out.push('\n');
    }
    out
}

fn said(field: &Value) -> &str {
    field["t"].as_str().unwrap_or_default()
}

fn short(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

fn leaf(shape: &str) -> &str {
    let inner = shape.strip_prefix("[]").or_else(|| shape.strip_prefix("map:"));
    inner.map_or(shape, leaf)
}

fn shape(text: &str) -> String {
    let around = &text[..text.len() - leaf(text).len()];
    let plain = match leaf(text) {
        "integer:int32" => "int32",
        "integer:int64" => "int64",
        name => short(name),
    };
    format!("{around}{plain}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_a_line_and_its_fields_are_lines_below_it() {
        let types = serde_json::json!({
            ROOT: {"fields": {"names": {"t": "[]io.x.Name", "list": "map", "keys": ["a", "b"]},
                "count": {"t": "integer:int32", "default": 1}}, "required": ["names"]},
            "io.x.Name": {"fields": {"a": {"t": "string"}}, "map-type": "atomic"},
        });
        let Value::Object(types) = types else { panic!("an object") };
        let expected =
            "JobSpec\n count int32 =1\n names! []Name map(a,b)\nName atomic\n a string\n";
        assert_eq!(print(&types).expect("printed"), expected);
    }
}
