//! Models on the servers of a graph: which servers have them, and adapters that are loaded onto
//! them and taken off again.
//!
//! Servers are found by the slices of services that carry the hash of the base model. An adapter is
//! loaded onto every one of them whenever something about them changes, because a server that was
//! replaced has lost it.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/internal/controller/dynamo_model_controller.go

pub mod admission;
pub mod call;
mod candidates;
mod coverage;
mod lora;
mod observe;
mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::{Context, Error, Kind, Object, Plan, Reconciler, Watches};

use crate::digest::short;
use crate::kinds::{ENDPOINT_SLICE, MODEL, POD};
use crate::names;
use crate::value::text;

pub use observe::Observed;

pub const NAME: &str = "dynamomodel";

#[derive(Default)]
pub struct Controller {
    answers: observe::Answers,
}

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = NAME;
    const KIND: Kind = MODEL;
    const COUNTED_AS: Option<&'static str> = Some(crate::METRICS_PREFIX);

    fn watches(&self, watches: &mut Watches) {
        let models = watches.cache(MODEL);
        watches.by(ENDPOINT_SLICE, move |change| {
            let sides = [&change.old, &change.new].into_iter().flatten();
            let hashes: Vec<&str> =
                sides.filter_map(|slice| slice.label(names::BASE_MODEL_HASH)).collect();
            if hashes.is_empty() {
                return Vec::new();
            }
            let all = models.in_namespace(&change.object().name.namespace);
            let base = |model: &Object| short(text(&model.value["spec"]["baseModelName"]));
            let of_it = all.iter().filter(|model| hashes.contains(&base(model).as_str()));
            of_it.map(|model| model.name.clone()).collect()
        });
        watches.reads(POD);
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<Observed, Error> {
        observe::observe(context, object, &self.answers).await
    }

    fn plan(&self, object: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
        Ok(plan::plan(object, observed, now))
    }
}

/// Whether it is an adapter that servers have to be told of.
fn is_lora(model: &Object) -> bool {
    model.value["spec"]["modelType"] == "lora"
}
