//! Rules of `x-kubernetes-validations`, compiled: a tree beside the schema, only where rules are.
//!
//! How a rule is compiled and run is behind [`Compiler`] and [`Program`].

use std::collections::BTreeMap;
use std::sync::Arc;

use expressions::Budget;
use serde_json::Value;

use crate::check::field_path;
use crate::node::{Node, Rule, Schema};

/// Compiles the rules of a schema.
pub trait Compiler {
    /// `resource_root` says that the node is a resource, whose `metadata.name` can be named.
    fn compile(&self, node: &Arc<Node>, resource_root: bool, rule: &Rule) -> Compiled;
}

/// A rule as it was compiled.
pub struct Compiled {
    /// The program, or the detail of the error at `rule`.
    pub program: Result<Box<dyn Program>, String>,
    /// The same of `messageExpression`, if there is one.
    pub message: Option<Result<Box<dyn Program>, String>>,
    /// Whether the rule is a transition rule.
    pub uses_old_self: bool,
}

/// An expression that can be evaluated.
pub trait Program: Send + Sync {
    /// What one evaluation may cost at most.
    fn cost_max(&self) -> u64;

    /// Evaluates a rule, paying from the budget.
    ///
    /// # Errors
    /// See [`Failure`].
    fn decide(
        &self,
        object: &Value,
        old: Option<&Value>,
        budget: &mut Budget,
    ) -> Result<bool, Failure>;

    /// Evaluates a message, paying from the budget.
    ///
    /// # Errors
    /// See [`Failure`].
    fn text(
        &self,
        object: &Value,
        old: Option<&Value>,
        budget: &mut Budget,
    ) -> Result<String, Failure>;
}

/// Why an evaluation gave nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The budget of the object is spent.
    OutOfBudget,
    /// This one call was too costly; the text says so.
    CallTooCostly(String),
    /// An operator was applied to a type it has no meaning for.
    NoOverload(String),
    /// Anything else: a missing key, an index out of bounds, an overflow.
    Other(String),
}

/// Compiles nothing: every rule holds. For schemas whose rules were checked elsewhere.
pub struct NoRules;

struct Holds;

impl Program for Holds {
    fn cost_max(&self) -> u64 {
        0
    }

    fn decide(&self, _: &Value, _: Option<&Value>, _: &mut Budget) -> Result<bool, Failure> {
        Ok(true)
    }

    fn text(&self, _: &Value, _: Option<&Value>, _: &mut Budget) -> Result<String, Failure> {
        Ok(String::new())
    }
}

impl Compiler for NoRules {
    fn compile(&self, _: &Arc<Node>, _: bool, _: &Rule) -> Compiled {
        Compiled { program: Ok(Box::new(Holds)), message: None, uses_old_self: false }
    }
}

/// The compiled rules of a node and of what is below it.
pub struct RuleTree {
    pub(crate) node: Arc<Node>,
    pub(crate) rules: Vec<CompiledRule>,
    pub(crate) properties: BTreeMap<Box<str>, RuleTree>,
    pub(crate) additional: Option<Box<RuleTree>>,
    pub(crate) items: Option<Box<RuleTree>>,
}

pub(crate) struct CompiledRule {
    pub(crate) rule: Rule,
    pub(crate) compiled: Compiled,
    /// `fieldPath` in the form of error paths.
    pub(crate) field_path: String,
}

impl RuleTree {
    /// Compiles all rules of a schema; `None` if it has none.
    pub fn build(schema: &Schema, compiler: &dyn Compiler) -> Option<RuleTree> {
        tree(&schema.root, true, compiler)
    }

    /// Compiles the rules of a part of a schema.
    pub(crate) fn of(
        node: &Arc<Node>,
        resource_root: bool,
        compiler: &dyn Compiler,
    ) -> Option<RuleTree> {
        tree(node, resource_root, compiler)
    }
}

fn tree(node: &Arc<Node>, resource_root: bool, compiler: &dyn Compiler) -> Option<RuleTree> {
    let rules: Vec<_> = node
        .rules
        .iter()
        .map(|rule| CompiledRule {
            compiled: compiler.compile(node, resource_root, rule),
            field_path: field_path::normalized(&rule.field_path, node).unwrap_or_default(),
            rule: rule.clone(),
        })
        .collect();
    let below = |child: &Arc<Node>| tree(child, child.embedded_resource, compiler);
    let properties: BTreeMap<_, _> = node
        .properties
        .iter()
        .filter_map(|(name, child)| Some((name.clone(), below(child)?)))
        .collect();
    let additional = node.additional_schema().and_then(below).map(Box::new);
    let items = node.items.as_ref().and_then(below).map(Box::new);
    if rules.is_empty() && properties.is_empty() && additional.is_none() && items.is_none() {
        return None;
    }
    Some(RuleTree { node: node.clone(), rules, properties, additional, items })
}
