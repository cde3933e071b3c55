//! A handful of expressions, enough to see which rules run, where, and with what.

use std::sync::Arc;

use schema::{Compiled, Compiler, Failure, Node, Program, Rule};
use serde_json::Value;

/// Knows `true`, `false`, `self >= <number>`, `self == oldSelf`,
/// `oldSelf.hasValue()` and quoted text.
pub struct Few;

enum Expression {
    Constant(bool),
    AtLeast(i64),
    Unchanged,
    HasOld,
    Text(String),
}

fn parse(source: &str) -> Result<Box<dyn Program>, String> {
    let quoted = source.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    let expression = match source {
        "true" => Expression::Constant(true),
        "false" => Expression::Constant(false),
        "self == oldSelf" => Expression::Unchanged,
        "oldSelf.hasValue()" => Expression::HasOld,
        _ => match (quoted, source.strip_prefix("self >= ").map(str::parse)) {
            (Some(text), _) => Expression::Text(text.to_owned()),
            (_, Some(Ok(bound))) => Expression::AtLeast(bound),
            _ => return Err(format!("compilation failed: {source}")),
        },
    };
    Ok(Box::new(expression))
}

impl Compiler for Few {
    fn compile(&self, _: &Arc<Node>, _: bool, rule: &Rule) -> Compiled {
        let source = &*rule.message_expression;
        Compiled {
            program: parse(&rule.rule),
            message: (!source.is_empty()).then(|| parse(source)),
            uses_old_self: rule.rule.contains("oldSelf"),
        }
    }
}

impl Program for Expression {
    fn cost_max(&self) -> u64 {
        1
    }

    fn decide(&self, value: &Value, old: Option<&Value>, left: &mut u64) -> Result<bool, Failure> {
        *left -= 1;
        match self {
            Expression::Constant(verdict) => Ok(*verdict),
            Expression::Unchanged => Ok(old == Some(value)),
            Expression::HasOld => Ok(old.is_some()),
            Expression::AtLeast(bound) => match value.as_i64() {
                Some(value) => Ok(value >= *bound),
                None => Err(Failure::NoOverload("no such overload".to_owned())),
            },
            Expression::Text(_) => Err(Failure::Other("not a rule".to_owned())),
        }
    }

    fn text(&self, _: &Value, _: Option<&Value>, left: &mut u64) -> Result<String, Failure> {
        *left -= 1;
        match self {
            Expression::Text(text) => Ok(text.clone()),
            _ => Err(Failure::Other("not a text".to_owned())),
        }
    }
}
