//! CertificateSigningRequests.
//!
//! Upstream: pkg/registry/certificates/certificates/strategy.go, pkg/apis/certificates/validation

use serde_json::Value;

use crate::registry::base64;
use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, object};
use crate::registry::field::Field;
use crate::registry::names::{self, NameRule};
use crate::registry::strategy::{Context, Properties, Strategy};

const EXPIRATION_SECONDS_MIN: i64 = 600;
const SIGNER_BYTES_MAX: usize = 571;

pub struct CertificateSigningRequest;

/// Conditions that, once there, stay.
const LASTING: [&str; 3] = ["Approved", "Denied", "Failed"];
const DECISIONS: [&str; 2] = ["Approved", "Denied"];

/// Who asks, as the server knows it; what the client says of itself does not count.
fn stamp_requester(request: &mut Value, requester: &Value) {
    let Some(spec) = object(request, "spec") else { return };
    for name in ["username", "uid", "groups", "extra"] {
        edit::copy_field(spec, requester, name);
    }
}

fn is_decision(condition: &Value) -> bool {
    DECISIONS.contains(&edit::text(condition, &["type"]))
}

/// The old status with the conditions of the new one.
fn take_conditions(request: &mut Value, old: &Value) {
    let conditions = edit::list(request, &["status", "conditions"]).to_vec();
    edit::copy_field(request, old, "status");
    let Some(status) = object(request, "status") else { return };
    match conditions.is_empty() {
        true => {
            edit::remove(status, "conditions");
        }
        false => edit::set(status, "conditions", conditions),
    }
}

/// Decisions are made by another subresource: those there were are kept.
fn keep_decisions(request: &mut Value, old: &Value) {
    let before = edit::list(old, &["status", "conditions"]).iter();
    let mut conditions: Vec<Value> = before.filter(|it| is_decision(it)).cloned().collect();
    let given = edit::list(request, &["status", "conditions"]).iter();
    conditions.extend(given.filter(|it| !is_decision(it)).cloned());
    if let Some(status) = object(request, "status")
        && !conditions.is_empty()
    {
        edit::set(status, "conditions", conditions);
    }
}

/// Conditions say when they came to be.
fn set_times(request: &mut Value, old: &Value, now: &str) {
    let before = edit::list(old, &["status", "conditions"]);
    for condition in edit::each_mut(request, &["status", "conditions"]) {
        edit::set_default(condition, "lastUpdateTime", now);
        let same = |it: &&Value| {
            it.get("type") == condition.get("type") && it.get("status") == condition.get("status")
        };
        let since = before.iter().find(same).map_or(now, |it| {
            match edit::text(it, &["lastTransitionTime"]) {
                "" => now,
                since => since,
            }
        });
        edit::set_default(condition, "lastTransitionTime", since);
    }
}

impl Strategy for CertificateSigningRequest {
    fn properties(&self) -> Properties {
        Properties { name_rule: NameRule::PathSegment, ..Properties::WITH_STATUS }
    }

    fn prepare_create(&self, request: &mut Value, context: &Context<'_>) {
        if let Some(requester) = context.requester {
            stamp_requester(request, &requester.to_info());
        }
    }

    /// The request itself never changes; each subresource has its part of the status.
    fn prepare_update(&self, request: &mut Value, old: &Value, context: &Context<'_>) {
        edit::copy_field(request, old, "spec");
        match context.subresource {
            "approval" => take_conditions(request, old),
            "status" => keep_decisions(request, old),
            _ => return,
        }
        set_times(request, old, context.now);
    }

    fn validate(&self, request: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(request);
        let spec = root.at("spec");
        let pem = spec.at("request");
        let bytes = base64::decode(pem.as_text()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        if !text.contains("-----BEGIN CERTIFICATE REQUEST-----") {
            let detail = "PEM block type must be CERTIFICATE REQUEST";
            errors.push(pem.invalid(detail));
        }
        if spec.count("usages") == 0 {
            errors.push(spec.at("usages").required(""));
        }
        let mut seen: Vec<&Value> = Vec::new();
        for usage in spec.items("usages") {
            if seen.contains(&usage.value) {
                errors.push(usage.duplicate());
            }
            seen.push(usage.value);
        }
        validate_signer(&spec.at("signerName"), &mut errors);
        let expiration = spec.at("expirationSeconds");
        if expiration.as_int().is_some_and(|it| it < EXPIRATION_SECONDS_MIN) {
            let detail =
                format!("may not specify a duration less than {EXPIRATION_SECONDS_MIN} seconds");
            errors.push(expiration.invalid(detail));
        }
        errors
    }

    fn validate_update(&self, request: &Value, old: &Value, subresource: &str) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(request);
        let status = root.at("status");
        let mut seen: Vec<&str> = Vec::new();
        for condition in status.items("conditions") {
            let kind = condition.at("type");
            checks::present(&kind, &mut errors);
            checks::one_of(&condition.at("status"), &["True"], &mut errors);
            if seen.contains(&kind.as_text()) {
                errors.push(kind.duplicate());
            }
            seen.push(condition.text("type"));
        }
        if seen.contains(&"Approved") && seen.contains(&"Denied") {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.push(status.at("conditions").invalid(detail));
        }
        for condition in edit::list(old, &["status", "conditions"]) {
            let kind = edit::text(condition, &["type"]);
            if LASTING.contains(&kind) && !seen.contains(&kind) {
                let detail = format!("updates may not remove a condition of type {kind:?}");
                errors.push(status.at("conditions").forbidden(detail));
            }
        }
        if subresource == "status" {
            let certificate = edit::at(old, &["status", "certificate"]);
            if !certificate.is_null() && status.raw("certificate") != certificate {
                errors.push(
                    status.at("certificate").forbidden("updates may not modify a set certificate"),
                );
            }
        }
        errors
    }
}

/// `example.com/path`, or `namespace/name` of an issuer.
fn validate_signer(signer: &Field<'_>, errors: &mut Errors) {
    let text = signer.as_text();
    if text.is_empty() {
        return errors.push(signer.required(""));
    }
    match text.split_once('/') {
        Some((domain, path)) if !path.is_empty() => {
            if !domain.contains('.') {
                let detail = "should be a domain with at least two segments separated by dots";
                errors.push(signer.invalid_value(domain, detail));
            } else {
                let faults = names::subdomain(domain);
                errors.extend(faults.into_iter().map(|it| signer.invalid_value(domain, it)));
            }
        }
        _ => errors.push(signer.invalid(
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        )),
    }
    if text.len() > SIGNER_BYTES_MAX {
        errors.push(signer.too_long(SIGNER_BYTES_MAX));
    }
}
