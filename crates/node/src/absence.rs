//! A node whose agent was stopped on purpose says so by a taint: what runs there runs on and is not
//! evicted, but no new pod is sent where nobody would start it. Without it a node that is gone
//! would be given pods until its lease runs out.

use futures::StreamExt;
use reconcile::plan::Target;
use reconcile::requests::Requests;
use reconcile::{Context, Error, Name, Object};
use serde_json::{Value, json};

use crate::simulated::NODE;

const TAINT: &str = "setpoint.dev/stopped";
/// Nodes that are told of at the same time.
const TOGETHER_MAX: usize = 64;

/// Says of these nodes that they were stopped. What cannot be said is left to their leases.
pub async fn leave(context: &Context, manager: &'static str, nodes: Vec<String>) {
    let requests = &context.requests(manager, Default::default());
    let leave_one = |node: String| async move {
        if let Err(error) = mark(requests, &Name::new("", node.as_str())).await {
            tracing::debug!(node, error = %error.chain(), "nobody is told that it stopped");
        }
    };
    futures::stream::iter(nodes).for_each_concurrent(TOGETHER_MAX, leave_one).await;
}

async fn mark(requests: &Requests, name: &Name) -> Result<(), Error> {
    let Some(node) = requests.get(NODE, name).await? else { return Ok(()) };
    let mut taints = others(&node);
    taints.push(json!({"key": TAINT, "effect": "NoSchedule"}));
    write(requests, &node, taints).await
}

/// Takes it back, if it was said.
///
/// # Errors
/// It could not be written.
pub async fn come_back(requests: &Requests, node: &Object) -> Result<(), Error> {
    let taints = others(node);
    let all = node.value["spec"]["taints"].as_array().map_or(0, Vec::len);
    if taints.len() == all {
        return Ok(());
    }
    write(requests, node, taints).await
}

fn others(node: &Object) -> Vec<Value> {
    let taints = node.value["spec"]["taints"].as_array().into_iter().flatten();
    taints.filter(|taint| taint["key"] != TAINT).cloned().collect()
}

async fn write(requests: &Requests, node: &Object, taints: Vec<Value>) -> Result<(), Error> {
    let target = Target { revision: Some(node.revision), ..Target::of(NODE, node) };
    requests.patch(&target, &json!({"spec": {"taints": taints}})).await.map(drop)
}
