//! Background tasks of an open store: named, and stopped when the store is.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use tokio::task::JoinHandle;
use tracing::Instrument;

/// A group of tasks that ends with its owner.
#[derive(Default)]
pub(crate) struct Tasks {
    running: Mutex<Vec<JoinHandle<()>>>,
}

impl Tasks {
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let task = task.instrument(tracing::debug_span!("store", task = name));
        #[expect(
            clippy::disallowed_methods,
            reason = "this is the group tasks are spawned through"
        )]
        let handle = tokio::spawn(task);
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // Short tasks come and go; only those that run are worth remembering.
        running.retain(|task| !task.is_finished());
        running.push(handle);
    }

    /// Stops all tasks and waits until they are gone.
    pub async fn stop(&self) {
        let running =
            std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        for handle in &running {
            handle.abort();
        }
        for handle in running {
            // An aborted task answers with an error, which is what was asked for.
            let _ = handle.await;
        }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        let running = self.running.get_mut().unwrap_or_else(PoisonError::into_inner);
        running.iter().for_each(JoinHandle::abort);
    }
}
