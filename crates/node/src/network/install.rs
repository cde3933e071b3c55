//! The objects by which everybody finds the DNS of the cluster: the Service `kube-dns`, and where
//! it is on this node.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use reconcile::plan::Target;
use reconcile::{Context, Error, Name};
use serde_json::{Value, json};

use super::services::ENDPOINT_SLICE;
use crate::agent::SERVICE;

const NAMESPACE: &str = "kube-system";
pub const NAME: &str = "kube-dns";
/// How far behind the server's own address that of DNS is, where it is free.
const PLACE: u32 = 9;
const RETRY: Duration = Duration::from_secs(1);
const MANAGER: &str = "setpoint";

/// Writes them; the address of the service, when that is done.
pub async fn run(context: &Context, node: &str, dns: SocketAddr) -> Option<String> {
    loop {
        match write(context, node, dns).await {
            Ok(address) => return address,
            Err(error) => {
                tracing::warn!(error = %error.chain(), "the service of DNS was not written");
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

async fn write(context: &Context, node: &str, dns: SocketAddr) -> Result<Option<String>, Error> {
    let requests = context.requests(MANAGER, Default::default());
    let key = Name::new(NAMESPACE, NAME);
    if requests.get(SERVICE, &key).await?.is_none() {
        let server = requests.get(SERVICE, &Name::new("default", "kubernetes")).await?;
        let first = server.and_then(|server| {
            server.value["spec"]["clusterIP"].as_str()?.parse::<Ipv4Addr>().ok()
        });
        let usual = first.map(|first| Ipv4Addr::from_bits(first.to_bits() + PLACE));
        // Somebody may have the usual one.
        if requests.create(SERVICE, &service(usual)).await.is_err() {
            requests.create(SERVICE, &service(None)).await?;
        }
    }
    let name = Name::new(NAMESPACE, format!("{NAME}-{node}").as_str());
    let wanted = slice(&name, node, dns);
    match requests.get(ENDPOINT_SLICE, &name).await? {
        None => drop(requests.create(ENDPOINT_SLICE, &wanted).await?),
        Some(found) => {
            let patch = json!({"endpoints": wanted["endpoints"], "ports": wanted["ports"]});
            requests.patch(&Target::of(ENDPOINT_SLICE, &found), &patch).await?;
        }
    }
    let service = requests.get(SERVICE, &key).await?;
    let address =
        |service: reconcile::Object| service.value["spec"]["clusterIP"].as_str().map(str::to_owned);
    Ok(service.and_then(address))
}

fn service(address: Option<Ipv4Addr>) -> Value {
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"namespace": NAMESPACE, "name": NAME, "labels": {
            "k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true",
            "kubernetes.io/name": "CoreDNS"}},
        // Every node answers for itself.
        "spec": {"internalTrafficPolicy": "Local", "ports": [
            {"name": "dns", "port": 53, "protocol": "UDP"},
            {"name": "dns-tcp", "port": 53, "protocol": "TCP"}]},
    });
    if let Some(address) = address {
        service["spec"]["clusterIP"] = json!(address);
    }
    service
}

fn slice(name: &Name, node: &str, dns: SocketAddr) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"namespace": NAMESPACE, "name": &*name.name,
            "labels": {"kubernetes.io/service-name": NAME}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [dns.ip()], "nodeName": node,
            "conditions": {"ready": true, "serving": true, "terminating": false}}],
        "ports": [
            {"name": "dns", "port": dns.port(), "protocol": "UDP"},
            {"name": "dns-tcp", "port": dns.port(), "protocol": "TCP"}],
    })
}
