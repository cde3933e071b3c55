//! Test binaries: builds them, finds them, and runs them one after the other. Two at a time would
//! be faster, but tests that promise a time fail beside suites that use all processors.

use std::fs;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::now;
use super::outcome::{Outcome, read_output};
use crate::lints;
use crate::workspace::{self, cargo};

/// Tests of a suite that run at once.
const THREADS: usize = 2;

/// A test binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suite {
    /// Package and target, such as `store/backends`.
    pub name: String,
    program: PathBuf,
    /// Directory of the package, in which its tests run.
    directory: PathBuf,
}

/// Builds all test binaries with Clippy's lints and returns them in a stable order.
pub fn build() -> Result<Vec<Suite>> {
    let mut command = cargo(&["test", "--workspace", "--locked", "--no-run"]);
    command.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    lints::deny_warnings(&mut command);
    let line = workspace::line_of(&command);
    let mut child = command.spawn().with_context(|| format!("could not run `{line}`"))?;
    let mut text = String::new();
    let output = child.stdout.take().context("the output of cargo must be a pipe")?;
    let read = BufReader::new(output).read_to_string(&mut text);
    let status = child.wait().with_context(|| format!("could not wait for `{line}`"))?;
    read.with_context(|| format!("could not read the output of `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    let mut suites: Vec<Suite> = text.lines().filter_map(read_artifact).collect();
    suites.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(suites)
}

/// Reads a line of cargo's messages: the test binary that it announces, if it does.
fn read_artifact(line: &str) -> Option<Suite> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let program = PathBuf::from(message["executable"].as_str()?);
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let directory = manifest.parent()?.to_owned();
    let package = directory.file_name()?.to_string_lossy().replace("app", "setpoint");
    let target = message["target"]["name"].as_str()?;
    let kind = message["target"]["kind"][0].as_str()?;
    let name = match kind {
        "test" => format!("{package}/{target}"),
        _ => package,
    };
    Some(Suite { name, program, directory })
}

/// Settings of a test run.
pub struct Options<'a> {
    /// Sets what all tests of this run share.
    pub prepare: &'a (dyn Fn(&mut Command) + Sync),
    pub filter: Option<&'a str>,
    /// Asks the test harness how long each test took.
    pub with_times: bool,
    /// Directory of the complete output of each suite.
    pub logs: PathBuf,
}

/// Runs all suites and returns how each ended.
pub fn run(suites: &[Suite], options: &Options) -> Result<Vec<Outcome>> {
    fs::create_dir_all(&options.logs)
        .with_context(|| format!("could not create {}", options.logs.display()))?;
    let mut outcomes = Vec::new();
    for suite in suites {
        let outcome = run_suite(suite, options)?;
        println!("{}", outcome.summary());
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

fn run_suite(suite: &Suite, options: &Options) -> Result<Outcome> {
    let mut command = test_command(suite, options);
    command.arg(format!("--test-threads={THREADS}")).args(options.filter);
    finish(suite, &mut command, options)
}

/// Runs single tests of a suite again, one after the other.
pub fn run_again(suite: &Suite, tests: &[String], options: &Options) -> Result<Outcome> {
    let mut command = test_command(suite, options);
    command.args(["--exact", "--test-threads=1"]).args(tests);
    finish(suite, &mut command, options)
}

fn test_command(suite: &Suite, options: &Options) -> Command {
    let mut command = Command::new(&suite.program);
    command.current_dir(&suite.directory).env("CARGO_MANIFEST_DIR", &suite.directory);
    (options.prepare)(&mut command);
    if options.with_times {
        // The harness of a stable compiler knows the option, and asks for this to accept it.
        command.env("RUSTC_BOOTSTRAP", "1").args(["-Zunstable-options", "--report-time"]);
    }
    command
}

fn finish(suite: &Suite, command: &mut Command, options: &Options) -> Result<Outcome> {
    let running = || format!("could not run {}", suite.program.display());
    let log = options.logs.join(format!("{}.log", suite.name.replace('/', "-")));
    let file = fs::File::create(&log).with_context(|| format!("no {}", log.display()))?;
    let errors = file.try_clone().with_context(running)?;
    let start = now();
    let status = command.stdin(Stdio::null()).stdout(file).stderr(errors).status();
    let status: ExitStatus = status.with_context(running)?;
    let took: Duration = start.elapsed();
    let text = fs::read(&log).with_context(|| format!("could not read {}", log.display()))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(read_output(&suite.name, &text, status, took))
}

/// Runs the examples in doc comments. Their names, and no others, contain a line number. `--doc`
/// would choose other features of dependencies and build them again.
pub fn run_doc_tests(options: &Options) -> Result<Outcome> {
    let mut command = cargo(&["test", "--workspace", "--locked", "--", "(line "]);
    (options.prepare)(&mut command);
    lints::deny_warnings(&mut command);
    let suite = Suite {
        name: "doc".to_owned(),
        program: PathBuf::from("cargo"),
        directory: workspace::root(),
    };
    finish(&suite, &mut command, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_binaries_are_found_in_the_messages_of_cargo() {
        let line = |kind: &str, name: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/store/Cargo.toml",
                "profile":{{"test":{test}}},"executable":"/w/target/x",
                "target":{{"name":"{name}","kind":["{kind}"]}}}}"#
            )
            .replace('\n', "")
        };
        let name = |text: String| read_artifact(&text).map(|suite| suite.name);
        assert_eq!(name(line("lib", "store", true)).as_deref(), Some("store"));
        assert_eq!(name(line("test", "faults", true)).as_deref(), Some("store/faults"));
        assert_eq!(name(line("bin", "store", false)), None);
        assert_eq!(name("{}".to_owned()), None);
    }
}
