//! Lines of the log about one object. Each carries the name of the object's kind, so that whoever
//! looks for the kind finds them at every level.

use crate::Error;
use crate::kind::Kind;
use crate::object::Name;
use crate::plan::{Notice, Severity, Step};

/// What begins a line that tells what a look wrote. Whoever explains an object on a cluster that
/// keeps no causes looks for it (`setpoint why`).
pub const WROTE: &str = "wrote";
/// Steps that one line names.
const STEPS_MAX: usize = 20;

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

    /// What a look wrote and because of what; servers of others keep no such thing.
    pub fn wrote(&self, look: &Look<'_>) {
        let Subject { controller, kind, name } = self;
        let Look { cause, reconcile, steps, has_status, milliseconds } = look;
        let mut told: Vec<String> = steps.iter().take(STEPS_MAX).map(told).collect();
        if steps.len() > STEPS_MAX {
            told.push(format!("{} steps more", steps.len() - STEPS_MAX));
        }
        told.extend(has_status.then(|| "wrote its status".to_owned()));
        let steps = told.join("; ");
        tracing::info!(controller, kind = kind.kind, object = %name, cause, reconcile,
            milliseconds, %steps, "{WROTE}");
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
            Severity::Failure => {
                tracing::error!(controller, kind = kind.kind, object = %name, reason, "{message}")
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

/// One look that wrote something.
pub struct Look<'a> {
    pub cause: Option<u64>,
    pub reconcile: &'a str,
    pub steps: &'a [Step],
    pub has_status: bool,
    pub milliseconds: u64,
}

fn told(step: &Step) -> String {
    let of = |object: &serde_json::Value| {
        let meta = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        Name::new(meta("namespace"), meta("name"))
    };
    match step {
        Step::Create { kind, object } => format!("created {} {}", kind.kind, of(object)),
        Step::Apply { kind, object } => format!("applied {} {}", kind.kind, of(object)),
        Step::Patch { target, .. } => format!("changed {} {}", target.kind.kind, target.name),
        Step::Replace { target, .. } => format!("replaced {} {}", target.kind.kind, target.name),
        Step::Delete { target, .. } => format!("deleted {} {}", target.kind.kind, target.name),
        Step::DeleteCollection { kind, namespace } => {
            format!("deleted every {} in {namespace}", kind.kind)
        }
    }
}
