//! Which ports of a machine services lead to, and how the cluster is told where they are. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use hypervisor::{Port, Protocol};
use reconcile::{Object, Selector, conditions, names};
use serde_json::{Value, json};

use super::super::kinds::INSTANCE;
use super::super::volumes::{list, text};
use crate::network::services::ENDPOINT_SLICE;

pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Whose slices these are; others leave them alone.
pub const MANAGER: &str = "machine-launcher.setpoint.dev";
const HEADLESS: &str = "service.kubernetes.io/headless";

/// A port of a service, and what it leads to in the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    pub name: String,
    pub app_protocol: Option<String>,
    pub port: Port,
}

/// What a service asks of a machine that it selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub served: Vec<Served>,
    /// Why ports lead nowhere.
    pub unserved: Vec<String>,
}

/// Where a machine is reached.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    pub node: &'a str,
    pub address: Ipv4Addr,
    pub open: &'a BTreeMap<Port, u16>,
}

/// Whether a machine is there to be reached: it runs, here.
pub fn is_listed(instance: &Object, node: &str) -> bool {
    let status = &instance.value["status"];
    status["nodeName"] == node && status["phase"] == "Running"
}

/// Whether a service leads to a machine.
pub fn is_selected(service: &Object, instance: &Object) -> bool {
    let spec = &service.value["spec"];
    let is_selecting = spec["selector"].as_object().is_some_and(|labels| !labels.is_empty());
    is_selecting
        && spec["type"] != "ExternalName"
        && Selector::of_labels(&spec["selector"]).matches(instance)
}

/// The ports of a service as a machine has them.
pub fn asked(service: &Object, instance: &Object) -> Asked {
    let declared = declared(instance);
    let mut asked = Asked::default();
    for port in list(&service.value["spec"]["ports"]) {
        match target(port, &declared) {
            Ok(target) => asked.served.push(Served {
                name: text(&port["name"]).to_owned(),
                app_protocol: port["appProtocol"].as_str().map(str::to_owned),
                port: target,
            }),
            Err(why) => asked.unserved.push(format!("port {}: {why}", port["port"])),
        }
    }
    asked
}

/// The ports that the interface to the network of pods says it has. Where it says nothing, it has
/// all of them.
fn declared(instance: &Object) -> Vec<(&str, Port)> {
    let spec = &instance.value["spec"];
    let elsewhere: BTreeSet<&str> = list(&spec["networks"])
        .iter()
        .filter(|network| network["multus"].is_object())
        .map(|network| text(&network["name"]))
        .collect();
    let interfaces = list(&spec["domain"]["devices"]["interfaces"]).iter();
    let own = interfaces.filter(|interface| !elsewhere.contains(text(&interface["name"])));
    own.flat_map(|interface| list(&interface["ports"]))
        .filter_map(|port| {
            let protocol = protocol(port).ok()?;
            let number = number(&port["port"])?;
            Some((text(&port["name"]), Port { protocol, number }))
        })
        .collect()
}

fn target(port: &Value, declared: &[(&str, Port)]) -> Result<Port, String> {
    let protocol = protocol(port)?;
    let mut of_protocol = declared.iter().filter(|(_, port)| port.protocol == protocol);
    if let Some(named) = port["targetPort"].as_str() {
        let found = of_protocol.find(|(name, _)| *name == named);
        let found = found.map(|(_, port)| *port);
        return found.ok_or_else(|| format!("no interface of the machine has a port {named}"));
    }
    let target = Some(&port["targetPort"]).filter(|target| !target.is_null());
    let number = number(target.unwrap_or(&port["port"])).ok_or("it leads to no port")?;
    let target = Port { protocol, number };
    if !declared.is_empty() && !of_protocol.any(|(_, port)| *port == target) {
        return Err(format!("{number} is not among the ports of the machine's interface"));
    }
    Ok(target)
}

fn protocol(port: &Value) -> Result<Protocol, String> {
    match text(&port["protocol"]) {
        "TCP" | "" => Ok(Protocol::Tcp),
        "UDP" => Ok(Protocol::Udp),
        other => Err(format!("{other} does not reach machines: TCP and UDP do")),
    }
}

fn number(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|number| u16::try_from(number).ok()).filter(|number| *number != 0)
}

/// The slice of a service that leads to a machine: each has its own, since each has other ports of
/// the node. `None` where no port is open.
pub fn slice(
    service: &Object,
    instance: &Object,
    served: &[Served],
    place: Place<'_>,
) -> Option<Value> {
    let ports: Vec<Value> = served.iter().filter_map(|one| port(one, place.open)).collect();
    if ports.is_empty() {
        return None;
    }
    let mut labels = json!({SERVICE_NAME: &*service.name.name, MANAGED_BY: MANAGER});
    if matches!(service.value["spec"]["clusterIP"].as_str(), None | Some("" | "None")) {
        labels[HEADLESS] = json!("");
    }
    let (name, uid) = (&*instance.name.name, instance.uid.as_str());
    let namespace = &*instance.name.namespace;
    // It goes with the machine also where nobody is left on the node to remove it.
    let owner = json!({"apiVersion": INSTANCE.api_version(), "kind": INSTANCE.kind,
        "name": name, "uid": uid, "controller": true, "blockOwnerDeletion": false});
    Some(json!({
        "apiVersion": ENDPOINT_SLICE.api_version(), "kind": ENDPOINT_SLICE.kind,
        "metadata": {"namespace": namespace, "name": slice_name(service, instance),
            "labels": labels, "ownerReferences": [owner]},
        "addressType": "IPv4",
        "endpoints": [{
            "addresses": [place.address],
            "conditions": conditions_of(service, instance),
            "nodeName": place.node,
            "targetRef": {"kind": INSTANCE.kind, "namespace": namespace, "name": name, "uid": uid},
        }],
        "ports": ports,
    }))
}

fn slice_name(service: &Object, instance: &Object) -> String {
    let (service, machine) = (&*service.name.name, &*instance.name.name);
    let digest = names::digest(&[service, machine]);
    names::child(&format!("{service}-{machine}"), &digest[..5])
}

fn port(served: &Served, open: &BTreeMap<Port, u16>) -> Option<Value> {
    let protocol = match served.port.protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
    };
    let here = open.get(&served.port)?;
    let mut port = json!({"name": served.name, "port": here, "protocol": protocol});
    if let Some(app_protocol) = &served.app_protocol {
        port["appProtocol"] = json!(app_protocol);
    }
    Some(port)
}

/// One that is paused answers nobody; one that is being ended may still.
fn conditions_of(service: &Object, instance: &Object) -> Value {
    let is_serving = conditions::is_true(&instance.value["status"], "Ready");
    let is_terminating = instance.is_terminating();
    let is_always = service.value["spec"]["publishNotReadyAddresses"] == true;
    json!({"ready": is_always || (is_serving && !is_terminating), "serving": is_serving,
        "terminating": is_terminating})
}

/// Whether a slice that is there is one that is wanted, whatever it says: of the same service, and
/// of the same life of the machine.
pub fn is_it(found: &Object, wanted: &Value) -> bool {
    wanted["metadata"]["name"] == *found.name.name
        && wanted["metadata"]["ownerReferences"][0]["uid"].as_str() == found.controller()
}

/// Whether a slice says all that another does.
pub fn is_same(found: &Object, wanted: &Value) -> bool {
    let meta = &found.value["metadata"];
    ["labels", "ownerReferences"].iter().all(|field| meta[*field] == wanted["metadata"][*field])
        && ["endpoints", "ports"].iter().all(|field| found.value[*field] == wanted[*field])
}

/// The machine that a slice of ours leads to.
pub fn machine_of(slice: &Object) -> Option<reconcile::Name> {
    if slice.label(MANAGED_BY) != Some(MANAGER) {
        return None;
    }
    reconcile::owners::controller_name(slice, INSTANCE)
}

/// Whether a slice is for this node to keep; those of others are theirs.
pub fn is_of_node(slice: &Object, node: &str) -> bool {
    list(&slice.value["endpoints"]).iter().all(|endpoint| endpoint["nodeName"] == node)
}
