//! Outcome of a suite: counts, failed tests and their output, read from the harness.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// Begins the line by which a simulation marks the output of its test.
const SIMULATION: &str = "simulation: ";
/// Begins the line that a test writes past the harness if it cannot check anything.
const SKIPPED: &str = "skipped: ";

/// Result of one run of a suite.
#[derive(Debug, Default, PartialEq)]
pub struct Outcome {
    pub suite: String,
    pub passed: u64,
    pub failed: u64,
    /// Names of the tests that failed.
    pub failures: Vec<String>,
    /// Those of them that ran a simulation.
    pub simulations: Vec<String>,
    /// Reasons of tests that checked nothing, such as missing privileges.
    pub skipped: Vec<String>,
    /// Output of the failed tests, as the harness prints it.
    pub details: String,
    /// Reason why the suite did not finish, such as a signal.
    pub aborted: Option<String>,
    /// Names and seconds of the tests, if the harness reported times.
    pub times: Vec<(String, f64)>,
    pub took: Duration,
}

impl Outcome {
    pub fn is_success(&self) -> bool {
        self.failed == 0 && self.aborted.is_none()
    }

    /// One line about the run.
    pub fn summary(&self) -> String {
        let outcome = if self.is_success() { "ok" } else { "FAILED" };
        let (suite, passed, took) = (&self.suite, self.passed, self.took.as_secs_f64());
        let mut line = format!("xtask: suite {suite:<32} {outcome:<6} {took:>7.1} s {passed:>5}");
        if self.failed > 0 {
            line += &format!(", {} failed", self.failed);
        }
        if let Some(reason) = &self.aborted {
            line += &format!(", {reason}");
        }
        line
    }
}

/// Reads the output of a test harness. A run without a result line, or with an exit status that
/// does not fit its results, counts as aborted.
pub fn read_output(suite: &str, text: &str, status: ExitStatus, took: Duration) -> Outcome {
    let mut outcome = Outcome { suite: suite.to_owned(), took, ..Outcome::default() };
    let mut has_result = false;
    for line in text.lines() {
        if let Some((passed, failed)) = read_result(line) {
            outcome.passed += passed;
            outcome.failed += failed;
            has_result = true;
        }
        outcome.failures.extend(read_failure(line).map(str::to_owned));
        outcome.times.extend(read_time(line));
        outcome.skipped.extend(line.strip_prefix(SKIPPED).map(str::to_owned));
    }
    outcome.details = read_details(text);
    outcome.simulations = read_simulations(&outcome.details);
    outcome.aborted = match (status.signal(), status.success()) {
        (Some(signal), _) => Some(format!("killed by signal {signal}")),
        (None, true) if has_result => None,
        (None, true) => Some("ended without a result".to_owned()),
        (None, false) if outcome.failed > 0 => None,
        (None, false) => Some(format!("ended with {status}")),
    };
    if outcome.aborted.is_some() {
        const LAST_LINES: usize = 40;
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        outcome.details += &last.join("\n");
    }
    outcome
}

/// Returns the failed tests whose output has the mark of a simulation.
fn read_simulations(details: &str) -> Vec<String> {
    let (mut test, mut found) = (None, Vec::new());
    for line in details.lines() {
        if let Some(name) =
            line.strip_prefix("---- ").and_then(|it| it.strip_suffix(" stdout ----"))
        {
            test = Some(name);
        } else if line.starts_with(SIMULATION) {
            found.extend(test.take().map(str::to_owned));
        }
    }
    found
}

/// The counts in a line such as `test result: ok. 3 passed; 0 failed; 0 ignored`.
fn read_result(line: &str) -> Option<(u64, u64)> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |name: &str| {
        let mut parts = counts.split("; ").filter_map(|part| part.trim().split_once(' '));
        parts.find(|(_, found)| *found == name)?.0.parse().ok()
    };
    Some((count("passed")?, count("failed")?))
}

/// The name in a line such as `test pods::a_pod_runs ... FAILED`, with or without a time.
fn read_failure(line: &str) -> Option<&str> {
    let (name, outcome) = line.trim_end().strip_prefix("test ")?.split_once(" ... ")?;
    outcome.starts_with("FAILED").then_some(name)
}

/// Name and seconds of a line such as `test pods::a_pod_runs ... ok <1.234s>`.
fn read_time(line: &str) -> Option<(String, f64)> {
    let (name, outcome) = line.trim_end().strip_prefix("test ")?.split_once(" ... ")?;
    let seconds = outcome.split_once('<')?.1.strip_suffix("s>")?.parse().ok()?;
    Some((name.to_owned(), seconds))
}

/// The part of the output that belongs to failed tests.
fn read_details(text: &str) -> String {
    let part = text.split_once("\nfailures:\n").map_or("", |(_, rest)| rest);
    part.rsplit_once("\nfailures:\n").map_or(part, |(details, _)| details).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, status: i32) -> Outcome {
        read_output("a", text, ExitStatus::from_raw(status), Duration::ZERO)
    }

    #[test]
    fn results_and_failures_are_read_from_the_output() {
        let text = "running 2 tests\n\
            test some::place ... FAILED <0.100s>\n\
            test other ... ok <2.500s>\n\
            \nfailures:\n\n---- some::place stdout ----\nit broke\n\nfailures:\n    some::place\n\n\
            test result: FAILED. 1 passed; 1 failed; 0 ignored; finished in 0.1s\n";
        let outcome = read(text, 101 << 8);
        assert_eq!((outcome.passed, outcome.failed), (1, 1));
        assert_eq!(outcome.failures, ["some::place"]);
        assert!(outcome.details.contains("it broke"), "{}", outcome.details);
        assert_eq!(outcome.times, [("some::place".to_owned(), 0.1), ("other".to_owned(), 2.5)]);
        assert_eq!(outcome.aborted, None);
        assert!(!outcome.is_success());
    }

    #[test]
    fn simulations_and_skipped_tests_are_known_by_their_marks() {
        let text = "skipped: mounts: needs root\n\nfailures:\n\n---- a stdout ----\n\
            simulation: job, seed 7\nsimulation: job, seed 8\n\n---- b stdout ----\nit broke\n\n\
            failures:\n    a\n    b\n\ntest result: FAILED. 0 passed; 2 failed; 0 ignored\n";
        let outcome = read(text, 101 << 8);
        assert_eq!(outcome.simulations, ["a"]);
        assert_eq!(outcome.skipped, ["mounts: needs root"]);
    }

    #[test]
    fn a_suite_that_dies_or_says_nothing_has_failed() {
        let killed = read("test a ... ok\n", 9);
        assert_eq!(killed.aborted.as_deref(), Some("killed by signal 9"));
        assert!(!killed.is_success());
        assert!(read("", 0).aborted.is_some());
        let result = "test result: ok. 1 passed; 0 failed; 0 ignored";
        assert!(read(result, 0).is_success());
        assert!(!read(result, 1 << 8).is_success(), "a status that does not fit the result");
    }
}
