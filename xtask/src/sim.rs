//! `cargo xtask sim`: every trial under every plan, and the planted defects.
//!
//! A trial is a test of the crate whose component it is for; it reads from its environment how much
//! to run, and prints one line that begins with `sim: `.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::workspace::{cargo, check, line_of, root};

const SCOPE_VARIABLE: &str = "SETPOINT_SIM";
const SCENARIO_VARIABLE: &str = "SETPOINT_SIM_SCENARIO";
const SEED_VARIABLE: &str = "SETPOINT_SIM_SEED";
const DEFECT_VARIABLE: &str = "SETPOINT_DEFECT";
/// Tests without optimisation need more than the usual.
const STACK: (&str, &str) = ("RUST_MIN_STACK", "33554432");
/// The trial that every planted defect shows in.
const DEFECT_TRIAL: &str = "replica_set::no_fault";

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Only the trial of this name.
    pub scenario: Option<String>,
    /// Only this seed.
    pub seed: Option<u64>,
    /// Plant defects instead, one after the other.
    pub with_defects: bool,
}

pub fn run(options: &Options) -> Result<()> {
    if options.with_defects { find_defects() } else { simulate(options) }
}

/// What the trials said.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    trials: u64,
    plans: u64,
    run: u64,
    violations: u64,
}

impl Tally {
    /// Takes a line like `sim: NAME: 307 plans, 81 run, 0 violations, 900 a minute`.
    fn take(&mut self, line: &str) {
        let Some(line) = line.strip_prefix("sim: ") else { return };
        let number = |unit: &str| {
            let figures = line.rsplit_once(": ").map_or("", |(_, figures)| figures).split(", ");
            let figure = figures.into_iter().find_map(|figure| figure.strip_suffix(unit));
            figure.and_then(|figure| figure.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        self.trials += 1;
        self.plans += number(" plans");
        self.run += number(" run");
        self.violations += number(" violations");
    }
}

fn simulate(options: &Options) -> Result<()> {
    let packages = packages_on_trial()?;
    let mut arguments = vec!["test", "--locked", "--tests", "--no-fail-fast"];
    for package in &packages {
        arguments.extend(["--package", package]);
    }
    check(cargo(&arguments).arg("--no-run"))?;
    let mut command = cargo(&arguments);
    command.args(["--", "--nocapture", "--test-threads=1"]);
    command.env(SCOPE_VARIABLE, "full").env(STACK.0, STACK.1);
    if let Some(scenario) = &options.scenario {
        command.env(SCENARIO_VARIABLE, scenario);
    }
    if let Some(seed) = options.seed {
        command.env(SEED_VARIABLE, seed.to_string());
    }
    let (tally, is_success, took) = listen(command)?;
    let minutes = took.as_secs_f64().max(0.001) / 60.0;
    println!(
        "xtask: sim: {} trials, {} plans, {} run, {} violations, {:.0} seeds a minute",
        tally.trials,
        tally.plans,
        tally.run,
        tally.violations,
        tally.run as f64 / minutes
    );
    if tally.violations > 0 || !is_success {
        bail!("the simulation found what must not be");
    }
    if tally.trials == 0 {
        bail!("there is no trial");
    }
    Ok(())
}

/// Runs tests, shows what they print, and counts.
fn listen(mut command: Command) -> Result<(Tally, bool, Duration)> {
    let line = line_of(&command);
    let start = now();
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("could not run `{line}`"))?;
    let mut tally = Tally::default();
    let output = child.stdout.take().context("the output must be piped")?;
    for line in BufReader::new(output).lines() {
        let line = line?;
        // A test that begins prints its name without ending the line.
        let said = line.find("sim: ").map_or("", |at| &line[at..]);
        tally.take(said);
        println!("{line}");
    }
    let status = child.wait()?;
    Ok((tally, status.success(), start.elapsed()))
}

/// Crates whose tests put components on trial: those that use the test kit.
fn packages_on_trial() -> Result<Vec<String>> {
    let mut packages = Vec::new();
    for entry in fs::read_dir(root().join("crates"))? {
        let entry = entry?;
        let Ok(manifest) = fs::read_to_string(entry.path().join("Cargo.toml")) else { continue };
        let for_tests = manifest.split("[dev-dependencies]").nth(1).unwrap_or_default();
        if for_tests.contains("testkit") {
            packages.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    packages.sort();
    Ok(packages)
}

/// Plants every defect in turn; each must be found.
fn find_defects() -> Result<()> {
    let manifest = fs::read_to_string(root().join("crates/controllers/Cargo.toml"))?;
    let defects = defects_in(&manifest);
    let features: Vec<String> = defects.iter().map(|name| format!("defect-{name}")).collect();
    let features = features.join(",");
    let arguments = [
        "test",
        "--locked",
        "--package",
        "controllers",
        "--test",
        "controllers",
        "--features",
        &features,
    ];
    check(cargo(&arguments).arg("--no-run"))?;
    let mut missed = Vec::new();
    for defect in &defects {
        let mut command = cargo(&arguments);
        command.args(["--", "--nocapture", DEFECT_TRIAL]);
        command.env(DEFECT_VARIABLE, defect).env(STACK.0, STACK.1);
        let output = command.output().context("could not run the trial")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut tally = Tally::default();
        text.lines().filter_map(|line| Some(&line[line.find("sim: ")?..])).for_each(|line| {
            tally.take(line);
        });
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let first = told.lines().find(|line| line.starts_with("  CT-") || line.starts_with("  "));
        let found = if tally.violations > 0 { "found" } else { "MISSED" };
        let by = first.map(str::trim).unwrap_or_default();
        println!("xtask: defect {defect:<22} {found:<6} {:>4} plans  {by}", tally.violations);
        if tally.violations == 0 {
            missed.push(defect.as_str());
        }
    }
    println!("xtask: sim: {} of {} defects found", defects.len() - missed.len(), defects.len());
    if !missed.is_empty() {
        bail!("not found: {}", missed.join(", "));
    }
    Ok(())
}

fn defects_in(manifest: &str) -> Vec<String> {
    let names = manifest.lines().filter_map(|line| line.strip_prefix("defect-"));
    names.filter_map(|line| Some(line.split_once(" = ")?.0.to_owned())).collect()
}

#[expect(clippy::disallowed_methods, reason = "only to print how long it took")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_trials_say_is_added_up() {
        let mut tally = Tally::default();
        tally.take("sim: job-controller/indexed: 307 plans, 81 run, 2 violations, 900 a minute");
        tally.take("sim: b: 10 plans, 10 run, 0 violations, 900 a minute");
        tally.take("test result: ok");
        assert_eq!(tally, Tally { trials: 2, plans: 317, run: 91, violations: 2 });
    }

    #[test]
    fn defects_are_the_features_of_that_name() {
        let manifest = "[features]\ndefect-a-b = [\"x/defect-a-b\"]\nother = []\n";
        assert_eq!(defects_in(manifest), ["a-b"]);
    }
}
