//! A service's addresses and the families they are of.
//!
//! Upstream: pkg/apis/core/validation/validation.go (ValidateServiceClusterIPsRelatedFields)

use serde_json::{Value, json};

use super::NO_ADDRESS;
use crate::registry::checks::{self, Errors};
use crate::registry::edit;
use crate::registry::field::Field;
use crate::registry::names;

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];

/// The one address is the first of the list; who sets only one of the two means both.
pub fn mirror(spec: &mut Value) {
    let one = edit::text(spec, &["clusterIP"]).to_owned();
    let many = edit::list(spec, &["clusterIPs"]);
    match (one.is_empty(), many.first().cloned()) {
        (false, None) => edit::set(spec, "clusterIPs", json!([one])),
        (true, Some(first)) => edit::set(spec, "clusterIP", first),
        _ => {}
    }
}

pub fn validate(spec: &Field<'_>, errors: &mut Errors) {
    if spec.text("type") == "ExternalName" {
        return;
    }
    let one = spec.at("clusterIP");
    let many = spec.at("clusterIPs");
    let first = spec.list("clusterIPs").first();
    if first.is_some_and(|first| first != one.value) {
        errors.push(many.invalid("first value must match `clusterIP`"));
    }
    let mut seen: Vec<&str> = Vec::new();
    for family in spec.items("ipFamilies") {
        if !FAMILIES.contains(&family.as_text()) {
            errors.push(family.not_supported(&FAMILIES));
        }
        if seen.contains(&family.as_text()) {
            errors.push(family.duplicate());
        }
        seen.push(family.value.as_str().unwrap_or(""));
    }
    let policy = spec.at("ipFamilyPolicy");
    checks::absent_or_one_of(&policy, &POLICIES, errors);
    if spec.count("clusterIPs") > 2 {
        errors.push(many.invalid("may only hold up to 2 values"));
    }
    let families = spec.list("ipFamilies");
    for (index, address) in spec.items("clusterIPs").enumerate() {
        validate_address(&address, index, families, errors);
    }
    let text = |index: usize| spec.list("clusterIPs").get(index).and_then(Value::as_str);
    if let (Some(one), Some(other)) = (text(0), text(1)) {
        let both = names::is_ipv6(one) != names::is_ipv6(other);
        if !both && one != NO_ADDRESS {
            let detail = "may specify no more than one IP for each IP family";
            errors.push(many.invalid(detail));
        }
    }
}

fn validate_address(address: &Field<'_>, index: usize, families: &[Value], errors: &mut Errors) {
    let text = address.as_text();
    if text == NO_ADDRESS {
        if index > 0 {
            errors.push(address.invalid("'None' must be the first and only value"));
        }
        return;
    }
    if let Some(fault) = names::address(text) {
        return errors.push(address.invalid(fault));
    }
    let expected = families.get(index).and_then(Value::as_str);
    let detail = format!("value as indicated by `ipFamilies[{index}]`");
    match expected {
        Some("IPv4") if !names::is_ipv4(text) => {
            errors.push(address.invalid(format!("expected an IPv4 {detail}")));
        }
        Some("IPv6") if !names::is_ipv6(text) => {
            errors.push(address.invalid(format!("expected an IPv6 {detail}")));
        }
        _ => {}
    }
}
