//! What must hold at every node of the spine.

use crate::node::{Additional, Bounds, Kind, Node};
use crate::path::Path;
use crate::violation::Violation;

use super::junctors;

/// Where on the spine a node is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Level {
    Root,
    Item,
    Field,
}

pub(super) fn node(node: &Node, level: Level, path: &Path<'_>, out: &mut Vec<Violation>) {
    children(node, level, path, out);
    extensions(node, path, out);
    junctors::spine(node, path, out);
    types(node, level, path, out);
    metadata(node, level, path, out);
    if node.embedded_resource && !node.preserves_unknown() && node.properties.is_empty() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        out.push(Violation::required(&path.field("properties"), detail));
    }
}

fn children(one: &Node, level: Level, path: &Path<'_>, out: &mut Vec<Violation>) {
    let items = path.field("items");
    match &one.items {
        Some(child) => node(child, Level::Item, &items, out),
        None if one.kind == Kind::Array => {
            out.push(Violation::required(&items, "must be specified"))
        }
        None => {}
    }
    let properties = path.field("properties");
    for (name, child) in &one.properties {
        node(child, Level::Field, &properties.key(name), out);
    }
    if let Some(additional) = &one.additional {
        let at = path.field("additionalProperties");
        if level == Level::Root {
            out.push(Violation::forbidden(&at, "must not be used at the root"));
        }
        if let Additional::Schema(child) = additional {
            node(child, Level::Field, &at, out);
        }
    }
}

fn extensions(node: &Node, path: &Path<'_>, out: &mut Vec<Violation>) {
    if !node.int_or_string {
        return;
    }
    let detail = "must be false if x-kubernetes-int-or-string is true";
    if node.preserves_unknown() {
        let at = path.field("x-kubernetes-preserve-unknown-fields");
        out.push(Violation::invalid(&at, true, detail));
    }
    if node.embedded_resource {
        out.push(Violation::invalid(&path.field("x-kubernetes-embedded-resource"), true, detail));
    }
}

fn types(node: &Node, level: Level, path: &Path<'_>, out: &mut Vec<Violation>) {
    let at = path.field("type");
    if node.embedded_resource && node.kind != Kind::Object {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        out.push(match node.kind.is_set() {
            true => Violation::invalid(&at, node.kind.name(), detail),
            false => Violation::required(&at, detail),
        });
    } else if !node.kind.is_set() && !node.int_or_string && !node.preserves_unknown() {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        out.push(Violation::required(&at, detail));
    }
    if node.embedded_resource && node.additional.is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        out.push(Violation::forbidden(&path.field("additionalProperties"), detail));
    }
    if level == Level::Root && node.kind.is_set() && node.kind != Kind::Object {
        out.push(Violation::invalid(&at, node.kind.name(), "must be object at the root"));
    }
}

/// A resource's own fields: `apiVersion` and `kind` are strings, `metadata` is the server's.
fn metadata(node: &Node, level: Level, path: &Path<'_>, out: &mut Vec<Violation>) {
    let resource = level == Level::Root || node.embedded_resource;
    let properties = path.field("properties");
    for name in ["kind", "apiVersion"] {
        if let Some(child) = node.properties.get(name)
            && resource
            && child.kind != Kind::String
        {
            let at = properties.key(name);
            out.push(Violation::invalid(&at.field("type"), child.kind.name(), "must be string"));
        }
    }
    let Some(child) = node.properties.get("metadata") else {
        return;
    };
    let at = properties.key("metadata");
    if resource && child.kind != Kind::Object {
        out.push(Violation::invalid(&at.field("type"), child.kind.name(), "must be object"));
    }
    if level == Level::Root && !says_only_names(child) {
        let detail = "must not specify anything other than name and generateName, but metadata is \
                      implicitly specified";
        out.push(Violation::forbidden(&at, detail));
    }
}

/// Whether a schema of `metadata` has nothing but a type, a default, and names.
fn says_only_names(node: &Node) -> bool {
    let names = node.properties.keys().all(|name| matches!(&**name, "name" | "generateName"));
    let silent = node.title.is_none()
        && node.description.is_none()
        && !node.nullable
        && node.additional.is_none()
        && node.items.is_none()
        && node.external_docs.is_none();
    let plain = node.preserve_unknown.is_none()
        && !node.embedded_resource
        && !node.int_or_string
        && node.list_type.is_none()
        && node.list_map_keys.is_empty()
        && node.map_type.is_none()
        && node.rules.is_empty();
    names && silent && plain && !validates(node)
}

/// Whether a node says anything about values.
fn validates(node: &Node) -> bool {
    node.format.is_some()
        || node.bounds.as_deref().is_some_and(|bounds| !is_empty(bounds))
        || !node.required.is_empty()
        || !node.enumeration.is_empty()
        || !node.all_of.is_empty()
        || !node.any_of.is_empty()
        || !node.one_of.is_empty()
        || node.not.is_some()
}

fn is_empty(bounds: &Bounds) -> bool {
    bounds.maximum.is_none()
        && bounds.minimum.is_none()
        && bounds.multiple_of.is_none()
        && bounds.max_length.is_none()
        && bounds.min_length.is_none()
        && bounds.pattern.is_none()
        && bounds.max_items.is_none()
        && bounds.min_items.is_none()
        && bounds.max_properties.is_none()
        && bounds.min_properties.is_none()
        && !(bounds.unique_items || bounds.exclusive_maximum || bounds.exclusive_minimum)
}
