//! Which addresses a target means, and whether it may mean them.
//!
//! A name is resolved once, and the connection goes to an address that was looked at: a name that
//! means something else a moment later gains nothing.

use std::net::SocketAddr;

use link::destination::{Forbidden, forbidden};
use serde_json::Value;

use super::target::{Place, Target};
use super::writer::Reach;
use crate::admission::lookup;
use crate::object::list;
use crate::persist::stored;
use crate::server::Server;
use crate::subresources::proxy::is_pod;

const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The addresses to try, in order; never empty.
pub async fn resolve(server: &Server, target: &Target) -> Result<Vec<SocketAddr>, String> {
    let found = match &target.place {
        Place::Url { host, port, .. } => by_name(host, *port).await?,
        Place::Service { namespace, name, port } => {
            let service = Service { server, namespace, name, port: *port };
            let mut found = service.addresses().await?;
            // Spreads the calls; they are many and alike.
            let first = server.environment.random() as usize % found.len().max(1);
            found.rotate_left(first);
            found
        }
    };
    let Some(first) = found.first().copied() else { return Err("no address".to_owned()) };
    let mut allowed = Vec::new();
    for address in found {
        if may_reach(server, target, address).await {
            allowed.push(address);
        }
    }
    if allowed.is_empty() {
        let remedy = match (&target.place, forbidden(first.ip())) {
            (Place::Url { .. }, Some(Forbidden::Loopback)) => {
                "; an administrator allows loopback URLs with webhooks.loopback: allow in the \
                 configuration of the server"
            }
            _ => "",
        };
        return Err(format!(
            "dial tcp {first}: addresses of this machine and its link are only for webhooks that \
             a component of the cluster registered{remedy}"
        ));
    }
    Ok(allowed)
}

async fn may_reach(server: &Server, target: &Target, address: SocketAddr) -> bool {
    if target.reach == Reach::Anywhere {
        return true;
    }
    let is_url = matches!(target.place, Place::Url { .. });
    match forbidden(address.ip()) {
        None => true,
        Some(Forbidden::Loopback) if is_url => server.loopback_webhooks == LoopbackWebhooks::Allow,
        Some(_) => match &target.place {
            Place::Service { namespace, .. } => is_pod(server, namespace, address.ip()).await,
            Place::Url { .. } => false,
        },
    }
}

/// Policy for webhook URLs with a loopback address, as programs that are developed on this host
/// have them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoopbackWebhooks {
    #[default]
    Deny,
    Allow,
}

async fn by_name(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let found = tokio::net::lookup_host((host, port)).await;
    let found: Vec<SocketAddr> = found.map(Iterator::collect).unwrap_or_default();
    match found.is_empty() {
        true => Err(format!("dial tcp: lookup {host}: no such host")),
        false => Ok(found),
    }
}

/// A port of a Service.
struct Service<'a> {
    server: &'a Server,
    namespace: &'a str,
    name: &'a str,
    port: u16,
}

impl Service<'_> {
    async fn addresses(&self) -> Result<Vec<SocketAddr>, String> {
        let (namespace, name) = (self.namespace, self.name);
        let service = lookup::one(self.server, "", "services", (namespace, name)).await;
        let service = service.map_err(|error| error.message)?;
        let service = service.ok_or_else(|| format!("service {name:?} not found"))?;
        let ports = list(&service["spec"]["ports"]);
        let port = ports.iter().find(|it| it["port"].as_u64() == Some(u64::from(self.port)));
        if service["spec"]["type"] == "ExternalName" {
            let host = service["spec"]["externalName"].as_str().unwrap_or_default();
            return by_name(host, self.port).await;
        }
        let Some(port) = port else {
            return Err(format!("no service port {} found for service {name:?}", self.port));
        };
        let port_name = port["name"].as_str().unwrap_or_default();
        let mut found = self.of_slices(port_name).await?;
        if found.is_empty() {
            found = self.of_endpoints(port_name).await?;
        }
        match found.is_empty() {
            true => Err(format!("no endpoints available for service {name:?}")),
            false => Ok(found),
        }
    }

    async fn of_slices(&self, port_name: &str) -> Result<Vec<SocketAddr>, String> {
        let (group, plural) = ("discovery.k8s.io", "endpointslices");
        let entries = lookup::entries(self.server, group, plural, self.namespace).await;
        let mut found = Vec::new();
        for entry in entries.map_err(|error| error.message)? {
            if stored(&entry).label(SERVICE_LABEL) != Some(self.name) {
                continue;
            }
            let slice = lookup::read(&entry);
            let Some(port) = numbered(&slice["ports"], port_name) else { continue };
            for endpoint in list(&slice["endpoints"]) {
                // Unknown counts as ready.
                if endpoint["conditions"]["ready"] == false {
                    continue;
                }
                let addresses = list(&endpoint["addresses"]).iter();
                found.extend(addresses.filter_map(|it| socket(it, port)));
            }
        }
        Ok(found)
    }

    async fn of_endpoints(&self, port_name: &str) -> Result<Vec<SocketAddr>, String> {
        let (namespace, name) = (self.namespace, self.name);
        let endpoints = lookup::one(self.server, "", "endpoints", (namespace, name)).await;
        let Some(endpoints) = endpoints.map_err(|error| error.message)? else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for subset in list(&endpoints["subsets"]) {
            let Some(port) = numbered(&subset["ports"], port_name) else { continue };
            let addresses = list(&subset["addresses"]).iter();
            found.extend(addresses.filter_map(|it| socket(&it["ip"], port)));
        }
        Ok(found)
    }
}

/// The number of the port of that name.
fn numbered(ports: &Value, name: &str) -> Option<u16> {
    let named = |port: &&Value| port["name"].as_str().unwrap_or_default() == name;
    u16::try_from(list(ports).iter().find(named)?["port"].as_u64()?).ok()
}

fn socket(address: &Value, port: u16) -> Option<SocketAddr> {
    Some(SocketAddr::new(address.as_str()?.parse().ok()?, port))
}
