//! Runs the plans of a trial, and says what the oracles found: in the default suite one of each
//! class or fewer, in the long suite one of each class, in `cargo xtask sim` all.
//!
//! What is run is chosen by environment variables, so that a trial is written once, as a test.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use reconcile::plan::Target;
use reconcile::{Kind, Name};
use serde_json::Value;

use super::plans::{Candidate, plans};
use super::run::{QUIET, Run, run};
use super::{Also, Trial, seeds};
use crate::faults::Planned;
use crate::oracle::{self, Case, Violation};

/// `full` for every plan; anything else, or nothing, for one of each class.
const SCOPE: &str = "SETPOINT_SIM";
/// Set for tests that have a long form.
const LONG: &str = "SETPOINT_TEST_FULL";
/// Only the trial of this name.
const SCENARIO: &str = "SETPOINT_SIM_SCENARIO";
/// How many plans at most, from everywhere, whatever the scope.
const PLANS: &str = "SETPOINT_SIM_PLANS";
/// Only plans of this fault, by its name: `Pause`.
const FAULT: &str = "SETPOINT_SIM_FAULT";
/// Only this seed.
const SEED: &str = "SETPOINT_SIM_SEED";
/// Plans of two faults that are drawn by chance when every plan is run.
const PAIRS_DRAWN: u64 = 40;
/// Failures that are told of one trial.
const TOLD_MAX: usize = 8;

/// Runs a trial without faults and then under the faults its trace offers; returns how many plans
/// there are. Panics with what went wrong.
pub fn try_everything(trial: Trial) -> usize {
    try_with(trial, Also::default())
}

/// The same for a component that needs more to be said.
pub fn try_with(trial: Trial, also: Also) -> usize {
    let choice = Choice::read();
    let trial = Trial { seed: choice.seed.map_or(trial.seed, seeds::world), ..trial };
    let reference = run(trial, trial.seed, Vec::new());
    let mut candidates = plans(&reference);
    if !also.is_led {
        candidates.iter_mut().for_each(Candidate::without_rival);
    }
    let violations = oracle::check(&Case { reference: &reference, run: &reference, also });
    let seed = Some(seeds::of(trial.seed, 0));
    let mut failures = Vec::new();
    if !violations.is_empty() {
        failures.push(Failure { seed, planned: Vec::new(), violations });
    }
    let work = choice.work(trial, also, &candidates);
    let began = now();
    failures.extend(run_all(trial, also, &reference, &work));
    let took = began.elapsed().as_secs_f64().max(0.001);
    let rate = work.len() as f64 * 60.0 / took;
    println!(
        "sim: {}: {} plans, {} run, {} violations, {rate:.0} a minute",
        trial.name,
        candidates.len(),
        work.len(),
        failures.len()
    );
    if !failures.is_empty() {
        let told: Vec<String> =
            failures.iter().take(TOLD_MAX).map(|one| one.describe(trial.name)).collect();
        panic!("{}: {} plans went wrong\n{}", trial.name, failures.len(), told.join("\n"));
    }
    candidates.len()
}

/// Runs a trial twice: as it is, and with one value of an object changed and changed back at the
/// end. Both must end alike (CT-14).
pub fn roll_back(trial: Trial, kind: Kind, name: Name, [bad, good]: [Value; 2]) {
    let reference = run(trial, trial.seed, Vec::new());
    let changed = super::run::run_with(trial, move |cluster| {
        Box::pin(async move {
            for patch in [&bad, &good] {
                tokio::time::sleep(QUIET).await;
                let context = cluster.context();
                let object = context.get_live(kind, &name).await.expect("an object");
                let object = object.expect("the object must be there");
                let requests = context.requests("test", Default::default());
                let target = Target::of(kind, &object);
                requests.patch(&target, patch).await.expect("a change that is valid");
            }
            tokio::time::sleep(QUIET).await;
        })
    });
    let case = Case { reference: &reference, run: &changed, also: Also::default() };
    let violations = oracle::rollback(&case);
    assert!(violations.is_empty(), "{}: {violations:#?}", trial.name);
}

/// A plan that went wrong.
struct Failure {
    seed: Option<u64>,
    planned: Vec<Planned>,
    violations: Vec<Violation>,
}

impl Failure {
    fn describe(&self, scenario: &str) -> String {
        let plan: Vec<String> = self.planned.iter().map(ToString::to_string).collect();
        let plan = if plan.is_empty() { "no fault".to_owned() } else { plan.join(" and ") };
        let mut text = format!("under {plan}");
        for violation in &self.violations {
            text.push_str(&format!("\n  {}: {}", violation.id, violation.what));
        }
        if let Some(seed) = self.seed {
            text.push_str(&format!(
                "\n  replay: cargo xtask sim --scenario {scenario} --seed {seed}"
            ));
        }
        text
    }
}

/// Which plans are wanted.
struct Choice {
    is_full: bool,
    is_long: bool,
    scenario: Option<String>,
    seed: Option<u64>,
    plans_max: Option<usize>,
    fault: Option<String>,
}

impl Choice {
    fn read() -> Choice {
        let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
        Choice {
            is_full: variable(SCOPE).is_some_and(|scope| scope == "full"),
            is_long: variable(LONG).is_some(),
            scenario: variable(SCENARIO),
            seed: variable(SEED).and_then(|seed| seed.parse().ok()),
            plans_max: variable(PLANS).and_then(|most| most.parse().ok()),
            fault: variable(FAULT),
        }
    }

    /// What to run of a trial: a seed if it has one, and the faults.
    fn work(
        &self,
        trial: Trial,
        also: Also,
        candidates: &[Candidate],
    ) -> Vec<(Option<u64>, Vec<Planned>)> {
        if self.scenario.as_ref().is_some_and(|scenario| scenario != trial.name) {
            return Vec::new();
        }
        if let Some(seed) = self.seed {
            let planned = seeds::planned(seed, candidates);
            return vec![(Some(seed), planned)];
        }
        let numbered = (1..).zip(candidates);
        let chosen = numbered
            .filter(|(_, candidate)| self.is_full || candidate.is_sample)
            .filter(|(_, candidate)| self.is_of_fault(&candidate.planned));
        let one = |(number, candidate): (u64, &Candidate)| {
            (Some(seeds::of(trial.seed, number)), vec![candidate.planned.clone()])
        };
        let mut work: Vec<_> = chosen.map(one).collect();
        match self.plans_max {
            Some(most) => thin_out(&mut work, most),
            None if self.is_full || self.is_long => {}
            None => thin_out(&mut work, also.samples_max),
        }
        work.extend(seeds::kept(trial.name).into_iter().map(|planned| (None, planned)));
        if self.is_full && self.fault.is_none() {
            let pairs = (0..PAIRS_DRAWN).map(|at| seeds::of(trial.seed, seeds::PAIRS + at));
            work.extend(pairs.map(|seed| (Some(seed), seeds::planned(seed, candidates))));
        }
        work
    }

    fn is_of_fault(&self, planned: &Planned) -> bool {
        let name = format!("{:?}", planned.fault);
        self.fault.as_ref().is_none_or(|fault| name.split('(').next() == Some(fault))
    }
}

/// Leaves so many, from everywhere: neighbours are faults of one request.
fn thin_out<T>(work: &mut Vec<T>, most: usize) {
    let count = work.len();
    if count > most {
        let mut number = 0;
        work.retain(|_| {
            number += 1;
            // Whether another whole share of `most` was reached.
            number * most / count > (number - 1) * most / count
        });
    }
}

/// Runs plans on every core; the order of what is found is that of the plans.
fn run_all(
    trial: Trial,
    also: Also,
    reference: &Run,
    work: &[(Option<u64>, Vec<Planned>)],
) -> Vec<Failure> {
    let next = AtomicUsize::new(0);
    let found: Mutex<Vec<(usize, Failure)>> = Mutex::default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some((seed, planned)) = work.get(at) else { return };
                    let violations = tried(trial, also, reference, planned);
                    if !violations.is_empty() {
                        // Whoever runs all of them need not wait for the last.
                        println!("sim: {}: {planned:?}: {violations:?}", trial.name);
                        let failure = Failure { seed: *seed, planned: planned.clone(), violations };
                        found.lock().expect("nobody panics here").push((at, failure));
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().expect("nobody panics here");
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, failure)| failure).collect()
}

/// What is wrong with one plan. A panic of the component or of its workload is.
fn tried(trial: Trial, also: Also, reference: &Run, planned: &[Planned]) -> Vec<Violation> {
    let judged = std::panic::catch_unwind(|| {
        let ran = run(trial, trial.seed, planned.to_vec());
        oracle::check(&Case { reference, run: &ran, also })
    });
    judged.unwrap_or_else(|panic| {
        // Users whose world went another way may well be surprised.
        let is_other = |one: &Planned| also.incomparable.contains(&one.fault.pattern());
        if planned.iter().any(is_other) {
            return Vec::new();
        }
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or(panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        vec![Violation::new("panic", text.unwrap_or_default())]
    })
}

#[expect(clippy::disallowed_methods, reason = "only to print how long it took")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_many_is_from_everywhere() {
        let thinned = |count: u32, most| {
            let mut work: Vec<u32> = (1..=count).collect();
            thin_out(&mut work, most);
            work
        };
        assert_eq!(thinned(10, 3), [4, 7, 10]);
        assert_eq!(thinned(3, 3), [1, 2, 3]);
        assert_eq!(thinned(2, usize::MAX), [1, 2]);
    }

    #[test]
    fn a_failure_is_told_with_the_line_that_replays_it() {
        let planned = "Twice at POST /api/v1/namespaces/*/pods #3".parse().expect("a plan");
        let violations = vec![Violation::new("CT-6", "two of them")];
        let failure = Failure { seed: Some(10_007), planned: vec![planned], violations };
        let expected = "under Twice at POST /api/v1/namespaces/*/pods #3\n  CT-6: two of them\n  \
                        replay: cargo xtask sim --scenario job-controller --seed 10007";
        assert_eq!(failure.describe("job-controller"), expected);
    }
}
