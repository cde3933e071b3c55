//! What runs beside those who ask: connections, output, events.

use k8s_openapi::jiff::Timestamp;
use reconcile::Environment;
use reconcile::environment::System;
use tokio::task::JoinHandle;

/// Each ends with its connection, which ends with the runtime at the latest.
#[expect(clippy::disallowed_methods, reason = "a runtime has no task group, and no shutdown")]
pub fn spawn<T: Send + 'static>(task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(task)
}

pub fn now() -> Timestamp {
    System.now()
}
