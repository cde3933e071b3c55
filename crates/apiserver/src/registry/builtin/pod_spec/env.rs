//! The rules of environment variables.

use crate::registry::checks::{self, Errors};
use crate::registry::field::Field;
use crate::registry::names;

const SOURCES: [&str; 5] =
    ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
pub const VOLUME_FIELDS: [&str; 5] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];
/// All that a downward reference can mean, before it is known what may be used where.
const CONVERTIBLE: [&str; 13] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const BYTE_DIVISORS: [&str; 14] =
    ["0", "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

pub fn validate(container: &Field<'_>, errors: &mut Errors) {
    for variable in container.items("env") {
        checks::named(&variable.at("name"), names::env_name, errors);
        if variable.has("valueFrom") {
            validate_source(&variable, errors);
        }
    }
    for source in container.items("envFrom") {
        validate_bulk(container, &source, errors);
    }
}

fn validate_source(variable: &Field<'_>, errors: &mut Errors) {
    let source = variable.at("valueFrom");
    let field = source.at("fieldRef");
    if field.is_set() {
        validate_field_reference(&field, &FIELDS, errors);
    }
    let resource = source.at("resourceFieldRef");
    if resource.is_set() {
        validate_resource_reference(&resource, errors);
    }
    for name in ["configMapKeyRef", "secretKeyRef"] {
        let reference = source.at(name);
        if reference.is_set() {
            validate_key_reference(&reference, errors);
        }
    }
    let count = SOURCES.iter().filter(|name| source.has(name)).count();
    let detail = match count {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
             `secretKeyRef` or `fileKeyRef`"
        }
        _ if !variable.text("value").is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errors.push(source.invalid_value("", detail));
}

fn validate_key_reference(reference: &Field<'_>, errors: &mut Errors) {
    let name = reference.at("name");
    checks::faults(&name, names::subdomain(name.as_text()), errors);
    checks::named(&reference.at("key"), names::config_key, errors);
}

/// `metadata.name`, or `metadata.labels['key']`.
pub fn validate_field_reference(reference: &Field<'_>, allowed: &[&str], errors: &mut Errors) {
    let path = reference.at("fieldPath");
    if reference.text("apiVersion").is_empty() {
        return errors.push(reference.at("apiVersion").required(""));
    }
    if path.as_text().is_empty() {
        return errors.push(path.required(""));
    }
    let text = path.as_text();
    let subscript = text.strip_suffix("']").and_then(|rest| rest.split_once("['"));
    match subscript {
        Some(("metadata.annotations", key)) => {
            let faults = names::qualified_name(&key.to_lowercase());
            errors.extend(faults.into_iter().map(|it| reference.invalid_value(key, it)));
        }
        Some(("metadata.labels", key)) => {
            let faults = names::qualified_name(key);
            errors.extend(faults.into_iter().map(|it| reference.invalid_value(key, it)));
        }
        Some((path, _)) => {
            errors.push(reference.invalid_value(path, "does not support subscript"));
        }
        None if allowed.contains(&text) => {}
        None if CONVERTIBLE.contains(&text) => errors.push(path.not_supported(allowed)),
        None => {
            let detail = format!("error converting fieldPath: field label not supported: {text}");
            errors.push(path.invalid(detail));
        }
    }
}

pub fn validate_resource_reference(reference: &Field<'_>, errors: &mut Errors) {
    let resource = reference.at("resource");
    let name = resource.as_text();
    let huge = name.starts_with("limits.hugepages-") || name.starts_with("requests.hugepages-");
    if name.is_empty() {
        errors.push(resource.required(""));
    } else if !RESOURCES.contains(&name) && !huge {
        errors.push(resource.not_supported(&RESOURCES));
    }
    let divisor = reference.text("divisor");
    let (known, what) = match name.split_once('.').map(|(_, rest)| rest) {
        Some("cpu") => {
            let known = ["", "0", "1", "1m"].contains(&divisor);
            (known, "only divisor's values 1m and 1 are supported with the cpu resource")
        }
        Some("memory") => (
            divisor.is_empty() || BYTE_DIVISORS.contains(&divisor),
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are \
             supported with the memory resource",
        ),
        Some("ephemeral-storage") => (
            divisor.is_empty() || BYTE_DIVISORS.contains(&divisor),
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are \
             supported with the local ephemeral storage resource",
        ),
        _ => return,
    };
    if !known {
        errors.push(reference.at("divisor").invalid_value(name, what));
    }
}

/// Upstream names the list, not the element, when it misses a source.
fn validate_bulk(container: &Field<'_>, source: &Field<'_>, errors: &mut Errors) {
    checks::absent_or_named(&source.at("prefix"), names::env_name, errors);
    let mut count = 0;
    for name in ["configMapRef", "secretRef"] {
        let reference = source.at(name);
        if reference.is_set() {
            count += 1;
            checks::named(&reference.at("name"), names::subdomain, errors);
        }
    }
    let detail = match count {
        0 => "must specify one of: `configMapRef` or `secretRef`",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    errors.push(container.at("envFrom").invalid_value("", detail));
}
