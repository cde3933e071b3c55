//! Requests: a model and what is expected of it become a graph that serves it.
//!
//! A Job measures, or estimates, what it takes, and leaves a graph; the graph is kept on the
//! request and made from there, once.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/internal/controller,
//! dynamographdeploymentrequest_controller.go

mod accounts;
pub mod admission;
mod dcgm;
mod generate;
mod graph_override;
mod hardware;
mod job;
pub mod manifests;
mod observe;
mod output;
mod overrides;
mod plan;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::{Context, Error, Kind, Name, Object, Plan, Reconciler, Watches};

use crate::kinds::{CONFIG_MAP, GRAPH, JOB, POD, REQUEST};
use crate::settings::Settings;

pub use observe::Observed;

pub const NAME: &str = "dynamographdeploymentrequest";

/// On whatever a request made.
pub const NAME_LABEL: &str = "dgdr.nvidia.com/name";
pub const NAMESPACE_LABEL: &str = "dgdr.nvidia.com/namespace";
/// An annotation of the same: names come again, this does not.
pub const UID: &str = "dgdr.nvidia.com/uid";
/// The graph that was generated, until it is made.
pub const GENERATED: &str = "nvidia.com/generated-dgd-spec";
/// What was generated besides.
pub const OTHERS: &str = "dgdr.nvidia.com/additional-resources";
/// What is longer is not kept.
const OTHERS_BYTES_MAX: usize = 250_000;
/// The profilers' account, what binds it, and to which role.
pub const ACCOUNT: &str = "dgdr-profiling-job";
const BINDING: &str = "dgdr-profiling-job-binding";
pub const PROFILING_ROLE: &str = "dynamo-operator-dgdr-profiling";

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
    const KIND: Kind = REQUEST;
    const COUNTED_AS: Option<&'static str> = Some(crate::METRICS_PREFIX);

    fn watches(&self, watches: &mut Watches) {
        watches.children(JOB, REQUEST);
        watches.by(GRAPH, |change| request_of(change.object()));
        watches.by(CONFIG_MAP, |change| request_of(change.object()));
        watches.reads(POD);
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
        observed: &Observed,
        error: &Error,
        now: Timestamp,
    ) -> Option<Plan> {
        plan::refused(&self.settings, object, observed, (error, now))
    }
}

/// The request that an object says it was made for.
fn request_of(object: &Object) -> Vec<Name> {
    let (name, namespace) = (object.label(NAME_LABEL), object.label(NAMESPACE_LABEL));
    match (name, namespace) {
        (Some(name), Some(namespace)) => vec![Name::new(namespace, name)],
        _ => Vec::new(),
    }
}

/// The ConfigMap that the profiler's output is put into.
fn output_name(request: &Object) -> String {
    format!("dgdr-output-{}", request.name.name)
}
