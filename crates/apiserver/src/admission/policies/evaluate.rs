//! What a policy says of a write: a pure function.
//!
//! Upstream: apiserver/pkg/admission/plugin/policy/validating/validator.go

use expressions::{Binding, Bindings, Budget, CALL_COST_MAX, Failure, OBJECT_COST_MAX};
use serde_json::Value;

use super::policy::{Expression, Policy, Validation};
use crate::admission::webhooks::OnFailure;
use crate::admission::webhooks::conditions::{self, Subject, Verdict};

/// Of a denial whose validation names none.
pub const REASON: &str = "Invalid";
/// The longest message that an expression may give.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// All that a policy is told.
pub struct Facts<'a> {
    pub subject: &'a Subject<'a>,
    /// Null where it takes none.
    pub parameters: &'a Value,
    /// Null for what is in no namespace.
    pub namespace: &'a Value,
}

/// Why a write is not to be.
#[derive(Debug, PartialEq, Eq)]
pub struct Denial {
    pub message: String,
    pub reason: &'static str,
}

/// All that the policy denies, in the order of its validations.
pub fn evaluate(policy: &Policy, facts: &Facts<'_>) -> Vec<Denial> {
    let bindings = facts
        .subject
        .bindings()
        .with("params", Binding::Json(facts.parameters))
        .with("namespaceObject", Binding::Json(facts.namespace));
    match conditions::decide(&policy.conditions, &bindings) {
        Verdict::Holds => {}
        Verdict::DoesNotHold => return Vec::new(),
        Verdict::Failed(why) => return failed(policy, why).into_iter().collect(),
    }
    let mut budget = Budget::new(CALL_COST_MAX, OBJECT_COST_MAX);
    let variables = Variables::computed(policy, &bindings, &mut budget);
    let bindings = variables.bind(bindings);
    let judged = policy.validations.iter().filter_map(|validation| {
        let expression = &validation.expression;
        match run(expression, |program| program.decide(&bindings, &mut budget)) {
            Ok(true) => None,
            Ok(false) => {
                let message = message(validation, &bindings, &mut budget);
                Some(Denial { message, reason: validation.reason })
            }
            Err(why) => {
                let (source, why) = (&expression.source, variables.cause(why));
                failed(policy, format!("expression '{source}' resulted in error: {why}"))
            }
        }
    });
    judged.collect()
}

fn run<T>(
    expression: &Expression,
    run: impl FnOnce(&expressions::Program) -> Result<T, Failure>,
) -> Result<T, String> {
    let program = expression.program.as_ref().map_err(Clone::clone)?;
    run(program).map_err(|failure| failure.to_string())
}

/// What cannot be decided is denied, unless the policy says that this is to be ignored.
fn failed(policy: &Policy, message: String) -> Option<Denial> {
    match policy.on_failure {
        OnFailure::Fail => Some(Denial { message, reason: REASON }),
        OnFailure::Ignore => {
            tracing::warn!(policy = policy.name, why = message, "a policy failed open");
            None
        }
    }
}

/// What is said of a validation that does not hold. An expression that gives no usable text is as
/// good as none.
fn message(validation: &Validation, bindings: &Bindings<'_>, budget: &mut Budget) -> String {
    let expression = validation.message_expression.as_ref();
    let said = expression.and_then(|expression| {
        let said = run(expression, |program| program.text(bindings, budget)).ok()?;
        let said = said.trim();
        let is_usable = !said.is_empty() && said.len() <= MESSAGE_BYTES_MAX && !said.contains('\n');
        is_usable.then(|| said.to_owned())
    });
    said.unwrap_or_else(|| match validation.message.as_str() {
        "" => format!("failed expression: {}", validation.expression.source.trim()),
        message => message.to_owned(),
    })
}

/// The variables of a policy: what became of each that is named.
struct Variables<'a> {
    values: Vec<(&'a str, expressions::Value<'a>)>,
    failures: Vec<(&'a str, String)>,
}

impl<'a> Variables<'a> {
    fn computed(policy: &'a Policy, bindings: &Bindings<'a>, budget: &mut Budget) -> Variables<'a> {
        let mut variables = Variables { values: Vec::new(), failures: Vec::new() };
        for variable in policy.variables.iter().filter(|variable| variable.is_used) {
            let name = variable.name.as_str();
            let bindings = variables.bind(bindings.clone());
            let value = match &variable.expression.program {
                Ok(program) => program.evaluate(&bindings, budget).map_err(|it| it.to_string()),
                Err(why) => Err(why.clone()),
            };
            match value {
                Ok(value) => variables.values.push((name, value)),
                // It counts only if somebody gets as far as to look at it.
                Err(why) => variables.failures.push((name, variables.cause(why))),
            }
        }
        variables
    }

    fn bind(&self, bindings: Bindings<'a>) -> Bindings<'a> {
        let values = expressions::Value::named(self.values.iter().cloned());
        bindings.with("variables", Binding::Value(values))
    }

    /// Why an expression really failed that found a variable missing.
    fn cause(&self, why: String) -> String {
        let failed = self.failures.iter().find(|(name, _)| why == format!("no such key: {name}"));
        match failed {
            Some((name, cause)) => {
                format!("composited variable {name:?} fails to evaluate: {cause}")
            }
            None => why,
        }
    }
}
