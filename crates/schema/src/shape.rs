//! How a value of a schema is merged and owned, for server-side apply.

use std::sync::Arc;

use serde_json::Value;

use crate::node::{Additional, Kind, Node};

/// The way a node is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Scalar,
    /// Nothing is said: the value's own form decides.
    Untyped,
    /// Owned and replaced as a whole.
    AtomicList,
    Set,
    /// Items are found by [`Node::map_keys`].
    MapList,
    /// Owned and replaced as a whole.
    AtomicMap,
    /// Fields are owned one by one.
    Map,
}

impl Node {
    /// How values are merged. Lists are atomic and maps granular unless they say otherwise.
    pub fn shape(&self) -> Shape {
        match (&self.kind, self.list_type.as_deref(), self.map_type.as_deref()) {
            (Kind::Array, Some("set"), _) => Shape::Set,
            (Kind::Array, Some("map"), _) => Shape::MapList,
            (Kind::Array, ..) => Shape::AtomicList,
            (Kind::Object, _, Some("atomic")) => Shape::AtomicMap,
            (Kind::Object, ..) => Shape::Map,
            (Kind::Unset | Kind::Unsupported(_), ..) if !self.int_or_string => Shape::Untyped,
            _ => Shape::Scalar,
        }
    }

    /// The keys of the items of a list of type map, each with the default of the property.
    pub fn map_keys(&self) -> impl Iterator<Item = (&str, Option<&Value>)> {
        self.list_map_keys.iter().map(|name| {
            let key = self.items.as_ref().and_then(|items| items.properties.get(name));
            (&**name, key.and_then(|key| key.default.as_deref()))
        })
    }

    /// The schema of the items of a list.
    pub fn items(&self) -> Option<&Arc<Node>> {
        self.items.as_ref()
    }

    /// Whether fields that are not named are kept, and so must be owned.
    pub fn keeps_unnamed(&self) -> bool {
        self.preserves_unknown() || matches!(self.additional, Some(Additional::Allowed(true)))
    }
}
