//! How long a node has been silent, and whether it may be emptied.

use std::sync::Arc;
use std::time::Duration;

use reconcile::{Context, Name, Object, conditions};
use tokio::time::Instant;

use super::memory::Memory;
use super::{LEASE_NAMESPACE, Patience};
use crate::kinds::{LEASE, NODE};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observed {
    /// Since when nothing has been heard.
    pub silence: Duration,
    /// How long that may be.
    pub grace: Duration,
    pub eviction: Eviction,
}

/// Whether pods may be driven away from a lost node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    Now,
    /// Others come first.
    After(Duration),
    /// Too many of its zone are lost; who has begun goes on.
    Held,
    /// All nodes are lost; who has begun stops.
    Suspended,
}

pub fn observe(
    context: &Context,
    memory: &Memory,
    patience: Patience,
    node: &Arc<Object>,
) -> Observed {
    let now = Instant::now();
    memory.seed(&context.cache(NODE), now);
    let silence = now.saturating_duration_since(memory.heard(node, now));
    let ready = conditions::find(&node.value["status"], "Ready");
    let lease = Name::new(LEASE_NAMESPACE, &*node.name.name);
    let grace = match ready {
        None => patience.at_start,
        Some(_) if context.cache(LEASE).get(&lease).is_some() => patience.with_lease,
        Some(_) => patience.with_status,
    };
    let is_ready = ready.is_some_and(|ready| ready["status"] == "True");
    let eviction = if is_ready { Eviction::Held } else { memory.ask(node, now) };
    Observed { silence, grace, eviction }
}
