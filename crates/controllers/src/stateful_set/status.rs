//! What a StatefulSet says of its pods.

use reconcile::{Object, Wake};
use serde_json::{Value, json};

use super::identity::{self, is_running_and_available, is_running_and_ready};
use super::plan::Scene;
use super::spec::Update;
use crate::pods;
use crate::revisions;

pub fn status(scene: &Scene<'_>) -> Value {
    let count = |holds: &dyn Fn(&Object) -> bool| {
        i64::try_from(scene.held.iter().filter(|pod| holds(pod)).count()).unwrap_or(i64::MAX)
    };
    let is_of = |pod: &Object, name: &str| !pod.is_terminating() && identity::revision(pod) == name;
    let replicas = count(&|_| true);
    let ready = count(&is_running_and_ready);
    let updated = count(&|pod| is_of(pod, &scene.update));
    let mut current = count(&|pod| is_of(pod, &scene.current.0));
    let mut revision = &scene.current.0;
    let wanted = scene.spec.replicas;
    let is_rolling = scene.spec.update != Update::OnDelete;
    // An update is over when every pod is of it; from then on it is what the set is.
    if is_rolling && [replicas, ready, updated].iter().all(|number| *number == wanted) {
        current = updated;
        revision = &scene.update;
    }
    let available =
        count(&|pod| is_running_and_available(pod, scene.spec.min_ready_seconds, scene.now));
    let mut status = json!({
        "observedGeneration": scene.set.generation(),
        "replicas": replicas,
        "availableReplicas": available,
        "currentRevision": revision,
        "updateRevision": scene.update,
        "collisionCount": revisions::collisions(scene.set),
    });
    // Zero is how the API says nothing.
    for (field, number) in
        [("readyReplicas", ready), ("currentReplicas", current), ("updatedReplicas", updated)]
    {
        if number > 0 {
            status[field] = json!(number);
        }
    }
    let conditions = &scene.set.value["status"]["conditions"];
    if !conditions.is_null() {
        status["conditions"] = conditions.clone();
    }
    status
}

/// When the next ready pod becomes available, nothing else may happen.
pub fn wake(scene: &Scene<'_>) -> Wake {
    pods::wake_when_available(scene.held.iter().copied(), scene.spec.min_ready_seconds, scene.now)
}
