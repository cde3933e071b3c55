//! Addresses grouped by the ports they share, in one order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reconcile::Object;
use serde_json::{Value, json};

use crate::pods;
use crate::service_pods::{self, Leaving};

/// More addresses make an object that is too large to send around.
pub const ADDRESSES_MAX: usize = 1_000;

#[derive(Debug, PartialEq)]
pub struct Subsets {
    pub list: Vec<Value>,
    /// Whether there are more addresses than may be listed.
    pub is_truncated: bool,
}

#[derive(Default)]
struct Addresses {
    ready: BTreeMap<String, Value>,
    unready: BTreeMap<String, Value>,
}

pub fn of(service: &Object, pods: &[Arc<Object>]) -> Subsets {
    let mut groups = group(service, pods);
    let is_truncated = truncate(&mut groups);
    let list = groups.into_iter().filter_map(|(ports, addresses)| subset(&ports, addresses));
    Subsets { list: list.collect(), is_truncated }
}

fn group(service: &Object, pods: &[Arc<Object>]) -> BTreeMap<String, Addresses> {
    let publishes_unready = service_pods::publishes_unready(service);
    let leaving = if publishes_unready { Leaving::Listed } else { Leaving::LeftOut };
    let main = service_pods::families(service)[0];
    let has_ports = service.value["spec"]["ports"].as_array().is_some_and(|it| !it.is_empty());
    let mut groups: BTreeMap<String, Addresses> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| service_pods::is_listed(pod, leaving)) {
        let Some(ip) = service_pods::addresses(pod, main).into_iter().next() else { continue };
        let ports: BTreeSet<String> =
            service_pods::ports(service, pod).into_iter().map(nameless).collect();
        // Only a service without ports and without an address of its own needs none.
        if ports.is_empty() && (has_ports || !service_pods::is_headless(service)) {
            continue;
        }
        let ports: Vec<String> = ports.into_iter().collect();
        let group = groups.entry(format!("[{}]", ports.join(","))).or_default();
        let is_ready = publishes_unready || pods::is_ready(pod);
        let side = if is_ready { &mut group.ready } else { &mut group.unready };
        side.insert(format!("{ip} {}", pod.uid), address(service, pod, &ip));
    }
    groups
}

/// The name of a port is left out when it is empty.
fn nameless(mut port: Value) -> String {
    if port["name"] == ""
        && let Some(fields) = port.as_object_mut()
    {
        fields.remove("name");
    }
    port.to_string()
}

fn address(service: &Object, pod: &Object, ip: &str) -> Value {
    let mut address = json!({"ip": ip, "targetRef": service_pods::reference(pod)});
    let node = pods::node(pod);
    if !node.is_empty() {
        address["nodeName"] = json!(node);
    }
    if let Some(hostname) = service_pods::hostname(pod, service) {
        address["hostname"] = json!(hostname);
    }
    address
}

/// Drops what is too much: first of those that are not ready; from every group in proportion.
fn truncate(groups: &mut BTreeMap<String, Addresses>) -> bool {
    let ready: usize = groups.values().map(|group| group.ready.len()).sum();
    let unready: usize = groups.values().map(|group| group.unready.len()).sum();
    if ready + unready <= ADDRESSES_MAX {
        return false;
    }
    let is_over = ready > ADDRESSES_MAX;
    let (total, room) =
        if is_over { (ready, ADDRESSES_MAX) } else { (unready, ADDRESSES_MAX - ready) };
    let mut left = room;
    for group in groups.values_mut() {
        if is_over {
            group.unready.clear();
        }
        let side = if is_over { &mut group.ready } else { &mut group.unready };
        let share = (side.len() * room).div_ceil(total).min(left).min(side.len());
        left -= share;
        while side.len() > share {
            side.pop_last();
        }
    }
    true
}

fn subset(ports: &str, addresses: Addresses) -> Option<Value> {
    let list = |side: BTreeMap<String, Value>| side.into_values().collect::<Vec<_>>();
    let (ready, unready) = (list(addresses.ready), list(addresses.unready));
    if ready.is_empty() && unready.is_empty() {
        return None;
    }
    let mut subset = json!({});
    for (field, list) in [("addresses", ready), ("notReadyAddresses", unready)] {
        if !list.is_empty() {
            subset[field] = json!(list);
        }
    }
    let ports: Value = serde_json::from_str(ports).unwrap_or(Value::Null);
    if ports.as_array().is_some_and(|ports| !ports.is_empty()) {
        subset["ports"] = ports;
    }
    Some(subset)
}
