//! Rules compiled and run by the expressions crate.
//!
//! Upstream: apiextensions-apiserver/pkg/apiserver/schema/cel/{compilation,model/schemas}.go

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use expressions::{
    Bindings, Budget, Declared, Expected, FailureKind, ListKind, MapKind, Problems, Property,
    Scope, compile,
};
use serde_json::Value;

use crate::node::{Kind, Node, Rule};
use crate::rules::{Compiled, Compiler, Failure, Program};

/// A node and its type; none where its schema says too little to name it.
type Known = (Arc<Node>, Option<Declared>);

/// Compiles rules of one schema. Types of nodes are made once and shared by their parents.
#[derive(Default)]
pub struct Cel {
    /// By the address of the node, which is kept alive beside its type.
    declared: Mutex<HashMap<usize, Known>>,
}

impl Compiler for Cel {
    fn compile(&self, node: &Arc<Node>, resource_root: bool, rule: &Rule) -> Compiled {
        let declared = match resource_root {
            true => self.object(node, true),
            false => self.of(node),
        };
        let declared = declared.unwrap_or(Declared::Dyn);
        let scope = match rule.optional_old_self {
            Some(true) => Scope::rule_with_optional_old(&declared),
            _ => Scope::rule(&declared),
        };
        let program = compile(&rule.rule, &scope, Expected::Bool);
        let uses_old_self = program.as_ref().is_ok_and(|program| program.references("oldSelf"));
        let source = rule.message_expression.trim();
        let message = (!source.is_empty()).then(|| {
            // A message may name the old value only where its rule does.
            compile(source, &Scope::rule(&declared), Expected::String)
                .map(boxed)
                .map_err(|problems| detail(&problems, "messageExpression "))
        });
        let program = program.map(boxed).map_err(|problems| detail(&problems, ""));
        Compiled { program, message, uses_old_self }
    }
}

fn detail(problems: &Problems, what: &str) -> String {
    match problems.problems.as_slice() {
        [one] if one.line == 0 && what.is_empty() => one.message.clone(),
        [one] if one.line == 0 => format!("{what}must evaluate to a string"),
        _ => format!("{what}compilation failed: {problems}"),
    }
}

struct Run(expressions::Program);

fn boxed(program: expressions::Program) -> Box<dyn Program> {
    Box::new(Run(program))
}

impl Program for Run {
    fn cost_max(&self) -> u64 {
        self.0.estimate().max
    }

    fn decide(
        &self,
        object: &Value,
        old: Option<&Value>,
        budget: &mut Budget,
    ) -> Result<bool, Failure> {
        self.0.decide(&Bindings::rule(object, old), budget).map_err(failure)
    }

    fn text(
        &self,
        object: &Value,
        old: Option<&Value>,
        budget: &mut Budget,
    ) -> Result<String, Failure> {
        self.0.text(&Bindings::rule(object, old), budget).map_err(failure)
    }
}

fn failure(failure: expressions::Failure) -> Failure {
    let message = failure.message.to_string();
    match failure.kind {
        FailureKind::ObjectCost => Failure::OutOfBudget,
        FailureKind::CallCost => Failure::CallTooCostly(message),
        FailureKind::NoSuchOverload => Failure::NoOverload(message),
        FailureKind::Evaluation => Failure::Other(message),
    }
}

impl Cel {
    /// The type of a node; none where its schema says too little to name it.
    fn of(&self, node: &Arc<Node>) -> Option<Declared> {
        let key = Arc::as_ptr(node) as usize;
        let known = self.declared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, declared)) = known.get(&key) {
            return declared.clone();
        }
        drop(known);
        let declared = self.declare(node);
        let mut known = self.declared.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(key, (node.clone(), declared.clone()));
        declared
    }

    fn declare(&self, node: &Arc<Node>) -> Option<Declared> {
        let bounds = node.bounds.as_deref();
        let size = |size: Option<i64>| size.map(|size| u64::try_from(size).unwrap_or_default());
        let max_length = size(bounds.and_then(|bounds| bounds.max_length));
        if node.int_or_string {
            return Some(Declared::int_or_string(max_length));
        }
        Some(match node.kind {
            Kind::Object => return self.object(node, node.embedded_resource),
            Kind::Array => {
                let items = self.of(node.items.as_ref()?)?;
                let max_items = size(bounds.and_then(|bounds| bounds.max_items));
                Declared::list(items, max_items, list_kind(node))
            }
            Kind::Boolean => Declared::Bool,
            Kind::Integer => Declared::Int,
            Kind::Number => Declared::Double,
            Kind::String => match node.format.as_deref() {
                Some("byte") => Declared::bytes(max_length),
                Some("duration") => Declared::Duration,
                Some("date") => Declared::Date,
                Some("date-time") => Declared::DateTime,
                _ => {
                    let texts = node.enumeration.iter().filter_map(Value::as_str);
                    Declared::string(max_length, texts.map(|text| text.len() as u64).max())
                }
            },
            Kind::Unset | Kind::Unsupported(_) => return None,
        })
    }

    fn object(&self, node: &Arc<Node>, resource: bool) -> Option<Declared> {
        if let Some(values) = node.additional_schema() {
            let max = node.bounds.as_deref().and_then(|bounds| bounds.max_properties);
            let max = max.map(|max| u64::try_from(max).unwrap_or_default());
            let kind = if node.map_correlates() { MapKind::Granular } else { MapKind::Atomic };
            return Some(Declared::map(self.of(values)?, max, kind));
        }
        let mut properties = Vec::new();
        for (name, child) in &node.properties {
            if resource && matches!(&**name, "apiVersion" | "kind" | "metadata") {
                continue;
            }
            if let Some(declared) = self.of(child) {
                properties.push(Property {
                    name: name.to_string(),
                    declared,
                    required: node.required.contains(name),
                    has_default: child.default.is_some(),
                });
            }
        }
        if resource {
            properties.extend(self.identity(node));
        }
        Some(Declared::object("object", properties))
    }

    /// What rules see of a resource's own fields: the names, and nothing else of the metadata.
    fn identity(&self, node: &Node) -> Vec<Property> {
        let own = |node: Option<&Arc<Node>>, name: &str| {
            let declared = node.and_then(|node| node.properties.get(name)).and_then(|n| self.of(n));
            let declared = declared.unwrap_or_else(|| Declared::string(None, None));
            Property { name: name.to_owned(), declared, required: false, has_default: false }
        };
        let metadata = node.properties.get("metadata");
        let names = vec![own(metadata, "name"), own(metadata, "generateName")];
        let root = |name: &str, declared: Declared| Property {
            name: name.to_owned(),
            declared,
            required: true,
            has_default: false,
        };
        vec![
            root("apiVersion", Declared::string(None, None)),
            root("kind", Declared::string(None, None)),
            root("metadata", Declared::object("object", names)),
        ]
    }
}

fn list_kind(node: &Node) -> ListKind {
    match node.list_type.as_deref() {
        Some("set") => ListKind::Set,
        Some("map") => ListKind::Map(node.list_map_keys.iter().map(ToString::to_string).collect()),
        _ => ListKind::Atomic,
    }
}
