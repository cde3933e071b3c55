//! Nodes.
//!
//! Upstream: pkg/registry/core/node/strategy.go, pkg/apis/core/validation (ValidateNode)

use serde_json::{Value, json};

use super::pod_spec::scheduling;
use crate::field_error::FieldError;
use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, object, text};
use crate::registry::field::Field;
use crate::registry::names;
use crate::registry::strategy::{Properties, Strategy};

pub struct Node;

impl Strategy for Node {
    fn properties(&self) -> Properties {
        Properties { keeps_status_on_create: true, ..Properties::WITH_STATUS }
    }

    /// What a node has, pods may have, unless it says otherwise.
    fn default(&self, node: &mut Value) {
        let capacity = edit::at(node, &["status", "capacity"]).clone();
        if let Some(status) = edit::at_mut(node, &["status"])
            && !edit::is_empty(&capacity)
            && edit::is_empty(edit::at(status, &["allocatable"]))
        {
            edit::set(status, "allocatable", capacity);
        }
        let Some(spec) = object(node, "spec") else { return };
        let one = text(spec, &["podCIDR"]).to_owned();
        match (one.is_empty(), edit::list(spec, &["podCIDRs"]).first().cloned()) {
            (false, None) => edit::set(spec, "podCIDRs", json!([one])),
            (true, Some(first)) => edit::set(spec, "podCIDR", first),
            _ => {}
        }
    }

    fn validate(&self, node: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(node);
        let spec = root.at("spec");
        validate_taints(&spec, &mut errors);
        for range in spec.items("podCIDRs") {
            checks::cidr(&range, &mut errors);
        }
        let status = root.at("status");
        let mut seen: Vec<&Value> = Vec::new();
        for (index, address) in status.list("addresses").iter().enumerate() {
            if seen.contains(&address) {
                let path = format!("status.addresses[{index}]");
                errors.push(FieldError::duplicate(path, address.clone()));
            }
            seen.push(address);
        }
        errors
    }

    fn validate_update(&self, node: &Value, old: &Value, subresource: &str) -> Errors {
        let mut errors = self.validate(node);
        if subresource == "status" {
            return errors;
        }
        let root = Field::root(node);
        let spec = root.at("spec");
        let ranges = edit::at(old, &["spec", "podCIDRs"]);
        if !edit::is_empty(ranges) && spec.raw("podCIDRs") != ranges {
            let detail = "node updates may not change podCIDR except from \"\" to valid";
            errors.push(spec.at("podCIDRs").forbidden(detail));
        }
        let provider = edit::at(old, &["spec", "providerID"]);
        if !edit::is_empty(provider) && spec.raw("providerID") != provider {
            let detail = "node updates may not change providerID except from \"\" to valid";
            errors.push(spec.at("providerID").forbidden(detail));
        }
        errors
    }
}

fn validate_taints(spec: &Field<'_>, errors: &mut Errors) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for taint in spec.items("taints") {
        checks::label_name(&taint.at("key"), errors);
        let value = taint.at("value");
        let faults = names::label_value(value.as_text());
        if !faults.is_empty() {
            errors.push(value.invalid(faults.join(";")));
        }
        checks::one_of(&taint.at("effect"), &scheduling::EFFECTS, errors);
        let key = (taint.text("key"), taint.text("effect"));
        if seen.contains(&key) {
            let mut error = taint.duplicate();
            error.detail = "taints must be unique by key and effect pair".to_owned();
            errors.push(error);
        }
        seen.push(key);
    }
}
