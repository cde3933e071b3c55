//! `x-kubernetes-validations`: their texts, and that they compile and do not cost too much.

use std::sync::Arc;

use super::cost::exceeds;
use super::field_path;
use super::keywords::{Place, Walk};
use crate::limits::RULE_COST_MAX;
use crate::node::{Node, Rule};
use crate::path::Path;
use crate::rules::Compiled;
use crate::violation::Violation;

pub(super) fn check_texts(node: &Node, path: &Path<'_>, out: &mut Vec<Violation>) {
    let list = path.field("x-kubernetes-validations");
    for (index, rule) in node.rules.iter().enumerate() {
        let at = list.index(index);
        texts(rule, &at, out);
        field(rule, node, &at.field("fieldPath"), out);
    }
}

fn has_newlines(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

fn texts(rule: &Rule, path: &Path<'_>, out: &mut Vec<Violation>) {
    let message = path.field("message");
    let trimmed = rule.message.trim();
    if rule.rule.trim().is_empty() {
        out.push(Violation::required(&path.field("rule"), "rule is not specified"));
    } else if !rule.message.is_empty() && trimmed.is_empty() {
        let detail = "message must be non-empty if specified";
        out.push(Violation::invalid(&message, &*rule.message, detail));
    } else if has_newlines(trimmed) {
        let detail = "message must not contain line breaks";
        out.push(Violation::invalid(&message, &*rule.message, detail));
    } else if has_newlines(rule.rule.trim()) && trimmed.is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        out.push(Violation::required(&message, detail));
    }
    if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        out.push(Violation::required(&path.field("messageExpression"), detail));
    }
    if let Some(reason) = &rule.reason_text
        && !Rule::REASONS.contains(&&**reason)
    {
        let at = path.field("reason");
        out.push(Violation::not_supported(&at, &**reason, Rule::REASONS));
    }
}

fn field(rule: &Rule, node: &Node, path: &Path<'_>, out: &mut Vec<Violation>) {
    let text = &*rule.field_path;
    if text.is_empty() {
        return;
    }
    let mut wrong = |detail: &str| out.push(Violation::invalid(path, text, detail));
    if text.trim().is_empty() {
        wrong("fieldPath must be non-empty if specified");
    }
    if has_newlines(text) {
        wrong("fieldPath must not contain line breaks");
    }
    if field_path::normalized(text, node).is_none() {
        wrong("fieldPath must be a valid path");
    }
}

pub(super) fn compile(walk: &mut Walk<'_>, node: &Arc<Node>, place: Place<'_>, path: &Path<'_>) {
    let Some(cardinality) = place.cardinality else {
        return;
    };
    let list = path.field("x-kubernetes-validations");
    for (index, rule) in node.rules.iter().enumerate() {
        let compiled = walk.options.compiler.compile(node, place.resource_root, rule);
        let at = list.index(index);
        if let Ok(program) = &compiled.program {
            let cost = cardinality.times(program.cost_max(), node);
            let at = at.field("rule");
            if cost > RULE_COST_MAX {
                let detail = exceeds("estimated rule cost", cost, RULE_COST_MAX);
                walk.rules.push(Violation::forbidden(&at, detail));
            }
            walk.costs.add(&at, cost);
        }
        result(walk, rule, &compiled, &at);
        old_self(walk, rule, &compiled, (place, &at));
    }
}

fn result(walk: &mut Walk<'_>, rule: &Rule, compiled: &Compiled, path: &Path<'_>) {
    if let Err(detail) = &compiled.program {
        let at = path.field("rule");
        walk.rules.push(Violation::invalid(&at, rule.to_json(), detail));
    }
    let at = path.field("messageExpression");
    match &compiled.message {
        None => {}
        Some(Err(detail)) => {
            walk.rules.push(Violation::invalid(&at, rule.to_json(), detail));
        }
        Some(Ok(program)) => {
            let cost = program.cost_max();
            if cost > RULE_COST_MAX {
                let detail = exceeds("estimated messageExpression cost", cost, RULE_COST_MAX);
                walk.rules.push(Violation::forbidden(&at, detail));
            }
            walk.costs.add(&at, cost);
        }
    }
}

fn old_self(
    walk: &mut Walk<'_>,
    rule: &Rule,
    compiled: &Compiled,
    (place, path): (Place<'_>, &Path<'_>),
) {
    match (compiled.uses_old_self, place.uncorrelatable, rule.optional_old_self) {
        (true, Some(within), _) => {
            let detail = format!(
                "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
            );
            walk.rules.push(Violation::invalid(&path.field("rule"), &*rule.rule, detail));
        }
        (false, _, Some(optional)) if compiled.program.is_ok() => {
            let detail = "may not be set if oldSelf is not used in rule";
            let at = path.field("optionalOldSelf");
            walk.rules.push(Violation::invalid(&at, optional, detail));
        }
        _ => {}
    }
}
