//! `clientConfig`: where a webhook is, the same for admission and for conversion.
//!
//! Upstream: apiserver/pkg/util/webhook/validation.go

use crate::registry::base64;
use crate::registry::checks::{self, Errors};
use crate::registry::field::Field;
use crate::registry::names;
use crate::webhooks::trust;

/// What is wrong with a `caBundle`.
pub const NO_BUNDLE: &str = "unable to load root certificates: unable to parse bytes as PEM block";
const FORM: &str = "; desired format: https://host[/path]";

pub fn validate(client: &Field<'_>, errors: &mut Errors) {
    let (url, service) = (client.at("url"), client.at("service"));
    match (url.is_set(), service.is_set()) {
        (true, false) => validate_url(&url, errors),
        (false, true) => validate_service(&service, errors),
        _ => errors.push(client.required("exactly one of url or service is required")),
    }
    let bundle = client.at("caBundle");
    if !bundle.as_text().is_empty() && !is_bundle(bundle.as_text()) {
        errors.push(bundle.invalid(NO_BUNDLE));
    }
}

/// Whether the text of a `caBundle` has a certificate to believe.
pub fn is_bundle(text: &str) -> bool {
    base64::decode(text).is_some_and(|pem| trust::is_bundle(&pem))
}

fn validate_url(url: &Field<'_>, errors: &mut Errors) {
    let text = url.as_text();
    let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
    if scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        errors.push(url.invalid_value(scheme, detail));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    if host.is_empty() {
        errors.push(url.invalid_value(host, format!("host must be specified{FORM}")));
    }
    if let Some(user) = user {
        errors.push(url.invalid_value(user, "user information is not permitted in the URL"));
    }
    if !fragment.is_empty() {
        errors.push(url.invalid_value(fragment, "fragments are not permitted in the URL"));
    }
    if !query.is_empty() {
        errors.push(url.invalid_value(query, "query parameters are not permitted in the URL"));
    }
    // What looks like a URL and cannot be called is one that nobody meant.
    if text.parse::<http::Uri>().is_err() {
        errors.push(url.required(&format!("url must be a valid URL{FORM}")));
    }
}

fn validate_service(service: &Field<'_>, errors: &mut Errors) {
    for (name, detail) in
        [("name", "service name is required"), ("namespace", "service namespace is required")]
    {
        if service.text(name).is_empty() {
            errors.push(service.at(name).required(detail));
        }
    }
    let port = service.at("port");
    if port.is_set() && !port.as_int().is_some_and(|it| (1..=65_535).contains(&it)) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(port.invalid(detail));
    }
    validate_path(&service.at("path"), errors);
}

fn validate_path(path: &Field<'_>, errors: &mut Errors) {
    let text = path.as_text();
    if ["", "/"].contains(&text) {
        return;
    }
    if text == "//" {
        return errors.push(path.invalid("segment[0] may not be empty"));
    }
    if !text.starts_with('/') {
        errors.push(path.invalid("must start with a '/'"));
    }
    let steps = text.strip_prefix('/').unwrap_or(text);
    let steps = steps.strip_suffix('/').unwrap_or(steps);
    for (index, step) in steps.split('/').enumerate() {
        if step.is_empty() {
            errors.push(path.invalid(format!("segment[{index}] may not be empty")));
            continue;
        }
        let faults = names::subdomain(step).into_iter();
        checks::faults(path, faults.map(|fault| format!("segment[{index}]: {fault}")), errors);
    }
}
