//! A graph of components that serve models together: each becomes an object of its own, workers
//! that change give way to others without fewer serving than may be, and what all need is there.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/internal/controller/
//! dynamographdeployment_controller.go

mod adapters;
mod checkpoints;
pub mod claims;
pub mod facts;
pub mod generate;
mod generations;
pub mod grove;
pub mod infrastructure;
mod legacy_config;
mod observe;
pub mod picker;
pub(crate) mod plan;
mod program;
mod restart;
pub mod rollout;
mod shared;
pub(crate) mod ssh_key;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::Notice;
use reconcile::{Change, Context, Error, Kind, Name, Object, Plan, Reconciler, Watches, owners};

use crate::component::{lost_model, serves};
use crate::kinds::{
    ADAPTER, CHECKPOINT, CLUSTER_ROLE, COMPONENT, CONFIG_MAP, DEPLOYMENT, DESTINATION_RULE, GRAPH,
    INFERENCE_POOL, INGRESS, PERSISTENT_VOLUME_CLAIM, POD, POD_CLIQUE, POD_CLIQUE_SCALING_GROUP,
    POD_CLIQUE_SET, RESOURCE_CLAIM_TEMPLATE, ROLE, ROLE_BINDING, SECRET, SERVICE, SERVICE_ACCOUNT,
    VIRTUAL_SERVICE,
};
use crate::names;
use crate::settings::Settings;

use facts::Graph;
pub use observe::Observed;
pub use plan::preferred;

pub const NAME: &str = "dynamographdeployment";

/// It rests so many times as long as a look took: what comes meanwhile is one change, not many.
const REST: u32 = 8;

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

    fn settings(&self) -> reconcile::reconciler::Settings {
        reconcile::reconciler::Settings { rest: REST, ..Default::default() }
    }

    fn watches(&self, watches: &mut Watches) {
        for kind in [
            COMPONENT,
            ADAPTER,
            DEPLOYMENT,
            SERVICE,
            CONFIG_MAP,
            SERVICE_ACCOUNT,
            ROLE,
            ROLE_BINDING,
        ] {
            watches.owned(kind, GRAPH);
        }
        watches.children(PERSISTENT_VOLUME_CLAIM, GRAPH);
        watches.reads(SECRET);
        if self.settings.manages_roles {
            watches.reads(CLUSTER_ROLE);
        }
        watches.by(POD, worker_moved);
        let gates = self.settings.gates;
        for (kind, is_there) in [
            (INFERENCE_POOL, gates.inference_pools),
            (DESTINATION_RULE, gates.istio),
            (RESOURCE_CLAIM_TEMPLATE, gates.resource_claims),
        ] {
            if is_there {
                watches.owned(kind, GRAPH);
            }
        }
        if gates.grove {
            watches.owned(POD_CLIQUE_SET, GRAPH);
            watches.owned(INGRESS, GRAPH);
            watches.by(POD_CLIQUE, grove::of_clique);
            let sets = watches.cache(POD_CLIQUE_SET);
            watches.by(POD_CLIQUE_SCALING_GROUP, move |change| {
                let set = grove::set_of(change).and_then(|name| sets.get(&name));
                let graph = set.and_then(|set| owners::controller_name(&set, GRAPH));
                graph.into_iter().collect()
            });
            if !self.settings.ingress.gateway.is_empty() {
                watches.owned(VIRTUAL_SERVICE, GRAPH);
            }
            let graphs = watches.cache(GRAPH);
            watches.by(SERVICE, move |change| {
                let Some(hash) = lost_model(change) else { return Vec::new() };
                let all = graphs.in_namespace(&change.object().name.namespace);
                let serving = all
                    .iter()
                    .filter(|graph| Graph::of(graph).components().any(|part| serves(part.0, hash)));
                serving.map(|graph| graph.name.clone()).collect()
            });
        }
        let graphs = watches.cache(GRAPH);
        watches.by(CHECKPOINT, move |change| {
            let checkpoint = change.object();
            checkpoints::concerned(checkpoint, &graphs.in_namespace(&checkpoint.name.namespace))
        });
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<Observed, Error> {
        observe::observe(context, object, &self.settings).await
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
        let notices = vec![Notice::failure(status::FAILED, error.said())];
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
