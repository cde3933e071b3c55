//! A set of fields whose schema has changed since it was written.
//!
//! What was merged and is replaced whole by now is owned whole. What was owned whole and is merged
//! by now stays owned as it is: its owner has the container and nothing in it.

use crate::{
    element::Element,
    set::{Node, Set},
    shape::{List, Map, Shape},
};

/// The set as the schema would have it.
pub fn reconcile<S: Shape>(shape: S, set: Set) -> Set {
    let mut reconciled = Set::default();
    for node in set.into_nodes() {
        let child = match &node.element {
            Element::Field(name) => shape.member(name),
            Element::Key(_) | Element::Value(_) | Element::Index(_) => shape.items(),
        };
        reconciled.put(match child {
            Some(child) if !node.below.is_empty() && is_atomic(child) => {
                Node { member: true, below: Set::EMPTY, ..node }
            }
            Some(child) => Node { below: reconcile(child, node.below), ..node },
            // A field that the schema does not know any more says nothing.
            None => node,
        });
    }
    reconciled
}

/// Whether a container is replaced whole, whatever its value is. What is deduced is not: a map
/// of it may have fields.
pub(crate) fn is_atomic<S: Shape>(shape: S) -> bool {
    let atom = shape.atom();
    match (atom.list, atom.map) {
        (_, Some(map)) => map == Map::Atomic,
        (Some(list), None) => matches!(list, List::Atomic),
        (None, None) => false,
    }
}
