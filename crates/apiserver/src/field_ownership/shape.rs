//! How objects are merged, told from the facts of the built-in types or from the schema of a custom
//! resource.

use fields::{Atom, Keys, Map, Scalar};
use schema::Node;
use serde_json::Value;

use crate::facts::{self, Field, Go, List, Rare, SchemaDefault, TypeId};

/// A node of the schema of a resource.
#[derive(Clone, Copy)]
pub enum Shape<'a> {
    BuiltIn {
        shape: facts::Shape,
        /// What the field says that the node is the value of.
        rare: &'static Rare,
    },
    /// An object of a custom resource: its metadata is that of every object.
    Custom(&'a Node),
    /// A part of one.
    Part(&'a Node),
    /// Whatever it is: objects are merged, lists replaced.
    Deduced,
}

impl<'a> Shape<'a> {
    /// An object of a built-in type.
    pub fn of_type(of: TypeId) -> Shape<'static> {
        Shape::of(facts::Shape::Object(of))
    }

    fn of(shape: facts::Shape) -> Shape<'static> {
        Shape::BuiltIn { shape, rare: &Rare::NONE }
    }

    fn declared(&self, name: &str) -> Option<&'static Field> {
        match self {
            Shape::BuiltIn { shape: facts::Shape::Object(of), .. } => of.get().field(name),
            _ => None,
        }
    }
}

impl fields::Shape for Shape<'_> {
    fn atom(&self) -> Atom<'_> {
        match self {
            Shape::Deduced => Atom::DEDUCED,
            Shape::BuiltIn { shape, rare } => atom(shape, rare),
            Shape::Custom(node) | Shape::Part(node) => custom_atom(node),
        }
    }

    fn field(&self, name: &str) -> Option<Self> {
        match self {
            Shape::Custom(_) if name == "metadata" => return metadata(),
            Shape::Custom(_) if ["apiVersion", "kind"].contains(&name) => {
                return Some(Shape::of(facts::Shape::String));
            }
            Shape::Custom(node) | Shape::Part(node) => {
                return node.child(name).map(|child| Shape::Part(child));
            }
            _ => {}
        }
        let field = self.declared(name)?;
        Some(Shape::BuiltIn { shape: field.shape, rare: field.rare() })
    }

    fn values(&self) -> Option<Self> {
        match self {
            Shape::Custom(node) | Shape::Part(node) => match node.additional_schema() {
                Some(values) => Some(Shape::Part(values)),
                None => node.keeps_unnamed().then_some(Shape::Deduced),
            },
            Shape::BuiltIn { shape: facts::Shape::Map(values), .. } => Some(Shape::of(**values)),
            Shape::BuiltIn { shape: facts::Shape::Object(of), .. } => {
                of.get().fields.is_empty().then_some(Shape::Deduced)
            }
            _ => Some(Shape::Deduced),
        }
    }

    fn items(&self) -> Option<Self> {
        match self {
            Shape::Custom(node) | Shape::Part(node) => {
                Some(node.items().map_or(Shape::Deduced, |items| Shape::Part(items)))
            }
            Shape::BuiltIn { shape: facts::Shape::List(items), .. } => Some(Shape::of(**items)),
            _ => Some(Shape::Deduced),
        }
    }

    fn field_default(&self, name: &str) -> Option<Value> {
        if let Shape::Custom(node) | Shape::Part(node) = self {
            return node.child(name)?.default.as_deref().cloned();
        }
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

/// The metadata that every object has.
fn metadata() -> Option<Shape<'static>> {
    let pods = facts::kind("", "v1", "pods")?;
    fields::Shape::field(&Shape::of_type(pods.type_id), "metadata")
}

fn custom_atom(node: &Node) -> Atom<'_> {
    match node.shape() {
        schema::shape::Shape::Scalar => Atom::scalar(Scalar::Untyped),
        schema::shape::Shape::Untyped => Atom::DEDUCED,
        schema::shape::Shape::AtomicList => Atom::list(fields::List::Atomic),
        schema::shape::Shape::Set => Atom::list(fields::List::Set),
        schema::shape::Shape::MapList => {
            Atom::list(fields::List::Keyed(Keys::Boxed(&node.list_map_keys)))
        }
        schema::shape::Shape::AtomicMap => Atom::map(Map::Atomic),
        schema::shape::Shape::Map => Atom::map(Map::Granular),
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
