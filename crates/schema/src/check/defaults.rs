//! Defaults must be pruned and valid by their own schemas.
//!
//! Upstream: apiextensions-apiserver/pkg/apiserver/schema/defaulting/validation.go

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::Options;
use crate::metadata;
use crate::node::{Node, Schema};
use crate::path::Path;
use crate::prune::is_clean;
use crate::rules::RuleTree;
use crate::structural::condition_message;
use crate::validate::{check_rules, check_value};
use crate::violation::Violation;

pub(super) fn check(schema: &Schema, options: &Options<'_>) -> Vec<Violation> {
    let mut walk = Walk { options, out: Vec::new() };
    let resource = Resource { node: &schema.root, steps: None };
    walk.node(&schema.root, Place { resource, root: true, inside_metadata: false }, options.path);
    walk.out
}

/// The resource around a place, and the way from it to the place.
#[derive(Clone, Copy)]
struct Resource<'w> {
    node: &'w Node,
    steps: Option<&'w Steps<'w>>,
}

struct Steps<'w> {
    before: Option<&'w Steps<'w>>,
    /// The name of a property; an item of a list has none.
    name: Option<&'w str>,
}

#[derive(Clone, Copy)]
struct Place<'w> {
    resource: Resource<'w>,
    root: bool,
    inside_metadata: bool,
}

struct Walk<'a> {
    options: &'a Options<'a>,
    out: Vec<Violation>,
}

impl Walk<'_> {
    fn node(&mut self, node: &Arc<Node>, place: Place<'_>, path: &Path<'_>) {
        let is_resource = place.root || node.embedded_resource;
        let place = match is_resource {
            true => Place {
                resource: Resource { node, steps: None },
                root: place.root,
                inside_metadata: false,
            },
            false => place,
        };
        if let Some(default) = &node.default {
            let at = path.field("default");
            match place.inside_metadata {
                true => self.metadata(default, node, place.resource, &at),
                false => self.value(default, (node, is_resource), &at),
            }
        }
        // Defaults below additionalProperties are checked when they are used.
        let below = |name| Steps { before: place.resource.steps, name };
        if let Some(items) = &node.items {
            let steps = below(None);
            self.child(items, place, (&steps, false), &path.field("items"));
        }
        let properties = path.field("properties");
        for (name, child) in &node.properties {
            let own = matches!(&**name, "metadata" | "apiVersion" | "kind") && is_resource;
            let steps = below(Some(name));
            self.child(child, place, (&steps, own), &properties.key(name));
        }
    }

    fn child(
        &mut self,
        node: &Arc<Node>,
        place: Place<'_>,
        (steps, own): (&Steps<'_>, bool),
        path: &Path<'_>,
    ) {
        let resource = Resource { node: place.resource.node, steps: Some(steps) };
        let inside_metadata = place.inside_metadata || own;
        self.node(node, Place { resource, root: false, inside_metadata }, path);
    }

    fn value(&mut self, default: &Value, (node, resource): (&Arc<Node>, bool), path: &Path<'_>) {
        if !is_clean(default, node) {
            let detail = "must not have unknown fields";
            self.out.push(Violation::invalid(path, default.clone(), detail));
        }
        let mut copy = default.clone();
        if let Err(violation) = metadata::coerce_value(&mut copy, node, resource, path) {
            self.out.push(*violation);
            return;
        }
        let mut wrong = Vec::new();
        let checks = (self.options.metadata, &mut wrong);
        metadata::embedded(default, node, (resource, path), checks);
        if wrong.is_empty() {
            wrong = check_value(default, node, &path.to_string());
        }
        if wrong.is_empty()
            && let Some(tree) = RuleTree::of(node, resource, self.options.compiler)
        {
            wrong = check_rules(default, &tree, path);
        }
        self.out.extend(wrong);
    }

    /// A default inside metadata is valid if the resource around it is.
    fn metadata(&mut self, default: &Value, node: &Node, resource: Resource<'_>, path: &Path<'_>) {
        let mut object = surrounded(default, resource.steps);
        let root = Path::root();
        let mut refuse = |error: String| {
            let detail = format!("must result in valid metadata: {error}");
            self.out.push(Violation::invalid(path, default.clone(), detail));
        };
        if let Err(violation) = metadata::coerce_value(&mut object, resource.node, true, &root) {
            return refuse(violation.to_string());
        }
        let mut wrong = Vec::new();
        let checks = (self.options.metadata, &mut wrong);
        metadata::embedded(&object, resource.node, (true, &root), checks);
        if !wrong.is_empty() {
            return refuse(condition_message(&wrong));
        }
        self.out.extend(check_value(default, node, &path.to_string()));
    }
}

/// A resource that has nothing but this value.
fn surrounded(value: &Value, steps: Option<&Steps<'_>>) -> Value {
    let mut value = value.clone();
    let mut rest = steps;
    while let Some(step) = rest {
        value = match step.name {
            Some(name) => Value::Object(Map::from_iter([(name.to_owned(), value)])),
            None => Value::Array(vec![value]),
        };
        rest = step.before;
    }
    if let Value::Object(map) = &mut value {
        map.entry("apiVersion").or_insert(json!("validation/v1"));
        map.entry("kind").or_insert(json!("Validation"));
    }
    value
}
