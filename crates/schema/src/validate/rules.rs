//! The walk that runs rules, within one budget for the whole object.
//!
//! Upstream: apiextensions-apiserver/pkg/apiserver/schema/cel/validation.go

use expressions::Budget;
use serde_json::Value;

use super::correlate::{self, Items};
use crate::limits::{FAILURE_FUEL, MESSAGE_BYTES_MAX};
use crate::node::{Node, Reason, Rule};
use crate::path::Path;
use crate::rules::{CompiledRule, Failure, Program, RuleTree};
use crate::violation::Violation;

pub(super) fn check(
    object: &Value,
    old: Option<&Value>,
    tree: &RuleTree,
    path: &Path<'_>,
) -> (Vec<Violation>, Vec<String>) {
    let mut run = Run { budget: Budget::default(), violations: Vec::new(), warnings: Vec::new() };
    let before = Before { old, correlated: old.map(|old| (object, old, &*tree.node)) };
    // The outcome of a run that was ended early is in its violations.
    let _ended = run.node(object, before, tree, path);
    (run.violations, run.warnings)
}

/// Checks a value as if it had been there before, so that transition rules run, and tolerates
/// nothing.
pub(super) fn check_without_past(
    value: &Value,
    tree: &RuleTree,
    path: &Path<'_>,
) -> Vec<Violation> {
    let mut run = Run { budget: Budget::default(), violations: Vec::new(), warnings: Vec::new() };
    let before = Before { old: Some(value), correlated: None };
    let _ended = run.node(value, before, tree, path);
    run.violations
}

/// What a value was.
#[derive(Clone, Copy)]
struct Before<'o> {
    /// For `oldSelf`.
    old: Option<&'o Value>,
    /// The nearest part around the value that can be compared with what it was.
    correlated: Option<(&'o Value, &'o Value, &'o Node)>,
}

struct Run {
    budget: Budget,
    violations: Vec<Violation>,
    warnings: Vec<String>,
}

/// No further rule may run.
struct Ended;

const SPENT: &str = "validation failed due to running out of cost budget, no further validation \
                     rules will be run";

impl Run {
    fn node<'o>(
        &mut self,
        value: &'o Value,
        before: Before<'o>,
        tree: &'o RuleTree,
        path: &Path<'_>,
    ) -> Result<(), Ended> {
        if value.is_null() {
            return Ok(());
        }
        for rule in &tree.rules {
            self.rule(value, before, (rule, &tree.node), path)?;
        }
        match value {
            Value::Object(map) => {
                let olds = before.old.and_then(Value::as_object);
                for (name, value) in map {
                    let old = olds.and_then(|olds| olds.get(name));
                    // Both are converted to one version first: a change would not be seen.
                    let hidden = path.is_root() && matches!(name.as_str(), "apiVersion" | "kind");
                    if let Some(below) = tree.properties.get(name.as_str()) {
                        let mut step = before.step(value, old, below, &tree.node);
                        if hidden {
                            step.correlated = None;
                        }
                        self.node(value, step, below, &path.field(name))?;
                    } else if let Some(below) = &tree.additional
                        && !tree.node.properties.contains_key(name.as_str())
                    {
                        let step = before.step(value, old, below, &tree.node);
                        self.node(value, step, below, &path.key(name))?;
                    }
                }
            }
            Value::Array(list) => {
                if let Some(below) = &tree.items {
                    let mut olds = Items::for_rules(&tree.node, before.old);
                    let mut pairs = Items::new(&tree.node, before.old);
                    for (index, value) in list.iter().enumerate() {
                        let pair = pairs.find(index, value).map(|old| (value, old, &*below.node));
                        let correlated = before.correlated.map(|around| pair.unwrap_or(around));
                        let step = Before { old: olds.find(index, value), correlated };
                        self.node(value, step, below, &path.index(index))?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn rule(
        &mut self,
        value: &Value,
        before: Before<'_>,
        (rule, node): (&CompiledRule, &Node),
        path: &Path<'_>,
    ) -> Result<(), Ended> {
        let kind = node.kind.name();
        if self.budget.is_spent() {
            self.violations.push(Violation::invalid(path, kind, SPENT));
            return Err(Ended);
        }
        let program = match &rule.compiled.program {
            Ok(program) => program,
            Err(error) => {
                let detail = format!("rule compile error: {error}");
                self.violations.push(Violation::invalid(path, kind, detail));
                return Ok(());
            }
        };
        let transition = rule.compiled.uses_old_self;
        let optional = rule.rule.optional_old_self == Some(true);
        if transition && before.old.is_none() && !optional {
            return Ok(());
        }
        match program.decide(value, before.old, &mut self.budget) {
            Ok(true) => return Ok(()),
            Ok(false) => self.budget.burn(FAILURE_FUEL),
            Err(failure) => return self.failed(failure, &rule.rule, kind, path),
        }
        let at = match rule.field_path.is_empty() {
            true => path.text(),
            false if path.is_root() => rule.field_path.clone(),
            false => format!("{path}.{}", rule.field_path),
        };
        let (detail, ended) = self.message(value, before.old, rule);
        let mut violation = match (ended.is_err(), rule.rule.reason()) {
            (true, _) | (_, Reason::Invalid) => Violation::invalid(path, kind, detail),
            (_, Reason::Forbidden) => Violation::forbidden(path, detail),
            (_, Reason::Required) => Violation::required(path, detail),
            (_, Reason::Duplicate) => Violation::duplicate(path, kind),
        };
        violation.path = at;
        match !transition && before.is_unchanged() {
            true => self.warnings.push(violation.to_string()),
            false => self.violations.push(violation),
        }
        ended
    }

    fn failed(
        &mut self,
        failure: Failure,
        rule: &Rule,
        kind: &str,
        path: &Path<'_>,
    ) -> Result<(), Ended> {
        let name = rule.name();
        let (detail, ended) = match failure {
            Failure::OutOfBudget => (SPENT.to_owned(), Err(Ended)),
            Failure::CallTooCostly(error) => {
                let why = "no further validation rules will be run due to call cost exceeds limit";
                (format!("'{error}': {why} for rule: {name}"), Err(Ended))
            }
            Failure::NoOverload(error) => {
                let why = "call arguments did not match a supported operator, function or macro \
                           signature";
                (format!("'{error}': {why} for rule: {name}"), Ok(()))
            }
            Failure::Other(error) => (format!("{error} evaluating rule: {name}"), Ok(())),
        };
        self.violations.push(Violation::invalid(path, kind, detail));
        ended
    }

    /// What a failed rule says, and whether saying it spent the budget.
    fn message(
        &mut self,
        value: &Value,
        old: Option<&Value>,
        rule: &CompiledRule,
    ) -> (String, Result<(), Ended>) {
        if let Some(Ok(program)) = &rule.compiled.message {
            match self.evaluated(value, old, &**program) {
                Ok(Some(text)) => return (text, Ok(())),
                Ok(None) => {}
                Err(Failure::OutOfBudget) => {
                    let detail = "messageExpression evaluation failed due to running out of cost \
                                  budget, no further validation rules will be run";
                    return (detail.to_owned(), Err(Ended));
                }
                Err(_) => {
                    let source = &rule.rule.message_expression;
                    let why = "no further validation rules will be run due to call cost exceeds \
                               limit for messageExpression";
                    return (format!("{why}: {source:?}"), Err(Ended));
                }
            }
        }
        let detail = match rule.rule.message.is_empty() {
            true => format!("failed rule: {}", rule.rule.name()),
            false => rule.rule.name().to_owned(),
        };
        (detail, Ok(()))
    }

    /// A message that can be shown: one line, not empty, not too long.
    fn evaluated(
        &mut self,
        value: &Value,
        old: Option<&Value>,
        program: &dyn Program,
    ) -> Result<Option<String>, Failure> {
        match program.text(value, old, &mut self.budget) {
            Ok(text) => {
                let text = text.trim();
                let shown =
                    !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
                Ok(shown.then(|| text.to_owned()))
            }
            Err(failure @ (Failure::OutOfBudget | Failure::CallTooCostly(_))) => Err(failure),
            Err(_) => Ok(None),
        }
    }
}

impl<'o> Before<'o> {
    /// One step down, to a property.
    fn step(
        self,
        value: &'o Value,
        old: Option<&'o Value>,
        below: &'o RuleTree,
        node: &Node,
    ) -> Before<'o> {
        let pair = old.map(|old| (value, old, &*below.node)).filter(|_| self.correlated.is_some());
        let visible = if node.map_correlates() { old } else { None };
        Before { old: visible, correlated: pair.or(self.correlated) }
    }

    fn is_unchanged(&self) -> bool {
        self.correlated.is_some_and(|(value, old, node)| correlate::unchanged(value, old, node))
    }
}
