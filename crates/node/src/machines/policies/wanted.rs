//! What a policy asks of the interfaces of a node, as far as a node does it; what it does not do is
//! refused with a reason. Pure.
//!
//! Upstream: nmstate/nmstate, the description of a state

use std::net::Ipv4Addr;

use serde_json::Value;

use crate::machines::volumes::{list, text};
use crate::network::interfaces::Address;

const TAGS: std::ops::RangeInclusive<u64> = 1..=4_094;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// In the order of the policy.
    pub tagged: Vec<Tagged>,
    pub bridges: Vec<Bridge>,
    /// Interfaces that must be there.
    pub devices: Vec<String>,
}

/// An interface for what of another carries a tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tagged {
    pub name: String,
    pub base: String,
    pub tag: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bridge {
    pub name: String,
    pub ports: Vec<String>,
    /// Of the node, on the bridge.
    pub addresses: Vec<Address>,
}

/// Reads the state that a policy describes.
///
/// # Errors
/// Says what of it this node does not do.
pub fn wanted(state: &Value) -> Result<Wanted, String> {
    let others = state.as_object().into_iter().flatten().map(|(part, _)| part.as_str());
    if let Some(other) = others.into_iter().find(|part| *part != "interfaces") {
        return Err(format!("desiredState.{other}: nodes of this cluster set up interfaces only"));
    }
    let mut wanted = Wanted::default();
    for (at, interface) in list(&state["interfaces"]).iter().enumerate() {
        let at = format!("desiredState.interfaces[{at}]");
        let name = text(&interface["name"]).to_owned();
        check_name(&at, &name)?;
        match interface["state"].as_str().unwrap_or("up") {
            "up" => {}
            // What a policy made goes when no policy asks for it.
            "absent" => continue,
            other => return Err(format!("{at}.state: {other:?} is neither up nor absent")),
        }
        match text(&interface["type"]) {
            "linux-bridge" => wanted.bridges.push(bridge(&at, name, interface)?),
            "vlan" => wanted.tagged.push(tagged(&at, name, &interface["vlan"])?),
            "ethernet" => wanted.devices.push(name),
            other => {
                return Err(format!(
                    "{at}.type: nodes of this cluster set up linux-bridge and vlan, and take \
                     ethernet as it is, not {other:?}"
                ));
            }
        }
    }
    Ok(wanted)
}

fn check_name(at: &str, name: &str) -> Result<(), String> {
    hypervisor::bridge::check(name).map_err(|error| format!("{at}.name: {error}"))
}

fn tagged(at: &str, name: String, vlan: &Value) -> Result<Tagged, String> {
    let base = text(&vlan["base-iface"]).to_owned();
    check_name(&format!("{at}.vlan.base-iface"), &base)?;
    let tag = vlan["id"].as_u64().filter(|tag| TAGS.contains(tag));
    let tag = tag.and_then(|tag| u16::try_from(tag).ok());
    let tag = tag.ok_or_else(|| format!("{at}.vlan.id must be between 1 and 4094"))?;
    Ok(Tagged { name, base, tag })
}

fn bridge(at: &str, name: String, interface: &Value) -> Result<Bridge, String> {
    if interface["bridge"]["options"]["stp"]["enabled"] == true {
        return Err(format!("{at}.bridge.options.stp: nodes of this cluster speak none"));
    }
    let mut ports = Vec::new();
    for port in list(&interface["bridge"]["port"]) {
        check_name(&format!("{at}.bridge.port"), text(&port["name"]))?;
        if !port["vlan"].is_null() {
            return Err(format!(
                "{at}.bridge.port: a port takes part in all of a bridge; use an interface of type \
                 vlan"
            ));
        }
        ports.push(text(&port["name"]).to_owned());
    }
    let ipv4 = &interface["ipv4"];
    if ipv4["dhcp"] == true {
        return Err(format!("{at}.ipv4.dhcp: nodes of this cluster do not ask for addresses"));
    }
    let mut addresses = Vec::new();
    for address in list(&ipv4["address"]).iter().filter(|_| ipv4["enabled"] != false) {
        let own = text(&address["ip"]).parse::<Ipv4Addr>().ok();
        let length = address["prefix-length"].as_u64().and_then(|length| u8::try_from(length).ok());
        match (own, length.filter(|length| *length <= 32)) {
            (Some(own), Some(length)) => addresses.push((own, length)),
            _ => return Err(format!("{at}.ipv4.address: {address} is no address")),
        }
    }
    Ok(Bridge { name, ports, addresses })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bridges_on_devices_and_on_tagged_parts_of_them_are_understood() {
        let tagged = json!({"interfaces": [
            {"name": "eth1.7", "type": "vlan", "state": "up",
                "vlan": {"base-iface": "eth1", "id": 7}},
            {"name": "br-lan", "type": "linux-bridge", "state": "up",
                "bridge": {"options": {"stp": {"enabled": false}},
                    "port": [{"name": "eth1.7"}]}},
            {"name": "old", "type": "linux-bridge", "state": "absent"},
        ]});
        let expected = Wanted {
            tagged: vec![Tagged { name: "eth1.7".into(), base: "eth1".into(), tag: 7 }],
            bridges: vec![Bridge {
                name: "br-lan".into(),
                ports: vec!["eth1.7".into()],
                addresses: Vec::new(),
            }],
            devices: Vec::new(),
        };
        assert_eq!(wanted(&tagged), Ok(expected));
        let plain = json!({"interfaces": [
            {"name": "br", "type": "linux-bridge", "bridge": {"port": [{"name": "eth1"}]},
                "ipv4": {"enabled": true, "address": [{"ip": "10.1.2.3", "prefix-length": 24}]}},
            {"name": "eth1", "type": "ethernet", "ipv4": {"enabled": false}},
        ]});
        let found = wanted(&plain).expect("understood");
        assert_eq!(found.bridges[0].addresses, [(Ipv4Addr::new(10, 1, 2, 3), 24)]);
        assert_eq!(found.devices, ["eth1"]);
        assert_eq!(wanted(&json!({})), Ok(Wanted::default()));
    }

    #[test]
    fn what_is_not_done_is_said() {
        let one = |interface: Value| wanted(&json!({"interfaces": [interface]})).unwrap_err();
        for (interface, why) in [
            (json!({"name": "b", "type": "ovs-bridge"}), "not \"ovs-bridge\""),
            (json!({"name": "../b", "type": "linux-bridge"}), "is no name of a bridge"),
            (json!({"name": "b", "type": "ethernet", "state": "down"}), "neither up nor absent"),
            (
                json!({"name": "v", "type": "vlan", "vlan": {"base-iface": "e", "id": 4095}}),
                "between 1 and 4094",
            ),
            (json!({"name": "b", "type": "linux-bridge", "ipv4": {"dhcp": true}}), "ipv4.dhcp"),
            (
                json!({"name": "b", "type": "linux-bridge",
                "ipv4": {"address": [{"ip": "10.0.0.1", "prefix-length": 33}]}}),
                "no address",
            ),
            (
                json!({"name": "b", "type": "linux-bridge",
                "bridge": {"port": [{"name": "e", "vlan": {}}]}}),
                "interface of type vlan",
            ),
        ] {
            let said = one(interface);
            assert!(said.contains(why), "{said}");
        }
        assert!(wanted(&json!({"routes": {}})).unwrap_err().starts_with("desiredState.routes"));
    }
}
