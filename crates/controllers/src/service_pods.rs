//! What pods are to services: which are chosen, under which addresses and ports, and which services
//! a changed pod concerns. The same for EndpointSlices and Endpoints.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use reconcile::{Cache, Change, Context, Name, Object, Selector, conditions};
use serde_json::{Value, json};

use crate::kinds::POD;
use crate::pods;

/// When the oldest change that an object of addresses shows was made; programs measure by it.
pub const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
pub const HEADLESS: &str = "service.kubernetes.io/headless";

/// A family of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    pub fn name(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }

    fn has(self, address: &IpAddr) -> bool {
        address.is_ipv4() == (self == Family::V4)
    }
}

/// Which pods are listed besides those that stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    Listed,
    LeftOut,
}

/// The selector of a service whose addresses are ours to write; `None` if somebody else does.
pub fn selector(service: &Object) -> Option<Selector> {
    let spec = &service.value["spec"];
    let is_selecting = spec["selector"].as_object().is_some_and(|labels| !labels.is_empty());
    let is_ours = is_selecting && spec["type"] != "ExternalName";
    is_ours.then(|| Selector::of_labels(&spec["selector"]))
}

/// The pods that a service selects, in the order of their names.
pub fn selected(context: &Context, service: &Object) -> Vec<Arc<Object>> {
    let Some(selector) = selector(service) else { return Vec::new() };
    context.cache(POD).selected(&service.name.namespace, &selector)
}

/// A pod without an address, or one that is over, is nowhere.
pub fn is_listed(pod: &Object, leaving: Leaving) -> bool {
    let has_address = ips(pod).next().is_some();
    let is_leaving = leaving == Leaving::LeftOut && pod.is_terminating();
    has_address && !pods::is_finished(pod) && !is_leaving
}

pub fn publishes_unready(service: &Object) -> bool {
    service.value["spec"]["publishNotReadyAddresses"] == json!(true)
}

pub fn is_headless(service: &Object) -> bool {
    matches!(service.value["spec"]["clusterIP"].as_str(), None | Some("" | "None"))
}

/// The families of a service, its main one first.
pub fn families(service: &Object) -> Vec<Family> {
    let spec = &service.value["spec"];
    let named = spec["ipFamilies"].as_array().into_iter().flatten();
    let named: Vec<Family> = named
        .filter_map(|family| match family.as_str()? {
            "IPv4" => Some(Family::V4),
            "IPv6" => Some(Family::V6),
            _ => None,
        })
        .collect();
    if !named.is_empty() {
        return named;
    }
    match spec["clusterIP"].as_str().and_then(|text| text.parse::<IpAddr>().ok()) {
        Some(IpAddr::V6(_)) => vec![Family::V6],
        Some(IpAddr::V4(_)) => vec![Family::V4],
        None => vec![Family::V4, Family::V6],
    }
}

/// The addresses of a pod, as they are written everywhere.
pub fn addresses(pod: &Object, family: Family) -> Vec<String> {
    ips(pod).filter(|address| family.has(address)).map(|address| address.to_string()).collect()
}

fn ips(pod: &Object) -> impl Iterator<Item = IpAddr> {
    let status = &pod.value["status"];
    let listed = status["podIPs"].as_array().into_iter().flatten();
    let listed: Vec<&str> = listed.filter_map(|entry| entry["ip"].as_str()).collect();
    let texts =
        if listed.is_empty() { status["podIP"].as_str().into_iter().collect() } else { listed };
    texts.into_iter().filter_map(|text| text.parse().ok())
}

/// The number under which a pod serves a port of a service; a name is looked up in the pod.
pub fn port_number(pod: &Object, port: &Value) -> Option<i64> {
    let target = &port["targetPort"];
    let Some(name) = target.as_str() else {
        return target.as_i64().or_else(|| port["port"].as_i64());
    };
    let spec = &pod.value["spec"];
    let containers = spec["containers"].as_array().into_iter().flatten();
    let init = spec["initContainers"].as_array().into_iter().flatten();
    let sidecars = init.filter(|container| container["restartPolicy"] == "Always");
    let ports = containers.chain(sidecars).filter_map(|container| container["ports"].as_array());
    let protocol = |port: &Value| port["protocol"].as_str().unwrap_or("TCP").to_owned();
    let mut matching = ports
        .flatten()
        .filter(|offered| offered["name"] == name && protocol(offered) == protocol(port));
    matching.next()?["containerPort"].as_i64()
}

/// The ports of a service as a pod serves them; those that it does not have are left out.
pub fn ports(service: &Object, pod: &Object) -> Vec<Value> {
    let wanted = service.value["spec"]["ports"].as_array().into_iter().flatten();
    wanted
        .filter_map(|wanted| {
            let mut port = json!({
                "name": wanted["name"].as_str().unwrap_or_default(),
                "port": port_number(pod, wanted)?,
                "protocol": wanted["protocol"].as_str().unwrap_or("TCP"),
            });
            if wanted["appProtocol"].is_string() {
                port["appProtocol"] = wanted["appProtocol"].clone();
            }
            Some(port)
        })
        .collect()
}

/// The host name by which the service's domain knows the pod.
pub fn hostname<'a>(pod: &'a Object, service: &Object) -> Option<&'a str> {
    let spec = &pod.value["spec"];
    let is_of_service = spec["subdomain"].as_str() == Some(&service.name.name);
    spec["hostname"].as_str().filter(|name| is_of_service && !name.is_empty())
}

pub fn reference(pod: &Object) -> Value {
    json!({"kind": "Pod", "namespace": &*pod.name.namespace, "name": &*pod.name.name,
        "uid": pod.uid})
}

/// The newest of what the addresses rest on: that the service was made, that a pod became ready or
/// ceased to be.
pub fn trigger_time(service: &Object, pods: &[Arc<Object>]) -> Option<String> {
    let turned = |pod: &'_ Arc<Object>| {
        let ready = conditions::find(&pod.value["status"], "Ready")?;
        ready["lastTransitionTime"].as_str().map(str::to_owned)
    };
    let made = Some(service.meta("creationTimestamp").to_owned()).filter(|time| !time.is_empty());
    pods.iter().filter_map(turned).chain(made).max()
}

/// The services that a change of a pod concerns: those that select it as it is or as it was.
pub fn services_of(services: &Cache, change: &Change) -> Vec<Name> {
    if let (Some(old), Some(new)) = (&change.old, &change.new)
        && shown(old) == shown(new)
    {
        return Vec::new();
    }
    let sides = [&change.old, &change.new].into_iter().flatten();
    let concerned = sides
        .flat_map(|pod| services.selecting(&pod.name.namespace, &pod.value["metadata"]["labels"]));
    let concerned = concerned.filter(|service| service.value["spec"]["type"] != "ExternalName");
    concerned.map(|service| service.name.clone()).collect::<BTreeSet<_>>().into_iter().collect()
}

/// All of a pod that can be seen in addresses.
fn shown(pod: &Object) -> (&Value, &Value, &Value, [&Value; 4], [bool; 3]) {
    let (meta, spec, status) = (&pod.value["metadata"], &pod.value["spec"], &pod.value["status"]);
    let placed = [&spec["nodeName"], &spec["hostname"], &spec["subdomain"], &meta["uid"]];
    let state = [pods::is_ready(pod), pods::is_finished(pod), pod.is_terminating()];
    (&meta["labels"], &status["podIPs"], &status["podIP"], placed, state)
}
