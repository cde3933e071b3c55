//! Lines of the log about one object. Each carries the name of the object's kind, so that whoever
//! looks for the kind finds them at every level.

use crate::Error;
use crate::kind::Kind;
use crate::object::Name;
use crate::plan::{Notice, Severity};

/// What a line is about, and who writes it.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    pub controller: &'static str,
    pub kind: Kind,
    pub name: &'a Name,
}

impl Subject<'_> {
    /// A look that ended; `writes` is how much was written.
    pub fn looked(&self, writes: u64) {
        let Subject { controller, kind, name } = self;
        let kind = kind.kind;
        tracing::debug!(controller, kind, object = %name, writes, "Finished reconciling");
    }

    /// What the object's users are told, too.
    pub fn noticed(&self, notice: &Notice) {
        let Subject { controller, kind, name } = self;
        let Notice { severity, reason, message } = notice;
        match severity {
            Severity::Normal => {
                tracing::info!(controller, kind = kind.kind, object = %name, reason, "{message}")
            }
            Severity::Warning => {
                tracing::warn!(controller, kind = kind.kind, object = %name, reason, "{message}")
            }
        }
    }

    /// A look that will be tried again as a matter of course.
    pub fn tries_again(&self, error: &Error) {
        let Subject { controller, kind, name } = self;
        let error = error.chain();
        tracing::debug!(controller, kind = kind.kind, object = %name, %error, "trying again");
    }

    /// A look that failed, and is tried again.
    pub fn failed(&self, error: &Error) {
        let Subject { controller, kind, name } = self;
        let chain = error.chain();
        match error {
            // Somebody has to mend the program, or the object, before it can go on.
            Error::Panic { .. } => {
                tracing::error!(controller, kind = kind.kind, object = %name, error = %chain,
                    "reconcile panicked");
            }
            error if error.is_terminal() => {
                tracing::error!(controller, kind = kind.kind, object = %name, error = %chain,
                    "reconcile failed for good");
            }
            _ => {
                tracing::warn!(controller, kind = kind.kind, object = %name, error = %chain,
                    "reconcile failed");
            }
        }
    }
}
