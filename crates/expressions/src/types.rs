//! The types the checker reasons with, how they are written, and which value fits where.

use std::fmt;
use std::sync::Arc;

use crate::declared::{Declared, Object};

/// The type of an expression.
#[derive(Debug, Clone)]
pub enum Type {
    /// Known only when evaluated.
    Dyn,
    /// Follows a fault that was reported already.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Arc<Type>),
    Map(Arc<Type>, Arc<Type>),
    Optional(Arc<Type>),
    /// The type of a type.
    Type(Arc<Type>),
    Object(Arc<Object>),
    /// A type of a library, such as `net.IP`.
    Opaque(&'static str),
    /// A variable of the checker, or a parameter of a signature.
    Unknown(u32),
}

impl Type {
    pub fn list(items: Type) -> Type {
        Type::List(Arc::new(items))
    }

    pub fn map(keys: Type, values: Type) -> Type {
        Type::Map(Arc::new(keys), Arc::new(values))
    }

    pub fn optional(inner: Type) -> Type {
        Type::Optional(Arc::new(inner))
    }

    /// The type of values declared so.
    pub fn of(declared: &Declared) -> Type {
        match declared {
            Declared::Dyn | Declared::IntOrString { .. } => Type::Dyn,
            Declared::Bool => Type::Bool,
            Declared::Int => Type::Int,
            Declared::Double => Type::Double,
            Declared::String { .. } => Type::String,
            Declared::Bytes { .. } => Type::Bytes,
            Declared::Duration => Type::Duration,
            Declared::Date | Declared::DateTime => Type::Timestamp,
            Declared::List { items, .. } => Type::list(Type::of(items)),
            Declared::Map { values, .. } => Type::map(Type::String, Type::of(values)),
            Declared::Object(object) => Type::Object(object.clone()),
        }
    }

    /// The type that an identifier of this name stands for as a value, as in `type(x) == string`.
    pub fn named(name: &str) -> Option<Type> {
        Some(match name {
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "null_type" => Type::Null,
            "dyn" => Type::Dyn,
            "list" => Type::list(Type::Dyn),
            "map" => Type::map(Type::Dyn, Type::Dyn),
            "type" => Type::Type(Arc::new(Type::Dyn)),
            "optional_type" => Type::optional(Type::Dyn),
            "google.protobuf.Timestamp" => Type::Timestamp,
            "google.protobuf.Duration" => Type::Duration,
            _ => Type::Opaque(OPAQUE.into_iter().find(|opaque| *opaque == name)?),
        })
    }

    /// The name `type(x)` shows for a value of this type.
    pub fn name(&self) -> String {
        match self {
            Type::List(_) => "list".to_owned(),
            Type::Map(..) => "map".to_owned(),
            Type::Optional(_) => "optional_type".to_owned(),
            Type::Type(_) => "type".to_owned(),
            Type::Null => "null_type".to_owned(),
            Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
            Type::Duration => "google.protobuf.Duration".to_owned(),
            other => other.to_string(),
        }
    }

    /// Nothing is known before evaluation.
    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }
}

/// The types of the libraries.
const OPAQUE: [&str; 11] = [
    "net.IP",
    "net.CIDR",
    "kubernetes.URL",
    "kubernetes.Quantity",
    "kubernetes.Semver",
    "kubernetes.NamedFormat",
    "kubernetes.authorization.Authorizer",
    "kubernetes.authorization.PathCheck",
    "kubernetes.authorization.GroupCheck",
    "kubernetes.authorization.ResourceCheck",
    "kubernetes.authorization.Decision",
];

impl fmt::Display for Type {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Dyn => formatter.write_str("dyn"),
            Type::Error => formatter.write_str("!error!"),
            Type::Null => formatter.write_str("null"),
            Type::Bool => formatter.write_str("bool"),
            Type::Int => formatter.write_str("int"),
            Type::Uint => formatter.write_str("uint"),
            Type::Double => formatter.write_str("double"),
            Type::String => formatter.write_str("string"),
            Type::Bytes => formatter.write_str("bytes"),
            Type::Timestamp => formatter.write_str("timestamp"),
            Type::Duration => formatter.write_str("duration"),
            Type::List(items) => write!(formatter, "list({items})"),
            Type::Map(keys, values) => write!(formatter, "map({keys}, {values})"),
            Type::Optional(inner) => write!(formatter, "optional_type({inner})"),
            Type::Type(inner) => write!(formatter, "type({inner})"),
            Type::Object(object) => formatter.write_str(&object.name),
            Type::Opaque(name) => formatter.write_str(name),
            Type::Unknown(index) => write!(formatter, "_var{index}"),
        }
    }
}

/// What the checker has learnt about unknown types.
#[derive(Debug, Default)]
pub(crate) struct Substitution {
    known: Vec<Option<Type>>,
    /// What was learnt, in order.
    learnt: Vec<u32>,
}

impl Substitution {
    pub(crate) fn fresh(&mut self) -> Type {
        self.known.push(None);
        Type::Unknown(self.known.len() as u32 - 1)
    }

    /// A place to come back to when a signature did not fit.
    pub(crate) fn save(&self) -> (usize, usize) {
        (self.known.len(), self.learnt.len())
    }

    pub(crate) fn restore(&mut self, (known, learnt): (usize, usize)) {
        for index in self.learnt.drain(learnt..) {
            self.known[index as usize] = None;
        }
        self.known.truncate(known);
    }

    /// The type with what is known put in; what is still unknown stays.
    pub(crate) fn resolve(&self, kind: &Type) -> Type {
        match kind {
            Type::Unknown(index) => match &self.known[*index as usize] {
                Some(known) => self.resolve(known),
                None => kind.clone(),
            },
            Type::List(items) => Type::list(self.resolve(items)),
            Type::Map(keys, values) => Type::map(self.resolve(keys), self.resolve(values)),
            Type::Optional(inner) => Type::optional(self.resolve(inner)),
            Type::Type(inner) => Type::Type(Arc::new(self.resolve(inner))),
            other => other.clone(),
        }
    }

    /// The type at the end of checking, where the unknown is dyn.
    pub(crate) fn settle(&self, kind: &Type) -> Type {
        match self.resolve(kind) {
            Type::Unknown(_) => Type::Dyn,
            Type::List(items) => Type::list(self.settle(&items)),
            Type::Map(keys, values) => Type::map(self.settle(&keys), self.settle(&values)),
            Type::Optional(inner) => Type::optional(self.settle(&inner)),
            Type::Type(inner) => Type::Type(Arc::new(self.settle(&inner))),
            other => other,
        }
    }

    /// Whether a value of type `given` may stand where `wanted` is asked for; learns on the way.
    pub(crate) fn assign(&mut self, wanted: &Type, given: &Type) -> bool {
        let wanted = self.resolve(wanted);
        let given = self.resolve(given);
        match (&wanted, &given) {
            (Type::Unknown(left), Type::Unknown(right)) if left == right => true,
            (Type::Unknown(index), other) | (other, Type::Unknown(index)) => {
                if occurs(*index, other) {
                    return false;
                }
                self.known[*index as usize] = Some(other.clone());
                self.learnt.push(*index);
                true
            }
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => true,
            (Type::List(left), Type::List(right))
            | (Type::Optional(left), Type::Optional(right)) => self.assign(left, right),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::Map(left_key, left_value), Type::Map(right_key, right_value)) => {
                self.assign(left_key, right_key) && self.assign(left_value, right_value)
            }
            (Type::Object(left), Type::Object(right)) => Arc::ptr_eq(left, right),
            (Type::Opaque(left), Type::Opaque(right)) => left == right,
            (Type::Optional(_) | Type::Timestamp | Type::Duration, Type::Null) => true,
            (Type::Null, Type::Timestamp | Type::Duration | Type::Object(_)) => true,
            (Type::Object(_) | Type::Opaque(_), Type::Null) => true,
            (left, right) => std::mem::discriminant(left) == std::mem::discriminant(right),
        }
    }
}

fn occurs(index: u32, kind: &Type) -> bool {
    match kind {
        Type::Unknown(other) => *other == index,
        Type::List(inner) | Type::Optional(inner) | Type::Type(inner) => occurs(index, inner),
        Type::Map(keys, values) => occurs(index, keys) || occurs(index, values),
        _ => false,
    }
}
