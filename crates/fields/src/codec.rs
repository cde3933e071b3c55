//! FieldsV1: a set of fields as JSON.
//!
//! A node is an object whose keys are the elements below it; `"."` says that the node itself is
//! in the set, and an empty object is a member with nothing below. A node without `"."` but with
//! keys is there for what is below it.

use serde_json::{Map, Value};

use crate::{
    element::{Element, quoted},
    error::Error,
    set::{Node, Set},
};

/// The key that says that a node is a member itself.
pub(crate) const ITSELF: &str = ".";

/// How deep FieldsV1 may go; objects that are decoded are bounded likewise.
pub const DEPTH_MAX: usize = 512;

impl Set {
    /// FieldsV1 as a value.
    pub fn to_value(&self) -> Value {
        let mut object = Map::new();
        for node in self.nodes() {
            object.insert(node.element.wire(), node_value(node));
        }
        Value::Object(object)
    }

    /// FieldsV1 as text, in the order of the elements.
    pub fn to_json(&self) -> String {
        let mut text = String::new();
        write_level(self, false, &mut text);
        text
    }

    /// Reads FieldsV1. Every key must name an element and every value be an object.
    pub fn from_value(value: &Value) -> Result<Set, Error> {
        read_level(value, DEPTH_MAX).map(|(_, set)| set)
    }

    /// Reads FieldsV1 from text.
    pub fn from_json(text: &str) -> Result<Set, Error> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| Error::Set { reason: error.to_string() })?;
        Set::from_value(&value)
    }
}

fn node_value(node: &Node) -> Value {
    let mut value = node.below.to_value();
    if node.member && !node.below.is_empty() {
        value[ITSELF] = Value::Object(Map::new());
    }
    value
}

fn write_level(set: &Set, member: bool, text: &mut String) {
    text.push('{');
    let mut first = true;
    if member && !set.is_empty() {
        text.push_str("\".\":{}");
        first = false;
    }
    for node in set.nodes() {
        if !first {
            text.push(',');
        }
        first = false;
        text.push_str(&quoted(&node.element.wire()));
        text.push(':');
        write_level(&node.below, node.member, text);
    }
    text.push('}');
}

/// Whether the level says `"."`, and what is below.
fn read_level(value: &Value, depth_left: usize) -> Result<(bool, Set), Error> {
    let Value::Object(object) = value else {
        return Err(Error::Set { reason: format!("expected an object, got {value}") });
    };
    let Some(depth_left) = depth_left.checked_sub(1) else {
        return Err(Error::Set { reason: format!("deeper than {DEPTH_MAX} levels") });
    };
    let mut itself = false;
    let mut set = Set::default();
    for (key, value) in object {
        if key == ITSELF {
            if value.as_object().is_none_or(|object| !object.is_empty()) {
                return Err(Error::Set { reason: format!("\".\" must be {{}}, got {value}") });
            }
            itself = true;
            continue;
        }
        let element = Element::from_wire(key)?;
        let (dotted, below) = read_level(value, depth_left)?;
        // A node that says nothing more is a member: that is how a leaf is written.
        set.put(Node { element, member: dotted || below.is_empty(), below });
    }
    Ok((itself, set))
}
