//! What every cluster has from the start, besides roles: what clients look for before they do
//! anything, and what the system's own objects refer to.
//!
//! Pure: who writes them down is `bootstrap.rs`.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::allocation::ranges::{DEFAULT_NAME, Range};
use crate::resources::Registry;

mod api_services;
mod flow_control;

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// The Service by which everybody in the cluster finds the server.
const SERVICE: &str = "kubernetes";
const SERVICE_PORT: u16 = 443;

/// What the first objects say of this cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Where services get their addresses from, one range for each family; the first is the usual.
    pub service_ranges: Vec<Range>,
    /// Where the server can be reached, if others are to know.
    pub advertised: Option<SocketAddr>,
    /// The certificates that clients trust.
    pub authority_pem: String,
}

/// An object, and whether it is kept as it is here or as it was made.
pub struct First {
    pub group: &'static str,
    pub plural: &'static str,
    pub object: Value,
    pub care: Care,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// Made when missing; what somebody changed since stays.
    Once,
    /// Says something of this server, which may have moved since.
    Always,
    /// What somebody took away comes back; what somebody added stays.
    Restored,
}

/// All of them but roles.
pub fn all(registry: &Registry, cluster: &Cluster) -> Vec<First> {
    let mut all = namespaces();
    all.extend(service(cluster));
    all.extend(priority_classes());
    all.extend(flow_control::objects());
    all.extend(api_services::objects(registry));
    let trusted = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
        "data": {"client-ca-file": cluster.authority_pem},
    });
    all.push(First { care: Care::Always, ..first("", "configmaps", trusted) });
    all
}

fn first(group: &'static str, plural: &'static str, object: Value) -> First {
    First { group, plural, object, care: Care::Once }
}

/// Each with the account that pods run as.
fn namespaces() -> Vec<First> {
    let mut all = Vec::new();
    for name in NAMESPACES {
        all.push(first(
            "",
            "namespaces",
            json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
                "spec": {}, "status": {},
            }),
        ));
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "default", "namespace": name},
        });
        all.push(first("", "serviceaccounts", account));
    }
    all
}

/// The server as a service, its address in the ranges, and where it really is.
fn service(cluster: &Cluster) -> Vec<First> {
    let Some(range) = cluster.service_ranges.first() else { return Vec::new() };
    // Who serves nobody leaves it to those who do.
    let Some(advertised) = cluster.advertised else { return Vec::new() };
    let address = range.nth(0).to_string();
    let (host, port) = (advertised.ip(), advertised.port());
    let family = |is_ipv4: bool| if is_ipv4 { "IPv4" } else { "IPv6" };
    let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
    let ranges: Vec<String> = cluster.service_ranges.iter().map(Range::to_string).collect();
    let ranges = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": DEFAULT_NAME},
        "spec": {"cidrs": ranges},
        "status": {"conditions": [{
            "type": "Ready", "status": "True", "reason": "",
            "message": "Kubernetes Service CIDR is ready",
        }]},
    });
    let taken = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {
            "name": address,
            "labels": {
                "ipaddress.kubernetes.io/ip-family": range.family().name(),
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": SERVICE}},
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": SERVICE, "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": address, "clusterIPs": [address],
            "ipFamilies": [range.family().name()], "ipFamilyPolicy": "SingleStack",
            "ports": [{
                "name": "https", "port": SERVICE_PORT, "protocol": "TCP", "targetPort": port,
            }],
            "type": "ClusterIP",
        },
    });
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {
            "name": SERVICE, "namespace": "default",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{"addresses": [{"ip": host}], "ports": ports}],
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": SERVICE, "namespace": "default",
            "labels": {"kubernetes.io/service-name": SERVICE},
        },
        "addressType": family(host.is_ipv4()),
        "endpoints": [{"addresses": [host], "conditions": {"ready": true}}],
        "ports": ports,
    });
    let always = |first: First| First { care: Care::Always, ..first };
    vec![
        first("networking.k8s.io", "servicecidrs", ranges),
        first("networking.k8s.io", "ipaddresses", taken),
        first("", "services", service),
        always(first("", "endpoints", endpoints)),
        always(first("discovery.k8s.io", "endpointslices", slice)),
    ]
}

fn priority_classes() -> [First; 2] {
    let class = |name: &str, value: i64, description: &str| {
        let object = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value, "description": description,
        });
        first("scheduling.k8s.io", "priorityclasses", object)
    };
    [
        class(
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to \
             another node if necessary.",
        ),
        class(
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ]
}
