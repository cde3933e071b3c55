//! The fields of an object that was not there before, straight to FieldsV1.
//!
//! Most writes that are a manager's first are creations, and most of what they cost would be a
//! set that is encoded at once. This is one walk that writes what comparing with the empty object
//! and encoding the additions would give.

use serde_json::{Map as Fields, Value};

use crate::{
    codec::ITSELF,
    element::FIELD,
    set::{NOTHING, Set},
    shape::{Form, List, Map, Shape},
    walk::items::Index,
};

/// FieldsV1 of all that an object has and the empty object of its kind has not; without some
/// fields, and without others and what is below them. None where the empty object holds more
/// than objects: then the two have to be compared.
pub fn created<S: Shape>(
    shape: S,
    sides: (&Value, &Value),
    stripped: &Set,
    reset: &Set,
) -> Option<Value> {
    let (empty, new) = sides;
    let mut out = Fields::new();
    fields(shape, (empty.as_object()?, new.as_object()?), (stripped, reset), &mut out)?;
    Some(Value::Object(out))
}

type Object = Fields<String, Value>;

/// Writes the fields of a struct that the empty object has too.
fn fields<S: Shape>(
    shape: S,
    (empty, new): (&Object, &Object),
    (stripped, reset): (&Set, &Set),
    out: &mut Object,
) -> Option<()> {
    if empty.keys().any(|name| !new.contains_key(name)) {
        return None;
    }
    for (name, value) in new {
        let reset = reset.field(name);
        if reset.is_some_and(|node| node.member) {
            continue;
        }
        let stripped = stripped.field(name);
        let rest = (
            stripped.map_or(&NOTHING, |node| &node.below),
            reset.map_or(&NOTHING, |node| &node.below),
        );
        let before = empty.get(name);
        let is_owned = stripped.is_none_or(|node| !node.member);
        let mut itself = before.is_none() && is_owned;
        let child_shape = shape.member(name);
        let mut below = Fields::new();
        match (before, value, child_shape) {
            (None, value, Some(child)) if rest.0.is_empty() && rest.1.is_empty() => {
                whole(child, value, &mut below);
            }
            (None, Value::Object(value), Some(child)) if is_granular(child, value) => {
                fields(child, (&Fields::new(), value), rest, &mut below)?;
            }
            (Some(Value::Object(before)), Value::Object(value), Some(child)) => {
                if is_granular(child, value) {
                    fields(child, (before, value), rest, &mut below)?;
                } else if before != value {
                    return None;
                }
            }
            (None, _, None) => {}
            (Some(before), value, _) if before == value => {}
            // Of a null that is filled only what is in it is new; a leaf is another one.
            (Some(Value::Null), value, child) if rest.0.is_empty() && rest.1.is_empty() => {
                match child.filter(|child| is_filled(*child, value)) {
                    Some(child) => whole(child, value, &mut below),
                    None => itself = is_owned,
                }
            }
            (Some(before), value, _) if is_scalar(before) && is_scalar(value) => itself = is_owned,
            // A value that is there in another form, or one that is stripped in part.
            _ => return None,
        }
        if itself && !below.is_empty() {
            below.insert(ITSELF.to_owned(), Value::Object(Fields::new()));
        }
        if itself || !below.is_empty() {
            out.insert([FIELD, name].concat(), Value::Object(below));
        }
    }
    Some(())
}

fn is_granular<S: Shape>(shape: S, value: &Object) -> bool {
    !value.is_empty() && shape.atom().map == Some(Map::Granular)
}

/// Whether a value holds something that is owned apart from it.
fn is_filled<S: Shape>(shape: S, value: &Value) -> bool {
    match (shape.atom().form(value), value) {
        (Some(Form::List(List::Set | List::Keyed(_))), Value::Array(items)) => !items.is_empty(),
        (Some(Form::Map(Map::Granular)), Value::Object(fields)) => !fields.is_empty(),
        _ => false,
    }
}

fn is_scalar(value: &Value) -> bool {
    !value.is_null() && !value.is_array() && !value.is_object()
}

/// Writes everything below a value that was not there at all.
fn whole<S: Shape>(shape: S, value: &Value, out: &mut Object) {
    match (shape.atom().form(value), value) {
        (Some(Form::List(list @ (List::Set | List::Keyed(_)))), Value::Array(values)) => {
            let item_shape = shape.items();
            for (element, group) in Index::new(list, item_shape, values).groups() {
                let mut below = Fields::new();
                if let ([item], Some(shape)) = (group.as_slice(), item_shape) {
                    whole(shape, item, &mut below);
                }
                out.insert(element.wire(), member(below));
            }
        }
        (Some(Form::Map(Map::Granular)), Value::Object(fields)) => {
            for (name, value) in fields {
                let mut below = Fields::new();
                if let Some(shape) = shape.member(name) {
                    whole(shape, value, &mut below);
                }
                out.insert([FIELD, name].concat(), member(below));
            }
        }
        _ => {}
    }
}

fn member(mut below: Object) -> Value {
    if !below.is_empty() {
        below.insert(ITSELF.to_owned(), Value::Object(Fields::new()));
    }
    Value::Object(below)
}
