//! CT-15: hardly an update changes nothing.

use super::{Case, Violation};
use crate::faults::Pattern;
use crate::record::Made;

/// One in so many updates may change nothing.
const UPDATES_PER_NOTHING: usize = 100;

pub fn updates(case: &Case<'_>) -> Vec<Violation> {
    // Where an answer was lost, asking again is right and changes nothing.
    if !case.is_only(&[Pattern::Unobserved]) {
        return Vec::new();
    }
    let is_update = |made: &&Made| {
        matches!(made.sort.method.as_str(), "PATCH" | "PUT")
            && made.is_success()
            && !made.is_notice()
    };
    let updates: Vec<&Made> = case.run.made.iter().filter(is_update).collect();
    let nothing: Vec<&&Made> = updates.iter().filter(|made| made.revision <= made.head).collect();
    if nothing.len() <= updates.len() / UPDATES_PER_NOTHING {
        return Vec::new();
    }
    let first = nothing.first().map(|made| format!("{} {}", made.sort, made.shape));
    let what = format!(
        "{} of {} updates change nothing, first {}",
        nothing.len(),
        updates.len(),
        first.unwrap_or_default()
    );
    vec![Violation::new("CT-15", what)]
}
