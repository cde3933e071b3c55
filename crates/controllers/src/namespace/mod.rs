//! Empties a namespace that is going, pods first, and then lets it go.
//!
//! Upstream: pkg/controller/namespace

mod observe;
mod plan;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::{Context, Error, Kind, Name, Object, Plan, Reconciler, Watches};

use crate::kinds::{NAMESPACE, POD};

pub use observe::{Content, Observed};

pub struct Controller;

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = "namespace-controller";
    const KIND: Kind = NAMESPACE;

    fn watches(&self, watches: &mut Watches) {
        let namespaces = watches.cache(NAMESPACE);
        // Pods take their time to go, and the rest waits for them.
        watches.by(POD, move |change| {
            let name = Name::new("", change.object().name.namespace.clone());
            let is_waiting = change.new.is_none()
                && namespaces.get(&name).is_some_and(|namespace| namespace.is_terminating());
            if is_waiting { vec![name] } else { Vec::new() }
        });
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<Observed, Error> {
        observe::observe(context, object).await
    }

    fn plan(&self, object: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
        Ok(plan::plan(object, observed, now))
    }

    fn refused(
        &self,
        object: &Object,
        observed: &Observed,
        error: &Error,
        now: Timestamp,
    ) -> Option<Plan> {
        let status = status::status(object, observed, Some(error), now);
        Some(Plan { status: Some(status), ..Plan::nothing() })
    }
}
