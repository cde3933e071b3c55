//! ResourceQuotas.
//!
//! Upstream: pkg/registry/core/resourcequota/strategy.go, ValidateResourceQuota

use serde_json::Value;

use crate::registry::amount;
use crate::registry::checks::{self, Errors};
use crate::registry::edit;
use crate::registry::field::Field;
use crate::registry::names;
use crate::registry::strategy::{Properties, Strategy};

const STANDARD: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
    "storage",
];
const COUNTED: [&str; 8] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

pub struct ResourceQuota;

impl Strategy for ResourceQuota {
    fn properties(&self) -> Properties {
        Properties { returns_deleted_object: true, ..Properties::WITH_STATUS }
    }

    fn validate(&self, quota: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(quota);
        let spec = root.at("spec");
        for (name, amount) in spec.entries("hard") {
            validate_name(&amount, name, &mut errors);
            amount::non_negative(&amount, &mut errors);
            let value = amount::read(amount.value);
            if COUNTED.contains(&name) && value.is_some_and(|it| !amount::is_integer(&it)) {
                errors.push(amount.invalid("must be an integer"));
            }
        }
        validate_scopes(&spec, &mut errors);
        errors
    }

    fn validate_update(&self, quota: &Value, old: &Value, subresource: &str) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(quota);
        if subresource == "status" {
            let status = root.at("status");
            for list in ["hard", "used"] {
                for (name, amount) in status.entries(list) {
                    validate_name(&amount, name, &mut errors);
                    amount::non_negative(&amount, &mut errors);
                }
            }
            return errors;
        }
        errors.extend(self.validate(quota));
        let spec = root.at("spec");
        let scopes = edit::at(old, &["spec", "scopes"]);
        checks::immutable(&spec.at("scopes"), scopes, &mut errors);
        errors
    }
}

fn validate_name(field: &Field<'_>, name: &str, errors: &mut Errors) {
    let faults = names::qualified_name(name);
    if !faults.is_empty() {
        errors.extend(faults.into_iter().map(|it| field.invalid_value(name, it)));
        return;
    }
    let huge = |name: &str| name.starts_with("hugepages-");
    let known =
        STANDARD.contains(&name) || huge(name) || name.strip_prefix("requests.").is_some_and(huge);
    if !name.contains('/') && !known {
        errors
            .push(field.invalid_value(name, "must be a standard resource type or fully qualified"));
        errors.push(field.invalid_value(name, "must be a standard resource for quota"));
    }
}

fn validate_scopes(spec: &Field<'_>, errors: &mut Errors) {
    let scopes = spec.at("scopes");
    let listed: Vec<&str> = spec.list("scopes").iter().filter_map(Value::as_str).collect();
    let hard: Vec<&str> =
        spec.map("hard").into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    for scope in &listed {
        if !SCOPES.contains(scope) {
            errors.push(scopes.invalid("unsupported scope"));
        }
        let pods_only = ["BestEffort"].contains(scope);
        if pods_only && hard.iter().any(|name| *name != "pods" && *name != "count/pods") {
            errors.push(scopes.invalid("unsupported scope applied to resource"));
        }
    }
    for (one, other) in [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")] {
        if listed.contains(&one) && listed.contains(&other) {
            errors.push(scopes.invalid("conflicting scopes"));
        }
    }
    let selector = spec.at("scopeSelector");
    for expression in selector.items("matchExpressions") {
        let name = expression.at("scopeName");
        if !SCOPES.contains(&name.as_text()) {
            errors.push(name.invalid("unsupported scope"));
        }
        let values = expression.at("values");
        let count = expression.count("values");
        match expression.text("operator") {
            "In" | "NotIn" if count == 0 => errors.push(values.required(
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            )),
            "Exists" | "DoesNotExist" if count > 0 => errors.push(values.invalid(
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.push(expression.at("operator").invalid("not a valid selector operator")),
        }
    }
}
