//! How objects are merged, told from the facts of the built-in types.

use fields::{Atom, Keys, Map, Scalar};
use serde_json::Value;

use crate::facts::{self, Field, Go, List, Rare, SchemaDefault, TypeId};

/// A node of the schema of a resource.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    BuiltIn {
        shape: facts::Shape,
        /// What the field says that the node is the value of.
        rare: &'static Rare,
    },
    /// Whatever it is: objects are merged, lists replaced.
    Deduced,
}

impl Shape {
    /// An object of a built-in type.
    pub fn of_type(of: TypeId) -> Shape {
        Shape::of(facts::Shape::Object(of))
    }

    fn of(shape: facts::Shape) -> Shape {
        Shape::BuiltIn { shape, rare: &Rare::NONE }
    }

    fn declared(&self, name: &str) -> Option<&'static Field> {
        match self {
            Shape::BuiltIn { shape: facts::Shape::Object(of), .. } => of.get().field(name),
            _ => None,
        }
    }
}

impl fields::Shape for Shape {
    fn atom(&self) -> Atom<'_> {
        match self {
            Shape::Deduced => Atom::DEDUCED,
            Shape::BuiltIn { shape, rare } => atom(shape, rare),
        }
    }

    fn field(&self, name: &str) -> Option<Shape> {
        let field = self.declared(name)?;
        Some(Shape::BuiltIn { shape: field.shape, rare: field.rare() })
    }

    fn values(&self) -> Option<Shape> {
        match self {
            Shape::BuiltIn { shape: facts::Shape::Map(values), .. } => Some(Shape::of(**values)),
            Shape::BuiltIn { shape: facts::Shape::Object(of), .. } => {
                of.get().fields.is_empty().then_some(Shape::Deduced)
            }
            _ => Some(Shape::Deduced),
        }
    }

    fn items(&self) -> Option<Shape> {
        match self {
            Shape::BuiltIn { shape: facts::Shape::List(items), .. } => Some(Shape::of(**items)),
            _ => Some(Shape::Deduced),
        }
    }

    fn field_default(&self, name: &str) -> Option<Value> {
        let field = self.declared(name)?;
        match field.rare().default {
            SchemaDefault::String(text) => return Some(text.into()),
            SchemaDefault::Integer(number) => return Some(number.into()),
            SchemaDefault::None => {}
        }
        // The schema says the zero of what is always there.
        match (field.shape, field.go, field.omit) {
            (facts::Shape::String, Go::Value, false) => Some("".into()),
            (facts::Shape::Integer32 | facts::Shape::Integer64, Go::Value, false) => Some(0.into()),
            _ => None,
        }
    }
}

fn atom(shape: &facts::Shape, rare: &'static Rare) -> Atom<'static> {
    use facts::Shape::{
        Any, Boolean, Bytes, Double, FieldsV1, IntOrString, Integer32, Integer64, MicroTime,
        Object, Quantity, RawObject, SchemaOrArray, SchemaOrBool, SchemaOrStrings, String, Time,
    };
    match shape {
        String | Bytes => Atom::scalar(Scalar::String),
        Integer32 | Integer64 | Double => Atom::scalar(Scalar::Numeric),
        Boolean => Atom::scalar(Scalar::Boolean),
        Time | MicroTime | Quantity | IntOrString => Atom::scalar(Scalar::Untyped),
        RawObject => Atom::UNTYPED,
        FieldsV1 | Any | SchemaOrArray(_) | SchemaOrBool(_) | SchemaOrStrings(_) => Atom::DEDUCED,
        Object(of) => Atom::map(map((of.get().atomic || rare.atomic) && !rare.granular)),
        facts::Shape::Map(_) => Atom::map(map(rare.atomic)),
        facts::Shape::List(_) => Atom::list(match rare.list {
            List::Atomic => fields::List::Atomic,
            List::Set => fields::List::Set,
            List::Map(keys) => fields::List::Keyed(Keys::Texts(keys)),
        }),
    }
}

fn map(is_atomic: bool) -> Map {
    if is_atomic { Map::Atomic } else { Map::Granular }
}
