//! `setpoint train`: trains, and tells how it goes.

pub(in crate::cli) mod cluster;
pub(in crate::cli) mod failure;
mod follow;
mod list;
mod progress;
pub(in crate::cli) mod show;
mod submit;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};

use super::connect::Target;
use super::wait::watch;
use super::{Context, small_runtime};
use cluster::Cluster;

const AFTER_HELP: &str = "\
Examples:
  setpoint train train.py --nodes 3           three nodes that know each other
  setpoint train train.py -- --rate 0.1       what the script is given comes after `--`
  setpoint train -f job.yaml --watch          a TrainJob from a file; its output as it comes
  setpoint train ls                           what trains, and what has
  setpoint train logs NAME                    the output of all ranks
  setpoint train stop NAME                    hold it; `resume` lets it go on

Exit codes with --wait, --watch and logs -f:
    0  it completed
    3  it did not end within --timeout; it goes on
    4  it failed; the rank that failed, its exit code and its last lines are shown
  130  Ctrl-C; it goes on, unless a second one within 3 s holds what this command started

With -o json, --watch and logs print one object a line, with one of: state, line, waits, failed.";

/// Train with a script or a TrainJob.
#[derive(Args)]
#[command(after_help = AFTER_HELP, subcommand_precedence_over_arg = true)]
pub struct Train {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    submit: submit::Submit,
    #[command(flatten)]
    target: Target,
}

#[derive(Subcommand)]
enum Command {
    /// What trains, and what has.
    Ls {
        /// Show it again whenever it changes.
        #[arg(short, long)]
        watch: bool,
    },
    /// How one job is.
    Show { name: String },
    /// The output of all ranks of a job.
    Logs {
        name: String,
        /// Go on with what is still to come, until the job has ended.
        #[arg(short, long)]
        follow: bool,
    },
    /// Hold a job: its pods end, and it can go on later.
    Stop { name: String },
    /// Let a job that is held go on.
    Resume { name: String },
}

impl Train {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        small_runtime()?.block_on(self.perform(context))
    }

    async fn perform(&self, context: &Context) -> Result<ExitCode> {
        let cluster = Cluster::connect(&self.target).await?;
        let Some(command) = &self.command else {
            if self.submit.is_empty() {
                bail!("name a script or a file with a TrainJob; `setpoint train --help` shows how");
            }
            return submit::submit(&cluster, &self.submit, context).await;
        };
        if !self.submit.is_empty() {
            bail!("either a script or a command; what a script is given comes after `--`");
        }
        match command {
            Command::Ls { watch: true } => watch(context, || list::list(&cluster)).await,
            Command::Ls { watch: false } => {
                context.output.print(&list::list(&cluster).await?)?;
                Ok(ExitCode::SUCCESS)
            }
            Command::Show { name } => show::show(&cluster, name, context).await,
            Command::Logs { name, follow } => match follow {
                true => follow::follow(&cluster, name, follow::Manner::WITH_OUTPUT, context).await,
                false => follow::print_logs(&cluster, name, context).await,
            },
            Command::Stop { name } => cluster.suspend(name, true, context).await,
            Command::Resume { name } => cluster.suspend(name, false, context).await,
        }
    }
}
