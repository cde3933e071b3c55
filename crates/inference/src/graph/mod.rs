//! A graph of components that serve models together: each becomes an object of its own, workers
//! that change give way to others without fewer serving than may be, and what all need is there.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/internal/controller/
//! dynamographdeployment_controller.go

mod adapters;
pub mod facts;
pub mod generate;
mod generations;
mod observe;
mod plan;
mod program;
mod restart;
pub mod rollout;
mod shared;
mod ssh_key;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::Notice;
use reconcile::{Change, Context, Error, Kind, Name, Object, Plan, Reconciler, Watches};

use crate::kinds::{
    ADAPTER, CLUSTER_ROLE, COMPONENT, CONFIG_MAP, GRAPH, PERSISTENT_VOLUME_CLAIM, POD, ROLE,
    ROLE_BINDING, SECRET, SERVICE_ACCOUNT,
};
use crate::names;
use crate::settings::Settings;

pub use observe::Observed;

pub const NAME: &str = "dynamographdeployment";

pub struct Controller {
    settings: Arc<Settings>,
}

impl Controller {
    pub fn new(settings: Arc<Settings>) -> Controller {
        Controller { settings }
    }
}

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = NAME;
    const KIND: Kind = GRAPH;
    const COUNTED_AS: Option<&'static str> = Some(crate::METRICS_PREFIX);

    fn watches(&self, watches: &mut Watches) {
        for kind in [
            COMPONENT,
            ADAPTER,
            PERSISTENT_VOLUME_CLAIM,
            CONFIG_MAP,
            SERVICE_ACCOUNT,
            ROLE,
            ROLE_BINDING,
        ] {
            watches.owned(kind, GRAPH);
        }
        watches.reads(SECRET);
        if self.settings.manages_roles {
            watches.reads(CLUSTER_ROLE);
        }
        watches.by(POD, worker_moved);
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<Observed, Error> {
        observe::observe(context, object, &self.settings)
    }

    fn plan(&self, object: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
        Ok(plan::plan(&self.settings, object, observed, now))
    }

    fn refused(
        &self,
        object: &Object,
        _: &Observed,
        error: &Error,
        now: Timestamp,
    ) -> Option<Plan> {
        let status = status::failed(object, status::RESOURCES, &error.said(), now);
        let notices = vec![Notice::warning(status::FAILED, error.said())];
        Some(Plan { status: Some(status), notices, ..Plan::nothing() })
    }
}

/// The graph of a worker that came, went or ended: whoever waits for the last one to go is told.
fn worker_moved(change: &Change) -> Vec<Name> {
    let state = |side: &Option<Arc<Object>>| {
        let phase = |pod: &Arc<Object>| {
            matches!(pod.value["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
        };
        side.as_ref().map(phase)
    };
    let pod = change.object();
    let graph = pod.label(names::GRAPH).filter(|_| pod.label(names::WORKER_HASH).is_some());
    match graph {
        Some(graph) if state(&change.old) != state(&change.new) => {
            vec![Name::new(pod.name.namespace.clone(), graph)]
        }
        _ => Vec::new(),
    }
}
