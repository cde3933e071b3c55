//! The rules of containers' ports.

use crate::field_error::FieldError;
use crate::registry::checks::{self, Errors};
use crate::registry::field::Field;
use crate::registry::names;

pub const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];

pub fn validate(container: &Field<'_>, errors: &mut Errors) {
    let mut seen: Vec<&str> = Vec::new();
    for port in container.items("ports") {
        let name = port.at("name");
        if !name.as_text().is_empty() {
            let faults = names::port_name(name.as_text());
            if faults.is_empty() && seen.contains(&name.as_text()) {
                errors.push(name.duplicate());
            }
            checks::faults(&name, faults, errors);
            seen.push(port.text("name"));
        }
        let number = port.at("containerPort");
        match number.as_int().unwrap_or(0) {
            0 => errors.push(number.required("")),
            value => checks::faults(&number, names::port_number(value), errors),
        }
        let host = port.at("hostPort");
        if host.as_int().unwrap_or(0) != 0 {
            checks::in_range(&host, 1, 65535, errors);
        }
        checks::one_of(&port.at("protocol"), &PROTOCOLS, errors);
    }
}

/// No two containers may take the same port of the host.
pub fn validate_host_ports(spec: &Field<'_>, kind: &str, errors: &mut Errors) {
    let mut seen: Vec<String> = Vec::new();
    for container in spec.items(kind) {
        for port in container.items("ports") {
            let host = port.int("hostPort").unwrap_or(0);
            if host == 0 {
                continue;
            }
            let taken = format!("{}/{}/{host}", port.text("protocol"), port.text("hostIP"));
            if seen.contains(&taken) {
                errors.push(FieldError::duplicate(port.at("hostPort").path(), taken.as_str()));
            }
            seen.push(taken);
        }
    }
}
