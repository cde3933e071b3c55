//! `cargo xtask test`: every check that a change must pass, on a machine that may lack everything
//! but Rust and a C compiler.

mod flakes;
mod outcome;
mod suites;

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use flakes::{Flake, KnownFlakes};
use outcome::Outcome;
use servers::{Etcd, MariaDb};
use suites::Suite;

use crate::console;
use crate::kubectl;
use crate::packages;
use crate::tidy;
use crate::workspace::{self, cargo, check};

/// Set for tests that have a long form.
const FULL_VARIABLE: &str = "SETPOINT_TEST_FULL";
/// Seconds for which each reader of request bodies is given random inputs.
const FUZZ_VARIABLE: &str = "SETPOINT_FUZZ_SECONDS";
/// Crates whose tests run once. Failed tests of others, but for simulations, run a second time to
/// tell flakes from defects: they start processes, or depend on time, on a host that may be busy.
const NEVER_RETRIED: [&str; 2] = ["store", "apiserver"];
/// More failures than this are not caused by a busy machine.
const RETRIES_MAX: usize = 8;
/// Tests that `--times` lists.
const SLOWEST_MAX: usize = 40;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub scope: Scope,
    /// Part of the names of the tests to run.
    pub filter: Option<String>,
    /// Seconds for random inputs, if not the usual time.
    pub fuzz_seconds: Option<u64>,
    /// Lists the slowest tests at the end.
    pub with_times: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Scope {
    #[default]
    Usual,
    /// The long tests at their full length.
    Full,
}

/// Runs the steps up to the first that fails. The last line is always `N passed, N failed`; a
/// step that fails without a failed test counts as one.
pub fn run(options: &Options) -> Result<()> {
    let mut report = Report::default();
    let result = run_steps(&mut report, options);
    if result.is_err() {
        report.failed = report.failed.max(1);
    }
    println!("\n{}{} passed, {} failed", report.lines, report.passed, report.failed);
    result
}

fn run_steps(report: &mut Report, options: &Options) -> Result<()> {
    report.step("packages", packages::install_missing)?;
    let kubectl = report.step("kubectl", kubectl::build_missing)?;
    // The compiler waits for processors and installers for the network.
    let (built, installed) = thread::scope(|scope| {
        let installing = scope.spawn(|| {
            [Step::take("console", console::verify), Step::take("libraries", install_libraries)]
        });
        let built = build(report);
        (built, installing.join())
    });
    match installed {
        Ok(steps) => steps.into_iter().try_for_each(|step| report.add(step))?,
        Err(_) => bail!("a step beside the build panicked"),
    }
    let suites = built?;
    // Stopped when this function returns.
    let servers = report.step("servers", Servers::start)?;
    let path = kubectl.as_deref().map(kubectl::path_with).transpose()?;
    let prepare = |command: &mut Command| {
        servers.announce(command);
        options.announce(command);
        if let Some(path) = &path {
            command.env("PATH", path);
        }
    };
    let run_options = suites::Options {
        prepare: &prepare,
        filter: options.filter.as_deref(),
        with_times: options.with_times,
        logs: workspace::target_directory()?.join("test-logs"),
    };
    run_suites(report, &suites, &run_options, options.scope)
}

/// Checks the code without running it, and builds the test binaries.
fn build(report: &mut Report) -> Result<Vec<Suite>> {
    report.step("fmt", || check(&mut cargo(&["fmt", "--all", "--check"])))?;
    report.step("tidy", || tidy::run(tidy::Ratchet::Check))?;
    report.step("build", suites::build)
}

/// Runs every suite, also after one has failed, so that the counts are complete. A complete run
/// fails for flakes that are not listed; the usual one names them.
fn run_suites(
    report: &mut Report,
    suites: &[Suite],
    options: &suites::Options,
    scope: Scope,
) -> Result<()> {
    let mut outcomes = report.step("test", || suites::run(suites, options))?;
    if options.filter.is_none() {
        outcomes.push(report.step("doc", || suites::run_doc_tests(options))?);
    }
    let known = KnownFlakes::read()?;
    let mut is_success = true;
    let mut flakes = Vec::new();
    for outcome in &outcomes {
        report.passed += outcome.passed;
        report.failed += outcome.failed;
        if outcome.is_success() {
            continue;
        }
        println!("\n==== {} ====\n{}", outcome.suite, outcome.details);
        let suite = suites.iter().find(|suite| suite.name == outcome.suite);
        let Some(suite) = suite.filter(|_| is_retried(outcome)) else {
            is_success = false;
            continue;
        };
        let again =
            report.step("again", || suites::run_again(suite, &outcome.failures, options))?;
        println!("{}\n{}", again.summary(), again.details);
        is_success &= again.is_success();
        let passed = outcome.failures.iter().filter(|test| !again.failures.contains(test));
        for test in passed {
            let flake = Flake { suite: suite.name.clone(), test: test.clone() };
            let is_accepted = scope == Scope::Usual || known.cause(&flake).is_some();
            if again.aborted.is_none() && is_accepted {
                report.passed += 1;
                report.failed = report.failed.saturating_sub(1);
            } else {
                is_success = false;
            }
            flakes.push(flake);
        }
    }
    report.add_remarks(&outcomes, &known.describe(&flakes), options);
    match is_success {
        true => Ok(()),
        false => bail!("tests failed; complete output is in {}", options.logs.display()),
    }
}

/// Returns whether failed tests run once more, to tell flakes from defects. Simulations are
/// deterministic.
fn is_retried(outcome: &Outcome) -> bool {
    outcome.aborted.is_none()
        && outcome.simulations.is_empty()
        && outcome.failures.len() as u64 == outcome.failed
        && !NEVER_RETRIED.contains(&outcome.suite.split('/').next().unwrap_or_default())
        && (1..=RETRIES_MAX).contains(&outcome.failures.len())
}

/// One line for each suite and for each of the slowest tests.
fn slowest(outcomes: &[Outcome]) -> String {
    let mut times: Vec<_> = outcomes
        .iter()
        .flat_map(|outcome| outcome.times.iter().map(|(name, time)| (&outcome.suite, name, time)))
        .collect();
    times.sort_by(|a, b| b.2.total_cmp(a.2));
    let lines = times.iter().take(SLOWEST_MAX);
    lines.map(|(suite, name, time)| format!("xtask: {time:>7.1} s {suite} {name}\n")).collect()
}

/// The clients of other languages that the API server is tested with, and an operator in Go: built
/// here, because it takes longer than a test may.
fn install_libraries() -> Result<()> {
    let target = workspace::root().join("target");
    servers::python_client(&target)?;
    servers::node_client(&target)?;
    servers::python_kopf(&target)?;
    servers::python_kubeflow(&target)?;
    servers::python_dynamo(&target)?;
    servers::guest_image(&target)?;
    let operator = workspace::root().join("crates/apiserver/tests/clients/go_operator");
    servers::go_program(&target, "operator", &operator)?;
    Ok(())
}

/// The steps so far and the counts of their tests.
#[derive(Default)]
struct Report {
    /// One line a step.
    lines: String,
    passed: u64,
    failed: u64,
}

impl Report {
    fn step<T>(&mut self, name: &str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        self.add(Step::take(name, step))
    }

    /// Adds what readers of a complete run look for at its end.
    fn add_remarks(&mut self, outcomes: &[Outcome], flakes: &str, options: &suites::Options) {
        if options.with_times {
            self.lines.push_str(&slowest(outcomes));
        }
        for outcome in outcomes {
            for reason in &outcome.skipped {
                self.lines.push_str(&format!("xtask: skipped {} {reason}\n", outcome.suite));
            }
        }
        self.lines.push_str(flakes);
    }

    /// Adds a step that has ended.
    fn add<T>(&mut self, step: Step<T>) -> Result<T> {
        self.lines.push_str(&step.line);
        step.result
    }
}

/// Result of a step, and the line about it.
struct Step<T> {
    result: Result<T>,
    line: String,
}

impl<T> Step<T> {
    fn take(name: &str, step: impl FnOnce() -> Result<T>) -> Step<T> {
        let start = now();
        let result = step();
        let outcome = if result.is_ok() { "ok" } else { "FAILED" };
        let line = step_line(name, outcome, start.elapsed());
        print!("{line}");
        Step { result: result.with_context(|| format!("step `{name}` failed")), line }
    }
}

fn step_line(name: &str, outcome: &str, took: Duration) -> String {
    format!("xtask: {name:<10} {outcome:<6} {:>7.1} s\n", took.as_secs_f64())
}

/// The servers that all tests of this run share.
struct Servers {
    mariadb: MariaDb,
    etcd: Etcd,
}

impl Servers {
    fn start() -> Result<Servers> {
        Ok(Servers { mariadb: MariaDb::start()?, etcd: Etcd::start()? })
    }

    fn announce(&self, command: &mut Command) {
        let mariadb = format!("127.0.0.1:{}", self.mariadb.port());
        command.env(servers::MARIADB_VARIABLE, mariadb);
        command.env(servers::ETCD_VARIABLE, self.etcd.endpoint());
    }
}

impl Options {
    fn announce(&self, command: &mut Command) {
        if self.scope == Scope::Full {
            command.env(FULL_VARIABLE, "1");
        }
        if let Some(seconds) = self.fuzz_seconds {
            command.env(FUZZ_VARIABLE, seconds.to_string());
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a step reports the time that it took")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_one_line() {
        let line = step_line("fmt", "ok", Duration::from_millis(1250));
        assert_eq!(line, "xtask: fmt        ok         1.2 s\n");
    }

    #[test]
    fn tests_of_store_and_server_and_simulations_are_never_retried_and_none_after_an_abort() {
        let failed = |suite: &str, aborted: Option<&str>| Outcome {
            suite: suite.to_owned(),
            failures: vec!["a".to_owned()],
            failed: 1,
            aborted: aborted.map(str::to_owned),
            ..Outcome::default()
        };
        assert!(is_retried(&failed("setpoint/program", None)));
        assert!(!is_retried(&failed("setpoint/program", Some("killed by signal 9"))));
        let simulation = Outcome {
            simulations: vec!["a".to_owned()],
            ..failed("controllers/controllers", None)
        };
        assert!(!is_retried(&simulation));
        let unknown = Outcome { failed: 2, ..failed("setpoint/program", None) };
        assert!(!is_retried(&unknown), "a failed test whose name was not read");
        for suite in ["store", "store/backends", "apiserver/writes"] {
            assert!(!is_retried(&failed(suite, None)), "{suite}");
        }
    }

    #[test]
    fn the_slowest_tests_come_first() {
        let times = vec![("a".to_owned(), 1.0), ("b".to_owned(), 2.0)];
        let outcome = Outcome { suite: "s".to_owned(), times, ..Outcome::default() };
        assert_eq!(slowest(&[outcome]), "xtask:     2.0 s s b\nxtask:     1.0 s s a\n");
    }
}
