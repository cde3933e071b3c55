//! Watches over nodes: one that is not heard of is Unknown, what is wrong with a node becomes a
//! taint, and taints that drive pods away come one after the other.
//!
//! Nothing is polled: every node is looked at when it changes and when its grace period would end.
//!
//! Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go

mod memory;
mod observe;
mod plan;
mod status;
mod zones;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::entry::Task;
use reconcile::{Context, Error, Kind, Object, Plan, Reconciler, Watches, run};
use tokio::time::Instant;

use crate::Options;
use crate::kinds::{LEASE, NODE};
use crate::options::Nodes;
use crate::taint_eviction::Evictor;

use memory::Memory;
pub use observe::{Eviction, Observed};

/// Where nodes renew their leases.
const LEASE_NAMESPACE: &str = "kube-node-lease";

pub struct Controller {
    memory: Arc<Memory>,
    patience: Patience,
}

/// How long a node may be silent.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// A node that has a lease.
    pub with_lease: Duration,
    /// A node that says only by its status that it lives.
    pub with_status: Duration,
    /// A node that has not said anything yet.
    pub at_start: Duration,
}

impl Patience {
    fn of(options: &Nodes) -> Patience {
        let with_lease = options.grace;
        // A status may come late once before its node is given up.
        let with_status = with_lease.max(options.heartbeat_interval * 2);
        Patience { with_lease, with_status, at_start: options.start_grace.max(with_lease) }
    }
}

impl Controller {
    pub fn new(options: &Options) -> Controller {
        Controller { memory: Arc::default(), patience: Patience::of(&options.nodes) }
    }
}

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = "node-controller";
    const KIND: Kind = NODE;

    fn watches(&self, watches: &mut Watches) {
        let memory = self.memory.clone();
        watches.by(NODE, move |change| memory.node_changed(change, Instant::now()));
        let memory = self.memory.clone();
        watches.by(LEASE, move |change| {
            let lease = change.new.as_ref();
            if let Some(lease) = lease.filter(|it| &*it.name.namespace == LEASE_NAMESPACE) {
                memory.lease_changed(lease, Instant::now());
            }
            Vec::new()
        });
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<Observed, Error> {
        Ok(observe::observe(context, &self.memory, self.patience, object))
    }

    fn plan(&self, object: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
        Ok(plan::plan(object, observed, now))
    }
}

/// Runs this and what taints do to pods.
pub fn start(context: Context, options: &Options) -> Task {
    let nodes = Controller::new(options);
    Box::pin(async move {
        tokio::join!(run::run(context.clone(), nodes), run::run(context, Evictor::default()));
    })
}

#[cfg(test)]
mod tests;
