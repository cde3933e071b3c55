//! Ports on every node: each is a key that the API does not show.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use serde_json::{Value, json};
use store::{Entry, Key, KeyRange, Mutation, Operation, PageRequest, Precondition};

use super::{Held, entry, holder, invalid};
use crate::field_error::FieldError;
use crate::registry::builtin::service::{needs_health_check_port, needs_node_ports};
use crate::registry::edit::{self, each_mut};
use crate::server::{Server, store_failure};
use crate::status::Error;

/// No resource has a name with a slash and no group has one without a dot, so nothing the API
/// serves is below it.
const PREFIX: &str = "internal/nodeports/";
const PORTS: RangeInclusive<u16> = 30_000..=32_767;
/// How many ports are tried at random before all that are taken are looked at.
const GUESSES_MAX: usize = 32;

pub fn key(port: u16) -> Result<Key, Error> {
    Key::new(format!("{PREFIX}{port}")).map_err(store_failure)
}

/// Gives a service the ports it lacks; those it names itself must be free.
pub(super) async fn fill(
    server: &Server,
    service: &mut Value,
    is_new: bool,
    before: &Held,
    after: &mut Held,
) -> Result<(), Error> {
    check_named(server, service, before, after).await?;
    if needs_node_ports(service) {
        let mut given: Vec<(i64, u16)> = Vec::new();
        let ports = edit::list(service, &["spec", "ports"]).to_vec();
        if is_new {
            given.extend(ports.iter().filter_map(named));
        }
        let mut chosen = Vec::new();
        for port in &ports {
            let number = edit::int(port, &["port"]).unwrap_or(0);
            // A new service has one port of the nodes for the same port of two protocols.
            let same = given.iter().find(|(known, _)| *known == number).map(|(_, port)| *port);
            chosen.push(match (node_port(port), same) {
                (0, Some(same)) => i64::from(same),
                (0, None) => {
                    let free = free(server, "a nodePort", after).await?;
                    after.ports.insert(free);
                    if is_new {
                        given.push((number, free));
                    }
                    i64::from(free)
                }
                (named, _) => named,
            });
        }
        for (port, chosen) in each_mut(service, &["spec", "ports"]).zip(chosen) {
            edit::set(port, "nodePort", chosen);
        }
    }
    fill_health_check(server, service, after).await
}

async fn fill_health_check(
    server: &Server,
    service: &mut Value,
    after: &mut Held,
) -> Result<(), Error> {
    let given = edit::int(service, &["spec", "healthCheckNodePort"]).unwrap_or(0);
    if !needs_health_check_port(service) || given != 0 {
        return Ok(());
    }
    let port = free(server, "a HealthCheck NodePort", after).await?;
    after.ports.insert(port);
    if let Some(spec) = edit::object(service, "spec") {
        edit::set(spec, "healthCheckNodePort", port);
    }
    Ok(())
}

fn node_port(port: &Value) -> i64 {
    edit::int(port, &["nodePort"]).unwrap_or(0)
}

/// The port of a service and the port of the nodes that the client wants for it.
fn named(port: &Value) -> Option<(i64, u16)> {
    let node_port = u16::try_from(node_port(port)).ok().filter(|port| *port > 0)?;
    Some((edit::int(port, &["port"]).unwrap_or(0), node_port))
}

/// Ports that the client names must be in the range and free.
async fn check_named(
    server: &Server,
    service: &Value,
    before: &Held,
    after: &Held,
) -> Result<(), Error> {
    let ports = edit::list(service, &["spec", "ports"]).to_vec();
    for (index, port) in ports.iter().enumerate() {
        let number = node_port(port);
        let is_kept = u16::try_from(number).is_ok_and(|number| before.ports.contains(&number));
        let takes =
            needs_node_ports(service) || edit::text(service, &["spec", "type"]) == "LoadBalancer";
        if number == 0 || is_kept || !takes {
            continue;
        }
        if let Some(why) = refusal(server, number).await? {
            let path = format!("spec.ports[{index}].nodePort");
            return Err(invalid(service, &[FieldError::invalid(path, number, why)]));
        }
    }
    let check = edit::int(service, &["spec", "healthCheckNodePort"]).unwrap_or(0);
    let is_kept = u16::try_from(check).is_ok_and(|number| before.ports.contains(&number));
    let takes = needs_health_check_port(service) && check != 0 && !is_kept;
    if !takes {
        return Ok(());
    }
    let shared = ports.iter().any(|port| node_port(port) == check);
    let why = match refusal(server, check).await? {
        None if shared && !after.ports.is_empty() => {
            Some("provided port is already allocated".to_owned())
        }
        why => why,
    };
    match why {
        None => Ok(()),
        Some(why) => Err(Error::internal(format!(
            "failed to allocate requested HealthCheck NodePort {check}: {why}"
        ))),
    }
}

async fn refusal(server: &Server, number: i64) -> Result<Option<String>, Error> {
    let Some(port) = u16::try_from(number).ok().filter(|port| PORTS.contains(port)) else {
        return Ok(Some(format!(
            "provided port is not in the valid range. The range of valid ports is {}-{}",
            PORTS.start(),
            PORTS.end()
        )));
    };
    let is_taken = entry(server, &key(port)?).await?.is_some();
    Ok(is_taken.then(|| "provided port is already allocated".to_owned()))
}

/// A port that nobody has.
async fn free(server: &Server, what: &str, after: &Held) -> Result<u16, Error> {
    let count = PORTS.end() - PORTS.start() + 1;
    for _ in 0..GUESSES_MAX {
        let port = PORTS.start() + (server.environment.random() % u64::from(count)) as u16;
        if !after.ports.contains(&port) && entry(server, &key(port)?).await?.is_none() {
            return Ok(port);
        }
    }
    let page = server.store.list(&KeyRange::prefix(PREFIX), PageRequest::all(), None).await;
    let entries = page.map_err(store_failure)?.entries;
    let number = |entry: &std::sync::Arc<Entry>| entry.key.as_str()[PREFIX.len()..].parse().ok();
    let taken: BTreeSet<u16> = entries.iter().filter_map(number).collect();
    let found = PORTS.into_iter().find(|port| !taken.contains(port) && !after.ports.contains(port));
    found.ok_or_else(|| Error::internal(format!("failed to allocate {what}: range is full")))
}

pub fn take(port: u16, service: &Value) -> Result<Operation, Error> {
    let value = json!({"parentRef": holder(service)}).to_string();
    let mutation = Mutation::Put(value.into());
    Ok(Operation { key: key(port)?, mutation, when: Precondition::Absent })
}

pub(super) fn is_held_by(entry: &Entry, service: &Value) -> bool {
    let value: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
    value.get("parentRef") == Some(&holder(service))
}
