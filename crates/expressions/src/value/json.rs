//! JSON to values, as its declared type says.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

use crate::declared::{Declared, ListKind};
use crate::evaluate::Failure;
use crate::library::times;
use crate::value::{ANYTHING, ATOMIC, List, Map, Value};

/// A view of JSON. What does not fit its declared type is an error, not a guess.
pub(crate) fn from_json<'a>(json: &'a Json, declared: &'a Declared) -> Result<Value<'a>, Failure> {
    match (json, declared) {
        (Json::Null, _) => Ok(Value::Null),
        (Json::Bool(value), _) => Ok(Value::Bool(*value)),
        (Json::Number(number), _) => number_value(number, declared),
        (Json::String(text), _) => string_value(text, declared),
        (Json::Array(items), Declared::List { items: item, kind, .. }) => {
            Ok(Value::List(List::Json { items, declared: item, kind }))
        }
        (Json::Array(items), Declared::Dyn) => {
            Ok(Value::List(List::Json { items, declared: ANYTHING, kind: ATOMIC }))
        }
        (Json::Object(entries), Declared::Object(_) | Declared::Map { .. } | Declared::Dyn) => {
            Ok(Value::Map(Map::Json { entries, declared }))
        }
        (Json::Array(_), _) => Err(unfit("a list")),
        (Json::Object(_), _) => Err(unfit("an object")),
    }
}

fn unfit(found: &str) -> Failure {
    Failure::evaluation(format!("invalid data: {found} does not fit the declared type"))
}

fn number_value<'a>(
    number: &serde_json::Number,
    declared: &Declared,
) -> Result<Value<'a>, Failure> {
    if let Declared::Double = declared {
        return number.as_f64().map(Value::Double).ok_or_else(|| unfit("a number"));
    }
    if let Some(value) = number.as_i64() {
        return Ok(Value::Int(value));
    }
    match (number.as_f64(), declared) {
        // JSON writes 1.0 for what the schema calls an integer.
        (Some(value), Declared::Int) if value.fract() == 0.0 && value.abs() < 9.2e18 => {
            Ok(Value::Int(value as i64))
        }
        (Some(value), _) => Ok(Value::Double(value)),
        (None, _) => Err(unfit("a number")),
    }
}

fn string_value<'a>(text: &'a str, declared: &Declared) -> Result<Value<'a>, Failure> {
    match declared {
        Declared::Bytes { .. } => match STANDARD.decode(text) {
            Ok(bytes) => Ok(Value::Bytes(bytes.into())),
            Err(_) => Err(unfit("a string that is not base64")),
        },
        Declared::Duration => times::parse_duration(text)
            .map(Value::Duration)
            .ok_or_else(|| unfit("a string that is no duration")),
        Declared::DateTime => times::parse_timestamp(text)
            .map(Value::Timestamp)
            .ok_or_else(|| unfit("a string that is no date-time")),
        Declared::Date => times::parse_date(text)
            .map(Value::Timestamp)
            .ok_or_else(|| unfit("a string that is no date")),
        _ => Ok(Value::borrowed(text)),
    }
}

/// The values of the keys of an item of a list that is a map, in JSON.
pub(crate) fn keys_of<'v>(kind: &ListKind, item: &'v Value<'_>) -> Option<Vec<Option<&'v Json>>> {
    let ListKind::Map(keys) = kind else { return None };
    let Value::Map(Map::Json { entries, .. }) = item else { return None };
    Some(keys.iter().map(|key| entries.get(key)).collect())
}
