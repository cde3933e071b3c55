//! A message of a type in the tables becomes an object.

use serde_json::{Map, Number, Value};

use super::special;
use super::wire::{Reader, Tag, Wire};
use crate::decode::Error;
use crate::facts::{Field, Shape, Type};

/// How deep a message may be nested: less than JSON, because a level takes several functions, and
/// with them kilobytes of a stack that has two megabytes where nothing is optimised.
pub const DEPTH_MAX: usize = 200;

/// What a message holds the fields of: a type, or a struct that is inlined in one.
#[derive(Clone, Copy)]
pub struct Part {
    of: &'static Type,
    /// The numbers of the inlined structs that lead here.
    inlined: &'static [u16],
    /// How deep the object is that the fields go into.
    depth: usize,
}

/// What a number stands for.
enum Entry {
    Field(&'static Field),
    Inlined(&'static [u16]),
    Unknown,
}

impl Part {
    pub fn root(of: &'static Type) -> Part {
        Part { of, inlined: &[], depth: 1 }
    }

    fn entry(self, number: u64) -> Entry {
        let Ok(number) = u16::try_from(number) else { return Entry::Unknown };
        let fields = self.of.fields;
        let is_it = |field: &&Field| field.pb == number && field.inlined() == self.inlined;
        if let Some(field) = fields.iter().find(is_it) {
            return Entry::Field(field);
        }
        let length = self.inlined.len() + 1;
        let around = fields.iter().filter_map(|field| field.inlined().get(..length));
        let mut around = around.filter(|path| path.split_last() == Some((&number, self.inlined)));
        around.next().map_or(Entry::Unknown, Entry::Inlined)
    }
}

/// Reads the fields of a message into an object. Numbers that the type does not have are skipped.
pub fn read(part: Part, bytes: &[u8], into: &mut Map<String, Value>) -> Result<(), Error> {
    let mut reader = Reader::new(bytes, part.of.name);
    while let Some(tag) = reader.tag()? {
        match part.entry(tag.number) {
            Entry::Field(field) => {
                // Taken out and put back, so that the name is copied only once.
                let mut value = into.get_mut(field.name).map(Value::take).unwrap_or_default();
                let at = At { shape: &field.shape, depth: part.depth };
                read_field(&mut reader, tag, at, &mut value)?;
                match into.get_mut(field.name) {
                    Some(place) => *place = value,
                    None => drop(into.insert(field.name.to_owned(), value)),
                }
            }
            Entry::Inlined(inlined) => {
                read(Part { inlined, ..part }, reader.bytes(tag)?, into)?;
            }
            Entry::Unknown => reader.skip(tag)?,
        }
    }
    Ok(())
}

/// A shape, and how deep the object or list is that holds it.
#[derive(Clone, Copy)]
pub struct At {
    pub shape: &'static Shape,
    pub depth: usize,
}

impl At {
    pub fn deeper(self, shape: &'static Shape) -> Result<At, Error> {
        Ok(At { shape, depth: deeper(self.depth)? })
    }
}

/// One occurrence of a field, whose place is null before the first. Lists and maps grow by each,
/// and messages are merged.
fn read_field(reader: &mut Reader<'_>, tag: Tag, at: At, place: &mut Value) -> Result<(), Error> {
    match (at.shape, place) {
        (Shape::List(element), place) => {
            let at = at.deeper(element)?;
            match place {
                Value::Array(list) => read_elements(reader, tag, at, list),
                place => {
                    let mut list = Vec::new();
                    read_elements(reader, tag, at, &mut list)?;
                    *place = Value::Array(list);
                    Ok(())
                }
            }
        }
        (Shape::Map(element), place) => {
            let (key, value) = entry(reader.bytes(tag)?, at.deeper(element)?)?;
            match place {
                Value::Object(map) => drop(map.insert(key, value)),
                place => {
                    let mut map = Map::new();
                    map.insert(key, value);
                    *place = Value::Object(map);
                }
            }
            Ok(())
        }
        (Shape::Object(of), Value::Object(map)) => {
            let part = Part { of: of.get(), inlined: &[], depth: deeper(at.depth)? };
            read(part, reader.bytes(tag)?, map)
        }
        (_, place) => {
            *place = value(reader, tag, at)?;
            Ok(())
        }
    }
}

/// One element of a list, or several numbers packed into one run of bytes.
fn read_elements(
    reader: &mut Reader<'_>,
    tag: Tag,
    at: At,
    list: &mut Vec<Value>,
) -> Result<(), Error> {
    let is_number =
        matches!(at.shape, Shape::Integer32 | Shape::Integer64 | Shape::Boolean | Shape::Double);
    if !is_number || tag.wire != Wire::Bytes {
        list.push(value(reader, tag, at)?);
        return Ok(());
    }
    let mut packed = Reader::new(reader.bytes(tag)?, "a packed list");
    while !packed.is_empty() {
        list.push(match at.shape {
            Shape::Double => double(&packed.raw_double()?, &packed)?,
            shape => whole(shape, packed.raw_varint()?),
        });
    }
    Ok(())
}

/// The value of one occurrence.
fn value(reader: &mut Reader<'_>, tag: Tag, at: At) -> Result<Value, Error> {
    Ok(match at.shape {
        Shape::String => Value::String(reader.text(tag)?.to_owned()),
        Shape::Integer32 | Shape::Integer64 | Shape::Boolean => {
            whole(at.shape, reader.varint(tag)?)
        }
        Shape::Double => double(&reader.double(tag)?, reader)?,
        Shape::Bytes => special::base64(reader.bytes(tag)?),
        Shape::Object(of) => object(of.get(), reader.bytes(tag)?, at.depth)?,
        // Protobuf has neither maps of lists nor lists of lists: a message is between.
        Shape::List(element) => list(reader.bytes(tag)?, at.deeper(element)?)?,
        Shape::Map(_) => return Err(reader.error("a map is not a field of a message")),
        _ => special::value(reader.bytes(tag)?, at)?,
    })
}

/// A message as an object within one that is `depth` deep.
pub fn object(of: &'static Type, bytes: &[u8], depth: usize) -> Result<Value, Error> {
    let mut map = Map::new();
    read(Part { of, inlined: &[], depth: deeper(depth)? }, bytes, &mut map)?;
    Ok(Value::Object(map))
}

fn list(bytes: &[u8], at: At) -> Result<Value, Error> {
    let mut list = Vec::new();
    let mut reader = Reader::new(bytes, "a list");
    while let Some(tag) = reader.tag()? {
        match tag.number {
            1 => read_elements(&mut reader, tag, at, &mut list)?,
            _ => reader.skip(tag)?,
        }
    }
    Ok(Value::Array(list))
}

/// A key and a value. One that is not there is the zero of its type, which null becomes.
fn entry(bytes: &[u8], at: At) -> Result<(String, Value), Error> {
    let (mut key, mut found) = ("", Value::Null);
    let mut reader = Reader::new(bytes, "an entry of a map");
    while let Some(tag) = reader.tag()? {
        match tag.number {
            1 => key = reader.text(tag)?,
            2 => found = value(&mut reader, tag, at)?,
            _ => reader.skip(tag)?,
        }
    }
    Ok((key.to_owned(), found))
}

/// Negative numbers have all their 64 bits on the wire, whatever their type.
fn whole(shape: &Shape, number: u64) -> Value {
    match shape {
        Shape::Boolean => Value::Bool(number != 0),
        Shape::Integer32 => Value::from(number as i32),
        _ => Value::from(number as i64),
    }
}

fn double(number: &f64, reader: &Reader<'_>) -> Result<Value, Error> {
    let number = Number::from_f64(*number);
    number.map(Value::Number).ok_or_else(|| reader.error("a number is not finite"))
}

fn deeper(depth: usize) -> Result<usize, Error> {
    match depth < DEPTH_MAX {
        true => Ok(depth + 1),
        false => Err(Error::Syntax("exceeded max depth".to_owned())),
    }
}
