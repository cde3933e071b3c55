//! Bodies of requests become values: parsed, checked against the type of their kind, and written
//! as Go's encoder would write them.
//!
//! What is unknown or given twice is not an error here: the request's `fieldValidation` decides
//! whether it is one, a warning or nothing.
//!
//! Upstream: apimachinery/pkg/runtime/serializer/json/json.go

mod base64;
pub mod json;
mod order;
mod path;
pub mod protobuf;
pub mod strict;
mod time;
pub mod yaml;

use serde_json::Value;

use crate::facts::Type;
use crate::registry::custom::Version;

/// How deep a body may be nested.
pub const DEPTH_MAX: usize = 512;

/// How many fields that are unknown or given twice are named.
pub const PROBLEMS_MAX: usize = 100;

/// How many objects that are not empty a body may have: each of them costs hundreds of bytes in
/// memory, and no object that can be stored has as many.
pub const OBJECTS_MAX: usize = 100_000;

/// How many bytes may be added for fields that Go always writes.
pub const ADDED_BYTES_MAX: usize = 1 << 20;

/// Why a body was refused. All but the last are answered with 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not JSON, YAML or protobuf as it should be, or too deep.
    #[error("{0}")]
    Syntax(String),
    /// Well-formed, but not of the type.
    #[error("{0}")]
    Type(String),
    /// It would become larger in memory than anything that can be stored.
    #[error("the object is too large")]
    TooLarge,
}

/// A body that was parsed.
#[derive(Debug, PartialEq)]
pub struct Parsed {
    pub value: Value,
    /// What was given twice: for JSON the paths of the fields, for YAML one text for all.
    pub duplicates: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    Yaml,
    Protobuf,
}

/// An object of a built-in kind.
#[derive(Debug, PartialEq)]
pub struct Object {
    pub value: Value,
    /// `unknown field "spec.a"`, `duplicate field "spec.b"`, in the order of the body.
    pub problems: Vec<String>,
}

/// Writes a quantity in its canonical form; None if it is not one.
pub type CanonicalQuantity = fn(&str) -> Option<String>;

/// Reads an object of a built-in type.
pub fn object(
    body: &[u8],
    format: Format,
    of: &'static Type,
    quantity: CanonicalQuantity,
) -> Result<Object, Error> {
    let parsed = match format {
        Format::Json => json::parse(body)?,
        Format::Yaml => yaml::parse(body)?,
        // A field that is there twice is merged, as protobuf demands.
        Format::Protobuf => Parsed { value: protobuf::parse(body, of)?, duplicates: Vec::new() },
    };
    let mut value = parsed.value;
    let unknown = strict::normalise(&mut value, of, quantity)?.unknown;
    let problems = problems(body, format, unknown, parsed.duplicates);
    Ok(Object { value, problems })
}

/// Reads an object of a custom kind, which is never protobuf.
pub fn custom_object(body: &[u8], format: Format, version: &Version) -> Result<Object, Error> {
    let parsed = match format {
        Format::Yaml => yaml::parse(body)?,
        Format::Json | Format::Protobuf => json::parse(body)?,
    };
    let mut value = parsed.value;
    let unknown = read_custom(&mut value, version)?;
    let problems = problems(body, format, unknown, parsed.duplicates);
    Ok(Object { value, problems })
}

/// Gives an object the form of its schema; returns the paths of what the schema does not know.
pub fn read_custom(value: &mut Value, version: &Version) -> Result<Vec<String>, Error> {
    if !value.is_object() {
        return Err(Error::Type("an object is expected".to_owned()));
    }
    version.read(value).map_err(|violation| Error::Type(violation.to_string()))
}

/// A value that came without a text, with what its type does not know of it.
pub fn given(value: Value, unknown: Result<Vec<String>, Error>) -> Result<Object, Error> {
    let problems = unknown?.iter().map(|path| unknown_field(path)).collect();
    Ok(Object { value, problems })
}

fn problems(
    body: &[u8],
    format: Format,
    unknown: Vec<String>,
    duplicates: Vec<String>,
) -> Vec<String> {
    match format {
        _ if unknown.is_empty() && duplicates.is_empty() => Vec::new(),
        Format::Json => order::problems(body, unknown, duplicates),
        Format::Yaml | Format::Protobuf => {
            let unknown = unknown.iter().map(|path| unknown_field(path));
            duplicates.into_iter().chain(unknown).collect()
        }
    }
}

/// The text of the refusal when `fieldValidation` is `Strict`.
pub fn strict_error(problems: &[String]) -> String {
    format!("strict decoding error: {}", problems.join(", "))
}

pub fn unknown_field(path: &str) -> String {
    format!("unknown field {path:?}")
}

pub fn duplicate_field(path: &str) -> String {
    format!("duplicate field {path:?}")
}

#[cfg(test)]
mod tests;
