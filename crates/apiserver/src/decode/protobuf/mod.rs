//! Protobuf bodies, as typed clients send them for built-in kinds, become the value that the JSON
//! of the same object would be.
//!
//! The tables of facts are the only schema: a field's number and shape say how it is read. What Go
//! leaves out of JSON when it is empty stays here, since protobuf has it; `strict::normalise`
//! drops it, as it does for JSON. Nothing is allocated by what a length claims, only by what is
//! there.
//!
//! Upstream: apimachinery/pkg/runtime/serializer/protobuf/protobuf.go

mod message;
mod special;
mod wire;

use serde_json::{Map, Value};

use self::message::Part;
use self::wire::Reader;
use super::Error;
use crate::facts::Type;

/// What every body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// Reads the object in an envelope. Its apiVersion and kind are those of the envelope.
pub fn parse(body: &[u8], of: &'static Type) -> Result<Value, Error> {
    let Some(envelope) = body.strip_prefix(MAGIC) else {
        let text = "the body does not begin as protobuf of Kubernetes does, with \"k8s\\x00\"";
        return Err(Error::Syntax(text.to_owned()));
    };
    let envelope = Envelope::read(envelope)?;
    if !envelope.encoding.is_empty() {
        let text = format!("the content encoding {:?} is not supported", envelope.encoding);
        return Err(Error::Syntax(text));
    }
    // The bytes of another kind would be read as nonsense.
    if !envelope.kind.is_empty() && envelope.kind != of.short_name() {
        let text = format!("the body is of kind {:?}", envelope.kind);
        return Err(Error::Type(text));
    }
    let mut object = Map::new();
    message::read(Part::root(of), envelope.raw, &mut object)?;
    for (name, text) in [("apiVersion", envelope.api_version), ("kind", envelope.kind)] {
        if !text.is_empty() {
            object.entry(name).or_insert_with(|| Value::String(text.to_owned()));
        }
    }
    Ok(Value::Object(object))
}

/// `runtime.Unknown`: an object and what it is.
#[derive(Default)]
struct Envelope<'a> {
    api_version: &'a str,
    kind: &'a str,
    raw: &'a [u8],
    encoding: &'a str,
}

impl<'a> Envelope<'a> {
    fn read(bytes: &'a [u8]) -> Result<Envelope<'a>, Error> {
        let mut envelope = Envelope::default();
        let mut reader = Reader::new(bytes, "Unknown");
        while let Some(tag) = reader.tag()? {
            match tag.number {
                1 => envelope.read_type(reader.bytes(tag)?)?,
                2 => envelope.raw = reader.bytes(tag)?,
                3 => envelope.encoding = reader.text(tag)?,
                _ => reader.skip(tag)?,
            }
        }
        Ok(envelope)
    }

    fn read_type(&mut self, bytes: &'a [u8]) -> Result<(), Error> {
        let mut reader = Reader::new(bytes, "TypeMeta");
        while let Some(tag) = reader.tag()? {
            match tag.number {
                1 => self.api_version = reader.text(tag)?,
                2 => self.kind = reader.text(tag)?,
                _ => reader.skip(tag)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
