//! Addresses of services: each is an IPAddress object.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::{Value, json};
use store::{Entry, Environment, Key, KeyRange, Mutation, Operation, PageRequest, Precondition};

use super::ranges::{Configured, Family, Range};
use super::{Held, entry, holder, invalid};
use crate::field_error::FieldError;
use crate::object::texts;
use crate::persist::{self, stored};
use crate::registry::builtin::service::needs_cluster_ip;
use crate::registry::edit;
use crate::server::{Server, store_failure};
use crate::status::Error;
use crate::{ids, time};

/// Where IPAddresses are in the store.
const PREFIX: &str = "ipaddresses/";
/// How many addresses are tried at random before all that are taken are looked at.
const GUESSES_MAX: usize = 32;
/// The low addresses of a range are for those who ask for one: at least this many of a small
/// range, at most this many of a large one, else a sixteenth.
const LOW_MIN: u64 = 16;
const LOW_MAX: u64 = 256;

pub fn key(address: IpAddr) -> Result<Key, Error> {
    Key::new(format!("{PREFIX}{address}")).map_err(store_failure)
}

/// Gives a service the addresses it lacks; those it names itself must be free.
pub(super) async fn fill(
    server: &Server,
    service: &mut Value,
    configured: &Configured,
    before: &Held,
    after: &mut Held,
) -> Result<(), Error> {
    if !needs_cluster_ip(service) {
        return Ok(());
    }
    let mut addresses = texts(edit::at(service, &["spec", "clusterIPs"]));
    let families = texts(edit::at(service, &["spec", "ipFamilies"]));
    for text in &addresses {
        let Ok(address) = text.parse::<IpAddr>() else { continue };
        if before.addresses.contains(&address) {
            continue;
        }
        if let Some(why) = refusal(server, configured, address).await? {
            let detail = format!("failed to allocate IP {text}: {why}");
            let error = FieldError::invalid("spec.clusterIPs", json!(addresses), detail);
            return Err(invalid(service, &[error]));
        }
    }
    for name in families.iter().skip(addresses.len()) {
        let Some(family) = Family::parse(name) else { continue };
        let address = free(server, configured, family).await?;
        addresses.push(address.to_string());
        after.addresses.insert(address);
    }
    if let (Some(spec), Some(first)) = (edit::object(service, "spec"), addresses.first()) {
        edit::set(spec, "clusterIP", first.as_str());
        edit::set(spec, "clusterIPs", addresses);
    }
    Ok(())
}

/// Why an address that somebody asks for cannot be had.
async fn refusal(
    server: &Server,
    configured: &Configured,
    address: IpAddr,
) -> Result<Option<String>, Error> {
    let Some(range) = configured.ranges.iter().find(|range| range.contains(address)) else {
        return Ok(Some("the provided network does not match the current range".to_owned()));
    };
    if !range.gives(address) {
        return Ok(Some(format!(
            "the provided IP ({address}) is not in the valid range. The range of valid IPs is \
             {range}"
        )));
    }
    let is_taken = entry(server, &key(address)?).await?.is_some();
    Ok(is_taken.then(|| "provided IP is already allocated".to_owned()))
}

/// An address of a family that nobody has.
async fn free(server: &Server, configured: &Configured, family: Family) -> Result<IpAddr, Error> {
    for range in configured.of(family) {
        for _ in 0..GUESSES_MAX.min(range.usable() as usize) {
            let address = guess(range, server.environment.random());
            if entry(server, &key(address)?).await?.is_none() {
                return Ok(address);
            }
        }
    }
    let page = server.store.list(&KeyRange::prefix(PREFIX), PageRequest::all(), None).await;
    let entries = page.map_err(store_failure)?.entries;
    let name = |entry: &std::sync::Arc<Entry>| entry.key.as_str()[PREFIX.len()..].parse().ok();
    let taken: BTreeSet<IpAddr> = entries.iter().filter_map(name).collect();
    let found = configured.of(family).find_map(|range| first_free(range, &taken));
    found.ok_or_else(|| Error::internal("failed to allocate a serviceIP: range is full"))
}

/// One of the high addresses of a range, if there are any.
fn guess(range: &Range, random: u64) -> IpAddr {
    let usable = range.usable().max(1);
    let low = low(usable);
    range.nth(low + random % (usable - low).max(1))
}

/// How many addresses at the beginning of a range are given out last.
fn low(usable: u64) -> u64 {
    let low = (usable / 16).clamp(LOW_MIN, LOW_MAX);
    if low < usable { low } else { 0 }
}

/// The first high address that is free, else the first low one.
fn first_free(range: &Range, taken: &BTreeSet<IpAddr>) -> Option<IpAddr> {
    let usable = range.usable();
    let low = low(usable);
    // One more than are taken are enough to find one that is not.
    let high = (low..usable).take(taken.len() + 1);
    high.chain(0..low).map(|place| range.nth(place)).find(|address| !taken.contains(address))
}

/// The address as an object that belongs to a service.
pub fn take(
    environment: &dyn Environment,
    address: IpAddr,
    service: &Value,
) -> Result<Operation, Error> {
    let object = json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "IPAddress",
        "metadata": {
            "name": address.to_string(),
            "uid": ids::uuid(environment),
            "creationTimestamp": time::rfc3339(environment.now()),
            "labels": {
                "ipaddress.kubernetes.io/ip-family": Family::of(address).name(),
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": {"parentRef": holder(service)},
    });
    let mutation = Mutation::Put(persist::encode(&object, &[]));
    Ok(Operation { key: key(address)?, mutation, when: Precondition::Absent })
}

pub(super) fn is_held_by(entry: &Entry, service: &Value) -> bool {
    let object = stored(entry).object(entry.modified);
    let parent = edit::at(&object, &["spec", "parentRef"]);
    let holder = holder(service);
    ["resource", "namespace", "name"].iter().all(|name| parent.get(name) == holder.get(name))
}
