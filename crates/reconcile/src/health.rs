//! Whether each controller works, for `/healthz?verbose` and `setpoint status`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

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
pub struct Health(Mutex<BTreeMap<&'static str, State>>);

impl Health {
    pub fn set(&self, controller: &'static str, state: State) {
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        states.insert(controller, state);
    }

    pub fn all(&self) -> BTreeMap<&'static str, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
