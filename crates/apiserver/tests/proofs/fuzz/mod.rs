//! Inputs made by chance from good ones, for everything that reads what clients send.
//!
//! Each target gets the same time, all at once. A failure prints a line to add to `kept.txt`,
//! whose inputs are tried first in every run.

mod chance;
mod corpus;
mod targets;

use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use store::{Environment, System};
use tokio::time::Instant;

use chance::Chance;
use targets::{TARGETS, Target};

/// How long each target is tried; `cargo xtask test --fuzz SECONDS` sets it.
const SECONDS_VARIABLE: &str = "SETPOINT_FUZZ_SECONDS";
const SECONDS: u64 = 20;
/// No input of this size may take longer, on a slow and busy machine.
const CASE_MAX: Duration = Duration::from_secs(10);
/// What the threads of a server have.
const STACK_BYTES: usize = 2 << 20;
const KEPT: &str = include_str!("kept.txt");

#[test]
fn nothing_that_a_client_sends_makes_a_reader_panic_swell_or_change_its_mind() {
    let seconds = std::env::var(SECONDS_VARIABLE).ok().and_then(|text| text.parse().ok());
    let duration = Duration::from_secs(seconds.unwrap_or(SECONDS));
    let seed = System.random();
    let failures: Vec<String> = std::thread::scope(|scope| {
        // Named, because a stack that overflows tells no more than the name.
        let named = |target: &'static Target| {
            let builder = std::thread::Builder::new().name(target.name.to_owned());
            let builder = builder.stack_size(STACK_BYTES);
            builder.spawn_scoped(scope, move || run(target, seed, duration)).unwrap()
        };
        let threads: Vec<_> = TARGETS.iter().map(named).collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap().err()).collect()
    });
    assert!(failures.is_empty(), "add to kept.txt:\n{}", failures.join("\n"));
}

/// Tries a target until the time is over; an error is the line to keep, and what was wrong.
fn run(target: &Target, seed: u64, duration: Duration) -> Result<(), String> {
    let mut kept = 0;
    for line in KEPT.lines().filter(|line| !line.starts_with('#')) {
        if let Some((name, text)) = line.split_once(' ')
            && name == target.name
        {
            check(target, &corpus::unescape(text))?;
            kept += 1;
        }
    }
    for seed in (target.corpus)() {
        check(target, &seed)?;
    }
    let end = Instant::now() + duration;
    let mut chance = Chance::new(seed);
    let corpus = (target.corpus)();
    let mut cases = 0_u64;
    while Instant::now() < end {
        check(target, &chance.input(&corpus, target.words))?;
        cases += 1;
    }
    println!("{}: {kept} kept, {cases} by chance", target.name);
    Ok(())
}

fn check(target: &Target, input: &[u8]) -> Result<(), String> {
    let start = Instant::now();
    let found = panic::catch_unwind(AssertUnwindSafe(|| (target.check)(input)));
    let problem = match found {
        Ok(Ok(())) if start.elapsed() < CASE_MAX => return Ok(()),
        Ok(Ok(())) => format!("took {:?}", start.elapsed()),
        Ok(Err(problem)) => problem,
        Err(_) => "panicked".to_owned(),
    };
    Err(format!("{} {}\n# {problem}", target.name, input.escape_ascii()))
}
