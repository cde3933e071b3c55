//! What a container has done right after its start and before its end.
//!
//! Upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go (executePreStopHook)

use std::sync::Arc;
use std::time::Duration;

use reconcile::Object;
use reconcile::plan::Notice;
use serde_json::Value;
use tokio::time::Instant;

use super::handlers::{self, Asked};
use super::spec;
use super::worker::{Shared, say};
use crate::runtime::ContainerId;

/// How long a hook after the start may take.
const AFTER_START_MAX: Duration = Duration::from_secs(600);
/// What a hook before the end leaves for the end itself, however long it takes.
pub const GRACE_MIN: Duration = Duration::from_secs(2);

/// Runs the hook after the start; what came of it.
pub async fn after_start(
    shared: Arc<Shared>,
    id: ContainerId,
    container: Value,
) -> Result<(), String> {
    let asked = Asked { id: &id, container: &container };
    let ran = handlers::hook(&shared, asked, &container["lifecycle"]["postStart"]);
    let ran = tokio::time::timeout(AFTER_START_MAX, ran).await;
    let ran = ran.unwrap_or_else(|_| Err("it took too long".to_owned()));
    ran.map_err(|why| format!("PostStartHook failed: {why}"))
}

/// Runs the hook before the end, within the grace period; what is left of that.
pub async fn before_stop(
    shared: &Shared,
    pod: &Object,
    id: &ContainerId,
    grace: Duration,
) -> Duration {
    let specs = spec::containers(pod);
    let Some(spec) = specs.iter().find(|spec| spec.name == id.name) else { return grace };
    let hook = &spec.value["lifecycle"]["preStop"];
    if !hook.is_object() || grace.is_zero() {
        return grace;
    }
    let began = Instant::now();
    let asked = Asked { id, container: spec.value };
    let ran = tokio::time::timeout(grace, handlers::hook(shared, asked, hook)).await;
    if let Err(why) = ran.unwrap_or_else(|_| Err("it took too long".to_owned())) {
        tracing::debug!(pod = %pod.name, container = id.name, why, "hook failed");
        // What it wrote may be secret; events are not.
        say(shared, pod, Notice::warning("FailedPreStopHook", "PreStopHook failed")).await;
    }
    grace.saturating_sub(began.elapsed()).max(GRACE_MIN)
}
