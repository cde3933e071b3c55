//! Ingresses and IngressClasses.
//!
//! Upstream: pkg/registry/networking/ingress, pkg/apis/networking/validation/validation.go

use serde_json::{Value, json};

use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, set_default};
use crate::registry::field::Field;
use crate::registry::names;
use crate::registry::strategy::{Properties, Strategy};

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const PATH_TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];
const CONTROLLER_BYTES_MAX: usize = 250;

pub struct Ingress;

impl Strategy for Ingress {
    fn properties(&self) -> Properties {
        Properties::WITH_STATUS_AND_GENERATION
    }

    fn empty_status(&self) -> Value {
        json!({"loadBalancer": {}})
    }

    fn validate(&self, ingress: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(ingress);
        let spec = root.at("spec");
        let metadata = root.at("metadata");
        let class = metadata.key("annotations", CLASS_ANNOTATION);
        if class.is_set() && spec.has("ingressClassName") {
            let detail = "can not be set when the class field is also set";
            errors.push(class.invalid(detail));
        }
        validate_spec(&spec, &mut errors);
        errors
    }

    fn validate_update(&self, ingress: &Value, _old: &Value, subresource: &str) -> Errors {
        let mut errors = Errors::new();
        if subresource != "status" {
            validate_spec(&Field::root(ingress).at("spec"), &mut errors);
        }
        errors
    }
}

fn validate_spec(spec: &Field<'_>, errors: &mut Errors) {
    if spec.count("rules") == 0 && !spec.has("defaultBackend") {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(spec.invalid_value(json!([]), detail));
    }
    let backend = spec.at("defaultBackend");
    if backend.is_set() {
        validate_backend(&backend, errors);
    }
    for rule in spec.items("rules") {
        validate_rule(&rule, errors);
    }
    for tls in spec.items("tls") {
        for host in tls.items("hosts") {
            let text = host.as_text();
            let faults = match text.contains('*') {
                true => names::wildcard_subdomain(text),
                false => names::subdomain(text),
            };
            checks::faults(&host, faults, errors);
        }
        checks::absent_or_named(&tls.at("secretName"), names::subdomain, errors);
    }
    checks::absent_or_named(&spec.at("ingressClassName"), names::subdomain, errors);
}

fn validate_rule(rule: &Field<'_>, errors: &mut Errors) {
    let host = rule.at("host");
    let text = host.as_text();
    if !text.is_empty() {
        if names::parse_address(text).is_some() {
            errors.push(host.invalid("must be a DNS name, not an IP address"));
        }
        let faults = match text.contains('*') {
            true => names::wildcard_subdomain(text),
            false => names::subdomain(text),
        };
        checks::faults(&host, faults, errors);
    }
    let http = rule.at("http");
    if !http.is_set() {
        return;
    }
    if http.count("paths") == 0 {
        errors.push(http.at("paths").required(""));
    }
    for path in http.items("paths") {
        validate_path(&path, errors);
        validate_backend(&path.at("backend"), errors);
    }
}

fn validate_path(entry: &Field<'_>, errors: &mut Errors) {
    let kind = entry.at("pathType");
    if !kind.is_set() {
        return errors.push(kind.required("pathType must be specified"));
    }
    let path = entry.at("path");
    let text = path.as_text();
    match kind.as_text() {
        "Exact" | "Prefix" => {
            if !text.starts_with('/') {
                errors.push(path.invalid_value(text, "must be an absolute path"));
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if text.contains(part) {
                    errors.push(path.invalid(format!("must not contain '{part}'")));
                }
            }
            for end in ["/..", "/."] {
                if text.ends_with(end) {
                    errors.push(path.invalid(format!("cannot end with '{end}'")));
                }
            }
        }
        "ImplementationSpecific" if !text.is_empty() && !text.starts_with('/') => {
            errors.push(path.invalid("must be an absolute path"));
        }
        "ImplementationSpecific" => {}
        _ => errors.push(kind.not_supported(&PATH_TYPES)),
    }
}

fn validate_backend(backend: &Field<'_>, errors: &mut Errors) {
    let service = backend.at("service");
    match (backend.has("resource"), service.is_set()) {
        (true, true) => {
            let detail = "cannot set both resource and service backends";
            return errors.push(backend.invalid_value("", detail));
        }
        (false, false) => {
            return errors.push(backend.required("resource or service backend is required"));
        }
        (true, false) => return,
        (false, true) => {}
    }
    checks::named(&service.at("name"), names::dns1035_label, errors);
    let port = service.at("port");
    match (port.text("name"), port.int("number").unwrap_or(0)) {
        ("", 0) => errors.push(port.required("port name or number is required")),
        ("", number) => {
            checks::faults(&port.at("number"), names::port_number(number), errors);
        }
        (name, 0) => checks::faults(&port.at("name"), names::port_name(name), errors),
        _ => errors.push(backend.invalid_value("", "cannot set both port name & port number")),
    }
}

pub struct IngressClass;

impl Strategy for IngressClass {
    fn properties(&self) -> Properties {
        Properties::WITH_GENERATION
    }

    fn default(&self, class: &mut Value) {
        if let Some(parameters) = edit::at_mut(class, &["spec", "parameters"]) {
            set_default(parameters, "scope", "Cluster");
        }
    }

    fn validate(&self, class: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(class);
        let spec = root.at("spec");
        let controller = spec.at("controller");
        let text = controller.as_text();
        match text.split_once('/') {
            _ if text.is_empty() => errors.push(controller.required("")),
            Some((host, path)) if !host.is_empty() && !path.is_empty() => {
                let faults = names::subdomain(host);
                errors.extend(faults.into_iter().map(|it| controller.invalid_value(host, it)));
            }
            _ => {
                let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
                errors.push(controller.invalid(detail));
            }
        }
        if text.len() > CONTROLLER_BYTES_MAX {
            errors.push(controller.too_long(CONTROLLER_BYTES_MAX));
        }
        let parameters = spec.at("parameters");
        if parameters.is_set() {
            checks::present(&parameters.at("kind"), &mut errors);
            checks::present(&parameters.at("name"), &mut errors);
            let scope = parameters.at("scope");
            checks::one_of(&scope, &["Cluster", "Namespace"], &mut errors);
            let namespace = parameters.at("namespace");
            match (scope.as_text(), namespace.is_set()) {
                ("Cluster", true) => {
                    errors.push(namespace.forbidden("`parameters.scope` is set to 'Cluster'"))
                }
                ("Namespace", false) => {
                    errors.push(namespace.required("`parameters.scope` is set to 'Namespace'"))
                }
                _ => {}
            }
        }
        errors
    }

    fn validate_update(&self, class: &Value, old: &Value, _subresource: &str) -> Errors {
        let mut errors = self.validate(class);
        let root = Field::root(class);
        let spec = root.at("spec");
        let controller = edit::at(old, &["spec", "controller"]);
        checks::immutable(&spec.at("controller"), controller, &mut errors);
        errors
    }
}
