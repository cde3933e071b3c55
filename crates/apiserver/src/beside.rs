//! What else runs in the process, as far as health and metrics tell of it.
//!
//! The server knows nothing of controllers; whoever starts them says here how they are.

use std::sync::{Arc, OnceLock};

/// Told by whoever runs the other components.
pub trait Report: Send + Sync {
    /// Each component and how it is, in few words.
    fn states(&self) -> Vec<(String, String)>;

    /// What they count, in the text form of metrics.
    fn metrics(&self) -> String;
}

/// The other components, if there are any.
#[derive(Clone, Default)]
pub struct Beside(Arc<OnceLock<Box<dyn Report>>>);

impl Beside {
    /// Says who tells; only the first counts.
    pub fn set(&self, report: impl Report + 'static) {
        let _ = self.0.set(Box::new(report));
    }

    pub fn states(&self) -> Vec<(String, String)> {
        self.0.get().map(|report| report.states()).unwrap_or_default()
    }

    pub fn metrics(&self) -> String {
        self.0.get().map(|report| report.metrics()).unwrap_or_default()
    }
}
