//! The messages that are not objects in JSON: times, quantities, bytes, values of any type and
//! what is one thing or another.
//!
//! Upstream: apimachinery/pkg/apis/meta/v1/time_proto.go, api/resource/generated.proto,
//! util/intstr/generated.proto, apiextensions/v1/generated.proto

use ::base64::Engine as _;
use ::base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::message::{self, At};
use super::wire::Reader;
use crate::decode::time::{self, Precision};
use crate::decode::{Error, json};
use crate::facts::{Shape, Type};

pub fn base64(bytes: &[u8]) -> Value {
    Value::String(STANDARD.encode(bytes))
}

/// The value of a message of a special shape.
pub fn value(bytes: &[u8], at: At) -> Result<Value, Error> {
    match *at.shape {
        Shape::Time => moment(bytes, Precision::Seconds),
        Shape::MicroTime => moment(bytes, Precision::Microseconds),
        Shape::Quantity => quantity(bytes),
        Shape::IntOrString => int_or_string(bytes),
        Shape::RawObject | Shape::FieldsV1 | Shape::Any => any(bytes, at.depth),
        Shape::SchemaOrArray(of) => schema_or_array(bytes, at.depth, of.get()),
        Shape::SchemaOrBool(of) => schema_or_bool(bytes, at.depth, of.get()),
        Shape::SchemaOrStrings(of) => schema_or_strings(bytes, at.depth, of.get()),
        _ => Err(Error::Syntax("a message was not expected".to_owned())),
    }
}

/// Seconds and nanoseconds since 1970. No bytes are no time, which is not 1970.
fn moment(bytes: &[u8], precision: Precision) -> Result<Value, Error> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanoseconds) = (0, 0);
    let mut reader = Reader::new(bytes, "Time");
    while let Some(tag) = reader.tag()? {
        match tag.number {
            1 => seconds = reader.varint(tag)? as i64,
            2 => nanoseconds = reader.varint(tag)? as i32,
            _ => reader.skip(tag)?,
        }
    }
    let microseconds = match precision {
        // JSON has whole seconds only, and both must mean the same.
        Precision::Seconds => 0,
        Precision::Microseconds => i64::from(nanoseconds / 1_000),
    };
    let text = time::since_1970(seconds, microseconds, precision);
    text.map(Value::String).ok_or_else(|| reader.error("the year is out of range"))
}

/// A quantity that says nothing is zero.
fn quantity(bytes: &[u8]) -> Result<Value, Error> {
    let mut text = "0";
    let mut reader = Reader::new(bytes, "Quantity");
    while let Some(tag) = reader.tag()? {
        match tag.number {
            1 => text = reader.text(tag)?,
            _ => reader.skip(tag)?,
        }
    }
    Ok(Value::String(text.to_owned()))
}

fn int_or_string(bytes: &[u8]) -> Result<Value, Error> {
    let (mut kind, mut number, mut text) = (0, 0, "");
    let mut reader = Reader::new(bytes, "IntOrString");
    while let Some(tag) = reader.tag()? {
        match tag.number {
            1 => kind = reader.varint(tag)?,
            2 => number = reader.varint(tag)? as i32,
            3 => text = reader.text(tag)?,
            _ => reader.skip(tag)?,
        }
    }
    match kind {
        0 => Ok(Value::from(number)),
        1 => Ok(Value::String(text.to_owned())),
        other => Err(reader.error(format_args!("there is no type {other}"))),
    }
}

/// JSON as bytes; none is null.
fn any(bytes: &[u8], depth: usize) -> Result<Value, Error> {
    let mut raw: &[u8] = &[];
    let mut reader = Reader::new(bytes, "a message of JSON");
    while let Some(tag) = reader.tag()? {
        match tag.number {
            1 => raw = reader.bytes(tag)?,
            _ => reader.skip(tag)?,
        }
    }
    match raw {
        [] => Ok(Value::Null),
        raw => Ok(json::parse_within(raw, depth)?.value),
    }
}

fn schema_or_array(bytes: &[u8], depth: usize, of: &'static Type) -> Result<Value, Error> {
    let (mut schema, mut list) = (Value::Null, Vec::new());
    let mut reader = Reader::new(bytes, "JSONSchemaPropsOrArray");
    while let Some(tag) = reader.tag()? {
        match tag.number {
            1 => schema = message::object(of, reader.bytes(tag)?, depth)?,
            2 => list.push(message::object(of, reader.bytes(tag)?, depth + 1)?),
            _ => reader.skip(tag)?,
        }
    }
    Ok(if list.is_empty() { schema } else { Value::Array(list) })
}

fn schema_or_bool(bytes: &[u8], depth: usize, of: &'static Type) -> Result<Value, Error> {
    let (mut allows, mut schema) = (false, None);
    let mut reader = Reader::new(bytes, "JSONSchemaPropsOrBool");
    while let Some(tag) = reader.tag()? {
        match tag.number {
            1 => allows = reader.varint(tag)? != 0,
            2 => schema = Some(message::object(of, reader.bytes(tag)?, depth)?),
            _ => reader.skip(tag)?,
        }
    }
    Ok(schema.unwrap_or(Value::Bool(allows)))
}

fn schema_or_strings(bytes: &[u8], depth: usize, of: &'static Type) -> Result<Value, Error> {
    let (mut schema, mut list) = (Value::Null, Vec::new());
    let mut reader = Reader::new(bytes, "JSONSchemaPropsOrStringArray");
    while let Some(tag) = reader.tag()? {
        match tag.number {
            1 => schema = message::object(of, reader.bytes(tag)?, depth)?,
            2 => list.push(Value::String(reader.text(tag)?.to_owned())),
            _ => reader.skip(tag)?,
        }
    }
    Ok(if list.is_empty() { schema } else { Value::Array(list) })
}
