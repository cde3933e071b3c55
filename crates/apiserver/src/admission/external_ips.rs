//! DenyServiceExternalIPs: who may send the traffic of an address to a Service.
//!
//! New external addresses are refused unless the administrator allows them. Allowed addresses
//! still must not be addresses of Services, pods or nodes: a Service would take over their traffic
//! (CVE-2020-8554). Addresses that a Service already has stay, and may be removed.
//!
//! Upstream: plugin/pkg/admission/denyserviceexternalips/admission.go

use std::net::IpAddr;

use async_trait::async_trait;
use serde_json::Value;

use super::{Attributes, Operation, Plugin, lookup};
use crate::allocation::ranges::Range;
use crate::object;
use crate::registry::edit;
use crate::server::Server;
use crate::status::Error;

const DENIED: &str = "Use of external IPs is denied by admission control; an administrator allows \
                      them with network.external_ips: allow in the configuration of the server";
/// Pod network of a node that the configuration does not change.
const POD_RANGE: &str = "10.42.0.0/16";

/// Policy for `spec.externalIPs` of Services.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExternalIps {
    #[default]
    Deny,
    /// Addresses outside of the cluster only.
    Allow,
}

/// Addresses that a Service must not have as external ones.
#[derive(Clone, Debug, Default)]
struct Taken {
    services: Vec<Range>,
    pods: Vec<Range>,
    addresses: Vec<(IpAddr, &'static str)>,
}

impl Taken {
    async fn load(server: &Server) -> Result<Taken, Error> {
        let mut taken =
            Taken { pods: Range::parse(POD_RANGE).into_iter().collect(), ..Taken::default() };
        for range in lookup::all(server, "networking.k8s.io", "servicecidrs", "").await? {
            taken.services.extend(ranges(edit::at(&range, &["spec", "cidrs"])));
        }
        for node in lookup::all(server, "", "nodes", "").await? {
            taken.pods.extend(ranges(edit::at(&node, &["spec", "podCIDRs"])));
            for address in edit::list(&node, &["status", "addresses"]) {
                taken.add(edit::text(address, &["address"]), "a node");
            }
        }
        for pod in lookup::all(server, "", "pods", "").await? {
            for address in edit::list(&pod, &["status", "podIPs"]) {
                taken.add(edit::text(address, &["ip"]), "a pod");
            }
        }
        for service in lookup::all(server, "", "services", "").await? {
            for address in object::texts(edit::at(&service, &["spec", "clusterIPs"])) {
                taken.add(&address, "a Service");
            }
        }
        Ok(taken)
    }

    fn add(&mut self, text: &str, owner: &'static str) {
        let address = text.parse::<IpAddr>().ok();
        self.addresses.extend(address.map(|address| (address.to_canonical(), owner)));
    }

    /// Returns the owner of an address, if the cluster has one.
    fn owner(&self, address: IpAddr) -> Option<String> {
        let address = address.to_canonical();
        if let Some(range) = self.services.iter().find(|range| range.contains(address)) {
            return Some(format!("the service range {range}"));
        }
        if let Some(range) = self.pods.iter().find(|range| range.contains(address)) {
            return Some(format!("the pod range {range}"));
        }
        if address.is_loopback() {
            return Some("the loopback range".to_owned());
        }
        let found = self.addresses.iter().find(|(taken, _)| *taken == address);
        found.map(|(_, owner)| (*owner).to_owned())
    }
}

fn ranges(texts: &Value) -> Vec<Range> {
    object::texts(texts).iter().filter_map(|text| Range::parse(text)).collect()
}

/// Returns the external addresses that a write adds.
fn added(service: &Value, old: Option<&Value>) -> Vec<String> {
    let external = |service: &Value| object::texts(edit::at(service, &["spec", "externalIPs"]));
    let before = old.map(external).unwrap_or_default();
    let after = external(service).into_iter();
    after.filter(|address| !before.contains(address)).collect()
}

pub struct DenyServiceExternalIps;

#[async_trait]
impl Plugin for DenyServiceExternalIps {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let is_written = matches!(attributes.operation, Operation::Create | Operation::Update);
        is_written && attributes.is_of("", "services")
    }

    async fn validate(
        &self,
        server: &Server,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<(), Error> {
        let added = added(object, attributes.old);
        if added.is_empty() {
            return Ok(());
        }
        if server.admission.external_ips == ExternalIps::Deny {
            return Err(attributes.refuse(object, DENIED));
        }
        let taken = Taken::load(server).await?;
        for text in &added {
            if let Some(owner) = text.parse().ok().and_then(|address| taken.owner(address)) {
                let why = format!(
                    "spec.externalIPs: {text} belongs to {owner}; use an address outside of the \
                     cluster"
                );
                return Err(attributes.refuse(object, &why));
            }
        }
        Ok(())
    }
}
