//! Makes the Node objects. Those that exist are kept as they are, but have what is asked for.

use futures::StreamExt;
use reconcile::plan::Target;
use reconcile::{Context, Object, conditions};
use serde_json::{Value, json};
use tokio::time::Duration;

use crate::absence;

use super::{ANNOTATION, NAME, NODE, Options, name};

/// Nodes made at the same time.
const TOGETHER_MAX: usize = 64;
/// How long until a node that could not be made is tried again.
const RETRY: Duration = Duration::from_secs(1);
/// Nodes that share a zone.
const ZONE_NODES: u32 = 100;

pub async fn register(context: &Context, options: &Options) {
    let made = futures::stream::iter(0..options.count).for_each_concurrent(TOGETHER_MAX, |index| {
        let context = context.clone();
        async move {
            while let Err(error) = register_one(&context, options, index).await {
                tracing::warn!(node = name(index), error = %error.chain(), "node not registered");
                tokio::time::sleep(RETRY).await;
            }
        }
    });
    tokio::select! {
        () = made => {}
        () = context.stopping() => {}
    }
}

async fn register_one(
    context: &Context,
    options: &Options,
    index: u32,
) -> Result<(), reconcile::Error> {
    let requests = context.requests(NAME, Default::default());
    let now = conditions::time(context.environment.now());
    let wanted = node(options, index);
    let found = match requests.create(NODE, &wanted).await {
        Ok(made) => made,
        Err(error) if error.is_conflict() => {
            let name = Object::new(wanted).name;
            match requests.get(NODE, &name).await? {
                Some(found) => {
                    absence::come_back(&requests, &found).await?;
                    found
                }
                None => return Err(error),
            }
        }
        Err(error) => return Err(error),
    };
    let status = json!({"status": status(options, index, &now)});
    requests.patch(&Target::of(NODE, &found).part("status"), &status).await.map(|_| ())
}

fn node(options: &Options, index: u32) -> Value {
    let name = name(index);
    let zone = format!("zone-{}", index / ZONE_NODES);
    let mut labels = json!({
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/zone": zone,
        "topology.kubernetes.io/region": "simulated",
        "node.kubernetes.io/instance-type": "simulated",
    });
    if options.resources.0.contains_key("nvidia.com/gpu") {
        labels["nvidia.com/gpu.present"] = json!("true");
    }
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {ANNOTATION: "true"}},
        "spec": {"providerID": format!("simulated://{name}")},
    })
}

fn status(options: &Options, index: u32, now: &str) -> Value {
    let [_, high, middle, low] = (index + 1).to_be_bytes();
    let address = format!("10.{}.{middle}.{low}", 64 + (high & 63));
    let good = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now})
    };
    json!({
        "capacity": options.resources.0,
        "allocatable": options.resources.0,
        "phase": "Running",
        "conditions": [
            good("MemoryPressure", "False", "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available"),
            good("DiskPressure", "False", "KubeletHasNoDiskPressure",
                "kubelet has no disk pressure"),
            good("PIDPressure", "False", "KubeletHasSufficientPID",
                "kubelet has sufficient PID available"),
            good("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ],
        "addresses": [
            {"type": "InternalIP", "address": address},
            {"type": "Hostname", "address": name(index)},
        ],
        "nodeInfo": {
            "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "simulated://1",
            "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "v1.36.4+setpoint",
            "machineID": "", "operatingSystem": "linux", "osImage": "simulated", "systemUUID": "",
        },
    })
}
