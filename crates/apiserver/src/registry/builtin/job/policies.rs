//! The rules of what counts as failed and as done.
//!
//! Upstream: pkg/apis/batch/validation/validation.go (validatePodFailurePolicy and its kin)

use serde_json::Value;

use crate::registry::checks::{self, Errors};
use crate::registry::field::Field;
use crate::registry::names;

const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const PATTERNS_MAX: usize = 20;
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];

pub fn validate(spec: &Field<'_>, errors: &mut Errors) {
    let failure = spec.at("podFailurePolicy");
    if failure.is_set() {
        validate_failure(spec, &failure, errors);
    }
    let success = spec.at("successPolicy");
    if success.is_set() {
        validate_success(spec, &success, errors);
    }
    let replacement = spec.at("podReplacementPolicy");
    if failure.is_set() {
        checks::absent_or_one_of(&replacement, &["Failed"], errors);
    } else {
        checks::absent_or_one_of(&replacement, &["Failed", "TerminatingOrFailed"], errors);
    }
}

fn validate_failure(spec: &Field<'_>, policy: &Field<'_>, errors: &mut Errors) {
    let template = spec.at("template");
    let pod = template.at("spec");
    let containers = pod.list("containers").iter().chain(pod.list("initContainers"));
    let containers: Vec<&Value> = containers.filter_map(|it| it.get("name")).collect();
    if policy.count("rules") > RULES_MAX {
        errors.push(policy.at("rules").too_many(RULES_MAX));
    }
    for rule in policy.items("rules") {
        let action = rule.at("action");
        checks::one_of(&action, &ACTIONS, errors);
        if action.as_text() == "FailIndex" && !spec.has("backoffLimitPerIndex") {
            errors.push(action.invalid("requires the backoffLimitPerIndex to be set"));
        }
        let codes = rule.at("onExitCodes");
        if codes.is_set() {
            validate_exit_codes(&codes, &containers, errors);
        }
        validate_conditions(&rule, errors);
        match (codes.is_set(), rule.count("onPodConditions") > 0) {
            (true, true) => errors.push(
                rule.invalid("specifying both OnExitCodes and OnPodConditions is not supported"),
            ),
            (false, false) => errors.push(
                rule.invalid("specifying one of OnExitCodes and OnPodConditions is required"),
            ),
            _ => {}
        }
    }
}

fn validate_exit_codes(codes: &Field<'_>, containers: &[&Value], errors: &mut Errors) {
    let operator = codes.at("operator");
    checks::one_of(&operator, &["In", "NotIn"], errors);
    let container = codes.at("containerName");
    if container.is_set() && !containers.contains(&container.value) {
        errors
            .push(container.invalid(
                "must be one of the container or initContainer names in the pod template",
            ));
    }
    let values = codes.at("values");
    if codes.count("values") == 0 {
        errors.push(values.invalid("at least one value is required"));
    }
    if codes.count("values") > EXIT_CODES_MAX {
        errors.push(values.too_many(EXIT_CODES_MAX));
    }
    let mut seen: Vec<i64> = Vec::new();
    for value in codes.items("values") {
        let code = value.as_int().unwrap_or(0);
        if operator.as_text() == "In" && code == 0 {
            errors.push(value.invalid("must not be 0 for the In operator"));
        }
        if seen.contains(&code) {
            errors.push(value.duplicate());
        }
        if seen.last().is_some_and(|last| *last > code) {
            errors.push(values.invalid("must be ordered"));
        }
        seen.push(code);
    }
}

fn validate_conditions(rule: &Field<'_>, errors: &mut Errors) {
    if rule.count("onPodConditions") > PATTERNS_MAX {
        errors.push(rule.at("onPodConditions").too_many(PATTERNS_MAX));
    }
    for pattern in rule.items("onPodConditions") {
        let kind = pattern.at("type");
        checks::faults(&kind, names::qualified_name(kind.as_text()), errors);
        checks::one_of(&pattern.at("status"), &["False", "True", "Unknown"], errors);
    }
}

fn validate_success(spec: &Field<'_>, policy: &Field<'_>, errors: &mut Errors) {
    if spec.text("completionMode") != "Indexed" {
        errors.push(policy.invalid("requires indexed completion mode"));
        return;
    }
    let rules = policy.at("rules");
    match policy.count("rules") {
        0 => {
            errors.push(rules.required(
                "at least one rules must be specified when the successPolicy is specified",
            ))
        }
        1..=RULES_MAX => {}
        _ => errors.push(rules.too_many(RULES_MAX)),
    }
    for rule in policy.items("rules") {
        if !rule.has("succeededIndexes") && !rule.has("succeededCount") {
            errors.push(
                rule.required(
                    "at least one of succeededCount or succeededIndexes must be specified",
                ),
            );
        }
        let count = rule.at("succeededCount");
        checks::non_negative(&count, errors);
        let completions = spec.int("completions").unwrap_or(0);
        if count.as_int().is_some_and(|it| it > completions) {
            errors.push(count.invalid(format!(
                "must be less than or equal to {completions} (the number of specified completions)"
            )));
        }
    }
}
