//! CT-1, CT-2, CT-3: the world comes to rest, stays at rest, and a component that is started in a
//! world at rest leaves it so.

use super::{Case, Violation};
use crate::record::Made;
use crate::simulation::Run;

/// Requests that are told of one that runs in a circle.
const LATELY: usize = 30;

/// The goal is reached, and then nothing is written for ten virtual minutes.
pub fn stable(case: &Case<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    if case.run.is_runaway {
        let what = format!("the component makes requests without end: {}", lately(case.run));
        found.push(Violation::new("CT-2", what));
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

/// What it wrote last: enough of it to see the circle.
fn lately(run: &Run) -> String {
    let mut last: Vec<&Made> = run.made.iter().rev().filter(|made| made.is_write()).collect();
    last.truncate(LATELY);
    let line = |made: &&Made| {
        let Made { sort, path, shape, code, at, .. } = *made;
        format!("\n    {:.3} s {} {path} {shape} -> {code}", at.as_secs_f64(), sort.method)
    };
    last.iter().rev().map(line).collect()
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
