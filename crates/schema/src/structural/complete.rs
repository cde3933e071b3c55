//! Everything that junctors speak of must be on the spine.
//!
//! Like upstream, this follows the junctors of the root only: schemas that are accepted elsewhere
//! must be accepted here.

use std::sync::Arc;

use crate::node::Node;
use crate::path::Path;
use crate::violation::Violation;

pub(super) fn schema(root: &Arc<Node>, path: &Path<'_>, out: &mut Vec<Violation>) {
    junctors(root, Some(root), (path, path), out);
}

/// `paths` are those of the spine and of the junctor.
type Paths<'p> = (&'p Path<'p>, &'p Path<'p>);

fn junctors(node: &Node, spine: Option<&Arc<Node>>, paths: Paths<'_>, out: &mut Vec<Violation>) {
    let (at, within) = paths;
    if let Some(not) = &node.not {
        nested(not, spine, (at, &within.field("not")), out);
    }
    for (name, nodes) in [("allOf", &node.all_of), ("anyOf", &node.any_of), ("oneOf", &node.one_of)]
    {
        let list = within.field(name);
        for (index, node) in nodes.iter().enumerate() {
            nested(node, spine, (at, &list.index(index)), out);
        }
    }
}

fn nested(node: &Node, spine: Option<&Arc<Node>>, paths: Paths<'_>, out: &mut Vec<Violation>) {
    let (at, within) = paths;
    let Some(found) = spine else {
        out.push(Violation::required(at, format!("because it is defined in {within}")));
        return;
    };
    junctors(node, spine, paths, out);
    if let Some(items) = &node.items {
        nested(items, found.items.as_ref(), (&at.field("items"), &within.field("items")), out);
    }
    let (at, within) = (at.field("properties"), within.field("properties"));
    for (name, child) in &node.properties {
        nested(child, found.properties.get(name), (&at.key(name), &within.key(name)), out);
    }
}
