//! The forms in which the workers of a graph are there.

use std::sync::Arc;

use reconcile::Object;
use serde_json::Value;

use super::facts::{Graph, Part};
use super::observe::Observed;
use super::rollout::{Generation, Pace};
use crate::component::{Facts, rolling_strategy};
use crate::names;

/// The hash of the workers that an object is of.
///
/// Labels of an object are not changed after it was made; those of its pods are.
pub fn hash_of(object: &Object) -> Option<&str> {
    let template = &object.value["spec"]["podTemplate"]["metadata"]["labels"];
    template[names::WORKER_HASH].as_str().or(object.label(names::WORKER_HASH))
}

/// The objects of a component.
pub fn of_component<'a>(
    observed: &'a Observed,
    part: &Part<'_>,
) -> impl Iterator<Item = &'a Arc<Object>> {
    let name = part.name().to_owned();
    let is_of = move |object: &&Arc<Object>| object.label(names::COMPONENT) == Some(&name);
    observed.components.iter().filter(is_of).filter(|object| !object.is_terminating())
}

/// How many replicas a form of a component has.
pub fn generation(object: &Object, observed: &Observed) -> Generation {
    let status = &object.value["status"];
    let count = |field: &str| status["component"][field].as_i64();
    let ready = count("readyReplicas").unwrap_or(0);
    let replicas = object.value["spec"]["replicas"].as_i64().unwrap_or(1);
    let is_observed = status["observedGeneration"].as_i64() >= Some(object.generation());
    let pods = observed.pods.get(&*object.name.name).copied().unwrap_or(0);
    Generation {
        name: object.name.name.to_string(),
        created: object.meta("creationTimestamp").to_owned(),
        replicas,
        available: count("availableReplicas").unwrap_or(ready),
        ready,
        is_drained: replicas == 0 && is_observed && count("replicas") == Some(0) && pods == 0,
    }
}

/// How fast the workers of a component may be replaced.
pub fn pace(made: &Value, part: &Part<'_>) -> Pace {
    let object = Object::new(made.clone());
    let strategy = rolling_strategy(&Facts::of(&object));
    Pace::of(&strategy, part.replicas())
}

/// Whether workers of another form than the one that is wanted are there.
pub fn has_old(graph: &Graph<'_>, observed: &Observed, hash: &str) -> bool {
    graph.workers().any(|part| {
        of_component(observed, &part).any(|object| hash_of(object).is_some_and(|own| own != hash))
    })
}
