//! `setpoint vm`: virtual machines, from the command line.

mod clone;
pub(in crate::cli) mod cluster;
mod connection;
mod create;
mod done;
mod image;
mod list;
mod send;
mod terminal;
mod top;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use machines::kinds::INSTANCE;
use reconcile::Kind;

use super::confirm::Consent;
use super::connect::Target;
use super::wait::{Waited, parse_duration, until_done, watch};
use super::{Context, exit, interrupted, small_runtime};
use cluster::Cluster;

const AFTER_HELP: &str = "\
Examples:
  setpoint vm create web --image URL --size 10Gi --user me --password x
  setpoint vm ls --watch               what there is, and how it fares
  setpoint vm top                      what those that run use
  setpoint vm console web              its serial console; Ctrl-] leaves
  setpoint vm ssh web me               a shell in it, over SSH
  setpoint vm port-forward web 8080:80  a port of it, on this machine
  setpoint vm snapshot web before      keeps its disks as they are
  setpoint vm clone web web-2          another with the same disks; the first must be stopped
  setpoint vm image add NAME FILE|URL  brings an image in, with progress
  setpoint vm create db --image NAME   a machine from an image that was brought in

Ctrl-C ends the waiting (exit code 130), and what was asked for goes on; a second one within 3 s
deletes the machine or image that `create` or `image add` makes, or stops what `start` starts.";

/// Run virtual machines.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Vm {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    target: Target,
}

#[derive(Subcommand)]
enum Command {
    /// Make a machine.
    Create(create::Create),
    /// What there is.
    #[command(visible_alias = "list")]
    Ls {
        /// Show them again whenever they change.
        #[arg(short, long)]
        watch: bool,
    },
    /// What those that run use: processors, memory, disks.
    Top,
    /// Start a machine.
    Start {
        name: String,
        /// Nothing is executed before it is unpaused.
        #[arg(long)]
        paused: bool,
        #[command(flatten)]
        waiting: Waiting,
    },
    /// Stop a machine: its guest is asked to, and killed when its grace is over.
    Stop {
        name: String,
        /// How long the guest has; 0 kills it at once.
        #[arg(long, value_name = "SECONDS")]
        grace_period: Option<u32>,
    },
    /// Stop a machine and start it again.
    Restart {
        name: String,
        /// Without asking the guest.
        #[arg(long)]
        force: bool,
    },
    /// Stop the processors of a machine.
    Pause { name: String },
    /// Let them go on.
    Unpause { name: String },
    /// Press the reset button.
    Reset { name: String },
    /// Talk to the serial console; Ctrl-] leaves.
    Console { name: String },
    /// Make the screen reachable for viewers of VNC on this machine.
    Vnc {
        name: String,
        /// Where viewers connect to; any free port without it.
        #[arg(long, default_value_t = 0)]
        port: u16,
        /// Let those who look at it already stay; without it each viewer ends the one before.
        #[arg(long)]
        preserve_session: bool,
    },
    /// Make ports of a machine reachable on this one.
    PortForward {
        name: String,
        /// `LOCAL:REMOTE`, `PORT`, or `PROTOCOL/LOCAL:REMOTE`.
        #[arg(required = true)]
        ports: Vec<String>,
    },
    /// A shell in a machine, over SSH.
    Ssh {
        name: String,
        #[arg(value_name = "USER")]
        login: String,
        /// For ssh.
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Keep the disks of a machine as they are.
    Snapshot {
        name: String,
        snapshot: Option<String>,
        /// Keep the memory of a machine that runs too: brought back, it goes on where it was.
        #[arg(long)]
        memory: bool,
    },
    /// Make a machine with the same disks as another, which must not run.
    Clone {
        name: String,
        /// What the copy is called.
        to: String,
        /// The copy is not started.
        #[arg(long)]
        stopped: bool,
        /// The copy holds only what differs: made at once, and the other can neither run nor go
        /// while it is there.
        #[arg(long)]
        linked: bool,
    },
    /// Take a machine away, with its disks.
    #[command(visible_alias = "rm")]
    Delete {
        name: String,
        #[command(flatten)]
        consent: Consent,
    },
    /// Images that machines boot from.
    #[command(subcommand)]
    Image(image::Image),
}

/// Whether it is waited for.
#[derive(Args)]
struct Waiting {
    /// Wait until it runs, and say on stderr what it waits for.
    #[arg(long)]
    wait: bool,

    /// How long is waited with --wait.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    timeout: Duration,
}

impl Waiting {
    /// Waits if that is asked for; with what the second of two Ctrl-C does, and how that is said.
    async fn wait<F>(
        &self,
        cluster: &Cluster,
        (kind, name): (Kind, &str),
        (does, cancel): (&str, impl FnOnce() -> F),
    ) -> Result<ExitCode>
    where
        F: Future<Output = Result<()>>,
    {
        if !self.wait {
            return Ok(ExitCode::SUCCESS);
        }
        let hint = format!("setpoint describe {} {name}", kind.kind.to_lowercase());
        let what = format!("machine {name}");
        let waited = Waited { what: &what, timeout: self.timeout, hint };
        let name = cluster.name(name);
        let look = || async {
            let found = cluster.requests.get(kind, &name).await;
            Ok(found.context("could not ask for the machine")?.map(|found| found.value.clone()))
        };
        tokio::select! {
            ended = until_done(&waited, look) => ended.map(|()| ExitCode::SUCCESS),
            _ = tokio::signal::ctrl_c() => {
                interrupted::leave(&what, "setpoint vm ls");
                if interrupted::comes_again(does).await {
                    cancel().await?;
                }
                Ok(ExitCode::from(exit::INTERRUPTED))
            }
        }
    }
}

impl Vm {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        small_runtime()?.block_on(self.perform(context))
    }

    fn target(&self) -> Target {
        match &self.command {
            Command::Create(_) => self.target.clone().without_user(),
            _ => self.target.clone(),
        }
    }

    async fn perform(&self, context: &Context) -> Result<ExitCode> {
        use serde_json::json;
        let cluster = Cluster::connect(&self.target()).await?;
        match &self.command {
            Command::Create(create) => return create::create(&cluster, create, context).await,
            Command::Ls { watch: true } => {
                return watch(context, || list::list(&cluster)).await;
            }
            Command::Ls { watch: false } => context.output.print(&list::list(&cluster).await?)?,
            Command::Top => top::top(&cluster, context).await?,
            Command::Start { name, paused, waiting } => {
                let done = cluster.ask_machine(name, "start", &json!({"paused": paused})).await?;
                context.output.print(&done)?;
                let stop = || async {
                    let stopped = cluster.ask_machine(name, "stop", &json!({})).await?;
                    Ok(context.output.print(&stopped)?)
                };
                let cancel = ("stops it again", stop);
                return waiting.wait(&cluster, (INSTANCE, &done.name), cancel).await;
            }
            Command::Stop { name, grace_period } => {
                let options = json!({"gracePeriod": grace_period});
                context.output.print(&cluster.ask_machine(name, "stop", &options).await?)?;
            }
            Command::Restart { name, force } => {
                let options = if *force { json!({"gracePeriodSeconds": 0}) } else { json!({}) };
                context.output.print(&cluster.ask_machine(name, "restart", &options).await?)?;
            }
            Command::Pause { name } => {
                context.output.print(&cluster.ask_instance(name, "pause").await?)?;
            }
            Command::Unpause { name } => {
                context.output.print(&cluster.ask_instance(name, "unpause").await?)?;
            }
            Command::Reset { name } => {
                context.output.print(&cluster.ask_instance(name, "reset").await?)?;
            }
            Command::Console { name } => connection::console(&cluster, name).await?,
            Command::Vnc { name, port, preserve_session } => {
                let of = if *preserve_session { "vnc?preserveSession=true" } else { "vnc" };
                connection::screen(&cluster, (name, of, *port), context).await?;
            }
            Command::PortForward { name, ports } => {
                connection::forward(&cluster, name, ports, context).await?;
            }
            Command::Ssh { name, login, arguments } => {
                return connection::ssh(&cluster, name, login, arguments).await;
            }
            Command::Snapshot { name, snapshot, memory } => {
                let order =
                    create::Snapshot { of: name, name: snapshot.as_deref(), memory: *memory };
                create::snapshot(&cluster, order, context).await?;
            }
            Command::Clone { name, to, stopped, linked } => {
                let order = clone::Order { name, to, is_stopped: *stopped, is_linked: *linked };
                clone::clone(&cluster, order, context).await?;
            }
            Command::Delete { name, consent } => {
                consent.ask(&format!("Machine {name} goes, with its disks."), name)?;
                context.output.print(&cluster.delete(name).await?)?;
            }
            Command::Image(image) => return image::perform(&cluster, image, context).await,
        }
        Ok(ExitCode::SUCCESS)
    }
}
