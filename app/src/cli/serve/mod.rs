//! `setpoint serve`: serves models with graphs of components, and tells how they fare.

pub(in crate::cli) mod chat;
pub(in crate::cli) mod cluster;
mod draw;
pub(in crate::cli) mod list;
mod obstacles;
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
  setpoint serve -f graph.yaml --watch     a graph from a file; its address when it answers
  setpoint serve ./model --engine mocker   a frontend and a worker for a model
  setpoint serve ls                        what serves
  setpoint serve graph NAME                the graph, with what is ready of each component
  setpoint serve scale NAME COMPONENT 3    more or fewer of a component
  setpoint serve chat NAME 'hello'         ask it something

Exit codes with --wait and --watch:
  0  it serves
  3  it does not serve within --timeout
  4  it failed, or its pods cannot start; why is shown
  130  Ctrl-C; the graph goes on, unless a second one within 3 s deletes what this command made";

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
    /// What serves.
    Ls {
        /// Show it again whenever it changes.
        #[arg(short, long)]
        watch: bool,
    },
    /// How one graph is.
    Show { name: String },
    /// The components of a graph: what is ready of each, and of which form.
    Graph { name: String },
    /// Change how many there are of a component.
    Scale { name: String, component: String, replicas: u32 },
    /// Ask a graph something.
    Chat {
        name: String,
        text: String,
        /// The model that is asked; else the first that the graph has.
        #[arg(long)]
        model: Option<String>,
        /// How long the answer may be.
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
            Command::Chat { name, text, model, max_tokens } => {
                let question =
                    chat::Question { text, model: model.as_deref(), tokens_max: *max_tokens };
                chat::chat(&cluster, name, &question, context).await
            }
        }
    }
}
