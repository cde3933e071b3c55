//! The rules of probes and of what runs after a start and before a stop.

use crate::registry::checks::{self, Errors};
use crate::registry::field::Field;
use crate::registry::names;

const PROBE_HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];
const HOOK_HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "sleep"];

pub fn validate(container: &Field<'_>, spec: &Field<'_>, errors: &mut Errors) {
    let lifecycle = container.at("lifecycle");
    for hook in ["postStart", "preStop"] {
        let hook = lifecycle.at(hook);
        if hook.is_set() {
            validate_handler(&hook, spec, &HOOK_HANDLERS, errors);
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.at(name);
        if probe.is_set() {
            validate_probe(&probe, spec, name, errors);
        }
    }
}

fn validate_probe(probe: &Field<'_>, spec: &Field<'_>, name: &str, errors: &mut Errors) {
    validate_handler(probe, spec, &PROBE_HANDLERS, errors);
    let numbers = [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ];
    for number in numbers {
        checks::non_negative(&probe.at(number), errors);
    }
    let grace = probe.at("terminationGracePeriodSeconds");
    if grace.as_int().is_some_and(|seconds| seconds <= 0) {
        errors.push(grace.invalid("must be greater than 0"));
    }
    let threshold = probe.at("successThreshold");
    match name {
        "readinessProbe" if grace.is_set() => {
            errors.push(grace.invalid("must not be set for readinessProbes"));
        }
        "readinessProbe" => {}
        _ if threshold.as_int().unwrap_or(0) != 1 => {
            let value = threshold.as_int().unwrap_or(0);
            errors.push(threshold.invalid_value(value, "must be 1"));
        }
        _ => {}
    }
}

fn validate_handler(handler: &Field<'_>, spec: &Field<'_>, known: &[&str], errors: &mut Errors) {
    let mut count = 0;
    for name in known {
        let action = handler.at(name);
        if !action.is_set() {
            continue;
        }
        count += 1;
        if count > 1 {
            errors.push(action.forbidden("may not specify more than 1 handler type"));
            continue;
        }
        match *name {
            "exec" if action.count("command") == 0 => {
                errors.push(action.at("command").required(""));
            }
            "httpGet" => validate_http_get(&action, errors),
            "tcpSocket" | "grpc" => checks::port_number_or_name(&action.at("port"), errors),
            "sleep" => validate_sleep(&action, spec, errors),
            _ => {}
        }
    }
    if count == 0 {
        errors.push(handler.required("must specify a handler type"));
    }
}

fn validate_http_get(action: &Field<'_>, errors: &mut Errors) {
    checks::present(&action.at("path"), errors);
    checks::port_number_or_name(&action.at("port"), errors);
    let scheme = action.at("scheme");
    if !["HTTP", "HTTPS"].contains(&scheme.as_text()) {
        errors.push(scheme.not_supported(&["HTTP", "HTTPS"]));
    }
    for header in action.items("httpHeaders") {
        let name = header.text("name");
        for fault in names::header_name(name) {
            errors.push(action.at("httpHeaders").invalid_value(name, fault));
        }
    }
}

fn validate_sleep(action: &Field<'_>, spec: &Field<'_>, errors: &mut Errors) {
    let Some(grace) = spec.int("terminationGracePeriodSeconds") else { return };
    let seconds = action.int("seconds").unwrap_or(0);
    if !(0..=grace).contains(&seconds) {
        errors.push(action.invalid_value(
            seconds,
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})"),
        ));
    }
}
