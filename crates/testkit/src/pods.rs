//! Plays a node: pods that exist run, pods that are deleted go.

use reconcile::plan::{Deletion, Target};
use reconcile::{Context, Kind, Object};
use serde_json::json;

pub const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");

/// Makes every pod Running and Ready, and ends those that are to go. Never returns.
pub async fn play(context: Context) {
    let cache = context.cache(POD);
    loop {
        let seen = cache.seen();
        for pod in cache.all() {
            play_one(&context, &pod).await;
        }
        cache.reaches(seen + 1).await;
    }
}

async fn play_one(context: &Context, pod: &Object) {
    let requests = context.requests("node", Default::default());
    if pod.is_terminating() {
        let now = Deletion { grace_seconds: Some(0), ..Deletion::default() };
        let _ = requests.delete(&Target::of(POD, pod), &now).await;
    } else if pod.value["status"]["phase"] == "Pending" {
        let status = json!({"status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}]}});
        let _ = requests.patch(&Target::of(POD, pod).part("status"), &status).await;
    }
}
