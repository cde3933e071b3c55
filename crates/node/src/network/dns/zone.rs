//! What DNS knows of the cluster: every name, from Services and EndpointSlices. Pure.
//!
//! Upstream: github.com/kubernetes/dns/blob/master/docs/specification.md

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use reconcile::{Name, Object};
use serde_json::Value;

use super::message::{A, AAAA, ANY, CNAME, Data, PTR, Record, Reply, SRV};

const SERVICE_NAME: &str = "kubernetes.io/service-name";
const VERSION: &str = "1.1.0";
/// Records of one name that are told.
const RECORDS_MAX: usize = 1_000;

/// Every name of the cluster.
#[derive(Clone, Debug, Default)]
pub struct Zone {
    domain: String,
    names: HashMap<String, Vec<Data>>,
    /// Names that only lead to others.
    between: BTreeSet<String>,
    addresses: HashMap<IpAddr, Vec<String>>,
    /// Namespaces whose pods are named by their addresses.
    namespaces: BTreeSet<String>,
}

/// Whose question it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Ours(Reply),
    /// Ours up to a name that another server knows.
    Alias(Record),
    NotOurs,
}

impl Zone {
    pub fn new(domain: &str, services: &[Arc<Object>], slices: &[Arc<Object>]) -> Zone {
        let mut zone = Zone { domain: domain.to_owned(), ..Zone::default() };
        let mut of_service: HashMap<Name, Vec<&Object>> = HashMap::new();
        for slice in slices {
            if let Some(service) = slice.label(SERVICE_NAME) {
                let name = Name::new(&*slice.name.namespace, service);
                of_service.entry(name).or_default().push(slice);
            }
        }
        zone.add(&format!("dns-version.{domain}"), Data::Txt(VERSION));
        zone.between.insert(format!("pod.{domain}"));
        let none = Vec::new();
        for service in services {
            let slices = of_service.get(&service.name).unwrap_or(&none);
            zone.add_service(service, slices);
        }
        zone
    }

    fn add_service(&mut self, service: &Object, slices: &[&Object]) {
        let Name { namespace, name } = &service.name;
        let full = format!("{name}.{namespace}.svc.{}", self.domain);
        self.namespaces.insert(namespace.to_string());
        let spec = &service.value["spec"];
        if spec["type"] == "ExternalName" {
            let target = text(&spec["externalName"]).trim_end_matches('.').to_lowercase();
            return self.add(&full, Data::Cname(target));
        }
        if spec["clusterIP"] == "None" {
            return slices.iter().for_each(|slice| self.add_headless(&full, slice));
        }
        let mut addresses: Vec<IpAddr> =
            list(&spec["clusterIPs"]).filter_map(|it| it.as_str()?.parse().ok()).collect();
        if addresses.is_empty() {
            addresses.extend(text(&spec["clusterIP"]).parse::<IpAddr>());
        }
        for address in &addresses {
            self.add(&full, of_address(*address));
            self.addresses.entry(*address).or_default().push(full.clone());
        }
        for port in list(&spec["ports"]) {
            if let Some(number) = number(&port["port"]) {
                self.add_port(&full, port, Data::Srv { port: number, target: full.clone() });
            }
        }
    }

    /// Each endpoint has a name of its own.
    fn add_headless(&mut self, full: &str, slice: &Object) {
        for endpoint in list(&slice.value["endpoints"]) {
            if endpoint["conditions"]["ready"] == false {
                continue;
            }
            for address in list(&endpoint["addresses"]).filter_map(|it| it.as_str()?.parse().ok()) {
                let host = match endpoint["hostname"].as_str().filter(|name| !name.is_empty()) {
                    Some(name) => name.to_lowercase(),
                    None => dashed(address),
                };
                let target = format!("{host}.{full}");
                self.add(full, of_address(address));
                self.add(&target, of_address(address));
                self.addresses.entry(address).or_default().push(target.clone());
                for port in list(&slice.value["ports"]) {
                    if let Some(number) = number(&port["port"]) {
                        let data = Data::Srv { port: number, target: target.clone() };
                        self.add_port(full, port, data);
                    }
                }
            }
        }
    }

    fn add_port(&mut self, full: &str, port: &Value, data: Data) {
        let protocol = match text(&port["protocol"]) {
            "" => "tcp".to_owned(),
            other => other.to_lowercase(),
        };
        match text(&port["name"]) {
            "" => self.add(full, data),
            name => self.add(&format!("_{name}._{protocol}.{full}"), data),
        }
    }

    fn add(&mut self, name: &str, data: Data) {
        let known = self.names.entry(name.to_owned()).or_default();
        if known.len() < RECORDS_MAX && !known.contains(&data) {
            known.push(data);
        }
        let mut rest = name;
        while let Some((_, parent)) = rest.split_once('.') {
            if parent.len() < self.domain.len() || !self.between.insert(parent.to_owned()) {
                break;
            }
            rest = parent;
        }
    }

    /// Returns every name that has addresses, with each of them. Aliases of names outside of the
    /// zone have none.
    pub fn addresses_by_name(&self) -> impl Iterator<Item = (&str, IpAddr)> {
        self.names.iter().flat_map(|(name, known)| {
            let known = match known.first() {
                Some(Data::Cname(target)) => self.names.get(target),
                _ => Some(known),
            };
            let addresses = known.into_iter().flatten().filter_map(|data| match data {
                Data::A(address) => Some(IpAddr::from(*address)),
                Data::Aaaa(address) => Some(IpAddr::from(*address)),
                _ => None,
            });
            addresses.map(move |address| (name.as_str(), address))
        })
    }

    /// What is said to a question; `turn` changes from question to question, so that everybody is
    /// first at some time.
    pub fn answer(&self, name: &str, kind: u16, turn: usize) -> Answer {
        if let Some(address) = reversed(name) {
            return match self.addresses.get(&address) {
                Some(names) if kind == PTR || kind == ANY => {
                    let data = names.iter().map(|name| Data::Ptr(name.clone()));
                    Answer::Ours(reply(name, data.collect()))
                }
                Some(_) => Answer::Ours(Reply::default()),
                None => Answer::NotOurs,
            };
        }
        let is_ours = name == self.domain
            || name.strip_suffix(&self.domain).is_some_and(|rest| rest.ends_with('.'));
        if !is_ours {
            return Answer::NotOurs;
        }
        let Some(known) = self.names.get(name) else {
            return Answer::Ours(self.answer_unknown(name, kind));
        };
        if let Some(Data::Cname(target)) = known.first() {
            let record = Record { name: name.to_owned(), data: Data::Cname(target.clone()) };
            return match (kind, self.answer(target, kind, turn)) {
                (CNAME, _) => Answer::Ours(Reply { records: vec![record], ..Reply::default() }),
                (_, Answer::Ours(mut rest)) => {
                    rest.records.insert(0, record);
                    rest.is_missing = false;
                    Answer::Ours(rest)
                }
                _ => Answer::Alias(record),
            };
        }
        let mut found: Vec<Data> =
            known.iter().filter(|data| is_kind(data, kind)).cloned().collect();
        if !found.is_empty() {
            let turn = turn % found.len();
            found.rotate_left(turn);
        }
        let mut reply = reply(name, found);
        reply.more = self.targets(&reply.records);
        Answer::Ours(reply)
    }

    /// Pods by their addresses, and names that only lead to others.
    fn answer_unknown(&self, name: &str, kind: u16) -> Reply {
        if let Some(address) = self.pod(name) {
            let data = if kind == A || kind == ANY { vec![Data::A(address)] } else { Vec::new() };
            return reply(name, data);
        }
        let is_namespace = name
            .strip_suffix(&format!(".pod.{}", self.domain))
            .is_some_and(|namespace| self.namespaces.contains(namespace));
        let is_missing = !is_namespace && name != self.domain && !self.between.contains(name);
        Reply { is_missing, ..Reply::default() }
    }

    /// `10-42-0-3.namespace.pod.domain`.
    fn pod(&self, name: &str) -> Option<Ipv4Addr> {
        let rest = name.strip_suffix(&self.domain)?.strip_suffix(".pod.")?;
        let (address, namespace) = rest.split_once('.')?;
        let is_known = self.namespaces.contains(namespace);
        is_known.then(|| address.replace('-', ".").parse().ok()).flatten()
    }

    /// The addresses of the names that services are found under.
    fn targets(&self, records: &[Record]) -> Vec<Record> {
        let mut more = Vec::new();
        for record in records {
            let Data::Srv { target, .. } = &record.data else { continue };
            for data in self.names.get(target).into_iter().flatten() {
                let is_address = matches!(data, Data::A(_) | Data::Aaaa(_));
                let one = Record { name: target.clone(), data: data.clone() };
                if is_address && !more.contains(&one) {
                    more.push(one);
                }
            }
        }
        more
    }
}

fn reply(name: &str, data: Vec<Data>) -> Reply {
    let records = data.into_iter().map(|data| Record { name: name.to_owned(), data });
    Reply { records: records.collect(), ..Reply::default() }
}

fn is_kind(data: &Data, kind: u16) -> bool {
    let txt = 16;
    match data {
        Data::A(_) => kind == A || kind == ANY,
        Data::Aaaa(_) => kind == AAAA || kind == ANY,
        Data::Srv { .. } => kind == SRV || kind == ANY,
        Data::Ptr(_) => kind == PTR || kind == ANY,
        Data::Txt(_) => kind == txt || kind == ANY,
        Data::Cname(_) => true,
    }
}

fn of_address(address: IpAddr) -> Data {
    match address {
        IpAddr::V4(address) => Data::A(address),
        IpAddr::V6(address) => Data::Aaaa(address),
    }
}

fn dashed(address: IpAddr) -> String {
    address.to_string().replace(['.', ':'], "-")
}

/// The address that `4.3.2.1.in-addr.arpa` asks for.
fn reversed(name: &str) -> Option<IpAddr> {
    let octets = name.strip_suffix(".in-addr.arpa")?;
    let octets: Vec<u8> = octets.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
    let [d, c, b, a] = octets[..] else { return None };
    Some(Ipv4Addr::new(a, b, c, d).into())
}

fn number(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|number| u16::try_from(number).ok())
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

    fn zone() -> Zone {
        let object = |name: &str, spec: Value| {
            let metadata = json!({"namespace": "n", "name": name, "uid": name});
            Arc::new(Object::new(json!({"metadata": metadata, "spec": spec})))
        };
        let services = [
            object(
                "web",
                json!({"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"],
                "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}),
            ),
            object("db", json!({"clusterIP": "None"})),
            object("far", json!({"type": "ExternalName", "externalName": "Example.com."})),
            object(
                "near",
                json!({"type": "ExternalName",
                "externalName": "web.n.svc.cluster.local"}),
            ),
        ];
        let slice = Arc::new(Object::new(json!({
            "metadata": {"namespace": "n", "name": "db-x", "uid": "x",
                "labels": {"kubernetes.io/service-name": "db"}},
            "endpoints": [
                {"addresses": ["10.42.0.2"], "hostname": "db-0", "conditions": {"ready": true}},
                {"addresses": ["10.42.0.3"], "conditions": {"ready": true}},
                {"addresses": ["10.42.0.4"], "conditions": {"ready": false}},
            ],
            "ports": [{"name": "sql", "port": 5432, "protocol": "TCP"}],
        })));
        Zone::new("cluster.local", &services, &[slice])
    }

    fn told(name: &str, kind: u16) -> String {
        match zone().answer(name, kind, 0) {
            Answer::NotOurs => "not ours".to_owned(),
            Answer::Alias(record) => format!("alias {:?}", record.data),
            Answer::Ours(reply) if reply.is_missing => "missing".to_owned(),
            Answer::Ours(reply) => {
                let all = reply.records.iter().map(|record| match &record.data {
                    Data::A(address) => address.to_string(),
                    Data::Srv { port, target } => format!("{port} {target}"),
                    Data::Ptr(name) | Data::Cname(name) => name.clone(),
                    other => format!("{other:?}"),
                });
                all.collect::<Vec<_>>().join(", ")
            }
        }
    }

    #[test]
    fn names_are_as_clusters_have_them() {
        for (name, kind, expected) in [
            ("web.n.svc.cluster.local", A, "10.96.0.7"),
            ("web.n.svc.cluster.local", AAAA, ""),
            ("_http._tcp.web.n.svc.cluster.local", SRV, "80 web.n.svc.cluster.local"),
            ("db.n.svc.cluster.local", A, "10.42.0.2, 10.42.0.3"),
            ("db-0.db.n.svc.cluster.local", A, "10.42.0.2"),
            ("10-42-0-3.db.n.svc.cluster.local", A, "10.42.0.3"),
            (
                "_sql._tcp.db.n.svc.cluster.local",
                SRV,
                "5432 db-0.db.n.svc.cluster.local, 5432 10-42-0-3.db.n.svc.cluster.local",
            ),
            ("far.n.svc.cluster.local", A, "alias Cname(\"example.com\")"),
            ("far.n.svc.cluster.local", CNAME, "example.com"),
            ("near.n.svc.cluster.local", A, "web.n.svc.cluster.local, 10.96.0.7"),
            ("10-42-0-9.n.pod.cluster.local", A, "10.42.0.9"),
            ("7.0.96.10.in-addr.arpa", PTR, "web.n.svc.cluster.local"),
            ("2.0.42.10.in-addr.arpa", PTR, "db-0.db.n.svc.cluster.local"),
            ("9.9.9.9.in-addr.arpa", PTR, "not ours"),
            ("n.svc.cluster.local", A, ""),
            ("cluster.local", A, ""),
            ("nobody.n.svc.cluster.local", A, "missing"),
            ("web.other.svc.cluster.local", A, "missing"),
            ("example.com", A, "not ours"),
            ("notcluster.local", A, "not ours"),
            ("dns-version.cluster.local", 16, "Txt(\"1.1.0\")"),
        ] {
            assert_eq!(told(name, kind), expected, "{name} {kind}");
        }
    }
}
