//! IPAddresses and ServiceCIDRs.
//!
//! Upstream: pkg/apis/networking/validation/validation.go (ValidateIPAddress, ValidateServiceCIDR)

use serde_json::Value;

use crate::registry::checks::{self, Errors};
use crate::registry::edit;
use crate::registry::field::Field;
use crate::registry::names::{self, NameRule};
use crate::registry::strategy::{Properties, Strategy};

pub struct IpAddress;

impl Strategy for IpAddress {
    fn properties(&self) -> Properties {
        Properties { name_rule: NameRule::Address, ..Properties::DEFAULT }
    }

    fn validate(&self, address: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(address);
        let spec = root.at("spec");
        let parent = spec.at("parentRef");
        if !parent.is_set() {
            errors.push(parent.required(""));
            return errors;
        }
        checks::absent_or_named(&parent.at("group"), names::subdomain, &mut errors);
        checks::named(&parent.at("resource"), names::path_segment, &mut errors);
        checks::named(&parent.at("name"), names::path_segment, &mut errors);
        errors
    }

    fn validate_update(&self, address: &Value, old: &Value, _subresource: &str) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(address);
        let spec = root.at("spec");
        let parent = edit::at(old, &["spec", "parentRef"]);
        checks::immutable(&spec.at("parentRef"), parent, &mut errors);
        errors
    }
}

pub struct ServiceCidr;

impl Strategy for ServiceCidr {
    fn properties(&self) -> Properties {
        Properties::WITH_STATUS
    }

    fn validate(&self, range: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(range);
        let spec = root.at("spec");
        let ranges = spec.at("cidrs");
        let is_v6 = |it: &Value| it.as_str().is_some_and(|it| it.contains(':'));
        match spec.list("cidrs") {
            [] => errors.push(ranges.required("at least one CIDR required")),
            [_] => {}
            [one, other] if is_v6(one) != is_v6(other) => {}
            [_, _] => errors.push(ranges.invalid(
                "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and \
                 2001:db8::/64",
            )),
            _ => errors.push(ranges.invalid("must only hold up to 2 values")),
        }
        for one in spec.items("cidrs") {
            checks::cidr(&one, &mut errors);
        }
        errors
    }

    fn validate_update(&self, range: &Value, old: &Value, subresource: &str) -> Errors {
        if subresource == "status" {
            return Errors::new();
        }
        let mut errors = self.validate(range);
        let root = Field::root(range);
        let spec = root.at("spec");
        checks::immutable(&spec.at("cidrs"), edit::at(old, &["spec", "cidrs"]), &mut errors);
        errors
    }
}
