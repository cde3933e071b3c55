//! `setpoint demo`: everything once, for somebody who has just come. A cluster in a directory of
//! its own, a training job, an inference graph and a virtual machine, all real, and all gone
//! afterwards.

mod board;
mod boot_sector;
pub(super) mod cluster;
pub mod echo;
mod inference;
mod machine;
mod reason;
mod report;
mod training;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use super::kubectl::on_path;
use super::wait::parse_duration;
use super::{Context, exit, small_runtime};
use crate::output;
use crate::shutdown::Signals;
use board::{Board, State};
use cluster::Cluster;
use inference::Installing;
use report::Report;

const CLUSTER: &str = "cluster";

const AFTER_HELP: &str = "\
Examples:
  setpoint demo                            everything, in less than a minute
  setpoint demo --only training,inference  without the virtual machine
  setpoint demo --install                  with the real Dynamo, installed from PyPI if missing
  setpoint demo --keep                     leave the cluster running, with its data and logs
  setpoint demo -o json                    measurements for a script

The cluster is in a temporary directory, on a free port; your kubeconfig is neither read nor
changed. Progress goes to stderr, the result to stdout. Ctrl-C ends it cleanly. A part that fails
or takes too long is reported with its last Warning events and lines of output.

Exit codes:
    0  all that was started succeeded; what this machine lacks is said and left out
    3  it took longer than --timeout
    4  a part failed
  130  interrupted";

/// Show what it can do: a cluster, a training job, an inference graph, a virtual machine.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Demo {
    /// Only these parts, with commas between them: training, inference, machine.
    #[arg(long, value_name = "PARTS", value_delimiter = ',', hide_possible_values = true)]
    only: Vec<Part>,

    /// Time limit.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    timeout: Duration,

    /// Install Dynamo (about 100 MB from PyPI, into the cache directory) where no Python has it.
    #[arg(long)]
    install: bool,

    /// Leave the cluster, its data directory and its logs for inspection.
    #[arg(long)]
    keep: bool,
}

/// Fate of the cluster after a demonstration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeping {
    No,
    Yes,
}

/// What is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Part {
    Training,
    Inference,
    Machine,
}

impl Part {
    const ALL: [Part; 3] = [Part::Training, Part::Inference, Part::Machine];

    fn name(self) -> &'static str {
        match self {
            Part::Training => "training",
            Part::Inference => "inference",
            Part::Machine => "machine",
        }
    }
}

/// What became of a part.
#[derive(Clone, Debug)]
struct Outcome {
    state: State,
    detail: String,
    /// Warning events and lines of output that explain a failure.
    evidence: Option<String>,
    /// What was measured.
    facts: Value,
}

impl Outcome {
    fn well(detail: impl Into<String>, facts: Value) -> Outcome {
        Outcome { state: State::Well, detail: detail.into(), evidence: None, facts }
    }

    fn skipped(detail: impl Into<String>) -> Outcome {
        Outcome { state: State::Skipped, detail: detail.into(), evidence: None, facts: Value::Null }
    }

    fn failed(detail: impl Into<String>, evidence: Option<String>) -> Outcome {
        Outcome { state: State::Failed, detail: detail.into(), evidence, facts: Value::Null }
    }
}

/// Outcome of a demonstration.
enum End {
    Done,
    Interrupted,
}

impl Demo {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        // What it cannot do without is stopped and removed on the same runtime.
        small_runtime()?.block_on(self.show(context))
    }

    async fn show(&self, context: &Context) -> Result<ExitCode> {
        let mut signals = Signals::listen()?;
        let board = Board::new(context.began);
        board.say(CLUSTER, "starts in a temporary directory");
        let cluster = tokio::select! {
            started = Cluster::start(self.keeping()) => started,
            () = board.draw() => unreachable!("it draws for ever"),
            _ = signals.next() => return Ok(ExitCode::from(exit::INTERRUPTED)),
        };
        let cluster = match cluster {
            Ok(cluster) => cluster,
            Err(error) => {
                board.end(CLUSTER, State::Failed, "did not start");
                board.draw_last();
                return Err(error);
            }
        };
        let millis = cluster.ready_millis;
        board.end(CLUSTER, State::Well, format!("ready in {millis} ms, node {}", cluster.node));
        let mut report = Report::new(millis);
        let end = {
            let all = self.perform(&cluster, &board, &mut report);
            tokio::select! {
                () = all => End::Done,
                () = board.draw() => End::Done,
                _ = signals.next() => End::Interrupted,
            }
        };
        match io::stdout().is_terminal() {
            true => board.clear(),
            false => board.draw_last(),
        }
        let removed = match self.keeping() {
            Keeping::Yes => {
                report.keep(cluster.keep());
                Ok(())
            }
            Keeping::No => cluster.remove().await,
        };
        self.conclude(context, report, end, removed)
    }

    fn keeping(&self) -> Keeping {
        if self.keep { Keeping::Yes } else { Keeping::No }
    }

    /// Runs all parts at once and adds each to the report when it ends.
    async fn perform(&self, cluster: &Cluster, board: &Board, report: &mut Report) {
        let (target, directory) = (cluster.target(), cluster.directory.clone());
        let installing = if self.install { Installing::Yes } else { Installing::No };
        let report = std::sync::Mutex::new(report);
        let parts = Part::ALL.into_iter().filter(|part| self.is_asked(*part)).map(|part| {
            let (target, directory, report) = (&target, &directory, &report);
            async move {
                let began = Instant::now();
                let keeping = self.keeping();
                let run = async {
                    match part {
                        Part::Training => training::run(target, directory, board).await,
                        Part::Inference => inference::run(target, installing, board).await,
                        Part::Machine => machine::run(target, directory, (board, keeping)).await,
                    }
                };
                let (outcome, is_late) = match tokio::time::timeout(self.timeout, run).await {
                    Ok(Ok(outcome)) => (outcome, false),
                    Ok(Err(error)) => {
                        let evidence = exit::shown_of(&error);
                        (Outcome::failed(output::one_line(&error), evidence), false)
                    }
                    Err(_) => {
                        let (detail, evidence) = reason::late(target, part, self.timeout).await;
                        (Outcome::failed(detail, evidence), true)
                    }
                };
                board.end(part.name(), outcome.state, outcome.detail.clone());
                if let Ok(mut report) = report.lock() {
                    report.has_timed_out |= is_late;
                    report.add(part, outcome, began.elapsed());
                }
            }
        });
        futures::future::join_all(parts).await;
    }

    fn is_asked(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    fn conclude(
        &self,
        context: &Context,
        mut report: Report,
        end: End,
        removed: Result<()>,
    ) -> Result<ExitCode> {
        if matches!(end, End::Interrupted) {
            removed?;
            match self.keeping() {
                Keeping::No => eprintln!("interrupted; everything was removed"),
                Keeping::Yes => eprintln!("interrupted{}", report.inspection()),
            }
            return Ok(ExitCode::from(exit::INTERRUPTED));
        }
        report.finish(context.began.elapsed());
        context.output.print(&report)?;
        removed?;
        Ok(match report.has_failed() {
            true if report.has_timed_out => ExitCode::from(exit::TIMED_OUT),
            true => ExitCode::from(exit::WORKLOAD_FAILED),
            false => ExitCode::SUCCESS,
        })
    }
}

/// For reports: to the millisecond.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e3).round() / 1e3
}
