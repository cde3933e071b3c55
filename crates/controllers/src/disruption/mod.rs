//! Says how many pods a PodDisruptionBudget can spare.
//!
//! Upstream: pkg/controller/disruption

mod observe;
mod plan;
mod stale;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::cache::Cache;
use reconcile::{Context, Error, Kind, Name, Object, Plan, Reconciler, Selector, Watches, run};

use crate::kinds::{DEPLOYMENT, DISRUPTION_BUDGET, POD, REPLICA_SET, STATEFUL_SET};

pub use observe::Observed;

pub const NAME: &str = "disruption-controller";

pub struct Controller;

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = NAME;
    const KIND: Kind = DISRUPTION_BUDGET;

    fn watches(&self, watches: &mut Watches) {
        let budgets = watches.cache(DISRUPTION_BUDGET);
        watches.by(POD, move |change| {
            let sides = [&change.old, &change.new].into_iter().flatten();
            let mut names: Vec<Name> = sides.flat_map(|pod| selecting(&budgets, pod)).collect();
            names.dedup();
            names
        });
        // Their replicas are what percentages are of.
        for kind in [DEPLOYMENT, REPLICA_SET, STATEFUL_SET] {
            let budgets = watches.cache(DISRUPTION_BUDGET);
            watches.by(kind, move |change| {
                let replicas = |side: &Option<Arc<Object>>| {
                    side.as_ref().map(|object| object.value["spec"]["replicas"].clone())
                };
                if replicas(&change.old) == replicas(&change.new) {
                    return Vec::new();
                }
                let there = budgets.in_namespace(&change.object().name.namespace);
                there.iter().map(|budget| budget.name.clone()).collect()
            });
        }
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<Observed, Error> {
        observe::observe(context, object).await
    }

    fn plan(&self, object: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
        Ok(plan::plan(object, observed, now))
    }
}

fn selecting(budgets: &Cache, pod: &Object) -> Vec<Name> {
    let there = budgets.in_namespace(&pod.name.namespace);
    let selects = |budget: &&Arc<Object>| {
        let selector = Selector::read(&budget.value["spec"]["selector"]);
        selector.is_ok_and(|selector| selector.matches(pod))
    };
    there.iter().filter(selects).map(|budget| budget.name.clone()).collect()
}

/// Runs both: budgets, and pods that were to be disrupted and were not.
pub async fn run(context: Context) {
    tokio::join!(run::run(context.clone(), Controller), run::run(context, stale::Stale));
}
