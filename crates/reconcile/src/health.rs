//! Whether each controller works, for `/healthz?verbose` and `setpoint status`.

use std::collections::BTreeMap;

use tokio::sync::watch;

/// The state of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Its caches are not whole yet.
    Starting,
    Running,
    /// Another process leads.
    Standby,
    /// Its last reconcile of some object failed, and why.
    Failing(String),
}

/// The states of all controllers of a process.
#[derive(Debug, Default)]
pub struct Health(watch::Sender<BTreeMap<&'static str, State>>);

impl Health {
    pub fn set(&self, controller: &'static str, state: State) {
        self.0.send_if_modified(|states| {
            let before = states.insert(controller, state.clone());
            before.as_ref() != Some(&state)
        });
    }

    pub fn all(&self) -> BTreeMap<&'static str, State> {
        self.0.borrow().clone()
    }

    /// Returns when a controller is in a state.
    pub async fn reaches(&self, controller: &str, state: &State) {
        let mut states = self.0.subscribe();
        // The sender is ours, so it is there for as long as we wait.
        let _ = states.wait_for(|states| states.get(controller) == Some(state)).await;
    }
}
