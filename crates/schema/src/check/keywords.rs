//! The walk over every node of a schema, junctors included.

use std::sync::Arc;

use super::cost::{Cardinality, Costs};
use super::{Options, lists, rules};
use crate::node::{Additional, Kind, Node, Refused, Schema};
use crate::path::Path;
use crate::violation::Violation;

pub(super) fn check(schema: &Schema, typed: bool, options: &Options<'_>) -> Vec<Violation> {
    let mut walk = Walk { options, schema: Vec::new(), rules: Vec::new(), costs: Costs::default() };
    let place = Place {
        root: true,
        resource_root: true,
        inside_metadata: false,
        defaults_forbidden: None,
        uncorrelatable: None,
        cardinality: typed.then(Cardinality::one),
    };
    walk.node(&schema.root, place, options.path);
    let mut out = walk.schema;
    out.extend(walk.rules);
    out.extend(walk.costs.exceeded(options.path));
    out
}

/// What holds at a place because of what is above it.
#[derive(Clone, Copy)]
pub(super) struct Place<'p> {
    root: bool,
    pub(super) resource_root: bool,
    inside_metadata: bool,
    /// Why no default may be set, if none may.
    defaults_forbidden: Option<&'p str>,
    /// The topmost place whose parts are not found again in an old object.
    pub(super) uncorrelatable: Option<&'p Path<'p>>,
    /// How often the place can occur; none where rules are not looked at.
    pub(super) cardinality: Option<Cardinality>,
}

pub(super) struct Walk<'a> {
    pub(super) options: &'a Options<'a>,
    pub(super) schema: Vec<Violation>,
    pub(super) rules: Vec<Violation>,
    pub(super) costs: Costs,
}

impl Walk<'_> {
    fn node(&mut self, node: &Arc<Node>, place: Place<'_>, path: &Path<'_>) {
        let before = self.schema.len();
        self.keywords(node, place, path);
        self.children(node, place, path);
        if node.preserve_unknown == Some(false) {
            let at = path.field("x-kubernetes-preserve-unknown-fields");
            self.schema.push(Violation::invalid(&at, false, "must be true or undefined"));
        }
        lists::check(node, path, &mut self.schema);
        rules::check_texts(node, path, &mut self.schema);
        if self.schema.len() == before && !node.rules.is_empty() {
            rules::compile(self, node, place, path);
        }
    }

    fn keywords(&mut self, node: &Node, place: Place<'_>, path: &Path<'_>) {
        let out = &mut self.schema;
        if let Kind::Unsupported(name) = &node.kind {
            let types = ["array", "boolean", "integer", "number", "object", "string"];
            out.push(Violation::not_supported(&path.field("type"), &**name, types));
        }
        if let (Some(_), Some(reason)) = (&node.default, place.defaults_forbidden) {
            let detail = format!("must not be set {reason}");
            out.push(Violation::forbidden(&path.field("default"), detail));
        }
        for refused in &node.refused {
            let (keyword, detail) = match refused {
                Refused::Id => ("id", "id is not supported"),
                Refused::AdditionalItems => ("additionalItems", "additionalItems is not supported"),
                Refused::PatternProperties => {
                    ("patternProperties", "patternProperties is not supported")
                }
                Refused::Definitions => ("definitions", "definitions is not supported"),
                Refused::Dependencies => ("dependencies", "dependencies is not supported"),
                Refused::Reference => ("$ref", "$ref is not supported"),
                Refused::ItemsList => ("items", "items must be a schema object and not an array"),
            };
            out.push(Violation::forbidden(&path.field(keyword), detail));
        }
        if node.kind.name() == "null" {
            let detail = "type cannot be set to null, use nullable as an alternative";
            out.push(Violation::forbidden(&path.field("type"), detail));
        }
        if place.inside_metadata && node.embedded_resource {
            let at = path.field("x-kubernetes-embedded-resource");
            out.push(Violation::forbidden(&at, "must not be used inside of resource meta"));
        }
        if node.bounds.as_ref().is_some_and(|bounds| bounds.unique_items) {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes \
                          quadratic";
            out.push(Violation::forbidden(&path.field("uniqueItems"), detail));
        }
        let exclusive = !matches!(node.additional, None | Some(Additional::Allowed(true)));
        if exclusive && !node.properties.is_empty() {
            let detail = "additionalProperties and properties are mutual exclusive";
            out.push(Violation::forbidden(&path.field("additionalProperties"), detail));
        }
    }

    fn children(&mut self, node: &Node, place: Place<'_>, path: &Path<'_>) {
        let below = Place {
            root: false,
            resource_root: false,
            cardinality: place.cardinality.map(|count| count.below(node)),
            ..place
        };
        if let Some(child) = node.additional_schema() {
            let mut below = Place { resource_root: child.embedded_resource, ..below };
            if place.inside_metadata {
                below.defaults_forbidden =
                    Some("inside additionalProperties applying to object metadata");
            }
            self.node(child, below, &path.field("additionalProperties"));
        }
        let properties = path.field("properties");
        for (name, child) in &node.properties {
            let below = property(node, name, place, Place { uncorrelatable: None, ..below });
            let mut below = Place { resource_root: child.embedded_resource, ..below };
            below.uncorrelatable = place
                .uncorrelatable
                .or_else(|| if node.map_correlates() { None } else { Some(path) });
            self.node(child, below, &properties.key(name));
        }
        let nested = Place { cardinality: None, ..below };
        if let Some(not) = &node.not {
            self.node(not, nested, &path.field("not"));
        }
        for (name, nodes) in
            [("allOf", &node.all_of), ("oneOf", &node.one_of), ("anyOf", &node.any_of)]
        {
            let list = path.field(name);
            for (index, child) in nodes.iter().enumerate() {
                self.node(child, nested, &list.index(index));
            }
        }
        if let Some(items) = &node.items {
            // A list of no type is atomic, and sets are not correlated item by item.
            let found_again = node.is_list_type("map");
            let uncorrelatable =
                place.uncorrelatable.or(if found_again { None } else { Some(path) });
            let below = Place { resource_root: items.embedded_resource, uncorrelatable, ..below };
            self.node(items, below, &path.field("items"));
        }
    }
}

/// What is special about the own fields of a resource.
fn property<'p>(node: &Node, name: &str, place: Place<'p>, below: Place<'p>) -> Place<'p> {
    let mut below = below;
    let reason = match name {
        "metadata" => "in top-level metadata",
        "kind" => "in top-level kind",
        "apiVersion" => "in top-level apiVersion",
        _ => return below,
    };
    if place.root || node.embedded_resource {
        below.inside_metadata = true;
        if place.root {
            below.defaults_forbidden = Some(reason);
        }
    }
    below
}
