//! Keeps the Node object of this machine and its Lease.

use std::time::Duration;

use reconcile::conditions::{self, Condition, Truth};
use reconcile::leader::LEASE;
use reconcile::plan::{Notice, Target, merge};
use reconcile::{Context, Error, Name, Object};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::absence;
use crate::agent::Options;
use crate::machine;
use crate::pressure::Resource;
use crate::runtime::Image;
use crate::simulated::NODE;

/// How often the Lease is renewed, and how long it lasts.
const RENEW: Duration = Duration::from_secs(10);
const LEASE_SECONDS: u32 = 40;
const NAMESPACE: &str = "kube-node-lease";
/// The status is written at least as often.
const REPORT: Duration = Duration::from_secs(300);
const RETRY: Duration = Duration::from_secs(1);
/// Images that are told of, and names of each.
const IMAGES_MAX: usize = 50;
const IMAGE_NAMES_MAX: usize = 5;
/// What is said of a node that only its own process asks.
const USUAL_PORT: u16 = 10_250;
/// Who writes.
pub const MANAGER: &str = "kubelet";

/// How this node says that it lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Heartbeat {
    /// By a Lease; the status is written when it changes.
    #[default]
    Lease,
    /// By its status alone, this often.
    Status(Duration),
}

/// Makes or updates the Node; returns when that is done.
pub async fn register(context: &Context, options: &Options) {
    while let Err(error) = report(context, options, Write::Always).await {
        tracing::warn!(node = options.node, error = %error.chain(), "node not registered");
        tokio::time::sleep(RETRY).await;
    }
}

/// Says that the node lives until it is dropped.
pub async fn beat(context: &Context, options: &Options) {
    let mut reported = Instant::now();
    loop {
        let (pause, longest) = match options.heartbeat {
            Heartbeat::Lease => {
                if let Err(error) = renew(context, &options.node).await {
                    let error = error.chain();
                    tracing::warn!(node = options.node, %error, "lease not renewed");
                }
                (RENEW, REPORT)
            }
            Heartbeat::Status(interval) => (interval, interval),
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = options.pressure.changed() => {}
        }
        let is_due = reported.elapsed() >= longest;
        let write = if is_due { Write::Always } else { Write::Changes };
        match report(context, options, write).await {
            Ok(Written::Yes) => reported = Instant::now(),
            Ok(Written::No) => {}
            Err(error) => {
                tracing::warn!(node = options.node, error = %error.chain(), "not reported");
            }
        }
    }
}

/// When the status is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Write {
    Always,
    /// If it says something else than before, times aside.
    Changes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    Yes,
    No,
}

async fn report(context: &Context, options: &Options, write: Write) -> Result<Written, Error> {
    let requests = context.requests(MANAGER, Default::default());
    let name = Name::new("", options.node.as_str());
    let mut labels = machine::labels(&options.node);
    options.devices.add_labels(&mut labels);
    // What the cache shows is enough to see whether something is to be said.
    if write == Write::Changes
        && let Some(node) = context.cache(NODE).get(&name)
        && is_told(&node, &labels, &status(&node, options, context))
    {
        return Ok(Written::No);
    }
    let found = match requests.get(NODE, &name).await? {
        Some(found) => found,
        None => {
            let metadata = json!({"name": options.node, "labels": labels});
            let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata,
                "spec": {"providerID": format!("setpoint://{}", options.node)}});
            let node = requests.create(NODE, &node).await?;
            let what = format!("Node {0} event: Registered Node {0} in Controller", options.node);
            say(context, &node, Notice::normal("RegisteredNode", what)).await;
            node
        }
    };
    absence::come_back(&requests, &found).await?;
    let mut labelled = found.value["metadata"]["labels"].clone();
    merge(&mut labelled, &labels);
    if labelled != found.value["metadata"]["labels"] {
        let patch = json!({"metadata": {"labels": labels}});
        requests.patch(&Target::of(NODE, &found), &patch).await?;
    }
    let status = status(&found, options, context);
    let (was, is) = (ready(&found.value["status"]), ready(&status));
    let patch = json!({"status": status});
    let node = requests.patch(&Target::of(NODE, &found).part("status"), &patch).await?;
    if was != is {
        let reason = if is == "True" { "NodeReady" } else { "NodeNotReady" };
        let what = format!("Node {} status is now: {reason}", options.node);
        say(context, &node, Notice::normal(reason, what)).await;
    }
    Ok(Written::Yes)
}

fn ready(status: &Value) -> String {
    let ready = conditions::find(status, "Ready");
    ready.and_then(|ready| ready["status"].as_str()).unwrap_or("False").to_owned()
}

async fn say(context: &Context, node: &Object, notice: Notice) {
    let requests = context.requests(MANAGER, Default::default());
    let now = context.environment.now();
    context.recorder.record(&requests, (NODE, node), &notice, now).await;
}

/// Whether a node says all this already, whenever it last did.
fn is_told(node: &Object, labels: &Value, status: &Value) -> bool {
    let mut labelled = node.value["metadata"]["labels"].clone();
    merge(&mut labelled, labels);
    let timeless = |status: &Value| {
        let mut status = status.clone();
        for condition in status["conditions"].as_array_mut().into_iter().flatten() {
            condition["lastHeartbeatTime"] = Value::Null;
            condition["lastTransitionTime"] = Value::Null;
        }
        status
    };
    let (held, told) = (timeless(&node.value["status"]), timeless(status));
    let mut fields = told.as_object().into_iter().flatten();
    labelled == node.value["metadata"]["labels"] && fields.all(|(name, it)| held[name] == *it)
}

fn status(node: &Object, options: &Options, context: &Context) -> Value {
    let now = context.environment.now();
    let runtime = options.runtime.as_ref().map_or_else(
        || "none://".to_owned(),
        |runtime| format!("{}://{}", runtime.name(), runtime.version()),
    );
    let trouble = match &options.runtime {
        Some(runtime) => runtime.trouble().map(|why| format!("container runtime is down: {why}")),
        None if options.absence.is_empty() => Some("container runtime is not available".to_owned()),
        None => Some(format!("container runtime is not available: {}", options.absence)),
    };
    let ready = match &trouble {
        None => (Truth::True, "KubeletReady", "kubelet is posting ready status"),
        Some(why) => (Truth::False, "KubeletNotReady", why.as_str()),
    };
    let mut list = node.value["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let pressures = Resource::ALL.map(|resource| {
        let is_under = options.pressure.is_under(resource, now);
        (resource.condition(), pressure_condition(resource, is_under))
    });
    for (kind, (status, reason, message)) in pressures.into_iter().chain([("Ready", ready)]) {
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
        "daemonEndpoints": {"kubeletEndpoint": {"Port": options.port.unwrap_or(USUAL_PORT)}},
        "nodeInfo": machine::info(&runtime),
        "images": images(options.runtime.as_ref().map(|it| it.images()).unwrap_or_default()),
    })
}

/// Returns status, reason and message of a condition, as the kubelet has them.
fn pressure_condition(resource: Resource, is_under: bool) -> (Truth, &'static str, &'static str) {
    let (reason, message) = match (resource, is_under) {
        (Resource::Memory, true) => {
            ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available")
        }
        (Resource::Memory, false) => {
            ("KubeletHasSufficientMemory", "kubelet has sufficient memory available")
        }
        (Resource::Disk, true) => ("KubeletHasDiskPressure", "kubelet has disk pressure"),
        (Resource::Disk, false) => ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        (Resource::Pids, true) => {
            ("KubeletHasInsufficientPID", "kubelet has insufficient PID available")
        }
        (Resource::Pids, false) => {
            ("KubeletHasSufficientPID", "kubelet has sufficient PID available")
        }
    };
    (if is_under { Truth::True } else { Truth::False }, reason, message)
}

/// What containers can be started from, the largest first, as the scheduler looks for it.
fn images(mut images: Vec<Image>) -> Value {
    images.sort_by(|one, other| other.bytes.cmp(&one.bytes).then(one.names.cmp(&other.names)));
    let told = images.iter().take(IMAGES_MAX).map(|image| {
        let names: Vec<&String> = image.names.iter().take(IMAGE_NAMES_MAX).collect();
        match image.bytes {
            0 => json!({"names": names}),
            bytes => json!({"names": names, "sizeBytes": bytes}),
        }
    });
    told.collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_images_are_told_of() {
        let image = |name: &str, bytes| Image { names: vec![name.to_owned()], bytes };
        let told = images(vec![image("b", 0), image("a", 0), image("c", 7)]);
        let expected =
            json!([{"names": ["c"], "sizeBytes": 7}, {"names": ["a"]}, {"names": ["b"]}]);
        assert_eq!(told, expected);
        let many = (0..100).map(|number| image(&number.to_string(), number)).collect();
        let told = images(many);
        assert_eq!(told.as_array().map(Vec::len), Some(IMAGES_MAX));
        assert_eq!(told[0]["names"], json!(["99"]));
    }

    #[test]
    fn a_status_is_told_when_only_times_differ() {
        let condition = |at: &str, status: &str| {
            json!({"type": "Ready", "status": status, "lastHeartbeatTime": at,
                "lastTransitionTime": at})
        };
        let labels = json!({"a": "b"});
        let node = Object::new(json!({"metadata": {"name": "n", "labels": {"a": "b", "c": "d"}},
            "status": {"conditions": [condition("1", "True")], "capacity": {"cpu": "2"},
                "images": []}}));
        let status = |cpu: &str, ready: &str| {
            let conditions = [condition("2", ready)];
            json!({"conditions": conditions, "capacity": {"cpu": cpu}})
        };
        assert!(is_told(&node, &labels, &status("2", "True")));
        assert!(!is_told(&node, &labels, &status("3", "True")));
        // Others gave it up meanwhile.
        assert!(!is_told(&node, &labels, &status("2", "Unknown")));
        assert!(!is_told(&node, &json!({"a": "x"}), &status("2", "True")));
    }
}
