//! APIServices.
//!
//! Upstream: staging/kube-aggregator/pkg/apis/apiregistration/{v1/defaults.go,validation}

use serde_json::Value;

use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, set_default};
use crate::registry::field::Field;
use crate::registry::names::{self, NameRule};
use crate::registry::strategy::{Properties, Strategy};

const PRIORITY_MAX: i64 = 20_000;
const VERSION_PRIORITY_MAX: i64 = 1000;

pub struct ApiService;

impl Strategy for ApiService {
    fn properties(&self) -> Properties {
        Properties {
            name_rule: NameRule::PathSegment,
            allows_unconditional_update: false,
            ..Properties::WITH_STATUS
        }
    }

    fn default(&self, service: &mut Value) {
        if let Some(reference) = edit::at_mut(service, &["spec", "service"]) {
            set_default(reference, "port", 443);
        }
    }

    fn validate(&self, service: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(service);
        let metadata = root.at("metadata");
        let spec = root.at("spec");
        let (group, version) = (spec.text("group"), spec.text("version"));
        let expected = format!("{version}.{group}");
        if metadata.text("name") != expected {
            let detail = format!("must be `spec.version+\".\"+spec.group`: {expected:?}");
            errors.push(metadata.at("name").invalid(detail));
        }
        if group.is_empty() && version != "v1" {
            errors.push(
                spec.at("group")
                    .required("only v1 may have an empty group and it better be legacy kube"),
            );
        }
        if !group.is_empty() {
            checks::faults(&spec.at("group"), names::subdomain(group), &mut errors);
        }
        checks::named(&spec.at("version"), names::dns1035_label, &mut errors);
        validate_priority(&spec.at("groupPriorityMinimum"), PRIORITY_MAX, &mut errors);
        validate_priority(&spec.at("versionPriority"), VERSION_PRIORITY_MAX, &mut errors);
        let reference = spec.at("service");
        if reference.is_set() {
            checks::present(&reference.at("namespace"), &mut errors);
            checks::present(&reference.at("name"), &mut errors);
            checks::in_range(&reference.at("port"), 1, 65535, &mut errors);
            if spec.flag("insecureSkipTLSVerify") && spec.has("caBundle") {
                let detail = "may not be true if caBundle is present";
                errors.push(spec.at("insecureSkipTLSVerify").invalid(detail));
            }
        } else if spec.has("caBundle") || spec.flag("insecureSkipTLSVerify") {
            let detail = "local APIServices may not have a caBundle";
            errors.push(spec.at("caBundle").invalid(detail));
        }
        errors
    }
}

fn validate_priority(field: &Field<'_>, max: i64, errors: &mut Errors) {
    let value = field.as_int().unwrap_or(0);
    if value <= 0 || value > max {
        let detail = format!("must be positive and less than {max}");
        errors.push(field.invalid_value(value, detail));
    }
}
