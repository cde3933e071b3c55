//! Keeps the Node object of this machine and its Lease.

use std::time::Duration;

use reconcile::conditions::{self, Condition, Truth};
use reconcile::leader::LEASE;
use reconcile::plan::{Target, merge};
use reconcile::{Context, Error, Name, Object};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::agent::Options;
use crate::machine;
use crate::simulated::NODE;

/// How often the Lease is renewed, and how long it lasts.
const RENEW: Duration = Duration::from_secs(10);
const LEASE_SECONDS: u32 = 40;
const NAMESPACE: &str = "kube-node-lease";
/// The status is written at least as often.
const REPORT: Duration = Duration::from_secs(300);
const RETRY: Duration = Duration::from_secs(1);
/// Who writes.
pub const MANAGER: &str = "kubelet";

/// Makes or updates the Node; returns when that is done.
pub async fn register(context: &Context, options: &Options) {
    while let Err(error) = report(context, options).await {
        tracing::warn!(node = options.node, error = %error.chain(), "node not registered");
        tokio::time::sleep(RETRY).await;
    }
}

/// Renews until it is dropped.
pub async fn beat(context: &Context, options: &Options) {
    let mut reported = Instant::now();
    let nodes = context.cache(NODE);
    let name = Name::new("", options.node.as_str());
    loop {
        if let Err(error) = renew(context, &options.node).await {
            tracing::warn!(node = options.node, error = %error.chain(), "lease not renewed");
        }
        tokio::time::sleep(RENEW).await;
        let is_known = !nodes.is_ready() || nodes.get(&name).is_some_and(|node| is_well(&node));
        if !is_known || reported.elapsed() >= REPORT {
            match report(context, options).await {
                Ok(()) => reported = Instant::now(),
                Err(error) => {
                    tracing::warn!(node = options.node, error = %error.chain(), "not reported");
                }
            }
        }
    }
}

/// Whether others still believe what was reported.
fn is_well(node: &Object) -> bool {
    let ready = conditions::find(&node.value["status"], "Ready");
    ready.is_some_and(|ready| ready["status"] != "Unknown")
}

async fn report(context: &Context, options: &Options) -> Result<(), Error> {
    let requests = context.requests(MANAGER, Default::default());
    let name = Name::new("", options.node.as_str());
    let labels = machine::labels(&options.node);
    let found = match requests.get(NODE, &name).await? {
        Some(found) => found,
        None => {
            let metadata = json!({"name": options.node, "labels": labels});
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata,
                "spec": {"providerID": format!("setpoint://{}", options.node)}});
            requests.create(NODE, &node).await?
        }
    };
    let mut labelled = found.value["metadata"]["labels"].clone();
    merge(&mut labelled, &labels);
    if labelled != found.value["metadata"]["labels"] {
        let patch = json!({"metadata": {"labels": labels}});
        requests.patch(&Target::of(NODE, &found), &patch).await?;
    }
    let status = json!({"status": status(&found, options, context)});
    requests.patch(&Target::of(NODE, &found).part("status"), &status).await.map(|_| ())
}

fn status(node: &Object, options: &Options, context: &Context) -> Value {
    let now = context.environment.now();
    let runtime = options.runtime.as_ref().map_or_else(
        || "none://".to_owned(),
        |runtime| format!("{}://{}", runtime.name(), runtime.version()),
    );
    let ready = match &options.runtime {
        Some(_) => (Truth::True, "KubeletReady", "kubelet is posting ready status"),
        None => (Truth::False, "KubeletNotReady", "container runtime is not available"),
    };
    let mut list = node.value["status"]["conditions"].as_array().cloned().unwrap_or_default();
    for (kind, (status, reason, message)) in [
        (
            "MemoryPressure",
            (Truth::False, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ),
        (
            "DiskPressure",
            (Truth::False, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ),
        (
            "PIDPressure",
            (Truth::False, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ),
        ("Ready", ready),
    ] {
        let condition = Condition { kind, status, reason, message, observed_generation: None };
        conditions::set(&mut list, &condition, now);
        if let Some(set) = list.iter_mut().find(|one| one["type"] == kind) {
            set["lastHeartbeatTime"] = json!(conditions::time(now));
        }
    }
    let mut capacity = machine::capacity(&options.directory);
    options.devices.add_to(&mut capacity);
    json!({
        "capacity": capacity,
        "allocatable": capacity,
        "conditions": list,
        "addresses": [
            {"type": "InternalIP", "address": options.address.to_string()},
            {"type": "Hostname", "address": options.node},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": machine::info(&runtime),
    })
}

async fn renew(context: &Context, node: &str) -> Result<(), Error> {
    let requests = context.requests(MANAGER, Default::default());
    let at = context.environment.now().strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string();
    let key = Name::new(NAMESPACE, node);
    if let Some(lease) = requests.get(LEASE, &key).await? {
        let patch = json!({"spec": {"renewTime": at, "holderIdentity": node,
            "leaseDurationSeconds": LEASE_SECONDS}});
        return requests.patch(&Target::of(LEASE, &lease), &patch).await.map(|_| ());
    }
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"namespace": NAMESPACE, "name": node},
        "spec": {"holderIdentity": node, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": at},
    });
    requests.create(LEASE, &lease).await.map(|_| ())
}
