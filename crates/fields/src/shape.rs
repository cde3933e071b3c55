//! What a walk asks of a schema.
//!
//! A node of a schema may allow a scalar, a list and a map at once; the value decides which of
//! them holds. A [`Shape`] is a handle on such a node: small, copied freely, with no state.

use serde_json::Value;

/// A node of a schema.
///
/// Guarantees asked of an implementation: answers never change while the handle lives, and
/// `field`, `items` and `values` lead to a node in finitely many steps (a type may contain
/// itself; walks follow the value, which ends).
pub trait Shape: Copy {
    /// What the node allows.
    fn atom(&self) -> Atom<'_>;

    /// A declared field of the struct.
    fn field(&self, name: &str) -> Option<Self>;

    /// Of the map's values, and of fields that are not declared. None where there may be none.
    fn values(&self) -> Option<Self>;

    /// Of the list's items.
    fn items(&self) -> Option<Self>;

    /// The default of a declared field, for keys of list items that are left out.
    fn field_default(&self, name: &str) -> Option<Value>;

    /// Of a field, declared or not.
    fn member(&self, name: &str) -> Option<Self> {
        self.field(name).or_else(|| self.values())
    }
}

/// What a node allows; more than one where the schema does not say.
#[derive(Clone, Copy, Debug, Default)]
pub struct Atom<'a> {
    pub scalar: Option<Scalar>,
    pub list: Option<List<'a>>,
    pub map: Option<Map>,
}

impl Atom<'static> {
    /// Whatever it is: objects are merged, lists and scalars replaced.
    pub const DEDUCED: Atom<'static> =
        Atom { scalar: Some(Scalar::Untyped), list: Some(List::Atomic), map: Some(Map::Granular) };

    /// Whatever it is, it is replaced whole.
    pub const UNTYPED: Atom<'static> =
        Atom { scalar: Some(Scalar::Untyped), list: Some(List::Atomic), map: Some(Map::Atomic) };
}

impl<'a> Atom<'a> {
    pub const fn scalar(scalar: Scalar) -> Atom<'a> {
        Atom { scalar: Some(scalar), list: None, map: None }
    }

    pub const fn list(list: List<'a>) -> Atom<'a> {
        Atom { scalar: None, list: Some(list), map: None }
    }

    pub const fn map(map: Map) -> Atom<'a> {
        Atom { scalar: None, list: None, map: Some(map) }
    }

    /// Which of the three holds for a value; for null, and for a value that none fits, the first
    /// there is of map, scalar and list.
    pub fn form(self, value: &Value) -> Option<Form<'a>> {
        match (value, self) {
            (Value::Array(_), Atom { list: Some(list), .. }) => Some(Form::List(list)),
            (Value::Object(_), Atom { map: Some(map), .. }) => Some(Form::Map(map)),
            (
                Value::Bool(_) | Value::Number(_) | Value::String(_),
                Atom { scalar: Some(scalar), .. },
            ) => Some(Form::Scalar(scalar)),
            (_, Atom { map: Some(map), .. }) => Some(Form::Map(map)),
            (_, Atom { scalar: Some(scalar), .. }) => Some(Form::Scalar(scalar)),
            (_, Atom { list, .. }) => list.map(Form::List),
        }
    }
}

/// What a node is for one value.
#[derive(Clone, Copy, Debug)]
pub enum Form<'a> {
    Scalar(Scalar),
    List(List<'a>),
    Map(Map),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    Numeric,
    String,
    Boolean,
    /// Any scalar.
    Untyped,
}

/// How a list is merged.
#[derive(Clone, Copy, Debug)]
pub enum List<'a> {
    /// Replaced whole.
    Atomic,
    /// Items are scalars and known by their value.
    Set,
    /// Items are objects and known by these fields.
    Keyed(Keys<'a>),
}

/// The fields that tell the items of a list apart, however the schema keeps them.
#[derive(Clone, Copy, Debug)]
pub enum Keys<'a> {
    Texts(&'a [&'a str]),
    Strings(&'a [String]),
    Boxed(&'a [Box<str>]),
    Values(&'a [Value]),
}

impl<'a> Keys<'a> {
    pub fn len(self) -> usize {
        match self {
            Keys::Texts(keys) => keys.len(),
            Keys::Strings(keys) => keys.len(),
            Keys::Boxed(keys) => keys.len(),
            Keys::Values(keys) => keys.len(),
        }
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    pub fn iter(self) -> impl Iterator<Item = &'a str> {
        (0..self.len()).filter_map(move |at| match self {
            Keys::Texts(keys) => Some(keys[at]),
            Keys::Strings(keys) => Some(keys[at].as_str()),
            Keys::Boxed(keys) => Some(&*keys[at]),
            Keys::Values(keys) => keys[at].as_str(),
        })
    }
}

/// How an object is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Map {
    /// Field by field.
    Granular,
    /// Replaced whole.
    Atomic,
}

/// The schema of what has none: objects are merged key by key, lists are replaced.
#[derive(Clone, Copy, Debug)]
pub struct Deduced;

impl Shape for Deduced {
    fn atom(&self) -> Atom<'_> {
        Atom::DEDUCED
    }

    fn field(&self, _name: &str) -> Option<Deduced> {
        None
    }

    fn values(&self) -> Option<Deduced> {
        Some(Deduced)
    }

    fn items(&self) -> Option<Deduced> {
        Some(Deduced)
    }

    fn field_default(&self, _name: &str) -> Option<Value> {
        None
    }
}
