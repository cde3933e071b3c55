//! Removes pods that nobody else will: those on nodes that are gone, those that go without ever
//! having had a node, and the oldest finished ones when there are too many.
//!
//! Upstream: pkg/controller/podgc

mod observe;
mod plan;
mod sweep;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use k8s_openapi::jiff::Timestamp;
use reconcile::{Context, Error, Kind, Object, Plan, Reconciler, Watches, run};

use crate::kinds::{NODE, POD};
use crate::pods;

pub use observe::Home;

pub const NAME: &str = "pod-garbage-collector";

#[derive(Default)]
pub struct Controller {
    /// Since when nodes that pods name have been missing.
    missing: Mutex<BTreeMap<String, Timestamp>>,
}

impl Reconciler for Controller {
    type Observed = Home;
    const NAME: &'static str = NAME;
    const KIND: Kind = POD;

    fn concerns(pod: &Object) -> bool {
        !pods::node(pod).is_empty() || pod.is_terminating()
    }

    fn watches(&self, watches: &mut Watches) {
        let all = watches.cache(POD);
        watches.by(NODE, move |change| {
            let node = change.new.as_ref();
            if node.is_some_and(|node| !observe::is_out_of_service(node)) {
                return Vec::new();
            }
            let name = &*change.object().name.name;
            let there = all.all().into_iter().filter(|pod| pods::node(pod) == name);
            there.map(|pod| pod.name.clone()).collect()
        });
    }

    async fn observe(&self, context: &Context, pod: &Arc<Object>) -> Result<Home, Error> {
        observe::observe(context, pod, &self.missing).await
    }

    fn plan(&self, pod: &Object, home: &Home, now: Timestamp) -> Result<Plan, Error> {
        Ok(plan::plan(pod, home, now))
    }
}

/// Runs both: what concerns single pods, and what concerns their number.
pub async fn run(context: Context, finished_max: usize) {
    tokio::join!(
        run::run(context.clone(), Controller::default()),
        sweep::sweep(context, finished_max)
    );
}
