//! Which families of addresses a service is to have.
//!
//! Upstream: pkg/registry/core/service/storage/alloc.go (initIPFamilyFields)

use serde_json::{Value, json};

use super::ranges::{Configured, Family};
use crate::field_error::FieldError;
use crate::object::texts;
use crate::registry::builtin::service::{self, NO_ADDRESS};
use crate::registry::checks::Errors;
use crate::registry::edit::{self, text};

const SINGLE: &str = "SingleStack";
const PREFER: &str = "PreferDualStack";
const REQUIRE: &str = "RequireDualStack";
const POLICY: &str = "spec.ipFamilyPolicy";

/// Sets the families and their policy where the client left them out.
pub fn settle(
    service: &mut Value,
    old: Option<&Value>,
    configured: &Configured,
) -> Result<(), Errors> {
    if text(service, &["spec", "type"]) == "ExternalName" || is_settled(service, old) {
        return Ok(());
    }
    set_policy(service, old);
    let errors = service::validate_addresses(service);
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut errors = Errors::new();
    if let Some(old) = old {
        follow_policy(service, old, &mut errors);
    }
    check_policy(service, &mut errors);
    infer_families(service, configured, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut families = families(service);
    let policy = text(service, &["spec", "ipFamilyPolicy"]);
    if !is_headless_without_selector(service) {
        check_configured(service, configured, &mut errors);
        if !errors.is_empty() {
            return Err(errors);
        }
        if families.is_empty() {
            families.push(configured.default_family());
        }
        if policy != SINGLE && families.len() == 1 && configured.is_dual() {
            families.push(families[0].other());
        }
    } else {
        // Its addresses are its owner's business, also those of a family the cluster lacks.
        if families.is_empty() {
            families.push(configured.default_family());
        }
        if policy != SINGLE && families.len() == 1 {
            families.push(families[0].other());
        }
    }
    if let Some(spec) = edit::object(service, "spec") {
        let names: Vec<&str> = families.iter().map(|family| family.name()).collect();
        edit::set(spec, "ipFamilies", json!(names));
    }
    Ok(())
}

/// A service that prefers both families stays as it is when only the cluster has changed.
fn is_settled(service: &Value, old: Option<&Value>) -> bool {
    let Some(old) = old else { return false };
    let prefers = |it: &Value| text(it, &["spec", "ipFamilyPolicy"]) == PREFER;
    let same = |name: &str| edit::at(service, &["spec", name]) == edit::at(old, &["spec", name]);
    prefers(service) && prefers(old) && same("clusterIPs") && same("ipFamilies")
}

fn set_policy(service: &mut Value, old: Option<&Value>) {
    let before = old.map_or("", |old| text(old, &["spec", "ipFamilyPolicy"]));
    let policy = match before {
        "" if is_headless_without_selector(service) => REQUIRE,
        "" => SINGLE,
        before => before,
    };
    if let Some(spec) = edit::object(service, "spec") {
        edit::set_default(spec, "ipFamilyPolicy", policy);
    }
}

fn is_headless_without_selector(service: &Value) -> bool {
    text(service, &["spec", "clusterIP"]) == NO_ADDRESS
        && edit::is_empty(edit::at(service, &["spec", "selector"]))
}

fn families(service: &Value) -> Vec<Family> {
    let names = texts(edit::at(service, &["spec", "ipFamilies"]));
    names.iter().filter_map(|name| Family::parse(name)).collect()
}

/// Who asks for one family gives up the second address; nobody loses it unasked.
fn follow_policy(service: &mut Value, old: &Value, errors: &mut Errors) {
    let policy = text(service, &["spec", "ipFamilyPolicy"]).to_owned();
    for (name, what) in [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")] {
        let now = texts(edit::at(service, &["spec", name]));
        let before = texts(edit::at(old, &["spec", name]));
        if policy == SINGLE {
            if now == before && now.len() > 1 {
                let Some(spec) = edit::object(service, "spec") else { return };
                edit::set(spec, name, json!([now[0]]));
            }
        } else if !now.is_empty() && now.len() < before.len() {
            let detail = format!("must be 'SingleStack' to release the secondary {what}");
            errors.push(FieldError::invalid(POLICY, policy.as_str(), detail));
        }
    }
}

fn check_policy(service: &Value, errors: &mut Errors) {
    let policy = text(service, &["spec", "ipFamilyPolicy"]);
    if policy != SINGLE {
        return;
    }
    for (name, what) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if edit::list(service, &["spec", name]).len() == 2 {
            let detail = format!(
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple {what} are \
                 specified"
            );
            errors.push(FieldError::invalid(POLICY, policy, detail));
        }
    }
}

/// The families of addresses that are given.
fn infer_families(service: &mut Value, configured: &Configured, errors: &mut Errors) {
    let addresses = texts(edit::at(service, &["spec", "clusterIPs"]));
    let mut names = texts(edit::at(service, &["spec", "ipFamilies"]));
    for (index, address) in addresses.iter().enumerate() {
        let Ok(parsed) = address.parse() else { break };
        let family = Family::of(parsed);
        if index < names.len() {
            continue;
        }
        if configured.has(family) {
            names.push(family.name().to_owned());
        } else {
            let path = format!("spec.clusterIPs[{index}]");
            let detail = format!("{} is not configured on this cluster", family.name());
            errors.push(FieldError::invalid(path, json!(addresses), detail));
        }
    }
    if let Some(spec) = edit::object(service, "spec")
        && !names.is_empty()
    {
        edit::set(spec, "ipFamilies", names);
    }
}

fn check_configured(service: &Value, configured: &Configured, errors: &mut Errors) {
    let policy = text(service, &["spec", "ipFamilyPolicy"]);
    if policy == REQUIRE && !configured.is_dual() {
        let detail = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid(POLICY, policy, detail));
    }
    for (index, family) in families(service).into_iter().enumerate() {
        if !configured.has(family) {
            let path = format!("spec.ipFamilies[{index}]");
            let detail = "not configured on this cluster";
            errors.push(FieldError::invalid(path, family.name(), detail));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ranges::Range;
    use super::*;

    fn configured(ranges: &[&str]) -> Configured {
        Configured { ranges: ranges.iter().map(|text| Range::parse(text).unwrap()).collect() }
    }

    /// What becomes of a new service: its policy and families, or the first fault.
    fn settled(spec: &str, ranges: &[&str]) -> String {
        let spec: Value = serde_json::from_str(spec).unwrap();
        let mut service = json!({"spec": spec});
        match settle(&mut service, None, &configured(ranges)) {
            Ok(()) => {
                let families = texts(edit::at(&service, &["spec", "ipFamilies"])).join(",");
                format!("{} {families}", text(&service, &["spec", "ipFamilyPolicy"]))
            }
            Err(errors) => errors[0].to_string(),
        }
    }

    #[test]
    fn families_follow_from_what_is_asked_and_what_there_is() {
        const V4: &[&str] = &["10.96.0.0/16"];
        const V6: &[&str] = &["fd00::/112"];
        const BOTH: &[&str] = &["10.96.0.0/16", "fd00::/112"];
        const SWAPPED: &[&str] = &["fd00::/112", "10.96.0.0/16"];
        let cases: &[(&str, &[&str], &str)] = &[
            ("{}", V4, "SingleStack IPv4"),
            ("{}", V6, "SingleStack IPv6"),
            ("{}", BOTH, "SingleStack IPv4"),
            ("{}", SWAPPED, "SingleStack IPv6"),
            (r#"{"ipFamilyPolicy":"PreferDualStack"}"#, V4, "PreferDualStack IPv4"),
            (r#"{"ipFamilyPolicy":"PreferDualStack"}"#, BOTH, "PreferDualStack IPv4,IPv6"),
            (r#"{"ipFamilyPolicy":"RequireDualStack"}"#, SWAPPED, "RequireDualStack IPv6,IPv4"),
            (r#"{"ipFamilies":["IPv6"]}"#, BOTH, "SingleStack IPv6"),
            (
                r#"{"ipFamilyPolicy":"PreferDualStack","ipFamilies":["IPv6"]}"#,
                BOTH,
                "PreferDualStack IPv6,IPv4",
            ),
            (r#"{"clusterIP":"fd00::5","clusterIPs":["fd00::5"]}"#, BOTH, "SingleStack IPv6"),
            (r#"{"clusterIP":"None","clusterIPs":["None"]}"#, V4, "RequireDualStack IPv4,IPv6"),
            (
                r#"{"clusterIP":"None","clusterIPs":["None"],"selector":{"a":"b"}}"#,
                V4,
                "SingleStack IPv4",
            ),
            (
                r#"{"clusterIP":"None","clusterIPs":["None"],"ipFamilyPolicy":"SingleStack"}"#,
                V4,
                "SingleStack IPv4",
            ),
            (r#"{"type":"ExternalName"}"#, V4, " "),
            (
                r#"{"clusterIP":"10.96.0.2","clusterIPs":["10.96.0.2","fd00::2"]}"#,
                BOTH,
                "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' \
                 or 'PreferDualStack' when multiple cluster IPs are specified",
            ),
            (
                r#"{"ipFamilies":["IPv4","IPv4"]}"#,
                BOTH,
                "spec.ipFamilies[1]: Duplicate value: \"IPv4\"",
            ),
        ];
        for (spec, ranges, expected) in cases {
            assert_eq!(settled(spec, ranges), *expected, "{spec}");
        }
    }
}
