//! Values during evaluation. What came from JSON stays there: lists and maps are views that turn
//! their parts into values when asked.

mod compare;
mod json;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

use jiff::Timestamp;
use serde_json::Value as Json;

pub(crate) use crate::value::compare::{compare, equal, matches};
pub(crate) use crate::value::json::from_json;

use crate::declared::{Declared, ListKind};
use crate::evaluate::Failure;
use crate::library::authorization::{Authorization, Check};
use crate::library::formats::Format;
use crate::library::quantities::Quantity;
use crate::library::semantic_versions::Version;
use crate::library::urls::Url;

/// A value of the language.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Rc<[u8]>),
    Timestamp(Timestamp),
    /// Nanoseconds.
    Duration(i64),
    List(List<'a>),
    Map(Map<'a>),
    /// A type, by its name.
    Type(Rc<str>),
    Optional(Option<Rc<Value<'a>>>),
    #[doc(hidden)]
    Opaque(Rc<Opaque<'a>>),
}

/// Values of the libraries' own types.
#[derive(Clone, Debug)]
pub enum Opaque<'a> {
    Ip(IpAddr),
    Cidr(IpAddr, u8),
    Url(Url),
    Quantity(Quantity),
    Version(Version),
    Format(Format),
    Authorizer(Authorization<'a>),
    Check(Check<'a>),
    Decision(crate::authorizer::Decision),
}

/// A string, borrowed from JSON or from the expression where possible.
#[derive(Clone, Debug)]
pub enum Text<'a> {
    Borrowed(&'a str),
    Shared(Rc<str>),
}

impl Text<'_> {
    pub fn as_str(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

/// A list, a view of JSON or made by the expression.
#[derive(Clone, Debug)]
pub enum List<'a> {
    Json { items: &'a [Json], declared: &'a Declared, kind: &'a ListKind },
    Made { items: Rc<Vec<Value<'a>>>, kind: &'a ListKind },
}

/// A map, a view of JSON or made by the expression.
#[derive(Clone, Debug)]
pub enum Map<'a> {
    /// Of an object, of declared values, or of anything.
    Json {
        entries: &'a serde_json::Map<String, Json>,
        declared: &'a Declared,
    },
    Made(Rc<BTreeMap<Key<'a>, Value<'a>>>),
}

/// What may be the key of a map.
#[derive(Clone, Debug)]
pub enum Key<'a> {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Text<'a>),
}

pub(crate) const ATOMIC: &ListKind = &ListKind::Atomic;
pub(crate) const ANYTHING: &Declared = &Declared::Dyn;

impl<'a> Value<'a> {
    pub(crate) fn text(text: impl Into<Rc<str>>) -> Value<'a> {
        Value::String(Text::Shared(text.into()))
    }

    pub(crate) fn borrowed(text: &'a str) -> Value<'a> {
        Value::String(Text::Borrowed(text))
    }

    /// A map of named values.
    pub fn named(values: impl IntoIterator<Item = (&'a str, Value<'a>)>) -> Value<'a> {
        let entry = |(name, value)| (Key::String(Text::Borrowed(name)), value);
        Value::Map(Map::Made(Rc::new(values.into_iter().map(entry).collect())))
    }

    pub(crate) fn list(items: Vec<Value<'a>>) -> Value<'a> {
        Value::List(List::made(items))
    }

    pub(crate) fn some(value: Value<'a>) -> Value<'a> {
        Value::Optional(Some(Rc::new(value)))
    }

    pub(crate) fn opaque(value: Opaque<'a>) -> Value<'a> {
        Value::Opaque(Rc::new(value))
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(value) => Some(*value),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text.as_str()),
            _ => None,
        }
    }

    /// The name of the value's type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::Timestamp(_) => "google.protobuf.Timestamp",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Type(_) => "type",
            Value::Optional(_) => "optional_type",
            Value::Opaque(opaque) => match opaque.as_ref() {
                Opaque::Ip(_) => "net.IP",
                Opaque::Cidr(..) => "net.CIDR",
                Opaque::Url(_) => "kubernetes.URL",
                Opaque::Quantity(_) => "kubernetes.Quantity",
                Opaque::Version(_) => "kubernetes.Semver",
                Opaque::Format(_) => "kubernetes.NamedFormat",
                Opaque::Authorizer(_) => "kubernetes.authorization.Authorizer",
                Opaque::Check(check) => check.type_name(),
                Opaque::Decision(_) => "kubernetes.authorization.Decision",
            },
        }
    }

    /// The size in the sense of `size()`; one for what has none.
    pub(crate) fn actual_size(&self) -> u64 {
        match self {
            Value::String(text) => characters(text.as_str()),
            Value::Bytes(bytes) => bytes.len() as u64,
            Value::List(list) => list.len() as u64,
            Value::Map(map) => map.len() as u64,
            Value::Opaque(opaque) => match opaque.as_ref() {
                Opaque::Ip(IpAddr::V4(_)) => 4,
                Opaque::Ip(IpAddr::V6(_)) => 16,
                // The bytes the prefix takes.
                Opaque::Cidr(_, length) => u64::from(length.div_ceil(8)),
                _ => 1,
            },
            _ => 1,
        }
    }
}

/// The number of characters; quick for ASCII.
pub(crate) fn characters(text: &str) -> u64 {
    if text.is_ascii() { text.len() as u64 } else { text.chars().count() as u64 }
}

impl<'a> List<'a> {
    pub(crate) fn made(items: Vec<Value<'a>>) -> List<'a> {
        List::Made { items: Rc::new(items), kind: ATOMIC }
    }

    pub fn len(&self) -> usize {
        match self {
            List::Json { items, .. } => items.len(),
            List::Made { items, .. } => items.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn kind(&self) -> &'a ListKind {
        match self {
            List::Json { kind, .. } | List::Made { kind, .. } => kind,
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Result<Value<'a>, Failure>> {
        match self {
            List::Json { items, declared, .. } => {
                items.get(index).map(|item| from_json(item, declared))
            }
            List::Made { items, .. } => items.get(index).cloned().map(Ok),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<Value<'a>, Failure>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    pub(crate) fn to_vec(&self) -> Result<Vec<Value<'a>>, Failure> {
        self.iter().collect()
    }
}

impl<'a> Map<'a> {
    pub fn len(&self) -> usize {
        match self {
            Map::Json { entries, declared: Declared::Object(object) } => {
                object.fields().filter(|(_, field)| entries.contains_key(&field.property)).count()
            }
            Map::Json { entries, .. } => entries.len(),
            Map::Made(entries) => entries.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value under a key that is a string: a field, or an entry.
    pub(crate) fn field(&self, name: &str) -> Option<Result<Value<'a>, Failure>> {
        match self {
            Map::Json { entries, declared: Declared::Object(object) } => {
                let field = object.field(name)?;
                let value = entries.get(&field.property)?;
                Some(from_json(value, &field.declared))
            }
            Map::Json { entries, declared } => {
                let values = match declared {
                    Declared::Map { values, .. } => values.as_ref(),
                    _ => ANYTHING,
                };
                entries.get(name).map(|value| from_json(value, values))
            }
            Map::Made(entries) => {
                let key = Key::String(Text::Shared(name.into()));
                entries.get(&key).cloned().map(Ok)
            }
        }
    }

    /// The value under any key; numbers find each other across types.
    pub(crate) fn get(&self, key: &Value<'a>) -> Option<Result<Value<'a>, Failure>> {
        if let Value::String(name) = key {
            return match self {
                Map::Made(entries) => entries.get(&Key::String(name.clone())).cloned().map(Ok),
                Map::Json { .. } => self.field(name.as_str()),
            };
        }
        let Map::Made(entries) = self else { return None };
        let keys = match key {
            Value::Bool(value) => [Some(Key::Bool(*value)), None],
            Value::Int(value) => {
                [Some(Key::Int(*value)), u64::try_from(*value).ok().map(Key::Uint)]
            }
            Value::Uint(value) => {
                [Some(Key::Uint(*value)), i64::try_from(*value).ok().map(Key::Int)]
            }
            Value::Double(value) if value.fract() == 0.0 => {
                let whole = value.abs() < 9.0e18;
                [
                    whole.then_some(Key::Int(*value as i64)),
                    (whole && *value >= 0.0).then_some(Key::Uint(*value as u64)),
                ]
            }
            _ => [None, None],
        };
        keys.into_iter().flatten().find_map(|key| entries.get(&key)).cloned().map(Ok)
    }

    pub(crate) fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Map::Json { entries, declared: Declared::Object(object) } => object
                .fields()
                .filter(|(_, field)| entries.contains_key(&field.property))
                .map(|(name, _)| Value::text(name))
                .collect(),
            Map::Json { entries, .. } => entries.keys().map(|key| Value::borrowed(key)).collect(),
            Map::Made(entries) => entries.keys().map(Key::value).collect(),
        }
    }
}

impl<'a> Key<'a> {
    pub(crate) fn of(value: &Value<'a>) -> Result<Key<'a>, Failure> {
        match value {
            Value::Bool(value) => Ok(Key::Bool(*value)),
            Value::Int(value) => Ok(Key::Int(*value)),
            Value::Uint(value) => Ok(Key::Uint(*value)),
            Value::String(text) => Ok(Key::String(text.clone())),
            other => {
                let name = other.type_name();
                Err(Failure::evaluation(format!("unsupported key type: {name}")))
            }
        }
    }

    pub(crate) fn value(&self) -> Value<'a> {
        match self {
            Key::Bool(value) => Value::Bool(*value),
            Key::Int(value) => Value::Int(*value),
            Key::Uint(value) => Value::Uint(*value),
            Key::String(text) => Value::String(text.clone()),
        }
    }

    fn rank(&self) -> (u8, i128, &str) {
        match self {
            Key::Bool(value) => (0, i128::from(*value), ""),
            Key::Int(value) => (1, i128::from(*value), ""),
            Key::Uint(value) => (2, i128::from(*value), ""),
            Key::String(text) => (3, 0, text.as_str()),
        }
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Key<'_> {}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}
