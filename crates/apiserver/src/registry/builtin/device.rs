//! The kinds of dynamic resource allocation: DeviceClass, ResourceClaim, ResourceClaimTemplate
//! and ResourceSlice. Their selectors' expressions are compiled elsewhere.
//!
//! Upstream: pkg/apis/resource/{v1/defaults.go,validation/validation.go}

use serde_json::Value;

use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, each_mut, set_default, set_default_nonzero};
use crate::registry::field::Field;
use crate::registry::names;
use crate::registry::strategy::{Properties, Strategy};

const RETURNED: Properties = Properties { returns_deleted_object: true, ..Properties::DEFAULT };

pub struct DeviceClass;

impl Strategy for DeviceClass {
    fn properties(&self) -> Properties {
        Properties { has_generation: true, ..RETURNED }
    }
}

pub struct ResourceSlice;

impl Strategy for ResourceSlice {
    fn properties(&self) -> Properties {
        Properties { has_generation: true, ..RETURNED }
    }

    fn validate(&self, slice: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(slice);
        let spec = root.at("spec");
        checks::named(&spec.at("driver"), names::subdomain, &mut errors);
        let pool = spec.at("pool");
        checks::present(&pool.at("name"), &mut errors);
        let mut seen: Vec<&str> = Vec::new();
        for device in spec.items("devices") {
            let name = device.at("name");
            checks::named(&name, names::label, &mut errors);
            if seen.contains(&name.as_text()) {
                errors.push(name.duplicate());
            }
            seen.push(device.text("name"));
        }
        errors
    }

    fn validate_update(&self, slice: &Value, old: &Value, _subresource: &str) -> Errors {
        let mut errors = self.validate(slice);
        let root = Field::root(slice);
        let spec = root.at("spec");
        for name in ["driver", "nodeName"] {
            checks::immutable(&spec.at(name), edit::at(old, &["spec", name]), &mut errors);
        }
        errors
    }
}

pub struct ResourceClaim;

impl Strategy for ResourceClaim {
    fn properties(&self) -> Properties {
        Properties { has_status: true, ..RETURNED }
    }

    fn default(&self, claim: &mut Value) {
        if let Some(spec) = edit::at_mut(claim, &["spec"]) {
            default_spec(spec);
        }
    }

    fn validate(&self, claim: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(claim);
        validate_spec(&root.at("spec"), &mut errors);
        errors
    }

    fn validate_update(&self, claim: &Value, old: &Value, subresource: &str) -> Errors {
        let mut errors = Errors::new();
        if subresource != "status" {
            let root = Field::root(claim);
            checks::immutable(&root.at("spec"), edit::at(old, &["spec"]), &mut errors);
        }
        errors
    }
}

pub struct ResourceClaimTemplate;

impl Strategy for ResourceClaimTemplate {
    fn properties(&self) -> Properties {
        RETURNED
    }

    fn default(&self, template: &mut Value) {
        if let Some(spec) = edit::at_mut(template, &["spec", "spec"]) {
            default_spec(spec);
        }
    }

    fn validate(&self, template: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(template);
        let spec = root.at("spec");
        validate_spec(&spec.at("spec"), &mut errors);
        errors
    }

    fn validate_update(&self, template: &Value, old: &Value, _subresource: &str) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(template);
        checks::immutable(&root.at("spec"), edit::at(old, &["spec"]), &mut errors);
        errors
    }
}

fn default_request(request: &mut Value) {
    set_default(request, "allocationMode", "ExactCount");
    if edit::text(request, &["allocationMode"]) == "ExactCount" {
        set_default_nonzero(request, "count", 1);
    }
}

fn default_spec(spec: &mut Value) {
    for request in each_mut(spec, &["devices", "requests"]) {
        if let Some(exactly) = edit::at_mut(request, &["exactly"]) {
            default_request(exactly);
        }
        each_mut(request, &["firstAvailable"]).for_each(default_request);
    }
}

fn validate_spec(spec: &Field<'_>, errors: &mut Errors) {
    let devices = spec.at("devices");
    let mut seen: Vec<&str> = Vec::new();
    for request in devices.items("requests") {
        let name = request.at("name");
        checks::named(&name, names::label, errors);
        if seen.contains(&name.as_text()) {
            errors.push(name.duplicate());
        }
        seen.push(request.text("name"));
        match (request.has("exactly"), request.count("firstAvailable") > 0) {
            (true, true) => errors
                .push(request.invalid("exactly one of `exactly` or `firstAvailable` is allowed")),
            (false, false) => errors
                .push(request.required("exactly one of `exactly` or `firstAvailable` is required")),
            _ => {}
        }
        let exactly = request.at("exactly");
        if exactly.is_set() {
            checks::named(&exactly.at("deviceClassName"), names::subdomain, errors);
            let mode = exactly.at("allocationMode");
            checks::one_of(&mode, &["All", "ExactCount"], errors);
        }
    }
}
