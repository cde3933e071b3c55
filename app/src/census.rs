//! How many nodes and pods there are, and how they are.

use node::simulated::{NODE, POD};
use reconcile::{Caches, Object, conditions};
use serde::{Deserialize, Serialize};

/// Counted from the caches of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Census {
    pub nodes: usize,
    pub nodes_ready: usize,
    pub pods: usize,
    pub pods_running: usize,
    /// Neither running nor done.
    pub pods_waiting: usize,
}

impl Census {
    /// `None` where nothing in this process looks at nodes and pods.
    pub fn of(caches: &Caches) -> Option<Census> {
        let (nodes, pods) = (caches.held_of(NODE)?, caches.held_of(POD)?);
        let (nodes, pods) = (nodes.all(), pods.all());
        let ready = nodes.iter().filter(|node| is_ready(node));
        let in_phase = |phase: &str| {
            pods.iter().filter(|pod| pod.value["status"]["phase"].as_str() == Some(phase)).count()
        };
        Some(Census {
            nodes_ready: ready.count(),
            nodes: nodes.len(),
            pods: pods.len(),
            pods_running: in_phase("Running"),
            pods_waiting: in_phase("Pending"),
        })
    }
}

fn is_ready(node: &Object) -> bool {
    conditions::is_true(&node.value["status"], "Ready")
}
