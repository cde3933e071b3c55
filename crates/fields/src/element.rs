//! One step of a path: a field, an item of a list by its keys or by its value, or an index.

use std::{cmp::Ordering, fmt, sync::Arc};

use serde_json::{Map, Value};

use crate::{error::Error, order};

/// A step. Elements of different kinds are ordered as they are declared.
#[derive(Clone, Debug)]
pub enum Element {
    /// A field of a struct, or a key of a map.
    Field(Arc<str>),
    /// An item of a list, by its keys, which are sorted by name.
    Key(Arc<[(Arc<str>, Value)]>),
    /// An item of a set, by its value.
    Value(Arc<Value>),
    /// An item by its place.
    Index(i64),
}

/// Steps from the root of an object.
pub type Path = Vec<Element>;

impl Element {
    pub fn field(name: &str) -> Element {
        Element::Field(name.into())
    }

    /// An item by its keys, in any order.
    pub fn key(mut keys: Vec<(Arc<str>, Value)>) -> Element {
        keys.sort_by(|left, right| left.0.cmp(&right.0));
        Element::Key(keys.into())
    }

    pub fn value(value: &Value) -> Element {
        Element::Value(Arc::new(value.clone()))
    }

    /// The element as FieldsV1 names it: `f:name`, `k:{"name":"a"}`, `v:"a"`, `i:0`.
    pub fn wire(&self) -> String {
        match self {
            Element::Field(name) => [FIELD, name].concat(),
            Element::Key(keys) => {
                let mut text = String::from("k:{");
                for (at, (name, value)) in keys.iter().enumerate() {
                    if at > 0 {
                        text.push(',');
                    }
                    text.push_str(&quoted(name));
                    text.push(':');
                    text.push_str(&value.to_string());
                }
                text.push('}');
                text
            }
            Element::Value(value) => format!("v:{value}"),
            Element::Index(index) => format!("i:{index}"),
        }
    }

    /// Reads what [`Element::wire`] writes.
    pub fn from_wire(text: &str) -> Result<Element, Error> {
        let bad = |reason: String| Error::Element { text: text.to_owned(), reason };
        let Some((kind, rest)) = text.split_at_checked(FIELD.len()) else {
            return Err(bad("it has no kind".to_owned()));
        };
        match kind {
            FIELD => Ok(Element::field(rest)),
            "v:" => {
                let value = serde_json::from_str(rest).map_err(|error| bad(error.to_string()))?;
                Ok(Element::Value(Arc::new(value)))
            }
            "i:" => match rest.parse() {
                Ok(index) => Ok(Element::Index(index)),
                Err(_) => Err(bad("the index is not a whole number".to_owned())),
            },
            "k:" => {
                let keys: Map<String, Value> =
                    serde_json::from_str(rest).map_err(|error| bad(error.to_string()))?;
                if keys.is_empty() {
                    return Err(bad("it has no keys".to_owned()));
                }
                Ok(Element::key(keys.into_iter().map(|(name, key)| (name.into(), key)).collect()))
            }
            _ => Err(bad("its kind is not known".to_owned())),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Element::Field(_) => 0,
            Element::Key(_) => 1,
            Element::Value(_) => 2,
            Element::Index(_) => 3,
        }
    }
}

/// What the name of a field begins with.
pub(crate) const FIELD: &str = "f:";

pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// `.a.b[name="c"]`; the whole object is the empty text.
pub fn display(path: &[Element]) -> String {
    path.iter().map(Element::to_string).collect()
}

/// As messages show it: `.field`, `[name="a",protocol="TCP"]`, `[="a"]`, `[0]`.
impl fmt::Display for Element {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Field(name) => write!(out, ".{name}"),
            Element::Key(keys) => {
                for (at, (name, value)) in keys.iter().enumerate() {
                    write!(out, "{}{name}={value}", if at == 0 { "[" } else { "," })?;
                }
                out.write_str("]")
            }
            Element::Value(value) => write!(out, "[={value}]"),
            Element::Index(index) => write!(out, "[{index}]"),
        }
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Element) -> Ordering {
        match (self, other) {
            (Element::Field(left), Element::Field(right)) => left.cmp(right),
            (Element::Key(left), Element::Key(right)) => {
                let pairs = left.iter().zip(right.iter());
                let mut orders = pairs.map(|((left_name, left), (right_name, right))| {
                    left_name.cmp(right_name).then_with(|| order::compare(left, right))
                });
                let first = orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal);
                first.then(left.len().cmp(&right.len()))
            }
            (Element::Value(left), Element::Value(right)) => order::compare(left, right),
            (Element::Index(left), Element::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Element) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Element) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Element {}
