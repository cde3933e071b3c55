//! `setpoint train`: runs and manages training jobs.

pub(in crate::cli) mod cluster;
pub(in crate::cli) mod failure;
mod follow;
mod list;
mod progress;
mod python;
mod ranks;
pub(in crate::cli) mod show;
mod submit;
mod timing;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};

use super::connect::Target;
use super::wait::watch;
use super::{Context, small_runtime};
use cluster::Cluster;

const AFTER_HELP: &str = "\
Examples:
  setpoint train train.py --nodes 3           run a script on three nodes
  setpoint train train.py -- --rate 0.1       arguments of the script follow `--`
  setpoint train -f job.yaml --watch          a TrainJob from a file; show its output
  setpoint train -f job.yaml --replace        delete the job of that name and run it again
  setpoint train ls                           list training jobs
  setpoint train show NAME                    state, times, command and every rank
  setpoint train logs NAME                    output of all ranks
  setpoint train stop NAME                    suspend it; `resume` continues it
  setpoint train rm NAME...                   delete jobs with their pods

Exit codes with --wait, --watch and logs -f:
    0  the job completed
    3  it did not end within --timeout; it continues
    4  it failed or its pods cannot run; the first failed rank or the last events are shown
  130  Ctrl-C; it continues, unless a second one within 3 s suspends what this command started

With -o json, --watch and logs print one object per line, with one of: state, line, waits, failed.";

/// Run a training job from a script or a TrainJob.
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
    /// List training jobs.
    Ls {
        /// Print the list again whenever it changes.
        #[arg(short, long)]
        watch: bool,
    },
    /// Show a training job.
    Show { name: String },
    /// Show the output of all ranks of a job.
    Logs {
        name: String,
        /// Continue with new lines until the job has ended.
        #[arg(short, long)]
        follow: bool,
    },
    /// Suspend a job (resume it later).
    Stop { name: String },
    /// Resume a suspended job.
    Resume { name: String },
    /// Delete jobs with their pods.
    #[command(visible_alias = "delete")]
    Rm {
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
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
            bail!("give either a script or a command; arguments of a script follow `--`");
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
            Command::Rm { names } => cluster.remove(names, context).await,
        }
    }
}
