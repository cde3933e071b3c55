//! What must hold of every run, whatever the component does: one file per family, ids as in the
//! design (CT for controllers). A component that can be judged by more brings its own checks.

mod backoff;
mod children;
mod deletes;
mod end_state;
mod freshness;
mod leader;
mod permissions;
mod stable;
mod updates;

use crate::faults::Pattern;
use crate::record::Change;
use crate::simulation::{Also, Run};

pub use end_state::rollback;
pub use stable::{repeats, stable};

/// A run and the one without faults that it is compared with.
pub struct Case<'a> {
    pub reference: &'a Run,
    pub run: &'a Run,
    pub also: Also,
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    pub id: &'static str,
    pub what: String,
}

/// Judges a run.
pub type Check = fn(&Case<'_>) -> Vec<Violation>;

/// Every oracle, one line each.
const ALL: &[Check] = &[
    stable,
    end_state::end_state,
    children::counts,
    children::duplicates,
    children::owners,
    deletes::deletes,
    freshness::freshness,
    freshness::generations,
    leader::leader,
    permissions::permissions,
    backoff::backoff,
    updates::updates,
];

/// Everything that is wrong with a run.
pub fn check(case: &Case<'_>) -> Vec<Violation> {
    let checks = ALL.iter().chain(case.also.oracles);
    let mut violations: Vec<Violation> = checks.flat_map(|check| check(case)).collect();
    violations.dedup();
    violations
}

impl Violation {
    pub fn new(id: &'static str, what: impl Into<String>) -> Violation {
        Violation { id, what: what.into() }
    }
}

impl Case<'_> {
    /// Whether all faults of the run are of these families.
    fn is_only(&self, patterns: &[Pattern]) -> bool {
        self.run.planned.iter().all(|one| patterns.contains(&one.fault.pattern()))
    }

    /// Whether the run is to end as the one without faults does.
    fn is_comparable(&self) -> bool {
        !self.has(self.also.incomparable) && (self.also.is_alike)(self)
    }

    /// Whether the run has a fault of one of these families.
    fn has(&self, patterns: &[Pattern]) -> bool {
        self.run.planned.iter().any(|one| patterns.contains(&one.fault.pattern()))
    }
}

impl Run {
    /// What the component wrote, Events left out.
    pub fn own(&self) -> impl Iterator<Item = &Change> {
        let is_own = |change: &&Change| change.actor == self.actor;
        self.history.iter().filter(is_own).filter(|change| !change.key.starts_with("events/"))
    }
}
