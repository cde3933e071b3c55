//! Where packets to services go: from Services and EndpointSlices to a table of addresses. Pure.
//!
//! Upstream: pkg/proxy/topology.go, pkg/proxy/endpointslicecache.go

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use reconcile::{Kind, Name, Object};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub const ENDPOINT_SLICE: Kind =
    Kind::namespaced("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices");
const SERVICE_NAME: &str = "kubernetes.io/service-name";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl Protocol {
    pub fn parse(text: &str) -> Option<Protocol> {
        match text {
            "TCP" | "" => Some(Protocol::Tcp),
            "UDP" => Some(Protocol::Udp),
            "SCTP" => Some(Protocol::Sctp),
            _ => None,
        }
    }

    pub fn number(self) -> u8 {
        match self {
            Protocol::Tcp => 6,
            Protocol::Udp => 17,
            Protocol::Sctp => 132,
        }
    }
}

/// What is reached under a port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// One of them, by chance. With none, whoever asks is refused.
    pub targets: Vec<(Ipv4Addr, u16)>,
    /// The same client gets the same.
    pub is_sticky: bool,
}

/// Everything that is forwarded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// By address of a service, protocol and port.
    #[serde(with = "pairs")]
    pub services: BTreeMap<(Ipv4Addr, Protocol, u16), Choice>,
    /// On every address of the machine.
    #[serde(with = "pairs")]
    pub node_ports: BTreeMap<(Protocol, u16), Choice>,
    /// At one address of the machine.
    #[serde(with = "pairs")]
    pub host_ports: BTreeMap<(Ipv4Addr, Protocol, u16), Choice>,
    #[serde(default)]
    pub metadata: MetadataAccess,
}

/// Access of pods and guests to the metadata service of a cloud (169.254.169.254), which hands out
/// credentials of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MetadataAccess {
    #[default]
    Blocked,
    Allowed,
}

/// Maps as lists of pairs: JSON has no keys but strings.
mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<K, V, S>(map: &BTreeMap<K, V>, serializer: S) -> Result<S::Ok, S::Error>
    where
        K: Serialize,
        V: Serialize,
        S: Serializer,
    {
        serializer.collect_seq(map)
    }

    pub fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        Ok(Vec::<(K, V)>::deserialize(deserializer)?.into_iter().collect())
    }
}

impl Table {
    pub fn addresses(&self) -> BTreeSet<Ipv4Addr> {
        self.services.keys().map(|(address, ..)| *address).collect()
    }

    /// Everybody who may be chosen, himself included.
    pub fn targets(&self) -> BTreeSet<Ipv4Addr> {
        let choices = self.services.values().chain(self.node_ports.values());
        let choices = choices.chain(self.host_ports.values());
        choices.flat_map(|choice| &choice.targets).map(|(address, _)| *address).collect()
    }
}

/// The table of a node.
pub fn table(services: &[Arc<Object>], slices: &[Arc<Object>], node: &str) -> Table {
    let mut by_service: BTreeMap<Name, Vec<&Object>> = BTreeMap::new();
    for slice in slices.iter().filter(|slice| slice.value["addressType"] == "IPv4") {
        if let Some(service) = slice.label(SERVICE_NAME) {
            let name = Name::new(&*slice.name.namespace, service);
            by_service.entry(name).or_default().push(slice);
        }
    }
    let mut services: Vec<&Object> = services
        .iter()
        .map(|service| &**service)
        .filter(|service| has_addresses(service))
        .collect();
    // The oldest Service keeps an address that several claim.
    services.sort_by_key(|service| (created(service), &service.name));
    let owned: BTreeSet<Ipv4Addr> =
        services.iter().flat_map(|service| cluster_ips(service)).collect();
    let mut table = Table::default();
    let none = Vec::new();
    let slices_of = |service: &Object| by_service.get(&service.name).unwrap_or(&none).as_slice();
    for service in &services {
        let ports = Ports { service, slices: slices_of(service), node };
        ports.add(&mut table, &cluster_ips(service));
        ports.add_node_ports(&mut table);
    }
    // A cluster IP belongs to one Service: no other Service takes any of its ports.
    for service in &services {
        let external: Vec<Ipv4Addr> =
            external_addresses(service).filter(|address| !owned.contains(address)).collect();
        Ports { service, slices: slices_of(service), node }.add(&mut table, &external);
    }
    table
}

fn has_addresses(service: &Object) -> bool {
    let spec = &service.value["spec"];
    spec["type"] != "ExternalName" && spec["clusterIP"] != "None"
}

fn created(service: &Object) -> &str {
    text(&service.value["metadata"]["creationTimestamp"])
}

fn cluster_ips(service: &Object) -> Vec<Ipv4Addr> {
    let addresses = list(&service.value["spec"]["clusterIPs"]);
    addresses.filter_map(|text| text.as_str()?.parse().ok()).collect()
}

fn external_addresses(service: &Object) -> impl Iterator<Item = Ipv4Addr> {
    list(&service.value["spec"]["externalIPs"])
        .chain(list(&service.value["status"]["loadBalancer"]["ingress"]).map(|one| &one["ip"]))
        .filter_map(|text| text.as_str()?.parse().ok())
}

/// Ports of a Service and the endpoints behind them.
struct Ports<'a> {
    service: &'a Object,
    slices: &'a [&'a Object],
    node: &'a str,
}

impl Ports<'_> {
    fn choice(&self, (port, protocol): (&Value, Protocol), policy: &str) -> Choice {
        let spec = &self.service.value["spec"];
        let only = (spec[policy] == "Local").then_some(self.node);
        let targets = targets(self.slices, (port, protocol), only);
        Choice { targets, is_sticky: spec["sessionAffinity"] == "ClientIP" }
    }

    fn each(&self) -> impl Iterator<Item = (&Value, Protocol)> {
        let ports = list(&self.service.value["spec"]["ports"]);
        ports.filter_map(|port| Some((port, Protocol::parse(text(&port["protocol"]))?)))
    }

    /// Adds the ports at the addresses that no Service has yet.
    fn add(&self, table: &mut Table, addresses: &[Ipv4Addr]) {
        for (port, protocol) in self.each() {
            let Some(number) = number(&port["port"]) else { continue };
            let choice = self.choice((port, protocol), "internalTrafficPolicy");
            for address in addresses {
                let key = (*address, protocol, number);
                table.services.entry(key).or_insert_with(|| choice.clone());
            }
        }
    }

    fn add_node_ports(&self, table: &mut Table) {
        for (port, protocol) in self.each() {
            let Some(number) = number(&port["nodePort"]) else { continue };
            let choice = self.choice((port, protocol), "externalTrafficPolicy");
            table.node_ports.entry((protocol, number)).or_insert(choice);
        }
    }
}

/// Those that are ready; while none is, those that end but still serve.
fn targets(
    slices: &[&Object],
    (port, protocol): (&Value, Protocol),
    only: Option<&str>,
) -> Vec<(Ipv4Addr, u16)> {
    let (mut ready, mut ending) = (BTreeSet::new(), BTreeSet::new());
    for slice in slices {
        let is_it = |found: &&Value| {
            text(&found["name"]) == text(&port["name"])
                && Protocol::parse(text(&found["protocol"])) == Some(protocol)
        };
        let found = list(&slice.value["ports"]).find(is_it);
        let Some(number) = found.and_then(|found| number(&found["port"])) else { continue };
        for endpoint in list(&slice.value["endpoints"]) {
            if only.is_some_and(|node| endpoint["nodeName"] != node) {
                continue;
            }
            let conditions = &endpoint["conditions"];
            let addresses = list(&endpoint["addresses"]).take(1);
            let addresses = addresses.filter_map(|text| text.as_str()?.parse().ok());
            let reached = addresses.map(|address: Ipv4Addr| (address, number));
            // What is not said counts as ready.
            if conditions["ready"] != false {
                ready.extend(reached);
            } else if conditions["serving"] == true && conditions["terminating"] == true {
                ending.extend(reached);
            }
        }
    }
    let chosen = if ready.is_empty() { ending } else { ready };
    chosen.into_iter().collect()
}

/// Returns the UIDs of a node's pods that are ready endpoints.
pub fn ready_pods(slices: &[Arc<Object>], node: &str) -> BTreeSet<String> {
    let endpoints = slices.iter().flat_map(|slice| list(&slice.value["endpoints"]));
    let is_ready = |endpoint: &&Value| {
        endpoint["nodeName"] == node && endpoint["conditions"]["ready"] != false
    };
    let uids = endpoints.filter(is_ready).filter_map(|it| it["targetRef"]["uid"].as_str());
    uids.map(str::to_owned).collect()
}

fn number(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|number| u16::try_from(number).ok()).filter(|number| *number != 0)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(spec: Value) -> Arc<Object> {
        let metadata = json!({"namespace": "n", "name": "web", "uid": "u"});
        Arc::new(Object::new(json!({"metadata": metadata, "spec": spec})))
    }

    fn named(name: &str, created: &str, spec: Value) -> Arc<Object> {
        let metadata =
            json!({"namespace": "n", "name": name, "uid": name, "creationTimestamp": created});
        Arc::new(Object::new(json!({"metadata": metadata, "spec": spec})))
    }

    #[test]
    fn no_service_takes_over_an_address_of_another() {
        let ports = json!([{"name": "http", "port": 80, "protocol": "TCP"},
            {"name": "other", "port": 81, "protocol": "TCP"}]);
        let sticky = "ClientIP";
        let owner = named(
            "zz-owner",
            "2026-01-02T00:00:00Z",
            json!({"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"],
                "externalIPs": ["198.51.100.7"], "ports": [ports[0]]}),
        );
        // Older, and sorted before the owner by name.
        let thief = |created: &str| {
            named(
                "aa-thief",
                created,
                json!({"clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"],
                    "externalIPs": ["10.96.0.1", "198.51.100.7"], "ports": ports,
                    "sessionAffinity": sticky}),
            )
        };
        let key = |address: &str, port: u16| (address.parse().unwrap(), Protocol::Tcp, port);
        let older = thief("2026-01-01T00:00:00Z");
        let younger = thief("2026-01-03T00:00:00Z");
        for (thief, keeps_external) in [(older, false), (younger, true)] {
            for services in [[owner.clone(), thief.clone()], [thief.clone(), owner.clone()]] {
                let table = table(&services, &[], "here");
                assert!(!table.services[&key("10.96.0.1", 80)].is_sticky);
                assert!(!table.services.contains_key(&key("10.96.0.1", 81)));
                let external = &table.services[&key("198.51.100.7", 80)];
                assert_eq!(external.is_sticky, !keeps_external, "the older Service has it");
                assert!(table.services[&key("10.96.0.9", 81)].is_sticky);
            }
        }
    }

    fn slice(endpoints: Value) -> Arc<Object> {
        let labels = json!({"kubernetes.io/service-name": "web"});
        Arc::new(Object::new(json!({
            "metadata": {"namespace": "n", "name": "web-1", "uid": "s", "labels": labels},
            "addressType": "IPv4", "endpoints": endpoints,
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        })))
    }

    fn endpoint(address: &str, ready: bool, terminating: bool) -> Value {
        json!({"addresses": [address], "nodeName": "here",
            "conditions": {"ready": ready, "serving": true, "terminating": terminating}})
    }

    #[test]
    fn those_that_are_ready_are_reached_and_else_those_that_end() {
        let spec = json!({"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"],
            "ports": [{"name": "http", "port": 80, "nodePort": 30080, "protocol": "TCP"},
                {"name": "other", "port": 81, "protocol": "TCP"}]});
        let ready = endpoint("10.42.0.2", true, false);
        let ending = endpoint("10.42.0.3", false, true);
        let starting = endpoint("10.42.0.4", false, false);
        for (endpoints, targets) in [
            (json!([ready, ending, starting]), vec!["10.42.0.2"]),
            (json!([ending, starting]), vec!["10.42.0.3"]),
            (json!([starting]), vec![]),
        ] {
            let table = table(&[service(spec.clone())], &[slice(endpoints)], "here");
            let targets: Vec<(Ipv4Addr, u16)> =
                targets.iter().map(|text| (text.parse().unwrap(), 8080)).collect();
            let address = "10.96.0.7".parse().unwrap();
            assert_eq!(table.services[&(address, Protocol::Tcp, 80)].targets, targets);
            assert_eq!(table.node_ports[&(Protocol::Tcp, 30080)].targets, targets);
            // A port that no slice has is refused.
            assert_eq!(table.services[&(address, Protocol::Tcp, 81)].targets, []);
        }
    }

    #[test]
    fn ready_pods_of_a_node_are_those_that_new_connections_reach() {
        let of_pod = |uid: &str, node: &str, ready: bool| {
            let mut endpoint = endpoint("10.42.0.2", ready, !ready);
            endpoint["targetRef"] = json!({"kind": "Pod", "uid": uid});
            endpoint["nodeName"] = json!(node);
            endpoint
        };
        let endpoints = json!([
            of_pod("a", "here", true),
            of_pod("b", "here", false),
            of_pod("c", "there", true),
            endpoint("10.42.0.9", true, false),
        ]);
        let ready = ready_pods(&[slice(endpoints)], "here");
        assert_eq!(ready.into_iter().collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn a_policy_may_keep_packets_on_their_node_and_some_services_have_no_address() {
        let spec = json!({"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"],
            "internalTrafficPolicy": "Local", "sessionAffinity": "ClientIP",
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]});
        let slices = [slice(json!([endpoint("10.42.0.2", true, false)]))];
        let key = ("10.96.0.7".parse().unwrap(), Protocol::Tcp, 80);
        for (node, count) in [("here", 1), ("there", 0)] {
            let table = table(&[service(spec.clone())], &slices, node);
            assert_eq!(table.services[&key].targets.len(), count, "{node}");
            assert!(table.services[&key].is_sticky);
        }
        for spec in [json!({"clusterIP": "None"}), json!({"type": "ExternalName"})] {
            assert_eq!(table(&[service(spec)], &slices, "here"), Table::default());
        }
    }
}
