//! The rules of requests, limits and claims.
//!
//! Upstream: pkg/apis/core/validation/validation.go (ValidateContainerResourceRequirements)

use crate::quantity::Quantity;
use crate::registry::amount;
use crate::registry::checks::{self, Errors};
use crate::registry::field::Field;
use crate::registry::names;

const STANDARD: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Resources that Kubernetes itself knows.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_container_resource(name: &str) -> bool {
    STANDARD.contains(&name) || is_huge_pages(name)
}

/// Such as `nvidia.com/gpu`: whole numbers, never more requested than limited.
pub fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

fn validate_name(field: &Field<'_>, name: &str, errors: &mut Errors) {
    let faults = names::qualified_name(name);
    if !faults.is_empty() {
        errors.extend(faults.into_iter().map(|it| field.invalid_value(name, it)));
        return;
    }
    if !name.contains('/') {
        if !is_container_resource(name) {
            let detail = "must be a standard resource type or fully qualified";
            errors.push(field.invalid_value(name, detail));
            errors.push(field.invalid_value(name, "must be a standard resource for containers"));
        }
    } else if !is_native(name) && !is_extended(name) {
        let detail = "doesn't follow extended resource name standard";
        errors.push(field.invalid_value(name, detail));
    }
}

fn validate_amount(field: &Field<'_>, name: &str, errors: &mut Errors) {
    amount::non_negative(field, errors);
    if is_extended(name) && amount::read(field.value).is_some_and(|it| !amount::is_integer(&it)) {
        errors.push(field.invalid("must be an integer"));
    }
}

pub fn validate(container: &Field<'_>, spec: &Field<'_>, errors: &mut Errors) {
    let resources = container.at("resources");
    validate_amounts(&resources, errors);
    validate_claims(&resources, spec, errors);
}

fn validate_amounts(resources: &Field<'_>, errors: &mut Errors) {
    for (name, limit) in resources.entries("limits") {
        validate_name(&limit, name, errors);
        validate_amount(&limit, name, errors);
    }
    for (name, request) in resources.entries("requests") {
        validate_name(&request, name, errors);
        validate_amount(&request, name, errors);
        validate_request(resources, name, &request, errors);
    }
    let names = || resources.entries("limits").chain(resources.entries("requests"));
    let has = |wanted: fn(&str) -> bool| names().any(|(name, _)| wanted(name));
    if has(is_huge_pages) && !has(|name| name == "cpu" || name == "memory") {
        errors.push(resources.forbidden("HugePages require cpu or memory"));
    }
}

fn validate_request(resources: &Field<'_>, name: &str, request: &Field<'_>, errors: &mut Errors) {
    let overcommits = is_native(name) && !is_huge_pages(name);
    let limit = resources.key("limits", name);
    let Some(most) = amount::read(limit.value) else {
        if !overcommits {
            let detail = "Limit must be set for non overcommitable resources";
            errors.push(resources.at("limits").required(detail));
        }
        return;
    };
    let Some(wanted) = amount::read(request.value) else { return };
    let requests = resources.at("requests");
    if wanted != most && !overcommits {
        let detail = format!("must be equal to {name} limit of {most}");
        errors.push(requests.invalid_value(wanted.to_string(), detail));
    } else if wanted > most {
        let detail = format!("must be less than or equal to {name} limit of {most}");
        errors.push(requests.invalid_value(wanted.to_string(), detail));
    }
}

fn validate_claims(resources: &Field<'_>, spec: &Field<'_>, errors: &mut Errors) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for claim in resources.items("claims") {
        let name = claim.at("name");
        let known = spec.list("resourceClaims").iter().any(|it| it.get("name") == Some(name.value));
        let key = (claim.text("name"), claim.text("request"));
        if name.as_text().is_empty() {
            errors.push(name.required(""));
        } else if seen.contains(&key) {
            errors.push(claim.at("name").duplicate());
        } else if !known {
            errors.push(name.not_found());
        }
        seen.push(key);
    }
}

/// A pod may say what all its containers together may use.
pub fn validate_pod_level(spec: &Field<'_>, errors: &mut Errors) {
    let resources = spec.at("resources");
    if !resources.is_set() {
        return;
    }
    if resources.has("claims") {
        let detail = "claims cannot be set for Resources at pod-level";
        errors.push(resources.at("claims").forbidden(detail));
    }
    validate_amounts(&resources, errors);
    for name in ["cpu", "memory"] {
        let request = resources.key("requests", name);
        let Some(most) = amount::read(request.value) else { continue };
        let sum = sum_of(spec, "requests", name);
        if sum > most {
            errors.push(request.invalid(format!(
                "must be greater than or equal to aggregate container requests of {sum}"
            )));
        }
    }
}

fn sum_of(spec: &Field<'_>, list: &str, name: &str) -> Quantity {
    let mut sum = Quantity::ZERO;
    for container in spec.items("containers") {
        let resources = container.at("resources");
        if let Some(one) = amount::read(resources.key(list, name).value) {
            sum = sum.plus(&one);
        }
    }
    sum
}

/// What the sandbox itself costs.
pub fn validate_overhead(spec: &Field<'_>, errors: &mut Errors) {
    validate_fixed(spec, "overhead", errors);
}

/// A map of resources to amounts, and nothing to compare them with.
pub fn validate_fixed(parent: &Field<'_>, map: &str, errors: &mut Errors) {
    for (name, cost) in parent.entries(map) {
        validate_name(&cost, name, errors);
        validate_amount(&cost, name, errors);
    }
}

pub fn validate_resize_policy(container: &Field<'_>, spec: &Field<'_>, errors: &mut Errors) {
    let policies = container.at("resizePolicy");
    let mut seen: Vec<&str> = Vec::new();
    for policy in container.items("resizePolicy") {
        let resource = policy.at("resourceName");
        if seen.contains(&resource.as_text()) {
            errors.push(policy.duplicate());
        }
        seen.push(policy.text("resourceName"));
        if !["cpu", "memory"].contains(&resource.as_text()) {
            let error = policies.invalid_value(resource.value.clone(), "");
            errors.push(crate::field_error::FieldError::not_supported(
                error.path,
                error.value,
                &["cpu", "memory"],
            ));
        }
        checks::one_of(&policy.at("restartPolicy"), &["NotRequired", "RestartContainer"], errors);
        let restarts = policy.text("restartPolicy") != "NotRequired";
        if spec.text("restartPolicy") == "Never" && restarts {
            let detail = "must be 'NotRequired' when `restartPolicy` is 'Never'";
            errors.push(policies.invalid_value(policy.raw("restartPolicy").clone(), detail));
        }
    }
}
