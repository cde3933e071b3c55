//! The rules of a pod's specification as a whole.
//!
//! Upstream: pkg/apis/core/validation/validation.go (ValidatePodSpec)

use serde_json::Value;

use super::{Within, containers, resources, scheduling, security, volumes};
use crate::registry::checks::{self, Errors};
use crate::registry::field::Field;
use crate::registry::names;

const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_BYTES_MAX: usize = 2048;

/// `metadata` is the pod's, or null in a template.
pub fn validate(spec: &Field<'_>, metadata: &Value, within: Within, errors: &mut Errors) {
    if !spec.has("terminationGracePeriodSeconds") {
        errors.push(spec.at("terminationGracePeriodSeconds").required(""));
    }
    let volumes = volumes::validate(spec, metadata, errors);
    validate_claims(spec, errors);
    containers::validate(spec, &volumes, errors);
    resources::validate_pod_level(spec, errors);
    validate_host_network(spec, within, errors);
    let restart = spec.at("restartPolicy");
    checks::one_of(&restart, &["Always", "OnFailure", "Never"], errors);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    checks::one_of(&spec.at("dnsPolicy"), &policies, errors);
    checks::labels(&spec.at("nodeSelector"), errors);
    security::validate_pod(spec, errors);
    scheduling::validate_affinity(&spec.at("affinity"), errors);
    validate_dns(spec, errors);
    validate_gates(spec, errors);
    scheduling::validate_spread(spec, errors);
    security::validate_host_users(spec, errors);
    validate_references(spec, errors);
    scheduling::validate_tolerations(spec, errors);
    validate_host_aliases(spec, errors);
    validate_rest(spec, errors);
    if within == Within::Pod {
        validate_pod_only(spec, errors);
    }
}

fn validate_claims(spec: &Field<'_>, errors: &mut Errors) {
    let mut seen: Vec<&str> = Vec::new();
    for claim in spec.items("resourceClaims") {
        let name = claim.at("name");
        if seen.contains(&name.as_text()) && !name.as_text().is_empty() {
            errors.push(name.duplicate());
        } else {
            checks::named(&name, names::label, errors);
        }
        seen.push(claim.text("name"));
        match (claim.has("resourceClaimName"), claim.has("resourceClaimTemplateName")) {
            (true, true) => errors.push(claim.invalid(
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be \
                 specified",
            )),
            (false, false) => {
                errors.push(claim.invalid(
                    "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
                ))
            }
            _ => {}
        }
        for name in ["resourceClaimName", "resourceClaimTemplateName"] {
            checks::absent_or_named(&claim.at(name), names::subdomain, errors);
        }
    }
}

/// On the host's network a container's port is the host's.
fn validate_host_network(spec: &Field<'_>, within: Within, errors: &mut Errors) {
    if !spec.flag("hostNetwork") {
        return;
    }
    for container in spec.items("containers") {
        for port in container.items("ports") {
            let host = port.int("hostPort").unwrap_or(0);
            let differs = host != port.int("containerPort").unwrap_or(0);
            if differs && (within == Within::Pod || host != 0) {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.push(port.at("hostPort").invalid_value(host, detail));
            }
        }
    }
}

fn validate_dns(spec: &Field<'_>, errors: &mut Errors) {
    let config = spec.at("dnsConfig");
    if spec.text("dnsPolicy") == "None" {
        if !config.is_set() {
            let detail = "must provide `dnsConfig` when `dnsPolicy` is None";
            return errors.push(config.required(detail));
        }
        if config.count("nameservers") == 0 {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.push(config.at("nameservers").required(detail));
        }
    }
    if config.count("nameservers") > NAMESERVERS_MAX {
        let detail = format!("must not have more than {NAMESERVERS_MAX} nameservers");
        errors.push(config.at("nameservers").invalid(detail));
    }
    for server in config.items("nameservers") {
        checks::address(&server, errors);
    }
    if config.count("searches") > SEARCHES_MAX {
        let detail = format!("must not have more than {SEARCHES_MAX} search paths");
        errors.push(config.at("searches").invalid(detail));
    }
    let bytes: usize = config.items("searches").map(|it| it.as_text().len() + 1).sum();
    if bytes > SEARCH_BYTES_MAX + 1 {
        errors.push(config.at("searches").invalid(format!(
            "must not have more than {SEARCH_BYTES_MAX} characters (including spaces) in the \
             search list"
        )));
    }
    for search in config.items("searches") {
        let name = search.as_text();
        if name != "." {
            let name = name.strip_suffix('.').unwrap_or(name);
            checks::faults(&search, names::subdomain_with_underscore(name), errors);
        }
    }
    for option in config.items("options") {
        if option.text("name").is_empty() {
            errors.push(option.required("must not be empty"));
        }
    }
}

fn validate_gates(spec: &Field<'_>, errors: &mut Errors) {
    for gate in spec.items("readinessGates") {
        checks::label_name(&gate.at("conditionType"), errors);
    }
    let mut seen: Vec<&str> = Vec::new();
    for gate in spec.items("schedulingGates") {
        let name = gate.text("name");
        for fault in names::qualified_name(name) {
            errors.push(gate.invalid_value(name, fault));
        }
        if seen.contains(&name) {
            let path = gate.path();
            errors.push(crate::field_error::FieldError::duplicate(path, name));
        }
        seen.push(name);
    }
}

fn validate_references(spec: &Field<'_>, errors: &mut Errors) {
    checks::absent_or_named(&spec.at("serviceAccountName"), names::subdomain, errors);
    checks::absent_or_named(&spec.at("nodeName"), names::subdomain, errors);
    checks::in_range(&spec.at("activeDeadlineSeconds"), 1, i64::from(i32::MAX), errors);
    checks::absent_or_named(&spec.at("hostname"), names::label, errors);
    checks::absent_or_named(&spec.at("subdomain"), names::label, errors);
}

fn validate_host_aliases(spec: &Field<'_>, errors: &mut Errors) {
    for alias in spec.items("hostAliases") {
        checks::address(&alias.at("ip"), errors);
        for name in alias.items("hostnames") {
            checks::faults(&name, names::subdomain(name.as_text()), errors);
        }
    }
}

fn validate_rest(spec: &Field<'_>, errors: &mut Errors) {
    checks::absent_or_named(&spec.at("priorityClassName"), names::subdomain, errors);
    let class = spec.at("runtimeClassName");
    if class.is_set() {
        checks::faults(&class, names::subdomain(class.as_text()), errors);
    }
    let preemption = spec.at("preemptionPolicy");
    checks::absent_or_one_of(&preemption, &["PreemptLowerPriority", "Never"], errors);
    resources::validate_overhead(spec, errors);
    let os = spec.at("os");
    if os.is_set() {
        checks::one_of(&os.at("name"), &["linux", "windows"], errors);
    }
}

/// Images with spaces around them were once allowed in templates.
fn validate_pod_only(spec: &Field<'_>, errors: &mut Errors) {
    if spec.text("serviceAccountName").is_empty() {
        for volume in spec.items("volumes") {
            let projected = volume.at("projected");
            for source in projected.items("sources") {
                let token = source.at("serviceAccountToken");
                if token.is_set() {
                    let detail = "must not be specified when serviceAccountName is not set";
                    errors.push(token.forbidden(detail));
                }
            }
        }
    }
    for kind in ["containers", "initContainers", "ephemeralContainers"] {
        for container in spec.items(kind) {
            let image = container.at("image");
            if image.as_text().trim() != image.as_text() {
                errors.push(image.invalid("must not have leading or trailing whitespace"));
            }
        }
    }
}
