//! Whether the node of a pod is there.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use k8s_openapi::jiff::Timestamp;
use reconcile::{Context, Error, Name, Object, conditions};

use crate::kinds::NODE;
use crate::pods;

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Where a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// No node has been chosen.
    None,
    There,
    /// An administrator says that the node is down for good.
    OutOfService,
    /// The node is not there, since a time.
    Missing(Timestamp),
}

pub fn is_out_of_service(node: &Object) -> bool {
    let taints = node.value["spec"]["taints"].as_array();
    let is_marked = taints.into_iter().flatten().any(|taint| taint["key"] == OUT_OF_SERVICE);
    is_marked && !conditions::is_true(&node.value["status"], "Ready")
}

pub async fn observe(
    context: &Context,
    pod: &Object,
    missing: &Mutex<BTreeMap<String, Timestamp>>,
) -> Result<Home, Error> {
    let node = pods::node(pod);
    if node.is_empty() {
        return Ok(Home::None);
    }
    let name = Name::new("", node);
    let nodes = context.cache(NODE);
    let found = nodes.get(&name);
    let found = match found {
        Some(node) => Some(is_out_of_service(&node)),
        // The pod may be known before its node is.
        None => context.get_live(NODE, &name).await?.map(|node| is_out_of_service(&node)),
    };
    let mut missing = missing.lock().unwrap_or_else(PoisonError::into_inner);
    match found {
        None => {
            let now = context.environment.now();
            let since = missing.entry(node.to_owned()).or_insert(now);
            // A clock that was set back would make it wait for long.
            *since = (*since).min(now);
            Ok(Home::Missing(*since))
        }
        Some(is_out) => {
            missing.retain(|name, _| nodes.get(&Name::new("", name.as_str())).is_none());
            missing.remove(node);
            Ok(if is_out { Home::OutOfService } else { Home::There })
        }
    }
}
