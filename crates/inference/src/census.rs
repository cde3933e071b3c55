//! How many objects of our kinds there are, by namespace and by how they are: told to whoever
//! scrapes.

use std::collections::BTreeMap;
use std::time::Duration;

use reconcile::health::State;
use reconcile::{Context, Kind, Object, conditions};

use crate::METRICS_PREFIX;
use crate::kinds::{ADAPTER, COMPONENT, GRAPH, MODEL, REQUEST};
use crate::value::text;

pub const NAME: &str = "dynamo-census";
/// How often they are counted.
const EVERY: Duration = Duration::from_secs(30);

/// How an object is said to be.
type Manner = fn(&Object) -> String;

const KINDS: [(Kind, Manner); 5] = [
    (GRAPH, |graph| told(text(&graph.value["status"]["state"]), "initializing")),
    (COMPONENT, |one| readiness(conditions::is_true(&one.value["status"], "Available"))),
    (MODEL, |model| {
        let status = &model.value["status"];
        readiness(conditions::is_true(status, "EndpointsReady"))
    }),
    (ADAPTER, |adapter| {
        let status = &adapter.value["status"];
        let has_pods = status["replicas"].as_i64().is_some_and(|replicas| replicas > 0);
        readiness(has_pods && !text(&status["selector"]).is_empty())
    }),
    (REQUEST, |request| told(text(&request.value["status"]["phase"]), "Pending")),
];

fn readiness(is_ready: bool) -> String {
    if is_ready { "ready".to_owned() } else { "not_ready".to_owned() }
}

fn told(said: &str, unsaid: &str) -> String {
    if said.is_empty() { unsaid.to_owned() } else { said.to_owned() }
}

/// Counts until everything is to stop.
pub async fn run(context: Context) {
    // What is not filled yet is counted as nothing.
    context.health.set(NAME, State::Running);
    loop {
        for (kind, how) in KINDS {
            let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
            context.cache(kind).each(|object| {
                let namespace = object.name.namespace.to_string();
                if !context.elsewhere.has(&namespace) {
                    *counts.entry((namespace, how(object))).or_default() += 1;
                }
            });
            context.metrics.by_resource(METRICS_PREFIX).set_resources(kind.kind, counts);
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = context.stopping() => return,
        }
    }
}
