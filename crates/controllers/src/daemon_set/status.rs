//! What a DaemonSet says of its pods.

use reconcile::Wake;
use serde_json::{Value, json};

use super::placement::Placement;
use super::plan::Scene;
use crate::pods;

pub fn status(scene: &Scene<'_>) -> Value {
    let (mut desired, mut current, mut misplaced) = (0_i64, 0_i64, 0_i64);
    let (mut ready, mut available, mut updated) = (0_i64, 0_i64, 0_i64);
    for (node, placement) in &scene.nodes {
        let oldest = scene.on(node).first();
        if *placement != Placement::Run {
            misplaced += i64::from(oldest.is_some());
            continue;
        }
        desired += 1;
        let Some(pod) = oldest else { continue };
        current += 1;
        ready += i64::from(pods::is_ready(pod));
        available += i64::from(scene.is_available(pod));
        updated += i64::from(scene.is_updated(pod));
    }
    let mut status = json!({
        "currentNumberScheduled": current,
        "numberMisscheduled": misplaced,
        "desiredNumberScheduled": desired,
        "numberReady": ready,
        "observedGeneration": scene.set.generation(),
    });
    // Zero is how the API says nothing.
    for (field, number) in [
        ("updatedNumberScheduled", updated),
        ("numberAvailable", available),
        ("numberUnavailable", desired - available),
    ] {
        if number > 0 {
            status[field] = json!(number);
        }
    }
    for field in ["collisionCount", "conditions"] {
        let kept = &scene.set.value["status"][field];
        if !kept.is_null() {
            status[field] = kept.clone();
        }
    }
    status
}

/// When the next ready pod becomes available, nothing else may happen.
pub fn wake(scene: &Scene<'_>) -> Wake {
    let pods = scene.pods.values().flatten().copied();
    pods::wake_when_available(pods, scene.spec.min_ready_seconds, scene.now)
}
