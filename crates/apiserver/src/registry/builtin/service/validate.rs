//! Which fields go with which type of service.
//!
//! Upstream: pkg/apis/core/validation/validation.go (ValidateService)

use link::destination::is_loopback_pod;
use serde_json::json;

use super::super::pod_spec::PROTOCOLS;
use super::{addresses, is_externally_accessible, is_headless, needs_health_check_port};
use crate::field_error::FieldError;
use crate::registry::checks::{self, Errors};
use crate::registry::field::Field;
use crate::registry::names;

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const AFFINITY_SECONDS_MAX: i64 = 86_400;

pub fn validate(root: &Field<'_>, errors: &mut Errors) {
    let spec = root.at("spec");
    let headless = is_headless(root.value);
    let kind = spec.text("type");
    if spec.count("ports") == 0 && !headless && kind != "ExternalName" {
        errors.push(spec.at("ports").required(""));
    }
    validate_type(&spec, headless, errors);
    validate_ports(&spec, errors);
    checks::labels(&spec.at("selector"), errors);
    validate_affinity(&spec, errors);
    addresses::validate(&spec, errors);
    for address in spec.items("externalIPs") {
        match names::address(address.as_text()) {
            Some(fault) => errors.push(address.invalid(fault)),
            None => validate_ordinary(&address, errors),
        }
    }
    checks::one_of(&spec.at("type"), &TYPES, errors);
    validate_node_ports(&spec, errors);
    validate_unique_ports(&spec, errors);
    validate_balancer(&spec, errors);
    validate_traffic(root, &spec, errors);
}

fn validate_type(spec: &Field<'_>, headless: bool, errors: &mut Errors) {
    let addresses = spec.at("clusterIPs");
    match spec.text("type") {
        kind @ ("LoadBalancer" | "NodePort") if headless => {
            for address in spec.items("clusterIPs").take(1) {
                let detail = format!("may not be set to 'None' for {kind} services");
                errors.push(address.invalid(detail));
            }
        }
        "ExternalName" => {
            let detail = "may not be set for ExternalName services";
            if spec.count("clusterIPs") > 0 {
                errors.push(addresses.forbidden(detail));
            }
            for name in ["ipFamilies", "ipFamilyPolicy"] {
                if spec.has(name) {
                    errors.push(spec.at(name).forbidden(detail));
                }
            }
            let name = spec.at("externalName");
            match name.as_text().strip_suffix('.').unwrap_or(name.as_text()) {
                "" => errors.push(name.required("")),
                text => {
                    let faults = names::subdomain(text);
                    errors.extend(faults.into_iter().map(|it| name.invalid_value(text, it)));
                }
            }
        }
        _ => {}
    }
}

fn validate_ports(spec: &Field<'_>, errors: &mut Errors) {
    let mut seen: Vec<&str> = Vec::new();
    for port in spec.items("ports") {
        let name = port.at("name");
        if !name.as_text().is_empty() {
            checks::faults(&name, names::label(name.as_text()), errors);
            if seen.contains(&name.as_text()) {
                errors.push(name.duplicate());
            }
            seen.push(port.text("name"));
        } else if spec.count("ports") > 1 {
            errors.push(name.required(""));
        }
        let number = port.int("port").unwrap_or(0);
        for fault in names::port_number(number) {
            errors.push(port.at("port").invalid_value(number, fault));
        }
        checks::one_of(&port.at("protocol"), &PROTOCOLS, errors);
        checks::port_number_or_name(&port.at("targetPort"), errors);
        let protocol = port.at("appProtocol");
        if protocol.is_set() {
            checks::label_name(&protocol, errors);
        }
    }
}

fn validate_affinity(spec: &Field<'_>, errors: &mut Errors) {
    let affinity = spec.at("sessionAffinity");
    checks::one_of(&affinity, &["ClientIP", "None"], errors);
    let config = spec.at("sessionAffinityConfig");
    match affinity.as_text() {
        "ClientIP" => {
            let client = config.at("clientIP");
            let timeout = client.at("timeoutSeconds");
            match timeout.as_int() {
                None => errors.push(timeout.required("when session affinity type is ClientIP")),
                Some(1..=AFFINITY_SECONDS_MAX) => {}
                Some(_) => errors.push(timeout.invalid(format!(
                    "must be greater than 0 and less than {AFFINITY_SECONDS_MAX}"
                ))),
            }
        }
        "None" if config.is_set() => {
            errors.push(config.forbidden("must not be set when session affinity is None"));
        }
        _ => {}
    }
}

/// Addresses that mean the machine itself or many machines cannot be a service's.
pub fn validate_ordinary(address: &Field<'_>, errors: &mut Errors) {
    let Some(parsed) = names::parse_address(address.as_text()) else { return };
    // An IPv4 address in IPv6 form is that IPv4 address.
    let parsed = parsed.to_canonical();
    if parsed.is_unspecified() {
        let shown = address.as_text();
        errors.push(address.invalid(format!("may not be unspecified ({shown})")));
    }
    if parsed.is_loopback() && !is_loopback_pod(parsed) {
        errors.push(address.invalid("may not be in the loopback range (127.0.0.0/8, ::1/128)"));
    }
    let (local, multicast) = match parsed {
        std::net::IpAddr::V4(it) => (it.is_link_local(), it.octets()[..3] == [224, 0, 0]),
        std::net::IpAddr::V6(it) => {
            (it.segments()[0] & 0xffc0 == 0xfe80, it.segments()[0] & 0xff0f == 0xff02)
        }
    };
    if local {
        let detail = "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
        errors.push(address.invalid(detail));
    }
    if multicast {
        let detail = "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)";
        errors.push(address.invalid(detail));
    }
}

fn validate_node_ports(spec: &Field<'_>, errors: &mut Errors) {
    let mut seen: Vec<(&str, i64)> = Vec::new();
    for port in spec.items("ports") {
        let number = port.int("nodePort").unwrap_or(0);
        if number == 0 {
            continue;
        }
        let field = port.at("nodePort");
        if spec.text("type") == "ClusterIP" {
            errors.push(field.forbidden("may not be used when `type` is 'ClusterIP'"));
        }
        let key = (port.text("protocol"), number);
        if seen.contains(&key) {
            errors.push(field.duplicate());
        }
        seen.push(key);
    }
}

fn validate_unique_ports(spec: &Field<'_>, errors: &mut Errors) {
    let mut seen: Vec<(&str, i64)> = Vec::new();
    for port in spec.items("ports") {
        let key = (port.text("protocol"), port.int("port").unwrap_or(0));
        if seen.contains(&key) {
            let shown = json!({"protocol": key.0, "port": key.1, "targetPort": 0});
            errors.push(FieldError::duplicate(port.path(), shown));
        }
        seen.push(key);
    }
}

fn validate_balancer(spec: &Field<'_>, errors: &mut Errors) {
    let balanced = spec.text("type") == "LoadBalancer";
    let only = "may only be used when `type` is 'LoadBalancer'";
    let ranges = spec.at("LoadBalancerSourceRanges");
    if spec.count("loadBalancerSourceRanges") > 0 && !balanced {
        errors.push(ranges.forbidden(only));
    }
    for (index, range) in spec.items("loadBalancerSourceRanges").enumerate() {
        let text = range.as_text().trim();
        if let Some(fault) = names::cidr(text) {
            let path = format!("{}[{index}]", ranges.path());
            errors.push(FieldError::invalid(path, text, fault));
        }
    }
    let allocate = spec.at("allocateLoadBalancerNodePorts");
    if allocate.is_set() && !balanced {
        errors.push(allocate.forbidden(only));
    }
    let class = spec.at("loadBalancerClass");
    if class.is_set() {
        if !balanced {
            errors.push(class.forbidden(only));
        }
        checks::label_name(&class, errors);
    }
}

fn validate_traffic(root: &Field<'_>, spec: &Field<'_>, errors: &mut Errors) {
    let outside = spec.at("externalTrafficPolicy");
    if is_externally_accessible(spec.value) {
        checks::one_of(&outside, &["Cluster", "Local"], errors);
    } else if !outside.as_text().is_empty() {
        errors.push(outside.invalid("may only be set for externally-accessible services"));
    }
    let check = spec.at("healthCheckNodePort");
    let number = check.as_int().unwrap_or(0);
    match (needs_health_check_port(root.value), number) {
        (true, 0) => errors.push(check.required("")),
        (true, number) => checks::faults(&check, names::port_number(number), errors),
        (false, 0) => {}
        (false, _) => errors.push(check.invalid(
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        )),
    }
    let inside = spec.at("internalTrafficPolicy");
    let usual = ["ClusterIP", "NodePort", "LoadBalancer"].contains(&spec.text("type"));
    if usual && !inside.is_set() {
        errors.push(inside.required(""));
    }
    checks::absent_or_one_of(&inside, &["Cluster", "Local"], errors);
    let distribution = spec.at("trafficDistribution");
    let known = ["PreferClose", "PreferSameNode", "PreferSameZone"];
    checks::absent_or_one_of(&distribution, &known, errors);
}
