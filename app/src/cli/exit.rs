//! Exit codes: what each means, and which one an error comes to.

use std::fmt;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;
use serde::Serialize;

use super::Context;
use super::known::{self, Known};
use super::past::Refused;

pub const FAILED: u8 = 1;
/// The command line is wrong; clap ends with it by itself.
pub const USAGE: u8 = 2;
pub const TIMED_OUT: u8 = 3;
pub const WORKLOAD_FAILED: u8 = 4;
pub const NOT_FOUND: u8 = 5;
pub const CONFLICT: u8 = 6;
pub const FORBIDDEN: u8 = 7;
/// As a shell has it for the signal of Ctrl-C.
pub const INTERRUPTED: u8 = 130;

/// Every code and what it means.
const ALL: [(u8, &str); 9] = [
    (0, "done"),
    (FAILED, "failed; the reason is on stderr"),
    (USAGE, "the command line is wrong"),
    (TIMED_OUT, "what was waited for did not happen in time"),
    (WORKLOAD_FAILED, "a workload failed: a job, a graph, a machine"),
    (NOT_FOUND, "there is no such object, or nothing runs (status, logs)"),
    (CONFLICT, "there is such an object already, or another has changed it"),
    (FORBIDDEN, "the server does not allow it"),
    (INTERRUPTED, "interrupted by Ctrl-C"),
];

/// Say what the exit codes mean.
///
/// Every command ends with one of them. kubectl's own codes are passed on where a command is
/// handed to kubectl.
#[derive(Args)]
#[command(hide = true, after_help = text())]
pub struct ExitCodes {}

#[derive(Serialize)]
#[serde(transparent)]
struct Table(Vec<(u8, &'static str)>);

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&text())
    }
}

impl ExitCodes {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        context.output.print(&Table(ALL.to_vec()))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// For help and for manuals.
pub fn text() -> String {
    let lines = ALL.iter().map(|(code, meaning)| format!("  {code:>3}  {meaning}"));
    format!("Exit codes:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

/// Why a command ends with a code of its own, and what to do about it.
#[derive(Debug)]
pub struct Failure {
    pub code: u8,
    pub what: String,
    /// What it looks like, on lines of its own.
    pub shown: Option<String>,
    pub hint: Option<String>,
    /// The page that it has, where that is another than its code has.
    pub known: Option<&'static Known>,
}

impl Failure {
    pub fn new(code: u8, what: impl Into<String>) -> Failure {
        Failure { code, what: what.into(), shown: None, hint: None, known: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    pub fn known(mut self, known: &'static Known) -> Failure {
        self.known = Some(known);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.what)
    }
}

impl std::error::Error for Failure {}

/// There is no such thing.
pub fn not_found(what: impl Into<String>) -> anyhow::Error {
    anyhow!(Failure::new(NOT_FOUND, what))
}

/// What the server said, with the code that its answer comes to.
pub fn said(code: u16, message: impl Into<String>) -> anyhow::Error {
    let mut failure = Failure::new(of_answer(code).unwrap_or(FAILED), message);
    failure.known = known::of_answer(code);
    anyhow!(failure)
}

/// The exit code of an error: its own, or that of the answer of a server.
pub fn code_of(error: &anyhow::Error) -> u8 {
    error.chain().find_map(code_of_cause).unwrap_or(FAILED)
}

/// What is shown of a failure besides its line.
pub fn shown_of(error: &anyhow::Error) -> Option<String> {
    let mut failures = error.chain().filter_map(|cause| cause.downcast_ref::<Failure>());
    failures.find_map(|failure| failure.shown.clone())
}

/// What to do about an error, where somebody has said so.
pub fn hint_of(error: &anyhow::Error) -> Option<String> {
    let mut failures = error.chain().filter_map(|cause| cause.downcast_ref::<Failure>());
    failures.find_map(|failure| failure.hint.clone())
}

fn code_of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<u8> {
    if let Some(failure) = cause.downcast_ref::<Failure>() {
        return Some(failure.code);
    }
    if let Some(kube::Error::Api(status)) = cause.downcast_ref::<kube::Error>() {
        return of_answer(status.code);
    }
    if let Some(refused) = cause.downcast_ref::<Refused>() {
        return of_answer(refused.code);
    }
    let error = cause.downcast_ref::<reconcile::Error>()?;
    error.code().and_then(of_answer)
}

fn of_answer(code: u16) -> Option<u8> {
    match code {
        401 | 403 => Some(FORBIDDEN),
        404 => Some(NOT_FOUND),
        409 => Some(CONFLICT),
        408 | 504 => Some(TIMED_OUT),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn an_error_ends_with_the_code_of_its_cause() {
        assert_eq!(code_of(&anyhow!("plain")), FAILED);
        let missing = Err::<(), _>(not_found("there is no job")).context("could not show it");
        assert_eq!(code_of(&missing.expect_err("an error")), NOT_FOUND);
        let codes = [(403, FORBIDDEN), (404, NOT_FOUND), (409, CONFLICT), (422, FAILED)];
        for (answer, code) in codes {
            assert_eq!(code_of(&said(answer, "no")), code, "{answer}");
        }
        let failure = Failure::new(TIMED_OUT, "too slow").hint("wait longer");
        assert_eq!(hint_of(&anyhow!(failure).context("waiting")).as_deref(), Some("wait longer"));
    }
}
