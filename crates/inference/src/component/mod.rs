//! One component of a graph, or one of its own: pods that run it, the services that they are found
//! by, and how they fare.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/internal/controller/
//! dynamocomponentdeployment_controller.go

pub mod children;
mod facts;
mod observe;
mod plan;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::{Change, Context, Error, Kind, Name, Object, Plan, Reconciler, Watches};
use serde_json::Value;

use crate::digest;
use crate::kinds::{
    COMPONENT, CONFIG_MAP, DEPLOYMENT, INGRESS, LEADER_WORKER_SET, ROLE, ROLE_BINDING, SECRET,
    SERVICE, SERVICE_ACCOUNT, VIRTUAL_SERVICE,
};
use crate::names;
use crate::settings::Settings;

pub use children::rolling_strategy;
pub use facts::{Facts, Type, dynamo_namespace, nodes};
pub use observe::Observed;
pub use status::FAILED_REASON;

/// What is done for a component at a first look.
pub fn plan_of(settings: &Settings, object: &Object, observed: &Observed) -> Plan {
    plan::plan(settings, object, observed, Timestamp::UNIX_EPOCH)
}

pub const NAME: &str = "dynamocomponentdeployment";

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
    const KIND: Kind = COMPONENT;
    const COUNTED_AS: Option<&'static str> = Some(crate::METRICS_PREFIX);

    fn settings(&self) -> reconcile::reconciler::Settings {
        reconcile::reconciler::Settings { rest: REST, ..Default::default() }
    }

    fn watches(&self, watches: &mut Watches) {
        for kind in [DEPLOYMENT, SERVICE, INGRESS] {
            watches.owned(kind, COMPONENT);
        }
        if self.settings.gates.leader_worker_set {
            watches.owned(LEADER_WORKER_SET, COMPONENT);
            watches.owned(CONFIG_MAP, COMPONENT);
        }
        if !self.settings.ingress.gateway.is_empty() {
            watches.owned(VIRTUAL_SERVICE, COMPONENT);
        }
        for kind in [SERVICE_ACCOUNT, ROLE, ROLE_BINDING] {
            watches.owned(kind, COMPONENT);
        }
        // A secret may let images of any component of its namespace be pulled.
        let components = watches.cache(COMPONENT);
        watches.by(SECRET, move |change| match is_pull_secret(change) {
            true => {
                let namespace = &change.object().name.namespace;
                let all = components.in_namespace(namespace);
                all.iter().map(|component| component.name.clone()).collect::<Vec<Name>>()
            }
            false => Vec::new(),
        });
        // The service of a model goes with whoever made it; the others that serve it make it anew.
        let components = watches.cache(COMPONENT);
        watches.by(SERVICE, move |change| match lost_model(change) {
            Some(hash) => {
                let all = components.in_namespace(&change.object().name.namespace);
                let serving = all.iter().filter(|one| serves(&one.value["spec"], hash));
                serving.map(|component| component.name.clone()).collect()
            }
            None => Vec::new(),
        });
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
        Some(plan::failed(object, &error.said(), now))
    }
}

/// The hash of the model whose service is gone.
pub fn lost_model(change: &Change) -> Option<&str> {
    let gone = change.old.as_ref().filter(|_| change.new.is_none())?;
    gone.label(names::BASE_MODEL_HASH)
}

/// Whether a component serves the model of a hash.
pub fn serves(spec: &Value, hash: &str) -> bool {
    spec["modelRef"]["name"].as_str().is_some_and(|model| digest::short(model) == hash)
}

fn is_pull_secret(change: &Change) -> bool {
    let mut sides = [&change.old, &change.new].into_iter().flatten();
    sides.any(|secret| secret.value["type"] == crate::pods::pull_secrets::SECRET_TYPE)
}
