//! The set of fields that a configuration has: what its applier owns.

use serde_json::Value;

use crate::{
    element::Element,
    set::{Node, Set},
    shape::{Form, List, Map, Shape},
    walk::items::Index,
};

/// The fields of an object.
pub fn fields_of<S: Shape>(shape: S, object: &Value) -> Set {
    owned(shape, object).below
}

/// What a value contributes: itself, and what is below it.
struct Owned {
    member: bool,
    below: Set,
}

impl Owned {
    const LEAF: Owned = Owned { member: true, below: Set::EMPTY };
}

fn owned<S: Shape>(shape: S, value: &Value) -> Owned {
    match (shape.atom().form(value), value) {
        (Some(Form::Scalar(_) | Form::List(List::Atomic) | Form::Map(Map::Atomic)), _) => {
            Owned::LEAF
        }
        (Some(Form::List(list)), Value::Array(values)) => {
            Owned { member: false, below: items(shape, list, values) }
        }
        (Some(Form::Map(_)), Value::Object(fields)) => {
            let mut below = Set::default();
            for (name, value) in fields {
                below.put(field(shape, name, value));
            }
            Owned { member: false, below }
        }
        _ => Owned { member: false, below: Set::EMPTY },
    }
}

fn items<S: Shape>(shape: S, list: List<'_>, values: &[Value]) -> Set {
    let mut set = Set::default();
    let item_shape = shape.items();
    for (element, group) in Index::new(list, item_shape, values).groups() {
        // Items that cannot be told apart are owned together, without what is in them.
        let below = match (group.as_slice(), item_shape) {
            ([item], Some(shape)) => owned(shape, item).below,
            _ => Set::EMPTY,
        };
        set.put(Node { element: element.clone(), member: true, below });
    }
    set
}

fn field<S: Shape>(shape: S, name: &str, value: &Value) -> Node {
    let declared = shape.field(name);
    let owned = match declared.or_else(|| shape.values()) {
        Some(shape) => owned(shape, value),
        None => Owned::LEAF,
    };
    let bare = match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    // A field of a struct is known by what is in it; a key of a map is owned itself.
    let member = owned.member || bare || declared.is_none();
    Node { element: Element::field(name), member, below: owned.below }
}
