//! EndpointSlices.
//!
//! Upstream: pkg/registry/discovery/endpointslice/strategy.go, pkg/apis/discovery/validation

use serde_json::Value;

use super::pod_spec::PROTOCOLS;
use super::service;
use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, each_mut, set_default};
use crate::registry::field::Field;
use crate::registry::names;
use crate::registry::strategy::{Properties, Strategy, content_differs};

const ENDPOINTS_MAX: usize = 1000;
const PORTS_MAX: usize = 100;
const ADDRESSES_MAX: usize = 100;
const TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];

pub struct EndpointSlice;

impl Strategy for EndpointSlice {
    fn properties(&self) -> Properties {
        Properties::WITH_GENERATION
    }

    fn default(&self, slice: &mut Value) {
        for port in each_mut(slice, &["ports"]) {
            if port.get("name").is_none_or(Value::is_null) {
                edit::set(port, "name", "");
            }
            set_default(port, "protocol", "TCP");
        }
    }

    fn validate(&self, slice: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(slice);
        let kind = root.at("addressType");
        checks::one_of(&kind, &TYPES, &mut errors);
        if root.count("endpoints") > ENDPOINTS_MAX {
            errors.push(root.at("endpoints").too_many(ENDPOINTS_MAX));
        }
        for endpoint in root.items("endpoints") {
            validate_endpoint(&endpoint, kind.as_text(), &mut errors);
        }
        if root.count("ports") > PORTS_MAX {
            errors.push(root.at("ports").too_many(PORTS_MAX));
        }
        let mut seen: Vec<&str> = Vec::new();
        for port in root.items("ports") {
            let name = port.at("name");
            checks::absent_or_named(&name, names::label, &mut errors);
            if seen.contains(&name.as_text()) {
                errors.push(name.duplicate());
            }
            seen.push(port.text("name"));
            checks::one_of(&port.at("protocol"), &PROTOCOLS, &mut errors);
            checks::absent_or_named(&port.at("appProtocol"), names::qualified_name, &mut errors);
        }
        errors
    }

    fn validate_update(&self, slice: &Value, old: &Value, _subresource: &str) -> Errors {
        let mut errors = self.validate(slice);
        let kind = Field::root(slice);
        checks::immutable(&kind.at("addressType"), edit::at(old, &["addressType"]), &mut errors);
        errors
    }

    /// Labels and annotations of a slice matter to those who read it.
    fn changes_generation(&self, slice: &Value, old: &Value) -> bool {
        let metadata = |it: &Value| {
            let mut metadata = edit::at(it, &["metadata"]).clone();
            for name in ["generation", "resourceVersion", "managedFields"] {
                edit::remove(&mut metadata, name);
            }
            metadata
        };
        content_differs(slice, old) || metadata(slice) != metadata(old)
    }
}

fn validate_endpoint(endpoint: &Field<'_>, kind: &str, errors: &mut Errors) {
    let addresses = endpoint.at("addresses");
    match endpoint.count("addresses") {
        0 => errors.push(addresses.required("must contain at least 1 address")),
        1..=ADDRESSES_MAX => {}
        _ => errors.push(addresses.too_many(ADDRESSES_MAX)),
    }
    for address in endpoint.items("addresses") {
        let text = address.as_text();
        match kind {
            "IPv4" if !names::is_ipv4(text) => {
                errors.push(address.invalid("must be a valid IPv4 address"));
            }
            "IPv6" if !names::is_ipv6(text) => {
                errors.push(address.invalid("must be a valid IPv6 address"));
            }
            "IPv4" | "IPv6" => service::validate_ordinary(&address, errors),
            "FQDN" => checks::faults(&address, names::subdomain(text), errors),
            _ => {}
        }
    }
    checks::absent_or_named(&endpoint.at("nodeName"), names::subdomain, errors);
    checks::absent_or_named(&endpoint.at("hostname"), names::label, errors);
}
