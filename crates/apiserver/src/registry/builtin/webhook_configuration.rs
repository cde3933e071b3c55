//! Webhook configurations and admission policies with their bindings.
//!
//! Upstream: pkg/apis/admissionregistration/{v1/defaults.go,validation/validation.go}

use serde_json::{Value, json};

use crate::registry::base64;
use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, each_mut, object, set_default};
use crate::registry::field::Field;
use crate::registry::label_selector;
use crate::registry::names;
use crate::registry::strategy::{Properties, Strategy};

const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const PROPERTIES: Properties =
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
    validate_client(&webhook.at("clientConfig"), errors);
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

fn validate_rule(rule: &Field<'_>, errors: &mut Errors) {
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
    for operation in rule.items("operations") {
        checks::one_of(&operation, &OPERATIONS, errors);
    }
    let scope = rule.at("scope");
    checks::absent_or_one_of(&scope, &["*", "Cluster", "Namespaced"], errors);
}

fn validate_client(client: &Field<'_>, errors: &mut Errors) {
    let service = client.at("service");
    match (client.has("url"), service.is_set()) {
        (true, false) => {
            let url = client.at("url");
            if !url.as_text().starts_with("https://") {
                let detail = "'https' is the only allowed URL scheme; desired format: \
                              https://host[/path]";
                errors.push(url.invalid(detail));
            }
        }
        (false, true) => {
            checks::present(&service.at("name"), errors);
            checks::present(&service.at("namespace"), errors);
            let port = service.at("port");
            checks::in_range(&port, 1, 65535, errors);
            let path = service.at("path");
            if path.is_set() && !path.as_text().starts_with('/') {
                errors.push(path.invalid("must start with a '/'"));
            }
        }
        _ => errors.push(client.required("exactly one of url or service is required")),
    }
    let bundle = client.at("caBundle");
    if bundle.is_set() && base64::decode(bundle.as_text()).is_none() {
        errors.push(bundle.invalid("unable to load root certificates"));
    }
}

/// Mutating and validating policies; their expressions are compiled elsewhere.
pub struct AdmissionPolicy;

impl Strategy for AdmissionPolicy {
    fn properties(&self) -> Properties {
        Properties { has_status: true, ..PROPERTIES }
    }

    fn default(&self, policy: &mut Value) {
        let Some(spec) = object(policy, "spec") else { return };
        set_default(spec, "failurePolicy", "Fail");
        if let Some(constraints) = edit::at_mut(spec, &["matchConstraints"]) {
            set_default(constraints, "matchPolicy", "Equivalent");
            set_default(constraints, "namespaceSelector", json!({}));
            set_default(constraints, "objectSelector", json!({}));
            for rule in each_mut(constraints, &["resourceRules"]) {
                set_default(rule, "scope", "*");
            }
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
        for rule in constraints.items("resourceRules") {
            validate_rule(&rule, &mut errors);
        }
        checks::absent_or_one_of(&spec.at("failurePolicy"), &["Fail", "Ignore"], &mut errors);
        for validation in spec.items("validations") {
            let expression = validation.at("expression");
            if expression.as_text().trim().is_empty() {
                errors.push(expression.required("expression is not specified"));
            }
        }
        errors
    }
}

pub struct AdmissionPolicyBinding;

impl Strategy for AdmissionPolicyBinding {
    fn properties(&self) -> Properties {
        PROPERTIES
    }

    fn default(&self, binding: &mut Value) {
        if let Some(matched) = edit::at_mut(binding, &["spec", "matchResources"]) {
            set_default(matched, "matchPolicy", "Equivalent");
            set_default(matched, "namespaceSelector", json!({}));
            set_default(matched, "objectSelector", json!({}));
        }
    }

    fn validate(&self, binding: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(binding);
        let spec = root.at("spec");
        checks::named(&spec.at("policyName"), names::subdomain, &mut errors);
        if root.text("kind") == "ValidatingAdmissionPolicyBinding"
            && spec.count("validationActions") == 0
        {
            errors.push(spec.at("validationActions").required(""));
        }
        for action in spec.items("validationActions") {
            checks::one_of(&action, &["Audit", "Deny", "Warn"], &mut errors);
        }
        errors
    }
}
