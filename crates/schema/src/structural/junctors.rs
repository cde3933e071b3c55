//! What may stand inside `allOf`, `anyOf`, `oneOf` and `not`: value validations only.

use std::sync::Arc;

use crate::node::{Additional, Kind, Node};
use crate::path::Path;
use crate::violation::Violation;

/// Checks the junctors and the pattern of a node of the spine.
pub(super) fn spine(node: &Node, path: &Path<'_>, out: &mut Vec<Violation>) {
    let exception = Exception {
        any_of: says_int_or_string(&node.any_of),
        first_all_of: node.all_of.first().is_some_and(|first| says_int_or_string(&first.any_of)),
    };
    values(node, exception, path, out);
}

/// Which junctors may name types, because they say that a value is an integer or a string.
#[derive(Clone, Copy, Default)]
struct Exception {
    any_of: bool,
    first_all_of: bool,
}

fn values(node: &Node, exception: Exception, path: &Path<'_>, out: &mut Vec<Violation>) {
    if !exception.any_of {
        list(&node.any_of, false, &path.field("anyOf"), out);
    }
    list(&node.all_of, exception.first_all_of, &path.field("allOf"), out);
    list(&node.one_of, false, &path.field("oneOf"), out);
    if let Some(not) = &node.not {
        nested(not, false, &path.field("not"), out);
    }
    if let Some(pattern) = node.pattern()
        && let Err(error) = pattern.compile()
    {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        out.push(Violation::invalid(&path.field("pattern"), &*pattern.text, detail));
    }
}

fn list(nodes: &[Arc<Node>], first_may_type: bool, path: &Path<'_>, out: &mut Vec<Violation>) {
    for (index, node) in nodes.iter().enumerate() {
        nested(node, first_may_type && index == 0, &path.index(index), out);
    }
}

fn nested(node: &Node, any_of_may_type: bool, path: &Path<'_>, out: &mut Vec<Violation>) {
    let exception = Exception { any_of: any_of_may_type, first_all_of: false };
    values(node, exception, path, out);
    if let Some(items) = &node.items {
        nested(items, false, &path.field("items"), out);
    }
    let properties = path.field("properties");
    for (name, child) in &node.properties {
        nested(child, false, &properties.key(name), out);
    }
    let mut forbid = |found: bool, keyword: &str, detail: &str| {
        if found {
            out.push(Violation::forbidden(&path.field(keyword), detail));
        }
    };
    let (empty, undefined, no) = (
        "must be empty to be structural",
        "must be undefined to be structural",
        "must be false to be structural",
    );
    forbid(node.kind.is_set(), "type", empty);
    forbid(
        matches!(node.additional, Some(Additional::Schema(_) | Additional::Allowed(_))),
        "additionalProperties",
        undefined,
    );
    forbid(node.default.is_some(), "default", undefined);
    forbid(node.title.is_some(), "title", empty);
    forbid(node.description.is_some(), "description", empty);
    forbid(node.nullable, "nullable", no);
    forbid(node.external_docs.is_some(), "externalDocs", undefined);
    forbid(node.preserves_unknown(), "x-kubernetes-preserve-unknown-fields", no);
    forbid(node.embedded_resource, "x-kubernetes-embedded-resource", no);
    forbid(node.int_or_string, "x-kubernetes-int-or-string", no);
    forbid(!node.list_map_keys.is_empty(), "x-kubernetes-list-map-keys", empty);
    forbid(node.list_type.is_some(), "x-kubernetes-list-type", undefined);
    forbid(node.map_type.is_some(), "x-kubernetes-map-type", undefined);
    forbid(!node.rules.is_empty(), "x-kubernetes-validations", empty);
    if node.properties.contains_key("metadata") {
        let detail = "must not be specified in a nested context";
        out.push(Violation::forbidden(&properties.key("metadata"), detail));
    }
}

/// The one form in which types may be named: `[{type: integer}, {type: string}]`.
fn says_int_or_string(nodes: &[Arc<Node>]) -> bool {
    let only = |node: &Node, kind: Kind| {
        node.kind == kind
            && node.format.is_none()
            && node.title.is_none()
            && node.description.is_none()
            && node.default.is_none()
            && !node.nullable
            && node.bounds.is_none()
            && node.required.is_empty()
            && node.enumeration.is_empty()
            && node.properties.is_empty()
            && node.additional.is_none()
            && node.items.is_none()
            && node.all_of.is_empty()
            && node.any_of.is_empty()
            && node.one_of.is_empty()
            && node.not.is_none()
            && node.rules.is_empty()
    };
    match nodes {
        [integer, string] => only(integer, Kind::Integer) && only(string, Kind::String),
        _ => false,
    }
}
