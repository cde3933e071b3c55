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
