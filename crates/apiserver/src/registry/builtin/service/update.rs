//! Changing a service: what was given out is kept, what no longer fits its type is dropped.
//!
//! Upstream: pkg/registry/core/service/strategy.go, .../storage/storage.go (patchAllocatedValues)

use serde_json::Value;

use super::{needs_cluster_ip, needs_health_check_port, needs_node_ports};
use crate::registry::checks::Errors;
use crate::registry::edit::{self, each_mut};
use crate::registry::field::Field;

pub fn prepare(service: &mut Value, old: &Value) {
    follow_one_address(service, old);
    keep_allocated(service, old);
    drop_unused(service, old);
}

/// Who changes only `clusterIP` means the list too.
fn follow_one_address(service: &mut Value, old: &Value) {
    let old = edit::at(old, &["spec"]);
    let Some(spec) = edit::object(service, "spec") else { return };
    let unchanged = |name: &str, spec: &Value| edit::at(spec, &[name]) == edit::at(old, &[name]);
    if !unchanged("clusterIP", spec) && unchanged("clusterIPs", spec) {
        let one = edit::at(spec, &["clusterIP"]).clone();
        match edit::is_empty(&one) {
            true => {
                edit::remove(spec, "clusterIPs");
            }
            false => edit::set(spec, "clusterIPs", vec![one]),
        }
    }
}

fn keep_allocated(service: &mut Value, old: &Value) {
    let had_address = needs_cluster_ip(old);
    let old_spec = edit::at(old, &["spec"]);
    if had_address && needs_cluster_ip(service) {
        let Some(spec) = edit::object(service, "spec") else { return };
        if edit::text(spec, &["clusterIP"]).is_empty() {
            edit::copy_field(spec, old_spec, "clusterIP");
        }
        if edit::list(spec, &["clusterIPs"]).is_empty()
            && spec.get("clusterIP") == old_spec.get("clusterIP")
        {
            edit::copy_field(spec, old_spec, "clusterIPs");
        }
        for name in ["ipFamilies", "ipFamilyPolicy"] {
            if !edit::has(spec, &[name]) {
                edit::copy_field(spec, old_spec, name);
            }
        }
    }
    if needs_node_ports(old) && needs_node_ports(service) {
        keep_node_ports(service, old_spec);
    }
    if needs_health_check_port(old) && needs_health_check_port(service) {
        let Some(spec) = edit::object(service, "spec") else { return };
        if edit::int(spec, &["healthCheckNodePort"]).unwrap_or(0) == 0 {
            edit::copy_field(spec, old_spec, "healthCheckNodePort");
        }
    }
}

/// A port keeps its node port; the same port in another order is the same port.
fn keep_node_ports(service: &mut Value, old: &Value) {
    let number = |port: &Value| edit::int(port, &["nodePort"]).unwrap_or(0);
    let ports = edit::list(service, &["spec", "ports"]);
    let mut taken: Vec<i64> = ports.iter().map(number).collect();
    for port in each_mut(service, &["spec", "ports"]) {
        if number(port) != 0 {
            continue;
        }
        let same = |old: &&Value| {
            old.get("protocol") == port.get("protocol")
                && old.get("port") == port.get("port")
                && number(old) != 0
                && !taken.contains(&number(old))
        };
        if let Some(old) = edit::list(old, &["ports"]).iter().find(same) {
            taken.push(number(old));
            edit::copy_field(port, old, "nodePort");
        }
    }
}

/// Fields that the new type has no use for go, unless the client changed them.
fn drop_unused(service: &mut Value, old: &Value) {
    let address = needs_cluster_ip(old) && !needs_cluster_ip(service);
    let external = edit::text(service, &["spec", "type"]) == "ExternalName";
    let ports = needs_node_ports(old) && !needs_node_ports(service);
    let check = needs_health_check_port(old) && !needs_health_check_port(service);
    let balanced = |it: &Value| edit::text(it, &["spec", "type"]) == "LoadBalancer";
    let balancer = balanced(old) && !balanced(service);
    let old = edit::at(old, &["spec"]);
    let Some(spec) = edit::object(service, "spec") else { return };
    let mut drop = |names: &[&str]| {
        for name in names {
            if spec.get(name) == old.get(name) {
                edit::remove(spec, name);
            }
        }
    };
    if address && external {
        drop(&["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"]);
    }
    if check {
        drop(&["healthCheckNodePort"]);
    }
    if balancer {
        drop(&["allocateLoadBalancerNodePorts", "loadBalancerClass"]);
    }
    if !super::is_externally_accessible(spec)
        && spec.get("externalTrafficPolicy") == old.get("externalTrafficPolicy")
    {
        edit::remove(spec, "externalTrafficPolicy");
    }
    if ports {
        let old = edit::list(old, &["ports"]);
        for port in each_mut(spec, &["ports"]) {
            if old.iter().any(|old| old.get("nodePort") == port.get("nodePort")) {
                edit::remove(port, "nodePort");
            }
        }
    }
}

pub fn validate(root: &Field<'_>, old: &Value, errors: &mut Errors) {
    let spec = root.at("spec");
    let external = |it: &Value| edit::text(it, &["spec", "type"]) == "ExternalName";
    if !external(root.value) && !external(old) {
        let old = edit::at(old, &["spec"]);
        let addresses = spec.at("clusterIPs");
        for (index, was) in edit::list(old, &["clusterIPs"]).iter().enumerate() {
            let path = format!("{}[{index}]", addresses.path());
            let detail = match spec.list("clusterIPs").get(index) {
                Some(new) if new != was => "may not change once set",
                None if index == 0 => "primary clusterIP can not be unset",
                _ => continue,
            };
            let shown = addresses.value.clone();
            errors.push(crate::field_error::FieldError::invalid(path, shown, detail));
        }
        let families = spec.at("ipFamilies");
        if let (Some(was), Some(new)) =
            (edit::list(old, &["ipFamilies"]).first(), spec.list("ipFamilies").first())
            && was != new
        {
            let path = format!("{}[0]", families.path());
            let shown = families.value.clone();
            let detail = "may not change once set";
            errors.push(crate::field_error::FieldError::invalid(path, shown, detail));
        }
    }
    let class = spec.at("loadBalancerClass");
    let balanced = |it: &Value| edit::text(it, &["spec", "type"]) == "LoadBalancer";
    if balanced(root.value)
        && balanced(old)
        && class.value != edit::at(old, &["spec", "loadBalancerClass"])
    {
        errors.push(class.invalid("may not change once set"));
    }
    let check = spec.at("healthCheckNodePort");
    if needs_health_check_port(root.value)
        && needs_health_check_port(old)
        && check.value != edit::at(old, &["spec", "healthCheckNodePort"])
    {
        errors.push(check.forbidden("field is immutable"));
    }
}
