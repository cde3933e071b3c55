//! Endpoints.
//!
//! Upstream: pkg/registry/core/endpoint/strategy.go, ValidateEndpoints

use serde_json::Value;

use super::pod_spec::PROTOCOLS;
use super::service;
use crate::registry::checks::{self, Errors};
use crate::registry::edit::{each_mut, set_default};
use crate::registry::field::Field;
use crate::registry::names;
use crate::registry::strategy::{Properties, Strategy};

pub struct Endpoints;

impl Strategy for Endpoints {
    fn properties(&self) -> Properties {
        Properties { allows_create_on_update: true, ..Properties::DEFAULT }
    }

    fn default(&self, endpoints: &mut Value) {
        for subset in each_mut(endpoints, &["subsets"]) {
            for port in each_mut(subset, &["ports"]) {
                set_default(port, "protocol", "TCP");
            }
        }
    }

    fn validate(&self, endpoints: &Value) -> Errors {
        let mut errors = Errors::new();
        for subset in Field::root(endpoints).items("subsets") {
            if subset.count("addresses") == 0 && subset.count("notReadyAddresses") == 0 {
                errors.push(subset.required("must specify `addresses` or `notReadyAddresses`"));
            }
            for list in ["addresses", "notReadyAddresses"] {
                for address in subset.items(list) {
                    validate_address(&address, &mut errors);
                }
            }
            validate_ports(&subset, &mut errors);
        }
        errors
    }
}

fn validate_address(address: &Field<'_>, errors: &mut Errors) {
    let ip = address.at("ip");
    match names::address(ip.as_text()) {
        Some(fault) => errors.push(ip.invalid(fault)),
        None => service::validate_ordinary(&ip, errors),
    }
    checks::absent_or_named(&address.at("hostname"), names::label, errors);
    checks::absent_or_named(&address.at("nodeName"), names::subdomain, errors);
}

fn validate_ports(subset: &Field<'_>, errors: &mut Errors) {
    for port in subset.items("ports") {
        let name = port.at("name");
        match name.as_text() {
            "" if subset.count("ports") > 1 => errors.push(name.required("")),
            "" => {}
            text => checks::faults(&name, names::label(text), errors),
        }
        let number = port.int("port").unwrap_or(0);
        for fault in names::port_number(number) {
            errors.push(port.at("port").invalid_value(number, fault));
        }
        checks::one_of(&port.at("protocol"), &PROTOCOLS, errors);
    }
}
