//! Which addresses a target means, and whether it may mean them.
//!
//! A name is resolved once, and the connection goes to an address that was looked at: a name that
//! means something else a moment later gains nothing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde_json::Value;

use super::target::{Place, Target};
use super::writer::Reach;
use crate::admission::lookup;
use crate::object::list;
use crate::persist::stored;
use crate::server::Server;

const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// Where a cloud tells its machines their secrets, beside the link-local addresses.
const METADATA: [IpAddr; 3] = [
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
];

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
    let allowed: Vec<SocketAddr> = match target.reach {
        Reach::Anywhere => found,
        Reach::Others => found.into_iter().filter(|it| !is_own(it.ip())).collect(),
    };
    if allowed.is_empty() {
        return Err(format!(
            "dial tcp {first}: addresses of this machine and its link are only for webhooks that \
             a component of the cluster registered"
        ));
    }
    Ok(allowed)
}

async fn by_name(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let found = tokio::net::lookup_host((host, port)).await;
    let found: Vec<SocketAddr> = found.map(Iterator::collect).unwrap_or_default();
    match found.is_empty() {
        true => Err(format!("dial tcp: lookup {host}: no such host")),
        false => Ok(found),
    }
}

/// Whether an address is this machine, its link, or nobody in particular.
pub fn is_own(address: IpAddr) -> bool {
    let address = match address {
        IpAddr::V6(six) => six.to_ipv4().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    };
    let is_special = match address {
        IpAddr::V4(four) => four.is_link_local() || four.is_broadcast() || four.octets()[0] == 0,
        // The loopback address of this family reads as one of the other: 0.0.0.1.
        IpAddr::V6(six) => six.is_unicast_link_local(),
    };
    is_special
        || address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || METADATA.contains(&address)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_machine_and_its_link_are_known_in_every_form() {
        for text in [
            "127.0.0.1",
            "127.255.0.3",
            "0.0.0.0",
            "0.0.0.1",
            "169.254.169.254",
            "::1",
            "::",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "::ffff:169.254.169.254",
            "fe80::1",
            "ff02::1",
            "224.0.0.1",
            "255.255.255.255",
            "fd00:ec2::254",
            "100.100.100.200",
        ] {
            assert!(is_own(text.parse().unwrap()), "{text}");
        }
        for text in ["10.0.0.1", "192.168.1.1", "8.8.8.8", "fd00::1", "2001:db8::1"] {
            assert!(!is_own(text.parse().unwrap()), "{text}");
        }
    }
}
