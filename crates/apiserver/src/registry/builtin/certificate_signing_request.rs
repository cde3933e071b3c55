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

/// Who asks, as the server knows it; what the client says of itself does not count.
pub fn stamp_requester(request: &mut Value, requester: &Value) {
    let Some(spec) = object(request, "spec") else { return };
    for name in ["username", "uid", "groups", "extra"] {
        edit::copy_field(spec, requester, name);
    }
}

impl Strategy for CertificateSigningRequest {
    fn properties(&self) -> Properties {
        Properties { name_rule: NameRule::PathSegment, ..Properties::WITH_STATUS }
    }

    /// The request itself never changes; each subresource has its part of the status.
    fn prepare_update(&self, request: &mut Value, old: &Value, context: &Context<'_>) {
        edit::copy_field(request, old, "spec");
        if context.subresource == "status" {
            let kept = |it: &Value| -> Vec<Value> {
                let decided =
                    |it: &&Value| ["Approved", "Denied"].contains(&edit::text(it, &["type"]));
                edit::list(it, &["status", "conditions"]).iter().filter(decided).cloned().collect()
            };
            let mut conditions = kept(old);
            let given = edit::list(request, &["status", "conditions"]).to_vec();
            conditions.extend(
                given
                    .into_iter()
                    .filter(|it| !["Approved", "Denied"].contains(&edit::text(it, &["type"]))),
            );
            if let Some(status) = object(request, "status")
                && !conditions.is_empty()
            {
                edit::set(status, "conditions", conditions);
            }
        }
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
