//! NetworkPolicies.
//!
//! Upstream: pkg/registry/networking/networkpolicy, pkg/apis/networking/validation/validation.go

use serde_json::{Value, json};

use super::pod_spec::PROTOCOLS;
use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, each_mut, object, set_default};
use crate::registry::field::Field;
use crate::registry::label_selector;
use crate::registry::names;
use crate::registry::strategy::{Properties, Strategy};

pub struct NetworkPolicy;

impl Strategy for NetworkPolicy {
    fn properties(&self) -> Properties {
        Properties::WITH_GENERATION
    }

    fn default(&self, policy: &mut Value) {
        let Some(spec) = object(policy, "spec") else { return };
        if edit::is_empty(edit::at(spec, &["policyTypes"])) {
            let outward = edit::has(spec, &["egress"]);
            let types = if outward { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) };
            edit::set(spec, "policyTypes", types);
        }
        for direction in ["ingress", "egress"] {
            for rule in each_mut(spec, &[direction]) {
                for port in each_mut(rule, &["ports"]) {
                    set_default(port, "protocol", "TCP");
                }
            }
        }
    }

    fn validate(&self, policy: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(policy);
        let spec = root.at("spec");
        label_selector::validate(&spec.at("podSelector"), &mut errors);
        for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
            for rule in spec.items(direction) {
                for port in rule.items("ports") {
                    validate_port(&port, &mut errors);
                }
                for peer in rule.items(peers) {
                    validate_peer(&peer, &mut errors);
                }
            }
        }
        if spec.count("policyTypes") > 2 {
            let detail = "may not specify more than two policyTypes";
            errors.push(spec.at("policyTypes").invalid(detail));
            return errors;
        }
        for kind in spec.items("policyTypes") {
            if !["Egress", "Ingress"].contains(&kind.as_text()) {
                errors.push(kind.not_supported(&["Egress", "Ingress"]));
            }
        }
        errors
    }
}

fn validate_port(port: &Field<'_>, errors: &mut Errors) {
    checks::absent_or_one_of(&port.at("protocol"), &PROTOCOLS, errors);
    let first = port.at("port");
    if first.is_set() {
        checks::port_number_or_name(&first, errors);
    }
    let last = port.at("endPort");
    let Some(end) = last.as_int() else { return };
    match first.value {
        Value::Number(_) => {
            if first.as_int().is_some_and(|start| end < start) {
                errors.push(last.invalid("must be greater than or equal to `port`"));
            }
            checks::faults(&last, names::port_number(end), errors);
        }
        Value::Null => {
            errors.push(last.invalid("may not be specified when `port` is not specified"))
        }
        _ => errors.push(last.invalid("may not be specified when `port` is non-numeric")),
    }
}

fn validate_peer(peer: &Field<'_>, errors: &mut Errors) {
    let mut count = 0;
    for name in ["podSelector", "namespaceSelector"] {
        let selector = peer.at(name);
        if selector.is_set() {
            count += 1;
            label_selector::validate(&selector, errors);
        }
    }
    let block = peer.at("ipBlock");
    if block.is_set() {
        validate_block(&block, errors);
        if count > 0 {
            errors.push(peer.forbidden("may not specify both ipBlock and another peer"));
        }
        count += 1;
    }
    if count == 0 {
        errors.push(peer.required("must specify a peer"));
    }
}

fn validate_block(block: &Field<'_>, errors: &mut Errors) {
    let range = block.at("cidr");
    if range.as_text().is_empty() {
        return errors.push(range.required(""));
    }
    let Some(outer) = names::parse_cidr(range.as_text()) else {
        return checks::cidr(&range, errors);
    };
    for except in block.items("except") {
        match names::parse_cidr(except.as_text()) {
            None => checks::cidr(&except, errors),
            Some(inner) if !contains(outer, inner) => {
                errors.push(
                    except.invalid(format!("must be a strict subset of `{}`", range.as_text())),
                );
            }
            Some(_) => {}
        }
    }
}

type Range = (std::net::IpAddr, u8);

/// Whether one range is a part of the other, and not the whole.
fn contains(outer: Range, inner: Range) -> bool {
    let bits = |(address, kept): Range, of: std::net::IpAddr| -> Option<u128> {
        match (address, of) {
            (std::net::IpAddr::V4(_), std::net::IpAddr::V4(it)) => {
                Some(u128::from(u32::from(it).checked_shr(32 - u32::from(kept)).unwrap_or(0)))
            }
            (std::net::IpAddr::V6(_), std::net::IpAddr::V6(it)) => {
                Some(u128::from(it).checked_shr(128 - u32::from(kept)).unwrap_or(0))
            }
            _ => None,
        }
    };
    let same = bits(outer, outer.0);
    inner.1 > outer.1 && same.is_some() && same == bits(outer, inner.0)
}
