//! Values as protobuf, for tests only: small, slow and from the same tables.

use ::base64::Engine as _;
use ::base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::decode::time::{Precision, canonical};
use crate::facts::{Shape, Type};

/// An object in its envelope.
pub fn encode(object: &Value, of: &'static Type) -> Vec<u8> {
    let text = |name: &str| object[name].as_str().unwrap_or_default().as_bytes().to_vec();
    let type_meta = [run(1, &text("apiVersion")), run(2, &text("kind"))].concat();
    let raw = message(object.as_object().unwrap(), of, &[]);
    [b"k8s\0".to_vec(), run(1, &type_meta), run(2, &raw), run(3, b""), run(4, b"")].concat()
}

pub fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

pub fn number(field: u16, number: u64) -> Vec<u8> {
    [varint(u64::from(field) << 3), varint(number)].concat()
}

pub fn run(field: u16, bytes: &[u8]) -> Vec<u8> {
    let length = varint(bytes.len() as u64);
    [varint(u64::from(field) << 3 | 2), length, bytes.to_vec()].concat()
}

/// The fields of a type, or of a struct that is inlined in it.
fn message(object: &Map<String, Value>, of: &'static Type, inlined: &[u16]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut around = std::collections::BTreeSet::new();
    for field in of.fields {
        if field.inlined().starts_with(inlined) && field.inlined().len() > inlined.len() {
            around.insert(field.inlined()[inlined.len()]);
        }
        let value = object.get(field.name).filter(|value| !value.is_null());
        match value {
            Some(value) if field.inlined() == inlined && field.pb > 0 => {
                out.extend(occurrences(value, &field.shape, field.pb));
            }
            _ => {}
        }
    }
    for inner in around {
        let path = [inlined, &[inner]].concat();
        out.extend(run(inner, &message(object, of, &path)));
    }
    out
}

/// A field: once, or once for each element.
fn occurrences(value: &Value, shape: &'static Shape, field: u16) -> Vec<u8> {
    match (shape, value) {
        (Shape::List(element), Value::Array(list)) => {
            list.iter().flat_map(|value| one(value, element, field)).collect()
        }
        (Shape::Map(element), Value::Object(map)) => {
            let entry = |(key, value): (&String, &Value)| {
                run(field, &[run(1, key.as_bytes()), one(value, element, 2)].concat())
            };
            map.iter().flat_map(entry).collect()
        }
        _ => one(value, shape, field),
    }
}

fn one(value: &Value, shape: &'static Shape, field: u16) -> Vec<u8> {
    match (shape, value) {
        (Shape::Boolean, value) => number(field, u64::from(value.as_bool().unwrap())),
        (Shape::Integer32 | Shape::Integer64, value) => {
            number(field, value.as_i64().unwrap() as u64)
        }
        (Shape::Double, value) => {
            let bytes = value.as_f64().unwrap().to_le_bytes();
            [varint(u64::from(field) << 3 | 1), bytes.to_vec()].concat()
        }
        _ => run(field, &content(value, shape)),
    }
}

/// What has a length.
fn content(value: &Value, shape: &'static Shape) -> Vec<u8> {
    match (shape, value) {
        (Shape::Object(of), Value::Object(map)) => message(map, of.get(), &[]),
        (Shape::String, Value::String(text)) => text.clone().into_bytes(),
        (Shape::Bytes, Value::String(text)) => STANDARD.decode(text).unwrap(),
        (Shape::List(element), Value::Array(list)) => {
            list.iter().flat_map(|value| one(value, element, 1)).collect()
        }
        (Shape::Quantity, Value::String(text)) => run(1, text.as_bytes()),
        (Shape::Time | Shape::MicroTime, Value::String(text)) => moment(text),
        (Shape::IntOrString, Value::String(text)) => {
            [number(1, 1), number(2, 0), run(3, text.as_bytes())].concat()
        }
        (Shape::IntOrString, value) => {
            [number(1, 0), number(2, value.as_i64().unwrap() as u64), run(3, b"")].concat()
        }
        (Shape::RawObject | Shape::FieldsV1 | Shape::Any, value) => {
            run(1, value.to_string().as_bytes())
        }
        (Shape::SchemaOrArray(of) | Shape::SchemaOrStrings(of), Value::Object(map)) => {
            run(1, &message(map, of.get(), &[]))
        }
        (Shape::SchemaOrBool(of), Value::Object(map)) => {
            [number(1, 1), run(2, &message(map, of.get(), &[]))].concat()
        }
        (Shape::SchemaOrBool(_), Value::Bool(allows)) => number(1, u64::from(*allows)),
        (Shape::SchemaOrArray(of), Value::Array(list)) => {
            let schema =
                |value: &Value| run(2, &message(value.as_object().unwrap(), of.get(), &[]));
            list.iter().flat_map(schema).collect()
        }
        (Shape::SchemaOrStrings(_), Value::Array(list)) => {
            list.iter().flat_map(|value| run(2, value.as_str().unwrap().as_bytes())).collect()
        }
        (shape, value) => panic!("{value} is not a {shape:?}"),
    }
}

/// Days are counted year by year, unlike in what is tested.
fn moment(text: &str) -> Vec<u8> {
    assert!(canonical(text, Precision::Seconds).is_ok(), "{text}");
    let part = |from: usize, to: usize| text[from..to].parse::<u64>().unwrap();
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let year = part(0, 4);
    let mut days: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    let february = 28 + u64::from(is_leap(year));
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    days += months[..part(5, 7) as usize - 1].iter().sum::<u64>() + part(8, 10) - 1;
    let seconds = days * 86_400 + part(11, 13) * 3_600 + part(14, 16) * 60 + part(17, 19);
    let nanoseconds = if text.len() > 20 { part(20, 26) * 1_000 } else { 0 };
    [number(1, seconds), number(2, nanoseconds)].concat()
}
