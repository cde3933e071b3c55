//! Giving out what exists once: the addresses of services, and ports on every node.
//!
//! What is given out is a key of its own, written in the commit that writes the service: an address
//! is an IPAddress object, a port is a key that the API does not show. So nothing leaks when the
//! process dies, and two processes on one store cannot give out the same.
//!
//! Upstream: pkg/registry/core/service/storage/alloc.go

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};
use store::{Entry, Key, Mutation, Operation, Precondition};

use crate::endpoints::Request;
use crate::field_error::FieldError;
use crate::object;
use crate::registry::builtin::service::{
    NO_ADDRESS, needs_cluster_ip, needs_health_check_port, needs_node_ports,
};
use crate::registry::edit;
use crate::server::{Server, store_failure};
use crate::status::Error;

pub mod addresses;
mod families;
mod ports;
pub mod ranges;

use ranges::Configured;

/// What a service holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Held {
    addresses: BTreeSet<IpAddr>,
    ports: BTreeSet<u16>,
}

/// Fills in what a service is to be given, and says what must be written together with it.
pub async fn settle(
    server: &Server,
    request: &Request,
    service: &mut Value,
    old: Option<&Value>,
) -> Result<Vec<Operation>, Error> {
    if !is_service(request) || !request.target.subresource.is_empty() {
        return Ok(Vec::new());
    }
    let configured = Configured::load(&*server.store).await?;
    let settled = families::settle(service, old, &configured);
    settled.map_err(|errors| invalid(service, &errors))?;
    let before = old.map(held).unwrap_or_default();
    let mut after = held(service);
    addresses::fill(server, service, &configured, &before, &mut after).await?;
    ports::fill(server, service, old.is_none(), &before, &mut after).await?;
    let mut operations = Vec::new();
    for address in after.addresses.difference(&before.addresses) {
        operations.push(addresses::take(&*server.environment, *address, service)?);
    }
    for port in after.ports.difference(&before.ports) {
        operations.push(ports::take(*port, service)?);
    }
    let lost = Held {
        addresses: before.addresses.difference(&after.addresses).copied().collect(),
        ports: before.ports.difference(&after.ports).copied().collect(),
    };
    operations.extend(give_back(server, service, &lost).await?);
    Ok(operations)
}

/// What must be written together with the end of an object.
pub async fn release(
    server: &Server,
    request: &Request,
    object: &Value,
) -> Result<Vec<Operation>, Error> {
    match is_service(request) {
        true => give_back(server, object, &held(object)).await,
        false => Ok(Vec::new()),
    }
}

pub fn is_service(request: &Request) -> bool {
    request.resource.kind == "Service" && request.resource.group.is_empty()
}

fn invalid(service: &Value, errors: &[FieldError]) -> Error {
    Error::invalid("Service", "", object::name(service), errors)
}

fn held(service: &Value) -> Held {
    let mut held = Held::default();
    let spec = edit::at(service, &["spec"]);
    if needs_cluster_ip(service) {
        let texts = edit::list(spec, &["clusterIPs"]).iter().filter_map(Value::as_str);
        let addresses = texts.filter(|text| *text != NO_ADDRESS);
        held.addresses = addresses.filter_map(|text| text.parse().ok()).collect();
    }
    let number = |value: &Value, name: &str| {
        let number = edit::int(value, &[name]).unwrap_or(0);
        u16::try_from(number).ok().filter(|number| *number > 0)
    };
    // A balanced service that wants no ports may still name some.
    if needs_node_ports(service) || edit::text(spec, &["type"]) == "LoadBalancer" {
        let ports = edit::list(spec, &["ports"]).iter();
        held.ports = ports.filter_map(|port| number(port, "nodePort")).collect();
    }
    if needs_health_check_port(service) {
        held.ports.extend(number(spec, "healthCheckNodePort"));
    }
    held
}

/// Deletes the keys of what a service holds, where they are the service's.
async fn give_back(server: &Server, service: &Value, lost: &Held) -> Result<Vec<Operation>, Error> {
    let mut operations = Vec::new();
    for address in &lost.addresses {
        let entry = entry(server, &addresses::key(*address)?).await?;
        let is_own = |entry: &Entry| addresses::is_held_by(entry, service);
        operations.extend(entry.as_deref().filter(|entry| is_own(entry)).map(delete));
    }
    for port in &lost.ports {
        let entry = entry(server, &ports::key(*port)?).await?;
        let is_own = |entry: &Entry| ports::is_held_by(entry, service);
        operations.extend(entry.as_deref().filter(|entry| is_own(entry)).map(delete));
    }
    Ok(operations)
}

fn delete(entry: &Entry) -> Operation {
    let when = Precondition::At(entry.modified);
    Operation { key: entry.key.clone(), mutation: Mutation::Delete, when }
}

async fn entry(server: &Server, key: &Key) -> Result<Option<std::sync::Arc<Entry>>, Error> {
    server.store.get(key, None).await.map_err(store_failure)
}

/// Who holds something, as it is written down.
fn holder(service: &Value) -> Value {
    json!({
        "resource": "services",
        "namespace": object::namespace(service),
        "name": object::name(service),
    })
}
