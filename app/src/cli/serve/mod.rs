//! `setpoint serve`: deploys and manages inference graphs.

pub(in crate::cli) mod chat;
pub(in crate::cli) mod cluster;
mod draw;
pub(in crate::cli) mod list;
mod submit;
mod watch;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};

use super::connect::Target;
use super::wait::watch;
use super::{Context, small_runtime};
use cluster::Cluster;

const AFTER_HELP: &str = "\
Examples:
  setpoint serve -f graph.yaml --watch     deploy a graph; print its address when it serves
  setpoint serve -f graph.yaml --replace   delete the graph of that name and deploy it again
  setpoint serve ./model --engine mocker   a frontend and a worker for a model
  setpoint serve ls                        list graphs
  setpoint serve graph NAME                draw a graph with the ready replicas of each component
  setpoint serve scale NAME COMPONENT 3    change the replicas of a component
  setpoint serve chat NAME 'hello'         send a chat message
  setpoint serve rm NAME...                delete graphs with their pods

Exit codes with --wait and --watch:
  0  the graph serves
  3  it does not serve within --timeout
  4  it failed or its pods cannot run; the last events and lines of output are shown
  130  Ctrl-C; the graph stays, unless a second one within 3 s deletes what this command created";

/// Serve models with a graph of components.
#[derive(Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub struct Serve {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    submit: submit::Submit,
    #[command(flatten)]
    target: Target,
}

#[derive(Subcommand)]
enum Command {
    /// List graphs.
    Ls {
        /// Print the list again whenever it changes.
        #[arg(short, long)]
        watch: bool,
    },
    /// Show a graph.
    Show { name: String },
    /// Draw the components of a graph with their ready replicas and revisions.
    Graph { name: String },
    /// Change the replicas of a component.
    Scale { name: String, component: String, replicas: u32 },
    /// Delete graphs with their pods.
    #[command(visible_alias = "delete")]
    Rm {
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Send a chat message to a graph.
    Chat {
        name: String,
        text: String,
        /// Model; by default the first of the graph.
        #[arg(long)]
        model: Option<String>,
        /// Maximum length of the answer.
        #[arg(long, default_value_t = 256, value_name = "COUNT")]
        max_tokens: u32,
    },
}

impl Serve {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        small_runtime()?.block_on(self.perform(context))
    }

    async fn perform(&self, context: &Context) -> Result<ExitCode> {
        let cluster = Cluster::connect(&self.target).await?;
        let Some(command) = &self.command else {
            if self.submit.is_empty() {
                bail!("name a model or a file with a graph; `setpoint serve --help` shows how");
            }
            return submit::submit(&cluster, &self.submit, context).await;
        };
        match command {
            Command::Ls { watch: true } => watch(context, || list::list(&cluster)).await,
            Command::Ls { watch: false } => {
                context.output.print(&list::list(&cluster).await?)?;
                Ok(ExitCode::SUCCESS)
            }
            Command::Show { name } => list::show(&cluster, name, context).await,
            Command::Graph { name } => draw::draw(&cluster, name, context).await,
            Command::Scale { name, component, replicas } => {
                cluster.scale(name, component, *replicas, context).await
            }
            Command::Rm { names } => cluster.remove(names, context).await,
            Command::Chat { name, text, model, max_tokens } => {
                let question =
                    chat::Question { text, model: model.as_deref(), tokens_max: *max_tokens };
                chat::chat(&cluster, name, &question, context).await
            }
        }
    }
}
