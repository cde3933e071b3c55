//! What a machine is told when it first starts: its users and keys, and the addresses of its
//! interfaces, which are read from a part of their own.

use serde_json::{Map, Value, json};

use super::networks::{Networks, hardware_address};
use super::observe::Keys;
use super::spec::{POD_NETWORK, Wukong};
use crate::value::{find, list, text};

pub const SUDO: &str = "ALL=(ALL) NOPASSWD:ALL";
pub const SHELL: &str = "/bin/bash";
const GROUPS: [&str; 10] =
    ["sudo", "adm", "dialout", "cdrom", "floppy", "audio", "dip", "video", "plugdev", "netdev"];

/// The source of the volume, if there is anything to tell.
pub fn source(wukong: &Wukong<'_>, networks: &Networks, keys: &Keys) -> Option<Value> {
    let spec = wukong.spec();
    let addresses = network_data(wukong, networks);
    let is_told = spec["cloudInitUser"].is_object()
        || !text(&spec["sshKeySecret"]).is_empty()
        || !text(&spec["osImage"]).is_empty()
        || addresses.is_some();
    if !is_told {
        return None;
    }
    let mut source = json!({"userData": user_data(spec, keys)});
    if let Some(addresses) = addresses {
        source["networkData"] = json!(yaml(&addresses));
    }
    Some(source)
}

fn yaml(value: &Value) -> String {
    // Keys stay on their lines: small images read this with less than a reader of YAML.
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    serde_saphyr::to_string_with_options(value, options).unwrap_or_else(|_| value.to_string())
}

fn user_data(spec: &Value, keys: &Keys) -> String {
    let keys: &[String] = match keys {
        Keys::Found(keys) => keys,
        _ => &[],
    };
    let mut told = json!({"ssh_pwauth": true, "disable_root": false});
    if spec["cloudInitUser"].is_object() {
        told["users"] = json!([user(&spec["cloudInitUser"], keys)]);
    }
    if !keys.is_empty() {
        told["ssh_authorized_keys"] = json!(keys);
    }
    format!("#cloud-config\n{}", yaml(&told))
}

fn user(user: &Value, keys: &[String]) -> Value {
    let or = |field: &str, default: &str| match text(&user[field]) {
        "" => default.to_owned(),
        own => own.to_owned(),
    };
    let groups: Vec<&str> = match list(&user["groups"]) {
        [] => GROUPS.to_vec(),
        own => own.iter().map(text).collect(),
    };
    let mut told = json!({
        "name": user["name"],
        "sudo": or("sudo", SUDO),
        "shell": or("shell", SHELL),
        "groups": groups.join(", "),
        "lock_passwd": user["lockPasswd"] == true,
    });
    match (text(&user["passwordHash"]), text(&user["password"])) {
        ("", "") => {}
        // Only what is a hash is read as `passwd`.
        ("", plain) => told["plain_text_passwd"] = json!(plain),
        (hash, _) => told["passwd"] = json!(hash),
    }
    // Keys beside the users are for the one that the image brings.
    if !keys.is_empty() {
        told["ssh_authorized_keys"] = json!(keys);
    }
    told
}

/// The addresses, if any network says how it has its own. Interfaces are known by the addresses of
/// their hardware, which are ours to choose.
fn network_data(wukong: &Wukong<'_>, networks: &Networks) -> Option<Value> {
    let config = |name: &str| {
        let network = find(&wukong.spec()["networks"], "name", name);
        network.map_or(&Value::Null, |network| &network["ipConfig"])
    };
    if !networks.attached.iter().any(|network| config(&network.name).is_object()) {
        return None;
    }
    let mut interfaces = Map::new();
    if networks.has_pods {
        let mut first = interface(wukong, POD_NETWORK, 0);
        first["dhcp4"] = json!(true);
        interfaces.insert(POD_NETWORK.to_owned(), first);
    }
    for (number, network) in (1..).zip(&networks.attached) {
        let mut told = interface(wukong, &network.name, number);
        address(&mut told, config(&network.name));
        interfaces.insert(network.name.clone(), told);
    }
    Some(json!({"version": 2, "ethernets": interfaces}))
}

fn interface(wukong: &Wukong<'_>, network: &str, number: usize) -> Value {
    json!({"match": {"macaddress": hardware_address(wukong, network)},
        "set-name": format!("eth{number}")})
}

fn address(told: &mut Value, config: &Value) {
    match text(&config["mode"]) {
        "static" => {
            told["addresses"] = json!([config["address"]]);
            if !text(&config["gateway"]).is_empty() {
                told["routes"] = json!([{"to": "default", "via": config["gateway"]}]);
            }
            if !list(&config["dnsServers"]).is_empty() {
                told["nameservers"] = json!({"addresses": config["dnsServers"]});
            }
        }
        "dhcp" => told["dhcp4"] = json!(true),
        // A machine must not wait for what nobody gives.
        _ => told["optional"] = json!(true),
    }
}
