//! What a path leads to in a value.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;

use super::{Comparison, End, Step};
use crate::number::json_text;

type Found<'v> = Vec<Cow<'v, Value>>;

pub(super) fn steps<'v>(start: Found<'v>, steps: &[Step]) -> Result<Found<'v>, String> {
    steps.iter().try_fold(start, step)
}

fn step<'v>(found: Found<'v>, step: &Step) -> Result<Found<'v>, String> {
    match step {
        Step::Field(name) if name.is_empty() => Ok(found),
        Step::Field(name) => Ok(found.into_iter().filter_map(|value| child(value, name)).collect()),
        Step::Wildcard => Ok(found.into_iter().flat_map(children).collect()),
        Step::Recursive => {
            let mut all = Vec::new();
            found.into_iter().for_each(|value| descend(value, &mut all));
            Ok(all)
        }
        Step::Slice { start, end, stride } => {
            let mut all = Vec::new();
            for value in found {
                all.extend(slice(value, *start, *end, *stride)?);
            }
            Ok(all)
        }
        Step::Filter { left, comparison } => {
            let mut all = Vec::new();
            for value in found {
                if !value.is_array() {
                    let shown = json_text(&value);
                    return Err(format!("{shown} is not array or slice and cannot be filtered"));
                }
                for item in children(value) {
                    if passes(&item, left, comparison.as_ref())? {
                        all.push(item);
                    }
                }
            }
            Ok(all)
        }
        Step::Union(parts) => {
            let mut all = Vec::new();
            for part in parts {
                all.extend(steps(found.clone(), part)?);
            }
            Ok(all)
        }
        Step::Literal(value) => Ok(vec![Cow::Owned(value.clone())]),
    }
}

fn child<'v>(value: Cow<'v, Value>, name: &str) -> Option<Cow<'v, Value>> {
    match value {
        Cow::Borrowed(Value::Object(map)) => map.get(name).map(Cow::Borrowed),
        _ => None,
    }
}

fn children(value: Cow<'_, Value>) -> Found<'_> {
    match value {
        Cow::Borrowed(Value::Object(map)) => map.values().map(Cow::Borrowed).collect(),
        Cow::Borrowed(Value::Array(list)) => list.iter().map(Cow::Borrowed).collect(),
        // Only literals are owned, and they have no parts.
        _ => Vec::new(),
    }
}

/// A value and everything in it that has parts.
fn descend<'v>(value: Cow<'v, Value>, all: &mut Found<'v>) {
    let parts = children(value.clone());
    if parts.is_empty() {
        return;
    }
    all.push(value);
    parts.into_iter().for_each(|part| descend(part, all));
}

fn slice(
    value: Cow<'_, Value>,
    start: Option<i64>,
    end: End,
    stride: Option<i64>,
) -> Result<Found<'_>, String> {
    let list = match value {
        Cow::Borrowed(Value::Array(list)) => list,
        Cow::Borrowed(Value::Null) => return Ok(Vec::new()),
        _ => return Err(format!("{} is not array or slice", type_name(&value))),
    };
    let length = list.len() as i64;
    let from_end = |index: i64| if index < 0 { index + length } else { index };
    let start = from_end(start.unwrap_or(0));
    let end = match end {
        End::Open => length,
        End::Before(end) => from_end(end),
        End::Single => start + 1,
    };
    if start == end {
        return Ok(Vec::new());
    }
    let outside =
        |index: i64| Err(format!("array index out of bounds: index {index}, length {length}"));
    if start < 0 || start >= length {
        return outside(start);
    }
    if end < 0 || end > length {
        return outside(end - 1);
    }
    if start > end {
        return Err(format!("starting index {start} is greater than ending index {end}"));
    }
    let stride = match stride.unwrap_or(1) {
        stride if stride > 0 => stride as usize,
        _ => return Err("step must be > 0".to_owned()),
    };
    let items = list[start as usize..end as usize].iter();
    Ok(items.step_by(stride).map(Cow::Borrowed).collect())
}

fn passes(
    item: &Value,
    left: &[Step],
    comparison: Option<&(Comparison, Vec<Step>)>,
) -> Result<bool, String> {
    let lefts = steps(vec![Cow::Borrowed(item)], left)?;
    let Some((comparison, right)) = comparison else {
        return Ok(!lefts.is_empty());
    };
    let rights = steps(vec![Cow::Borrowed(item)], right)?;
    match (lefts.as_slice(), rights.as_slice()) {
        ([], _) | (_, []) => Ok(false),
        ([left], [right]) => compare(left, *comparison, right),
        _ => Err("can only compare one element at a time".to_owned()),
    }
}

fn compare(left: &Value, comparison: Comparison, right: &Value) -> Result<bool, String> {
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Some(left.cmp(&right)),
            _ => left.as_f64().partial_cmp(&right.as_f64()),
        },
        (Value::Bool(left), Value::Bool(right)) => match comparison {
            Comparison::Equal | Comparison::NotEqual => Some(left.cmp(right)),
            _ => return Err("invalid type for comparison".to_owned()),
        },
        _ => return Err("incompatible types for comparison".to_owned()),
    };
    Ok(match comparison {
        Comparison::Equal => order == Some(Ordering::Equal),
        Comparison::NotEqual => order != Some(Ordering::Equal),
        Comparison::Less => order == Some(Ordering::Less),
        Comparison::LessEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
        Comparison::Greater => order == Some(Ordering::Greater),
        Comparison::GreaterEqual => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
    })
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "nil",
        Value::Bool(_) => "bool",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value as a printer column of type string shows it: strings bare, all else as JSON.
pub fn print(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        other => json_text(other),
    }
}
