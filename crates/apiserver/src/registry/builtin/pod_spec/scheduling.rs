//! The rules of affinity, tolerations and topology spread.
//!
//! Upstream: pkg/apis/core/validation/validation.go (validateAffinity and its kin)

use crate::field_error::FieldError;
use crate::registry::checks::{self, Errors};
use crate::registry::field::Field;
use crate::registry::label_selector::{self, Values};
use crate::registry::names;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
pub const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub fn validate_affinity(affinity: &Field<'_>, errors: &mut Errors) {
    let nodes = affinity.at("nodeAffinity");
    let required = nodes.at(REQUIRED);
    if required.is_set() {
        validate_node_selector(&required, errors);
    }
    for term in nodes.items(PREFERRED) {
        validate_weight(&term, errors);
        validate_node_term(&term.at("preference"), Values::Any, errors);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.at(kind);
        for term in pods.items(REQUIRED) {
            validate_pod_term(&term, errors);
        }
        for term in pods.items(PREFERRED) {
            validate_weight(&term, errors);
            validate_pod_term(&term.at("podAffinityTerm"), errors);
        }
    }
}

fn validate_weight(term: &Field<'_>, errors: &mut Errors) {
    let weight = term.int("weight").unwrap_or(0);
    if !(1..=100).contains(&weight) {
        let detail = "must be in the range 1-100";
        errors.push(term.at("weight").invalid_value(weight, detail));
    }
}

/// A `NodeSelector`: also of persistent volumes.
pub fn validate_node_selector(selector: &Field<'_>, errors: &mut Errors) {
    if selector.count("nodeSelectorTerms") == 0 {
        let detail = "must have at least one node selector term";
        errors.push(selector.at("nodeSelectorTerms").required(detail));
    }
    for term in selector.items("nodeSelectorTerms") {
        validate_node_term(&term, Values::Checked, errors);
    }
}

fn validate_node_term(term: &Field<'_>, values: Values, errors: &mut Errors) {
    for expression in term.items("matchExpressions") {
        validate_node_expression(&expression, values, errors);
    }
    for expression in term.items("matchFields") {
        let operator = expression.at("operator");
        if !["In", "NotIn"].contains(&operator.as_text()) {
            errors.push(operator.invalid("not a valid selector operator"));
        } else if expression.count("values") != 1 {
            errors.push(expression.at("values").required(
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            ));
        }
        if expression.text("key") != "metadata.name" {
            errors.push(expression.at("key").invalid("not a valid field selector key"));
            continue;
        }
        for value in expression.items("values") {
            checks::faults(&value, names::subdomain(value.as_text()), errors);
        }
    }
}

fn validate_node_expression(expression: &Field<'_>, values: Values, errors: &mut Errors) {
    let given = expression.at("values");
    let count = expression.count("values");
    match expression.text("operator") {
        "In" | "NotIn" if count == 0 => {
            errors.push(given.required("must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if count > 0 => errors.push(
            given.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'"),
        ),
        "Gt" | "Lt" if count != 1 => errors
            .push(given.required("must be specified single value when `operator` is 'Lt' or 'Gt'")),
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        _ => errors.push(expression.at("operator").invalid("not a valid selector operator")),
    }
    checks::label_name(&expression.at("key"), errors);
    if values == Values::Checked {
        for value in expression.items("values") {
            checks::faults(&value, names::label_value(value.as_text()), errors);
        }
    }
}

fn validate_pod_term(term: &Field<'_>, errors: &mut Errors) {
    label_selector::validate(&term.at("labelSelector"), errors);
    label_selector::validate(&term.at("namespaceSelector"), errors);
    for namespace in term.list("namespaces") {
        let name = namespace.as_str().unwrap_or("");
        for fault in names::label(name) {
            errors.push(term.at("namespace").invalid_value(name, fault));
        }
    }
    validate_label_keys(term, errors);
    let key = term.at("topologyKey");
    if key.as_text().is_empty() {
        errors.push(key.required("can not be empty"));
    }
    checks::faults(&key, names::qualified_name(key.as_text()), errors);
}

fn validate_label_keys(term: &Field<'_>, errors: &mut Errors) {
    for name in ["matchLabelKeys", "mismatchLabelKeys"] {
        if term.count(name) > 0 && !term.has("labelSelector") {
            let detail = "must not be specified when labelSelector is not set";
            errors.push(term.at(name).forbidden(detail));
        }
        for key in term.items(name) {
            checks::label_name(&key, errors);
        }
    }
    for key in term.items("matchLabelKeys") {
        if term.list("mismatchLabelKeys").contains(key.value) {
            errors.push(key.invalid("exists in both matchLabelKeys and mismatchLabelKeys"));
        }
    }
}

pub fn validate_tolerations(spec: &Field<'_>, errors: &mut Errors) {
    for toleration in spec.items("tolerations") {
        validate_toleration(&toleration, errors);
    }
}

pub fn validate_toleration(toleration: &Field<'_>, errors: &mut Errors) {
    let key = toleration.at("key");
    checks::absent_or_named(&key, names::qualified_name, errors);
    let operator = toleration.at("operator");
    if key.as_text().is_empty() && operator.as_text() != "Exists" {
        errors.push(operator.invalid_value(
            operator.as_text(),
            "operator must be Exists when `key` is empty, which means \"match all values and all \
             keys\"",
        ));
    }
    let effect = toleration.at("effect");
    if toleration.has("tolerationSeconds") && effect.as_text() != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(effect.invalid_value(effect.as_text(), detail));
    }
    let value = toleration.text("value");
    match operator.as_text() {
        "" | "Equal" => {
            let faults = names::label_value(value);
            if !faults.is_empty() {
                errors.push(operator.invalid_value(value, faults.join(";")));
            }
        }
        "Exists" if !value.is_empty() => {
            let detail = "value must be empty when `operator` is 'Exists'";
            errors.push(operator.invalid_value(value, detail));
        }
        "Exists" | "Gt" | "Lt" => {}
        _ => errors.push(operator.not_supported(&["Equal", "Exists"])),
    }
    if !effect.as_text().is_empty() && !EFFECTS.contains(&effect.as_text()) {
        errors.push(effect.not_supported(&EFFECTS));
    }
}

pub fn validate_spread(spec: &Field<'_>, errors: &mut Errors) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for constraint in spec.items("topologySpreadConstraints") {
        validate_constraint(&constraint, errors);
        let pair = (constraint.text("topologyKey"), constraint.text("whenUnsatisfiable"));
        if seen.contains(&pair) {
            let field = constraint.at("{topologyKey, whenUnsatisfiable}");
            let shown = format!("{{{}, {}}}", pair.0, pair.1);
            errors.push(FieldError::duplicate(field.path(), shown));
        }
        seen.push(pair);
    }
}

fn validate_constraint(constraint: &Field<'_>, errors: &mut Errors) {
    let skew = constraint.at("maxSkew");
    let value = skew.as_int().unwrap_or(0);
    if value <= 0 {
        errors.push(skew.invalid_value(value, checks::NOT_POSITIVE));
    }
    let key = constraint.at("topologyKey");
    if key.as_text().is_empty() {
        errors.push(key.required("can not be empty"));
    } else {
        checks::label_name(&key, errors);
    }
    let action = constraint.at("whenUnsatisfiable");
    if !["DoNotSchedule", "ScheduleAnyway"].contains(&action.as_text()) {
        errors.push(action.not_supported(&["DoNotSchedule", "ScheduleAnyway"]));
    }
    let domains = constraint.at("minDomains");
    if let Some(value) = domains.as_int() {
        if value <= 0 {
            errors.push(domains.invalid(checks::NOT_POSITIVE));
        }
        if action.as_text() != "DoNotSchedule" {
            let detail = format!(
                "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}",
                action.as_text()
            );
            errors.push(domains.invalid(detail));
        }
    }
    for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        checks::absent_or_one_of(&constraint.at(policy), &["Honor", "Ignore"], errors);
    }
    if constraint.count("matchLabelKeys") > 0 && !constraint.has("labelSelector") {
        let detail = "must not be specified when labelSelector is not set";
        errors.push(constraint.at("matchLabelKeys").forbidden(detail));
    }
    for key in constraint.items("matchLabelKeys") {
        checks::label_name(&key, errors);
    }
    label_selector::validate(&constraint.at("labelSelector"), errors);
}
