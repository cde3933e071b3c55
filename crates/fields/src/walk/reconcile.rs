//! A set of fields whose schema has changed since it was written.
//!
//! What was merged and is replaced whole by now is owned whole. What was owned whole and is merged
//! by now is owned field by field, as it is in the live object. The same happens to an empty
//! container that someone else has filled since: its owner gets what is in it.

use serde_json::Value;

use crate::{
    element::Element,
    set::{Node, Set},
    shape::{Form, List, Map, Shape},
    walk::{fields_of::fields_of, items::element_or_index},
};

/// The set as the schema would have it, given the object that it is about.
pub fn reconcile<S: Shape>(shape: S, set: Set, live: Option<&Value>) -> Set {
    let mut reconciled = Set::default();
    for node in set.into_nodes() {
        let child = member_of(shape, &node.element);
        let value = live.and_then(|live| value_at(shape, live, &node.element));
        reconciled.put(match child {
            Some(child) => reconcile_node(child, node, value),
            // A field that the schema does not know any more says nothing.
            None => node,
        });
    }
    reconciled
}

fn reconcile_node<S: Shape>(shape: S, node: Node, live: Option<&Value>) -> Node {
    let form = live.and_then(|live| shape.atom().form(live)).or_else(|| only_form(shape));
    let leaf = node.member && node.below.is_empty();
    match form {
        Some(Form::List(List::Atomic) | Form::Map(Map::Atomic)) if !leaf => {
            Node { member: true, below: Set::EMPTY, ..node }
        }
        Some(Form::List(_) | Form::Map(Map::Granular)) if leaf => {
            let below = live.map_or(Set::EMPTY, |live| fields_of(shape, live));
            Node { below, ..node }
        }
        Some(Form::List(_) | Form::Map(_)) => {
            Node { below: reconcile(shape, node.below, live), ..node }
        }
        _ => node,
    }
}

/// What a node is whatever its value, where its schema allows but one thing.
fn only_form<S: Shape>(shape: S) -> Option<Form<'static>> {
    let atom = shape.atom();
    match (atom.scalar, atom.list, atom.map) {
        (None, None, Some(map)) => Some(Form::Map(map)),
        (None, Some(List::Atomic), None) => Some(Form::List(List::Atomic)),
        (None, Some(_), None) => Some(Form::List(List::Set)),
        _ => None,
    }
}

fn member_of<S: Shape>(shape: S, element: &Element) -> Option<S> {
    match element {
        Element::Field(name) => shape.member(name),
        Element::Key(_) | Element::Value(_) | Element::Index(_) => shape.items(),
    }
}

fn value_at<'v, S: Shape>(shape: S, live: &'v Value, element: &Element) -> Option<&'v Value> {
    match (element, live) {
        (Element::Field(name), Value::Object(fields)) => fields.get(&**name),
        (Element::Key(_) | Element::Value(_), Value::Array(items)) => {
            let Some(Form::List(list)) = shape.atom().form(live) else { return None };
            let item_shape = shape.items();
            let mut same = items.iter().enumerate().filter(|(at, item)| {
                element_or_index(list, item_shape, *at, item) == *element
            });
            // Items that cannot be told apart are owned as one, without what is in them.
            same.next().filter(|_| same.next().is_none()).map(|(_, item)| item)
        }
        _ => None,
    }
}
