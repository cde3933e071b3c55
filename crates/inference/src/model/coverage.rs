//! Which servers others stand in for.

use super::candidates::Candidate;
use super::lora::Outcome;

/// Of each candidate, whether it is well without the adapter: it cannot take any, serves otherwise,
/// and one of its group has it.
pub fn covered(candidates: &[Candidate], outcomes: &[Outcome]) -> Vec<bool> {
    let asked = || candidates.iter().zip(outcomes);
    let has_capable = |group: &String| {
        asked()
            .any(|(one, outcome)| *outcome == Outcome::Done && one.fallback.as_ref() == Some(group))
    };
    let is_covered = |(one, outcome): (&Candidate, &Outcome)| {
        let is_unable = *outcome == Outcome::Unable && one.is_ready;
        is_unable && one.fallback.as_ref().is_some_and(has_capable)
    };
    asked().map(is_covered).collect()
}
