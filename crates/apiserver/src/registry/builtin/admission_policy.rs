//! Admission policies and their bindings.
//!
//! Upstream: pkg/apis/admissionregistration/{v1/defaults.go,validation/validation.go}

use serde_json::{Value, json};

use super::webhook_configuration::{
    PROPERTIES, validate_conditions, validate_expression, validate_rule,
};
use crate::admission::policies::expression::{Parameters, Purpose, compiled, variables_named};
use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, each_mut, object, set_default};
use crate::registry::field::Field;
use crate::registry::label_selector;
use crate::registry::names;
use crate::registry::strategy::{Properties, Strategy};

const REASONS: [&str; 4] = ["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AdmissionPolicy {
    Mutating,
    Validating,
}

impl Strategy for AdmissionPolicy {
    fn properties(&self) -> Properties {
        Properties { has_status: true, ..PROPERTIES }
    }

    fn default(&self, policy: &mut Value) {
        let Some(spec) = object(policy, "spec") else { return };
        set_default(spec, "failurePolicy", "Fail");
        if let Some(constraints) = edit::at_mut(spec, &["matchConstraints"]) {
            default_matched(constraints);
        }
    }

    fn validate(&self, policy: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(policy);
        let spec = root.at("spec");
        let constraints = spec.at("matchConstraints");
        if !constraints.is_set() {
            errors.push(constraints.required(""));
        } else if constraints.count("resourceRules") == 0 {
            errors.push(constraints.at("resourceRules").required(""));
        }
        validate_matched(&constraints, &mut errors);
        checks::absent_or_one_of(&spec.at("failurePolicy"), &["Fail", "Ignore"], &mut errors);
        if *self == AdmissionPolicy::Validating {
            validate_expressions(&spec, Parameters::of(policy), &mut errors);
        }
        errors
    }

    fn warnings(&self, _policy: &Value, _old: Option<&Value>) -> Vec<String> {
        match self {
            AdmissionPolicy::Mutating => vec![NOT_ENFORCED.to_owned()],
            AdmissionPolicy::Validating => Vec::new(),
        }
    }
}

const NOT_ENFORCED: &str =
    "MutatingAdmissionPolicies are kept, but change nothing here; use a mutating webhook";

/// The expressions of a validating policy.
fn validate_expressions(spec: &Field<'_>, parameters: Parameters, errors: &mut Errors) {
    let compiling = |purpose| move |source: &str| compiled(source, purpose, parameters);
    validate_conditions(spec, compiling(Purpose::Condition), errors);
    let mut known: Vec<&str> = Vec::new();
    for variable in spec.items("variables") {
        let (name, expression) = (variable.at("name"), variable.at("expression"));
        let text = variable.text("name");
        if text.is_empty() {
            errors.push(name.required("name is not specified"));
        } else if !is_identifier(text) {
            errors.push(name.invalid("name is not a valid CEL identifier"));
        } else if known.contains(&text) {
            errors.push(name.duplicate());
        }
        validate_expression(&expression, compiling(Purpose::Variable), errors);
        validate_variables(&expression, &known, errors);
        known.push(text);
    }
    if spec.count("validations") == 0 && spec.count("auditAnnotations") == 0 {
        let detail = "validations or auditAnnotations must contain at least one item";
        errors.push(spec.at("validations").required(detail));
    }
    for validation in spec.items("validations") {
        let expression = validation.at("expression");
        validate_expression(&expression, compiling(Purpose::Validation), errors);
        validate_variables(&expression, &known, errors);
        validate_message(&validation, &known, parameters, errors);
        checks::absent_or_one_of(&validation.at("reason"), &REASONS, errors);
    }
    for annotation in spec.items("auditAnnotations") {
        let expression = annotation.at("valueExpression");
        checks::named(&annotation.at("key"), names::qualified_name, errors);
        validate_expression(&expression, compiling(Purpose::Annotation), errors);
        validate_variables(&expression, &known, errors);
    }
}

fn validate_message(
    validation: &Field<'_>,
    known: &[&str],
    parameters: Parameters,
    errors: &mut Errors,
) {
    let (message, expression) = (validation.at("message"), validation.at("messageExpression"));
    if message.is_set() && message.as_text().trim().is_empty() {
        errors.push(message.invalid("message must be non-empty if specified"));
    } else if message.as_text().contains('\n') {
        errors.push(message.invalid("message must not contain line breaks"));
    }
    if !expression.is_set() {
        return;
    }
    match compiled(expression.as_text(), Purpose::Message, parameters) {
        Ok(_) => validate_variables(&expression, known, errors),
        Err(problems) if problems.problems.iter().all(|problem| problem.line == 0) => {
            errors.push(expression.invalid("must evaluate to string"));
        }
        Err(problems) => errors.push(expression.invalid(format!("compilation failed: {problems}"))),
    }
}

/// Only variables that stand before may be named.
fn validate_variables(expression: &Field<'_>, known: &[&str], errors: &mut Errors) {
    let named = variables_named(expression.as_text());
    for unknown in named.into_iter().filter(|name| !known.contains(name)) {
        let detail = format!("compilation failed: undefined field '{unknown}' of variables");
        errors.push(expression.invalid(detail));
    }
}

fn is_identifier(text: &str) -> bool {
    let is_first = |first: char| first.is_ascii_alphabetic() || first == '_';
    text.starts_with(is_first)
        && text.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
}

pub struct AdmissionPolicyBinding;

impl Strategy for AdmissionPolicyBinding {
    fn properties(&self) -> Properties {
        PROPERTIES
    }

    fn default(&self, binding: &mut Value) {
        if let Some(matched) = edit::at_mut(binding, &["spec", "matchResources"]) {
            default_matched(matched);
        }
    }

    fn validate(&self, binding: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(binding);
        let spec = root.at("spec");
        checks::named(&spec.at("policyName"), names::subdomain, &mut errors);
        validate_matched(&spec.at("matchResources"), &mut errors);
        validate_parameters(&spec.at("paramRef"), &mut errors);
        if root.text("kind") == "ValidatingAdmissionPolicyBinding"
            && spec.count("validationActions") == 0
        {
            errors.push(spec.at("validationActions").required(""));
        }
        for action in spec.items("validationActions") {
            checks::one_of(&action, &["Audit", "Deny", "Warn"], &mut errors);
        }
        let names = |wanted: &str| spec.list("validationActions").iter().any(|it| it == wanted);
        if names("Deny") && names("Warn") {
            let detail = "must not contain both Deny and Warn (repeating the same validation \
                          failure information in the API response and headers serves no purpose)";
            errors.push(spec.at("validationActions").invalid(detail));
        }
        errors
    }
}

fn validate_parameters(reference: &Field<'_>, errors: &mut Errors) {
    if !reference.is_set() {
        return;
    }
    let (name, selector) = (reference.at("name"), reference.at("selector"));
    match (name.as_text().is_empty(), selector.is_set()) {
        (false, true) => {
            errors.push(name.forbidden("name and selector are mutually exclusive"));
        }
        (true, false) => {
            errors.push(reference.required("one of name or selector must be specified"))
        }
        _ => label_selector::validate(&selector, errors),
    }
    let missing = reference.at("parameterNotFoundAction");
    match missing.is_set() {
        true => checks::one_of(&missing, &["Allow", "Deny"], errors),
        false => errors.push(missing.required("")),
    }
}

fn default_matched(matched: &mut Value) {
    set_default(matched, "matchPolicy", "Equivalent");
    set_default(matched, "namespaceSelector", json!({}));
    set_default(matched, "objectSelector", json!({}));
    for rules in ["resourceRules", "excludeResourceRules"] {
        for rule in each_mut(matched, &[rules]) {
            set_default(rule, "scope", "*");
        }
    }
}

fn validate_matched(matched: &Field<'_>, errors: &mut Errors) {
    for rules in ["resourceRules", "excludeResourceRules"] {
        for rule in matched.items(rules) {
            validate_rule(&rule, errors);
        }
    }
    for selector in ["namespaceSelector", "objectSelector"] {
        label_selector::validate(&matched.at(selector), errors);
    }
    checks::absent_or_one_of(&matched.at("matchPolicy"), &["Equivalent", "Exact"], errors);
}
