//! Which part of the old object a part of the new one was, and whether it changed.
//!
//! Upstream: apiserver/pkg/cel/common/{equality,maplist}.go

use std::collections::HashMap;

use serde_json::Value;

use super::unique::canonical;
use crate::node::Node;
use crate::number::same;

/// Whether a value is what it was. Items of a list of type map may have moved.
pub(super) fn unchanged(value: &Value, old: &Value, node: &Node) -> bool {
    match (value, old) {
        (Value::Object(map), Value::Object(old)) => {
            map.len() == old.len()
                && map.iter().all(|(name, value)| match (old.get(name), node.child(name)) {
                    (Some(old), Some(child)) => unchanged(value, old, child),
                    (Some(old), None) => same(value, old),
                    (None, _) => false,
                })
        }
        (Value::Array(list), Value::Array(old_list)) => {
            let Some(items) = &node.items else {
                return same(value, old);
            };
            // An item without its keys is not found by key, though it is there.
            if node.is_list_type("map") && same(value, old) {
                return true;
            }
            let mut olds = Items::for_equality(node, old);
            list.len() == old_list.len()
                && list.iter().enumerate().all(|(index, value)| {
                    olds.find(index, value).is_some_and(|old| unchanged(value, old, items))
                })
        }
        (value, old) => same(value, old),
    }
}

/// Finds the old items of a list.
pub(super) enum Items<'o> {
    None,
    ByIndex(&'o [Value]),
    ByKey(Keyed<'o>),
}

pub(super) struct Keyed<'o> {
    keys: Keys<'o>,
    olds: HashMap<String, &'o Value>,
}

impl<'o> Items<'o> {
    /// Items of sets and atomic lists are not found again; those of maps are, by key.
    pub(super) fn new(node: &'o Node, old: Option<&'o Value>) -> Items<'o> {
        match old {
            Some(Value::Array(old)) if node.is_list_type("map") => Items::keyed(node, old),
            Some(Value::Array(old)) if node.list_type.is_none() => Items::ByIndex(old),
            _ => Items::None,
        }
    }

    /// Items by key only, for rules.
    pub(super) fn for_rules(node: &'o Node, old: Option<&'o Value>) -> Items<'o> {
        match old {
            Some(Value::Array(old)) if node.is_list_type("map") => Items::keyed(node, old),
            _ => Items::None,
        }
    }

    fn for_equality(node: &'o Node, old: &'o Value) -> Items<'o> {
        match old {
            Value::Array(old) if node.is_list_type("map") => Items::keyed(node, old),
            Value::Array(old) => Items::ByIndex(old),
            _ => Items::None,
        }
    }

    fn keyed(node: &'o Node, old: &'o [Value]) -> Items<'o> {
        let keys = Keys { node };
        let mut olds = HashMap::with_capacity(old.len());
        for value in old {
            if let Some(key) = keys.of(value) {
                olds.entry(key).or_insert(value);
            }
        }
        Items::ByKey(Keyed { keys, olds })
    }

    pub(super) fn find(&mut self, index: usize, value: &Value) -> Option<&'o Value> {
        match self {
            Items::None => None,
            Items::ByIndex(olds) => olds.get(index),
            Items::ByKey(keyed) => keyed.olds.get(&keyed.keys.of(value)?).copied(),
        }
    }
}

/// Tells the key of an item of a list of type map.
struct Keys<'n> {
    node: &'n Node,
}

impl Keys<'_> {
    fn of(&self, value: &Value) -> Option<String> {
        let map = value.as_object()?;
        let mut key = String::new();
        for name in &self.node.list_map_keys {
            let schema = self.node.items.as_ref().and_then(|items| items.properties.get(name));
            let default = schema.and_then(|schema| schema.default.as_deref());
            let part = map.get(&**name).or(default).unwrap_or(&Value::Null);
            key.push_str(&canonical(part));
            key.push('\n');
        }
        Some(key)
    }
}
