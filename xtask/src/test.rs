//! `cargo xtask test`: every check that a change must pass, on a machine that may lack everything
//! but Rust and a C compiler.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use servers::{Etcd, MariaDb};

use crate::console;
use crate::kubectl;
use crate::packages;
use crate::tidy;
use crate::workspace::{self, cargo, check};

/// Set for tests that have a long form.
const FULL_VARIABLE: &str = "SETPOINT_TEST_FULL";
/// How long each reader of bodies is given inputs made by chance.
const FUZZ_VARIABLE: &str = "SETPOINT_FUZZ_SECONDS";
/// When more tests fail than this, it is not for want of patience.
const AGAIN_MAX: usize = 8;

#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    pub scope: Scope,
    /// A part of the names of the tests to run.
    pub filter: Option<String>,
    /// Another time for inputs made by chance, in seconds.
    pub fuzz_seconds: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
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
        report.counts.failed = report.counts.failed.max(1);
    }
    println!("\n{}{} passed, {} failed", report.lines, report.counts.passed, report.counts.failed);
    result
}

fn run_steps(report: &mut Report, options: &Options) -> Result<()> {
    report.step("packages", packages::install_missing)?;
    let kubectl = report.step("kubectl", kubectl::build_missing)?;
    report.step("console", console::verify)?;
    // Compilers wait for processors and installers for the network: neither for the other.
    let (built, libraries) = thread::scope(|scope| {
        let installing = scope.spawn(|| Step::take("libraries", install_libraries));
        let built = build(report);
        (built, installing.join())
    });
    match libraries {
        Ok(libraries) => report.add(libraries)?,
        Err(_) => bail!("step `libraries` panicked"),
    }
    built?;
    // Stopped when this function is left, on whatever way.
    let servers = report.step("servers", Servers::start)?;
    let path = kubectl.as_deref().map(kubectl::path_with).transpose()?;
    let command = |arguments: &[&str]| {
        let mut command = test_command(options, &servers);
        command.args(arguments);
        if let Some(path) = &path {
            command.env("PATH", path);
        }
        command
    };
    let mut counts = Counts::default();
    let filter: Vec<&str> = options.filter.as_deref().into_iter().collect();
    let tested = report.step("test", || run_tests(command(&filter), &mut counts));
    let tested = match tested {
        Err(_) if (1..=AGAIN_MAX).contains(&counts.failures.len()) => {
            let again = report.step("again", || run_again(&command, &mut counts));
            report.lines.push_str(&counts.failures_line());
            again
        }
        tested => tested,
    };
    report.counts = counts;
    tested
}

/// What can be said of the code without running it, and then what is run.
fn build(report: &mut Report) -> Result<()> {
    report.step("fmt", || check(&mut cargo(&["fmt", "--all", "--check"])))?;
    let clippy = ["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"];
    report.step("clippy", || check(&mut cargo(&clippy)))?;
    report.step("tidy", || tidy::run(tidy::Ratchet::Check))?;
    // Not `cargo build`: it chooses other features of the dependencies, and all is built twice.
    let build = ["test", "--workspace", "--locked", "--no-run"];
    report.step("build", || check(&mut cargo(&build)))
}

/// Runs what failed once more, one after the other: on a small machine a test may have waited
/// longer for its turn than it has patience. It is told which tests needed it; who fails again
/// has failed.
fn run_again(command: &impl Fn(&[&str]) -> Command, counts: &mut Counts) -> Result<()> {
    let mut arguments = vec!["--", "--exact", "--test-threads=1"];
    arguments.extend(counts.failures.iter().map(String::as_str));
    let mut second = Counts::default();
    let tested = run_tests(command(&arguments), &mut second);
    counts.passed += second.passed;
    counts.failed = counts.failed.saturating_sub(second.passed);
    tested
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

/// What was done so far.
#[derive(Default)]
struct Report {
    /// One line a step.
    lines: String,
    counts: Counts,
}

impl Report {
    fn step<T>(&mut self, name: &str, step: impl FnOnce() -> Result<T>) -> Result<T> {
        self.add(Step::take(name, step))
    }

    /// Adds a step that was taken.
    fn add<T>(&mut self, step: Step<T>) -> Result<T> {
        self.lines.push_str(&step.line);
        step.result
    }
}

/// A step that was taken: how it ended, and the line that says so.
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

/// Every suite is run, also after one has failed, so that the counts are whole.
fn test_command(options: &Options, servers: &Servers) -> Command {
    let mut command = cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]);
    command.stdout(Stdio::piped());
    servers.announce(&mut command);
    if options.scope == Scope::Full {
        command.env(FULL_VARIABLE, "1");
    }
    if let Some(seconds) = options.fuzz_seconds {
        command.env(FUZZ_VARIABLE, seconds.to_string());
    }
    command
}

fn run_tests(mut command: Command, counts: &mut Counts) -> Result<()> {
    let line = workspace::line_of(&command);
    let mut child = command.spawn().with_context(|| format!("could not run `{line}`"))?;
    let output = child.stdout.take().expect("a piped output must be there");
    let read = pass_on(BufReader::new(output), &mut std::io::stdout(), counts);
    let status = child.wait().with_context(|| format!("could not wait for `{line}`"))?;
    read.with_context(|| format!("could not read the output of `{line}`"))?;
    match status.success() {
        true => Ok(()),
        false => bail!("`{line}` ended with {status}"),
    }
}

/// How many tests ended how.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    /// The names of those that failed.
    failures: Vec<String>,
}

impl Counts {
    fn failures_line(&self) -> String {
        format!("xtask: run again: {}\n", self.failures.join(", "))
    }
}

/// Copies lines as they come, and adds up the results among them.
fn pass_on(
    mut from: impl BufRead,
    to: &mut impl Write,
    counts: &mut Counts,
) -> std::io::Result<()> {
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        to.flush()?;
        let text = String::from_utf8_lossy(&line);
        if let Some(result) = read_result(&text) {
            counts.passed += result.passed;
            counts.failed += result.failed;
        }
        counts.failures.extend(read_failure(&text).map(str::to_owned));
        line.clear();
    }
    Ok(())
}

/// The counts in a line such as `test result: ok. 3 passed; 0 failed; 0 ignored`.
fn read_result(line: &str) -> Option<Counts> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |what: &str| {
        let mut parts = counts.split("; ").filter_map(|part| part.trim().split_once(' '));
        parts.find(|(_, name)| *name == what)?.0.parse().ok()
    };
    Some(Counts { passed: count("passed")?, failed: count("failed")?, failures: Vec::new() })
}

/// The name in a line such as `test pods::a_pod_runs ... FAILED`.
fn read_failure(line: &str) -> Option<&str> {
    line.trim_end().strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

#[expect(clippy::disallowed_methods, reason = "the time that a step takes is what it tells")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_added_up_and_the_output_is_passed_on_whole() {
        let output = b"running 2 tests\n\
            test result: ok. 20 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out\n\
            test a ... not utf-8: \xff\n\
            test some::where ... FAILED\n\
            test result: FAILED. 3 passed; 2 failed; 0 ignored; finished in 0.1s";
        let (mut copy, mut counts) = (Vec::new(), Counts::default());
        pass_on(&output[..], &mut copy, &mut counts).unwrap();
        assert_eq!(copy, output);
        let failures = vec!["some::where".to_owned()];
        assert_eq!(counts, Counts { passed: 23, failed: 2, failures });
    }

    #[test]
    fn a_line_that_is_no_result_counts_nothing() {
        for line in
            ["", "test result: ok.", "test result: 3 passed; 0 failed", "3 passed; 0 failed"]
        {
            assert_eq!(read_result(line), None, "{line}");
        }
    }

    #[test]
    fn a_step_is_one_line() {
        let line = step_line("fmt", "ok", Duration::from_millis(1250));
        assert_eq!(line, "xtask: fmt        ok         1.2 s\n");
    }
}
