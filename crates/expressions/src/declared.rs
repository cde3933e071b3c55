//! What the variables of an expression are declared to be, as a schema says it: types, which
//! fields exist and under which names, and how large a value can be at most.
//!
//! Sizes are what a cost estimate rests on. Where a schema gives no bound, the bound is what fits
//! into a request. Upstream: staging/src/k8s.io/apiserver/pkg/cel/common/schemas.go

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::syntax::parse::RESERVED;

/// The largest request the API server takes.
pub const REQUEST_BYTES_MAX: u64 = 3 * 1024 * 1024;

const DURATION_BYTES_MAX: u64 = 32;
const DURATION_BYTES_MIN: u64 = 3;
const DATE_BYTES: u64 = 12;
const DATE_TIME_BYTES_MAX: u64 = 32;
const DATE_TIME_BYTES_MIN: u64 = 21;
const STRING_BYTES_MIN: u64 = 2;
const BOOL_BYTES_MIN: u64 = 4;
const NUMBER_BYTES_MIN: u64 = 1;
/// A character takes up to four bytes, and `maxLength` counts characters.
const CHARACTER_BYTES_MAX: u64 = 4;

/// The type of a value and the bounds of its size.
#[derive(Debug, Clone)]
pub enum Declared {
    /// Anything; nothing about it is checked before it is evaluated.
    Dyn,
    /// `x-kubernetes-int-or-string`.
    IntOrString {
        max: u64,
    },
    Bool,
    Int,
    Double,
    String {
        max: u64,
    },
    /// A string of format `byte`: base64 in JSON, bytes in expressions.
    Bytes {
        max: u64,
    },
    /// A string of format `duration`.
    Duration,
    /// A string of format `date`.
    Date,
    /// A string of format `date-time`.
    DateTime,
    List {
        items: Arc<Declared>,
        max: u64,
        kind: ListKind,
    },
    /// `additionalProperties` with a schema.
    Map {
        values: Arc<Declared>,
        max: u64,
        kind: MapKind,
    },
    Object(Arc<Object>),
}

/// `x-kubernetes-list-type`: how lists compare and are added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListKind {
    Atomic,
    Set,
    /// `x-kubernetes-list-map-keys`, as they are in JSON.
    Map(Arc<[String]>),
}

/// `x-kubernetes-map-type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapKind {
    Atomic,
    Granular,
}

/// An object with known fields. Fields that are not here are not reachable.
#[derive(Debug)]
pub struct Object {
    /// Shown in messages about types.
    pub name: String,
    /// By the name used in expressions, see [`escape`].
    fields: BTreeMap<String, Field>,
    min_bytes: u64,
}

/// A property of an object.
#[derive(Debug, Clone)]
pub struct Field {
    /// The name in JSON.
    pub property: String,
    pub declared: Declared,
}

/// A property as its schema describes it.
#[derive(Debug, Clone)]
pub struct Property {
    pub name: String,
    pub declared: Declared,
    pub required: bool,
    pub has_default: bool,
}

impl Declared {
    /// A string; `longest` is the longest of an enum's values, in bytes.
    pub fn string(max_length: Option<u64>, longest: Option<u64>) -> Declared {
        let unbounded = longest.unwrap_or(REQUEST_BYTES_MAX - 2);
        Declared::String { max: characters_as_bytes(max_length).unwrap_or(unbounded) }
    }

    /// `x-kubernetes-int-or-string`.
    pub fn int_or_string(max_length: Option<u64>) -> Declared {
        let max = characters_as_bytes(max_length).unwrap_or(REQUEST_BYTES_MAX - 2);
        Declared::IntOrString { max }
    }

    /// A string of format `byte`.
    pub fn bytes(max_length: Option<u64>) -> Declared {
        Declared::Bytes { max: max_length.unwrap_or(REQUEST_BYTES_MAX - 2) }
    }

    pub fn list(items: Declared, max_items: Option<u64>, kind: ListKind) -> Declared {
        let fitting = (REQUEST_BYTES_MAX - 2) / (items.min_bytes() + 1);
        Declared::List { items: Arc::new(items), max: max_items.unwrap_or(fitting), kind }
    }

    pub fn map(values: Declared, max_properties: Option<u64>, kind: MapKind) -> Declared {
        let fitting = (REQUEST_BYTES_MAX - 2) / (values.min_bytes() + 6);
        Declared::Map { values: Arc::new(values), max: max_properties.unwrap_or(fitting), kind }
    }

    /// An object of these properties. One whose name has no escaped form is left out.
    pub fn object(name: impl Into<String>, properties: Vec<Property>) -> Declared {
        let mut min_bytes = 2;
        let mut fields = BTreeMap::new();
        for property in properties {
            if property.required && !property.has_default {
                min_bytes += property.name.len() as u64 + property.declared.min_bytes() + 4;
            }
            if let Some(escaped) = escape(&property.name) {
                let field = Field { property: property.name, declared: property.declared };
                fields.insert(escaped, field);
            }
        }
        Declared::Object(Arc::new(Object { name: name.into(), fields, min_bytes }))
    }

    /// An object whose fields are named in expressions as they are in JSON.
    pub fn plain_object(name: impl Into<String>, fields: Vec<(&str, Declared)>) -> Declared {
        let fields = fields.into_iter().map(|(property, declared)| {
            (property.to_owned(), Field { property: property.to_owned(), declared })
        });
        let (name, fields) = (name.into(), fields.collect());
        Declared::Object(Arc::new(Object { name, fields, min_bytes: 2 }))
    }

    /// The largest size in the sense of `size()`: bytes, items or entries; zero for what has none.
    pub fn max_elements(&self) -> u64 {
        match self {
            Declared::IntOrString { max }
            | Declared::String { max }
            | Declared::Bytes { max }
            | Declared::List { max, .. }
            | Declared::Map { max, .. } => *max,
            Declared::Duration => DURATION_BYTES_MAX,
            Declared::Date => DATE_BYTES,
            Declared::DateTime => DATE_TIME_BYTES_MAX,
            Declared::Dyn
            | Declared::Bool
            | Declared::Int
            | Declared::Double
            | Declared::Object(_) => 0,
        }
    }

    /// The fewest bytes a value takes in JSON.
    pub fn min_bytes(&self) -> u64 {
        match self {
            Declared::Dyn | Declared::IntOrString { .. } => 1,
            Declared::Bool => BOOL_BYTES_MIN,
            Declared::Int | Declared::Double => NUMBER_BYTES_MIN,
            Declared::String { .. } | Declared::Bytes { .. } => STRING_BYTES_MIN,
            Declared::Duration => DURATION_BYTES_MIN,
            Declared::Date => DATE_BYTES,
            Declared::DateTime => DATE_TIME_BYTES_MIN,
            Declared::List { .. } | Declared::Map { .. } => 2,
            Declared::Object(object) => object.min_bytes,
        }
    }
}

fn characters_as_bytes(max_length: Option<u64>) -> Option<u64> {
    max_length.map(|length| length.saturating_mul(CHARACTER_BYTES_MAX))
}

impl Object {
    /// The field of this name in expressions.
    pub fn field(&self, escaped: &str) -> Option<&Field> {
        self.fields.get(escaped)
    }

    /// The fields by their names in expressions.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Field)> {
        self.fields.iter().map(|(name, field)| (name.as_str(), field))
    }
}

/// Words of the language that a variable cannot be called either, though they are values.
const LITERALS: [&str; 4] = ["true", "false", "null", "in"];

/// The name of a property in expressions; none when it cannot be written as an identifier.
pub fn escape(property: &str) -> Option<String> {
    if RESERVED.contains(&property) || LITERALS.contains(&property) {
        return Some(format!("__{property}__"));
    }
    let mut escaped = String::with_capacity(property.len());
    let mut rest = property;
    while let Some(character) = rest.chars().next() {
        let (text, taken) = match character {
            '_' if rest.starts_with("__") => ("__underscores__", 2),
            '.' => ("__dot__", 1),
            '-' => ("__dash__", 1),
            '/' => ("__slash__", 1),
            '_' => ("_", 1),
            _ if character.is_ascii_alphanumeric() => (&rest[..1], 1),
            _ => return None,
        };
        escaped.push_str(text);
        rest = &rest[taken..];
    }
    let starts_well =
        escaped.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    starts_well.then_some(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_no_identifiers_are_escaped() {
        let cases = [
            ("namespace", Some("__namespace__")),
            ("a-b", Some("a__dash__b")),
            ("a.b/c", Some("a__dot__b__slash__c")),
            ("a__b", Some("a__underscores__b")),
            ("a_b", Some("a_b")),
            ("true", Some("__true__")),
            ("int", Some("int")),
            ("1a", None),
            ("a$b", None),
            ("ä", None),
            ("", None),
        ];
        for (property, expected) in cases {
            assert_eq!(escape(property).as_deref(), expected, "{property}");
        }
    }

    #[test]
    fn sizes_without_a_bound_are_what_fits_into_a_request() {
        assert_eq!(Declared::string(None, None).max_elements(), 3_145_726);
        assert_eq!(Declared::string(Some(10), None).max_elements(), 40);
        assert_eq!(Declared::string(None, Some(7)).max_elements(), 7);
        let list = Declared::list(Declared::Int, None, ListKind::Atomic);
        assert_eq!(list.max_elements(), 1_572_863);
        let map = Declared::map(Declared::string(None, None), None, MapKind::Granular);
        assert_eq!(map.max_elements(), 393_215);
    }
}
