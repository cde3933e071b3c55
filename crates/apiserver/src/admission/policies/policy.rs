//! A policy, compiled once.

use std::sync::Arc;

use expressions::Program;
use serde_json::Value;

use super::evaluate::REASON;
use super::expression::{Parameters, Purpose, compiled, variables_named};
use crate::admission::webhooks::OnFailure;
use crate::admission::webhooks::conditions::Condition;
use crate::admission::webhooks::criteria::Criteria;
use crate::object;

pub struct Policy {
    pub name: String,
    pub criteria: Criteria,
    /// The API version and the kind of the objects that it is handed, if it is.
    pub parameters: Option<(String, String)>,
    pub conditions: Vec<Condition>,
    pub variables: Vec<Variable>,
    pub validations: Vec<Validation>,
    pub on_failure: OnFailure,
    /// Whether any expression looks at the namespace, which is only then read.
    pub names_namespace: bool,
}

/// A value that expressions behind it may name.
pub struct Variable {
    pub name: String,
    pub expression: Expression,
    /// Whether anybody names it.
    pub is_used: bool,
}

pub struct Validation {
    pub expression: Expression,
    /// What is said when it does not hold; empty where nothing is given.
    pub message: String,
    pub message_expression: Option<Expression>,
    pub reason: &'static str,
}

pub struct Expression {
    pub source: String,
    pub program: Result<Program, String>,
}

/// The one policy of an object.
pub fn compile(policy: &Value) -> Vec<Arc<Policy>> {
    let (spec, parameters) = (&policy["spec"], Parameters::of(policy));
    let list = |field: &str| spec[field].as_array().map(Vec::as_slice).unwrap_or_default();
    let condition = |condition: &Value| {
        Condition::new(condition, |source| compiled(source, Purpose::Condition, parameters))
    };
    let validations: Vec<Validation> =
        list("validations").iter().map(|it| validation(it, parameters)).collect();
    let mut variables: Vec<Variable> = list("variables")
        .iter()
        .map(|variable| Variable {
            name: text(&variable["name"]),
            expression: expression(&variable["expression"], Purpose::Variable, parameters),
            is_used: false,
        })
        .collect();
    mark_used(&mut variables, &validations);
    let kind = &spec["paramKind"];
    let conditions = list("matchConditions").iter().filter_map(|it| it["expression"].as_str());
    let names_namespace = sources(&validations, &variables)
        .chain(conditions)
        .any(|source| source.contains("namespaceObject"));
    vec![Arc::new(Policy {
        name: object::name(policy).to_owned(),
        criteria: Criteria::of_policy(&spec["matchConstraints"]),
        parameters: kind.is_object().then(|| (text(&kind["apiVersion"]), text(&kind["kind"]))),
        conditions: list("matchConditions").iter().map(condition).collect(),
        variables,
        validations,
        on_failure: match spec["failurePolicy"] == "Ignore" {
            true => OnFailure::Ignore,
            false => OnFailure::Fail,
        },
        names_namespace,
    })]
}

fn validation(validation: &Value, parameters: Parameters) -> Validation {
    let message_expression = &validation["messageExpression"];
    let is_given = message_expression.as_str().is_some_and(|it| !it.trim().is_empty());
    Validation {
        expression: expression(&validation["expression"], Purpose::Validation, parameters),
        message: text(&validation["message"]).trim().to_owned(),
        message_expression: is_given
            .then(|| expression(message_expression, Purpose::Message, parameters)),
        reason: match validation["reason"].as_str() {
            Some("Unauthorized") => "Unauthorized",
            Some("Forbidden") => "Forbidden",
            Some("RequestEntityTooLarge") => "RequestEntityTooLarge",
            _ => REASON,
        },
    }
}

fn expression(source: &Value, purpose: Purpose, parameters: Parameters) -> Expression {
    let source = text(source);
    let program = compiled(&source, purpose, parameters)
        .map_err(|problems| format!("compilation failed: {problems}"));
    Expression { source, program }
}

/// A variable that nobody names is never computed: neither its cost nor its failure counts.
fn mark_used(variables: &mut [Variable], validations: &[Validation]) {
    let named: Vec<&str> = sources(validations, &[]).flat_map(variables_named).collect();
    let mut named: Vec<String> = named.into_iter().map(str::to_owned).collect();
    // Each names only those before it.
    for variable in variables.iter_mut().rev() {
        variable.is_used = named.contains(&variable.name);
        if variable.is_used {
            named.extend(variables_named(&variable.expression.source).into_iter().map(Into::into));
        }
    }
}

fn sources<'a>(
    validations: &'a [Validation],
    variables: &'a [Variable],
) -> impl Iterator<Item = &'a str> {
    let own = validations.iter().map(|it| &it.expression);
    let messages = validations.iter().filter_map(|it| it.message_expression.as_ref());
    let others = variables.iter().map(|it| &it.expression);
    own.chain(messages).chain(others).map(|expression| expression.source.as_str())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
