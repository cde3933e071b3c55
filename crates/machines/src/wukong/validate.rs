//! What is wrong with a Wukong, in the words of its webhook; the operator asks the same, for
//! clusters whose webhook is off.

use std::collections::BTreeSet;
use std::net::IpAddr;

use amounts::Quantity;
use serde_json::Value;

use super::disks::CLAIM_SCHEME;
use super::exposure;
use super::spec::{INTERFACE_LENGTH_MAX, POD_NETWORK};
use crate::value::{list, text};

/// The volume with what a machine is told when it first starts has this name.
pub const CLOUD_INIT_VOLUME: &str = "cloudinitdisk";

/// Everything that is wrong with a specification; disks without a class may have the default.
pub fn spec(spec: &Value, default_class: Option<&str>) -> Vec<String> {
    let mut wrong = Vec::new();
    let cpu = spec["cpu"].as_i64().unwrap_or(0);
    if !(1..=api::wukong::CPU_MAX).contains(&cpu) {
        wrong.push(format!("invalid CPU: must be between 1 and 64, got {cpu}"));
    }
    match text(&spec["memory"]) {
        "" => wrong.push("memory is required".to_owned()),
        memory if !is_amount(memory) => {
            wrong.push(format!("invalid memory: {memory:?} is not an amount"));
        }
        _ => {}
    }
    disks(&mut wrong, list(&spec["disks"]), default_class);
    networks(&mut wrong, list(&spec["networks"]));
    let user = &spec["cloudInitUser"];
    if user.is_object() && text(&user["name"]).is_empty() {
        wrong.push("cloudInitUser.name is required".to_owned());
    }
    wrong
}

fn is_amount(amount: &str) -> bool {
    Quantity::parse(amount).is_ok_and(|amount| !amount.is_zero() && !amount.is_negative())
}

/// Whether a text can be the name of a claim.
fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let ends = |at: Option<u8>| at.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let all = text.bytes().all(|byte| is_plain(byte) || byte == b'.');
    all && ends(text.bytes().next()) && ends(text.bytes().last()) && text.len() <= 253
}

fn disks(wrong: &mut Vec<String>, disks: &[Value], default_class: Option<&str>) {
    if disks.is_empty() {
        wrong.push("at least one disk is required".to_owned());
    }
    let mut names = BTreeSet::new();
    for (at, disk) in disks.iter().enumerate() {
        let (name, size) = (text(&disk["name"]), text(&disk["size"]));
        if name.is_empty() {
            wrong.push(format!("disk[{at}].name is required"));
        } else if !names.insert(name) {
            wrong.push(format!("disk[{at}].name {name:?} is used twice"));
        }
        if name == CLOUD_INIT_VOLUME {
            wrong.push(format!("disk[{at}].name {name:?} is reserved"));
        }
        if size.is_empty() {
            wrong.push(format!("disk[{at}].size is required"));
        } else if !is_amount(size) {
            wrong.push(format!("disk[{at}].size {size:?} is not an amount"));
        }
        if let Some(claim) = text(&disk["image"]).strip_prefix(CLAIM_SCHEME)
            && !is_name(claim)
        {
            wrong.push(format!(
                "disk[{at}].image {CLAIM_SCHEME} must be followed by the name of a claim of the \
                 same namespace, got {claim:?}"
            ));
        }
        if disk["cloneType"] == "linked" && !text(&disk["image"]).starts_with(CLAIM_SCHEME) {
            wrong.push(format!(
                "disk[{at}].cloneType linked needs an image that is a claim: {CLAIM_SCHEME}NAME"
            ));
        }
        if text(&disk["storageClassName"]).is_empty() && default_class.is_none() {
            wrong.push(format!("disk[{at}].storageClassName is required"));
        }
    }
    if disks.iter().filter(|disk| disk["boot"] == true).count() > 1 {
        wrong.push("only one disk may have boot".to_owned());
    }
}

fn networks(wrong: &mut Vec<String>, networks: &[Value]) {
    let mut names = BTreeSet::new();
    for (at, network) in networks.iter().enumerate() {
        let (name, kind) = (text(&network["name"]), text(&network["type"]));
        if name.is_empty() {
            wrong.push(format!("network[{at}].name is required"));
        } else if !names.insert(name) {
            wrong.push(format!("network[{at}].name {name:?} is used twice"));
        }
        if kind.is_empty() && name != POD_NETWORK {
            wrong.push(format!(
                "network[{at}].type is required (default network does not need type)"
            ));
        } else if !kind.is_empty() && !api::wukong::NETWORK_TYPES.contains(&kind) {
            wrong.push(format!(
                "network[{at}].type must be one of: bridge, macvlan, sriov, ovs, got {kind}"
            ));
        }
        if let Some(vlan) = network["vlanId"].as_i64()
            && !(1..=api::wukong::VLAN_MAX).contains(&vlan)
        {
            wrong.push(format!("network[{at}].vlanId must be between 1 and 4094, got {vlan}"));
        }
        interfaces(wrong, at, network);
        exposure::check(wrong, at, network);
        if network["ipConfig"].is_object() {
            addresses(wrong, at, &network["ipConfig"]);
        }
        let node = text(&network["nodeIP"]);
        if !node.is_empty() && subnet(node).is_none() {
            wrong.push(format!("network[{at}].nodeIP {node:?} is not an address and a prefix"));
        }
    }
    if networks.iter().filter(|network| network["primary"] == true).count() > 1 {
        wrong.push("only one network may be primary".to_owned());
    }
}

/// Names of interfaces of the machines of the cluster.
fn interfaces(wrong: &mut Vec<String>, at: usize, network: &Value) {
    let mut check = |field: &str, name: &str| {
        if !name.is_empty() && !is_interface(name) {
            wrong.push(format!(
                "network[{at}].{field} {name:?} is no name of an interface: it has at most \
                 {INTERFACE_LENGTH_MAX} characters, without `/`, `:`, `%` and blanks"
            ));
        }
    };
    check("bridgeName", text(&network["bridgeName"]));
    let physical = text(&network["physicalInterface"]);
    // Of SR-IOV it is a pool of them.
    if network["type"] == "sriov" {
        return;
    }
    match network["vlanId"].as_i64() {
        Some(vlan) if !physical.is_empty() => {
            check("physicalInterface", &format!("{physical}.{vlan}"));
        }
        _ => check("physicalInterface", physical),
    }
}

fn is_interface(name: &str) -> bool {
    let is_known = |byte: u8| byte.is_ascii_graphic() && !b"/:%".contains(&byte);
    let is_short = (1..=INTERFACE_LENGTH_MAX).contains(&name.len());
    is_short && name != "." && name != ".." && name.bytes().all(is_known)
}

fn addresses(wrong: &mut Vec<String>, at: usize, config: &Value) {
    let mode = text(&config["mode"]);
    if !["static", "dhcp"].contains(&mode) {
        wrong.push(format!("network[{at}].ipConfig.mode must be 'static' or 'dhcp', got {mode}"));
    }
    if mode != "static" {
        return;
    }
    let (address, gateway) = (text(&config["address"]), text(&config["gateway"]));
    if address.is_empty() {
        wrong.push(format!("network[{at}].ipConfig.address is required when mode is 'static'"));
        return;
    }
    let Some((own, length)) = subnet(address) else {
        wrong.push(format!(
            "network[{at}].ipConfig.address {address:?} is not an address and a prefix"
        ));
        return;
    };
    for server in list(&config["dnsServers"]) {
        if text(server).parse::<IpAddr>().is_err() {
            wrong.push(format!("network[{at}].ipConfig.dnsServers {server} is not an address"));
        }
    }
    if gateway.is_empty() {
        return;
    }
    match gateway.parse::<IpAddr>() {
        Ok(gateway) if is_within(gateway, own, length) => {}
        Ok(_) => {
            wrong.push(format!("network[{at}].ipConfig.gateway {gateway} is outside of {address}"))
        }
        Err(_) => {
            wrong.push(format!("network[{at}].ipConfig.gateway {gateway:?} is not an address"));
        }
    }
}

/// `192.168.1.10/24`.
pub fn subnet(text: &str) -> Option<(IpAddr, u32)> {
    let (address, length) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let length: u32 = length.parse().ok()?;
    (length <= bits(address).1).then_some((address, length))
}

/// An address as a number, and how many bits that has.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)), 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    }
}

fn is_within(address: IpAddr, own: IpAddr, length: u32) -> bool {
    let ((address, width), (own, own_width)) = (bits(address), bits(own));
    let host = own_width - length;
    width == own_width && (host >= 128 || address >> host == own >> host)
}

/// What may not become of a specification that was written.
pub fn update(old: &Value, new: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let cpu = |spec: &Value| spec["cpu"].as_i64().unwrap_or(0);
    if cpu(new) < cpu(old) {
        wrong.push(format!("CPU cannot be reduced from {} to {}", cpu(old), cpu(new)));
    }
    let (before, after) = (text(&old["memory"]), text(&new["memory"]));
    if is_less(after, before) {
        wrong.push(format!("memory cannot be reduced from {before} to {after}"));
    }
    let (before, after) = (list(&old["disks"]), list(&new["disks"]));
    if after.len() < before.len() {
        wrong.push(format!(
            "disks cannot be removed, current: {}, new: {}",
            before.len(),
            after.len()
        ));
        return wrong;
    }
    for disk in before {
        let name = text(&disk["name"]);
        let Some(at) = after.iter().position(|one| one["name"] == name) else {
            wrong.push(format!("disks cannot be removed: {name:?} is missing"));
            continue;
        };
        let (was, is) = (text(&disk["size"]), text(&after[at]["size"]));
        if is_less(is, was) {
            wrong.push(format!("disk[{at}].size cannot be reduced from {was} to {is}"));
        }
    }
    wrong
}

fn is_less(amount: &str, than: &str) -> bool {
    match (Quantity::parse(amount), Quantity::parse(than)) {
        (Ok(amount), Ok(than)) => amount.minus(&than).is_negative(),
        _ => false,
    }
}
