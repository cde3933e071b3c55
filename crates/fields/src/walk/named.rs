//! A set of fields with the structs around its members.
//!
//! Who owns `.spec.replicas` does not own `.spec`. To take away everything that someone owned,
//! the structs that would be left empty have to go as well.

use crate::{
    element::Element,
    set::{Node, Set},
    shape::Shape,
};

/// Makes every declared field on the way to a member a member too. Keys of maps and items of
/// lists are members or not by themselves.
pub fn with_named_fields<S: Shape>(shape: Option<S>, set: Set) -> Set {
    let mut named = Set::default();
    for Node { element, member, below } in set.into_nodes() {
        let (declared, child) = match (&element, shape) {
            (Element::Field(name), Some(shape)) => {
                let field = shape.field(name);
                (field.is_some(), field.or_else(|| shape.values()))
            }
            (Element::Key(_), Some(shape)) => (false, shape.items()),
            _ => (false, None),
        };
        let below = with_named_fields(child, below);
        named.put(Node { element, member: member || declared, below });
    }
    named
}
