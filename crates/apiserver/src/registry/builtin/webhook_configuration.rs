//! Webhook configurations.
//!
//! Upstream: pkg/apis/admissionregistration/{v1/defaults.go,validation/validation.go}

use expressions::{Problems, Program};
use serde_json::{Value, json};

use super::webhook_client;
use crate::admission::webhooks::conditions;
use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, each_mut, set_default};
use crate::registry::field::Field;
use crate::registry::label_selector;
use crate::registry::names;
use crate::registry::strategy::{Context, Properties, Strategy};
use crate::webhooks::writer;

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
/// The most conditions of a webhook.
const MATCH_CONDITIONS_MAX: usize = 64;
pub const PROPERTIES: Properties =
    Properties { allows_unconditional_update: false, ..Properties::WITH_GENERATION };

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum WebhookConfiguration {
    Mutating,
    Validating,
}

impl Strategy for WebhookConfiguration {
    fn properties(&self) -> Properties {
        PROPERTIES
    }

    fn default(&self, configuration: &mut Value) {
        for webhook in each_mut(configuration, &["webhooks"]) {
            set_default(webhook, "failurePolicy", "Fail");
            set_default(webhook, "matchPolicy", "Equivalent");
            set_default(webhook, "namespaceSelector", json!({}));
            set_default(webhook, "objectSelector", json!({}));
            set_default(webhook, "timeoutSeconds", 10);
            if *self == WebhookConfiguration::Mutating {
                set_default(webhook, "reinvocationPolicy", "Never");
            }
            if let Some(service) = edit::at_mut(webhook, &["clientConfig", "service"]) {
                set_default(service, "port", 443);
            }
            for rule in each_mut(webhook, &["rules"]) {
                set_default(rule, "scope", "*");
            }
        }
    }

    fn prepare_create(&self, configuration: &mut Value, context: &Context<'_>) {
        writer::mark_created(configuration, context.requester);
    }

    fn prepare_update(&self, configuration: &mut Value, old: &Value, context: &Context<'_>) {
        writer::mark_updated(configuration, old, &["webhooks"], context.requester);
    }

    fn validate(&self, configuration: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(configuration);
        let mut seen: Vec<&str> = Vec::new();
        for webhook in root.items("webhooks") {
            let name = webhook.at("name");
            validate_name(&name, &mut errors);
            if seen.contains(&name.as_text()) {
                errors.push(name.duplicate());
            }
            seen.push(webhook.text("name"));
            validate_webhook(&webhook, &mut errors);
        }
        errors
    }
}

/// A name of three parts at least, such as `pods.example.com`.
fn validate_name(name: &Field<'_>, errors: &mut Errors) {
    let text = name.as_text();
    if text.is_empty() {
        return errors.push(name.required(""));
    }
    let faults = names::subdomain(text);
    if !faults.is_empty() {
        return errors.push(name.invalid(faults.join(",")));
    }
    if text.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.push(name.invalid(detail));
    }
}

fn validate_webhook(webhook: &Field<'_>, errors: &mut Errors) {
    for rule in webhook.items("rules") {
        validate_rule(&rule, errors);
    }
    let policies = ["Fail", "Ignore"];
    checks::absent_or_one_of(&webhook.at("failurePolicy"), &policies, errors);
    checks::absent_or_one_of(&webhook.at("matchPolicy"), &["Equivalent", "Exact"], errors);
    let effects = webhook.at("sideEffects");
    match effects.is_set() {
        true => checks::one_of(&effects, &["None", "NoneOnDryRun"], errors),
        false => {
            errors.push(effects.required("must specify one of None, NoneOnDryRun"));
        }
    }
    let timeout = webhook.at("timeoutSeconds");
    if timeout.as_int().is_some_and(|it| !(1..=30).contains(&it)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.push(timeout.invalid(detail));
    }
    for selector in ["namespaceSelector", "objectSelector"] {
        label_selector::validate(&webhook.at(selector), errors);
    }
    webhook_client::validate(&webhook.at("clientConfig"), errors);
    validate_conditions(webhook, conditions::compiled, errors);
    let again = webhook.at("reinvocationPolicy");
    checks::absent_or_one_of(&again, &["IfNeeded", "Never"], errors);
    if webhook.count("admissionReviewVersions") == 0 {
        let detail = "must specify one of v1, v1beta1";
        errors.push(webhook.at("admissionReviewVersions").required(detail));
    } else if !webhook
        .list("admissionReviewVersions")
        .iter()
        .any(|it| ["v1", "v1beta1"].contains(&it.as_str().unwrap_or("")))
    {
        let detail = "must include at least one of v1, v1beta1";
        errors.push(webhook.at("admissionReviewVersions").invalid(detail));
    }
}

pub fn validate_rule(rule: &Field<'_>, errors: &mut Errors) {
    for name in ["operations", "apiGroups", "apiVersions", "resources"] {
        if rule.count(name) == 0 {
            errors.push(rule.at(name).required(""));
        }
        let any = rule.list(name).iter().any(|it| it == "*");
        if any && rule.count(name) > 1 && name != "resources" {
            let detail = "if '*' is present, must not specify other";
            let what = match name {
                "operations" => "operations",
                "apiGroups" => "API groups",
                _ => "API versions",
            };
            errors.push(rule.at(name).invalid(format!("{detail} {what}")));
        }
    }
    validate_resources(rule, errors);
    for operation in rule.items("operations") {
        checks::one_of(&operation, &OPERATIONS, errors);
    }
    let scope = rule.at("scope");
    checks::absent_or_one_of(&scope, &["*", "Cluster", "Namespaced"], errors);
}

/// No resource may be named twice over.
fn validate_resources(rule: &Field<'_>, errors: &mut Errors) {
    let resources = rule.at("resources");
    let (mut wild_parts, mut wild_resources): (Vec<&str>, Vec<&str>) = Default::default();
    let mut has_plain = false;
    for item in rule.items("resources") {
        let text = item.as_text();
        let Some((resource, part)) = text.split_once('/') else {
            match text {
                "" => errors.push(item.required("")),
                _ => has_plain |= text != "*",
            }
            continue;
        };
        if wild_parts.contains(&resource) {
            let detail = format!("if '{resource}/*' is present, must not specify {text}");
            errors.push(item.invalid(detail));
        }
        if wild_resources.contains(&part) {
            let detail = format!("if '*/{part}' is present, must not specify {text}");
            errors.push(item.invalid(detail));
        }
        if part == "*" {
            wild_parts.push(resource);
        }
        if resource == "*" {
            wild_resources.push(part);
        }
    }
    let names = |wanted: &str| rule.list("resources").iter().any(|it| it == wanted);
    if rule.count("resources") > 1 && names("*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.push(resources.invalid(detail));
    }
    if names("*") && has_plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(resources.invalid(detail));
    }
}

/// Checks conditions with whoever compiles their expressions.
pub fn validate_conditions(
    of: &Field<'_>,
    compiled: impl Fn(&str) -> Result<Program, Problems>,
    errors: &mut Errors,
) {
    if of.count("matchConditions") > MATCH_CONDITIONS_MAX {
        return errors.push(of.at("matchConditions").too_many(MATCH_CONDITIONS_MAX));
    }
    let mut seen: Vec<&str> = Vec::new();
    for condition in of.items("matchConditions") {
        let name = condition.at("name");
        validate_expression(&condition.at("expression"), &compiled, errors);
        checks::named(&name, names::qualified_name, errors);
        let text = condition.text("name");
        if !text.is_empty() && seen.contains(&text) {
            errors.push(name.duplicate());
        }
        seen.push(text);
    }
}

/// An expression must be there, and must compile.
pub fn validate_expression(
    expression: &Field<'_>,
    compiled: impl Fn(&str) -> Result<Program, Problems>,
    errors: &mut Errors,
) {
    if expression.as_text().trim().is_empty() {
        errors.push(expression.required(""));
    } else if let Err(problems) = compiled(expression.as_text()) {
        // Only a fault of the whole has no place.
        errors.push(match problems.problems.iter().all(|problem| problem.line == 0) {
            true => expression.invalid("must evaluate to bool"),
            false => expression.invalid(format!("compilation failed: {problems}")),
        });
    }
}
