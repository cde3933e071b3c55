//! CT-1, CT-2, CT-3: the world comes to rest, stays at rest, and a component that is started in a
//! world at rest leaves it so.

use super::{Case, Violation};
use crate::simulation::Run;

/// The goal is reached, and then nothing is written for ten virtual minutes.
pub fn stable(case: &Case<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    if case.run.is_runaway {
        found.push(Violation::new("CT-2", "the component makes requests without end"));
    } else if !case.run.is_settled {
        found.push(Violation::new("CT-1", "the world does not come to rest"));
    }
    if !case.run.is_spent && case.run.planned.len() == 1 && case.run.is_settled {
        found.push(Violation::new("plan", "the fault did not happen"));
    }
    if let Some(write) = case.run.after_restart.iter().find(|made| !made.is_notice()) {
        let what = format!("started where all was done, it sent {} {}", write.sort, write.shape);
        found.push(Violation::new("CT-3", what));
    }
    found
}

/// Two runs of one seed are one trace.
pub fn repeats(run: &Run, again: &Run) -> Vec<Violation> {
    if run.hash() == again.hash() {
        return Vec::new();
    }
    let mut pairs = run.made.iter().zip(&again.made);
    let what = match pairs.find(|(one, other)| one != other) {
        Some((one, other)) => format!("two runs differ: {one:?} and {other:?}"),
        None => "two runs differ in length or in their events".to_owned(),
    };
    vec![Violation::new("trace", what)]
}
