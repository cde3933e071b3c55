//! CT-9: writes of a leader carry its term, and none of an old term is taken.

use super::{Case, Violation};
use crate::faults::Pattern;
use crate::record::Made;

pub fn leader(case: &Case<'_>) -> Vec<Violation> {
    if !case.has(&[Pattern::Zombie]) || !case.run.is_spent {
        return Vec::new();
    }
    let mut violations = Vec::new();
    let writes = || case.run.made.iter().chain(&case.run.rival).filter(|made| made.is_write());
    for made in writes().filter(|made| made.epoch.is_none()) {
        let what = format!("{} of a leader carries no term", made.sort);
        violations.push(Violation::new("CT-9", what));
    }
    let Some(taken) = taken_over(case) else {
        // Who is refused everything for long, by another fault, is no rival.
        if case.run.planned.len() == 1 {
            violations.push(Violation::new("plan", "the rival never led"));
        }
        return violations;
    };
    // What changes nothing is answered with what another wrote, and needs no term.
    let is_of_another = |made: &Made| {
        let mut others = case.run.rival.iter().filter(|one| one.is_write() && one.is_success());
        made.revision <= made.head || others.any(|one| one.revision == made.revision)
    };
    let is_late = |made: &&Made| {
        let is_taken = made.is_write() && made.is_success() && !is_of_another(made);
        is_taken && made.revision > taken && made.head >= taken
    };
    for made in case.run.made.iter().filter(is_late) {
        let what = format!("{} of the old leader was taken at {}", made.sort, made.revision);
        violations.push(Violation::new("CT-9", what));
    }
    violations
}

/// The revision at which the rival took the lease.
fn taken_over(case: &Case<'_>) -> Option<u64> {
    let leases = case.run.history.iter().filter(|change| change.key.starts_with("leases/"));
    let mut taken = leases.filter(|change| {
        let new = change.new.as_ref();
        new.is_some_and(|new| new["spec"]["leaseTransitions"].as_i64() == Some(1))
    });
    taken.next().map(|change| change.revision)
}
