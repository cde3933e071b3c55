//! `setpoint vm`: virtual machines, from the command line.

mod clone;
pub(in crate::cli) mod cluster;
mod connection;
mod create;
mod done;
mod image;
mod list;
mod send;
mod show;
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
use super::evidence::Reader;
use super::verdict::Observation;
use super::wait::{Waited, parse_duration, watch};
use super::{Context, exit, interrupted, small_runtime};
use cluster::Cluster;

/// Suffix of the VirtualMachine of a Wukong.
const MACHINE_SUFFIX: &str = "-vm";

const AFTER_HELP: &str = "\
Examples:
  setpoint vm create web --image URL --size 10Gi --user me --password x
  setpoint vm ls --watch               list machines, again whenever they change
  setpoint vm show web                 state, address, disks and last warnings of a machine
  setpoint vm top                      show resource usage
  setpoint vm console web              connect to the serial console; Ctrl-] leaves
  setpoint vm ssh web me               open a shell over SSH
  setpoint vm port-forward web 8080:80  forward a local port to a machine
  setpoint vm snapshot web before      take a snapshot of the disks
  setpoint vm clone web web-2          copy a stopped machine with its disks
  setpoint vm image add NAME FILE|URL  import an image
  setpoint vm create db --image NAME   create a machine from an imported image

Ctrl-C ends a wait (exit code 130) and the operation continues; a second one within 3 s deletes the
machine or image that `create` or `image add` creates, or stops what `start` starts.";

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
    /// Create a machine.
    Create(create::Create),
    /// List machines.
    #[command(visible_alias = "list")]
    Ls {
        /// Print the list again whenever it changes.
        #[arg(short, long)]
        watch: bool,
    },
    /// Show a machine.
    Show { name: String },
    /// Show resource usage: CPU, memory, disks.
    Top,
    /// Start a machine.
    Start {
        name: String,
        /// Start paused; `unpause` continues it.
        #[arg(long)]
        paused: bool,
        #[command(flatten)]
        waiting: Waiting,
    },
    /// Stop a machine: shut its guest down, and kill it after the grace period.
    Stop {
        name: String,
        /// Grace period of the guest; 0 kills it at once.
        #[arg(long, value_name = "SECONDS")]
        grace_period: Option<u32>,
    },
    /// Restart a machine.
    Restart {
        name: String,
        /// Kill the guest instead of shutting it down.
        #[arg(long)]
        force: bool,
    },
    /// Pause a machine.
    Pause { name: String },
    /// Resume a paused machine.
    Unpause { name: String },
    /// Reset a machine, as its reset button does.
    Reset { name: String },
    /// Connect to the serial console; Ctrl-] leaves.
    Console { name: String },
    /// Forward the screen to a local port for VNC viewers.
    Vnc {
        name: String,
        /// Local port; by default any free one.
        #[arg(long, default_value_t = 0)]
        port: u16,
        /// Keep the current viewer connected; by default a new viewer replaces it.
        #[arg(long)]
        preserve_session: bool,
    },
    /// Forward local ports to a machine.
    PortForward {
        name: String,
        /// `LOCAL:REMOTE`, `PORT`, or `PROTOCOL/LOCAL:REMOTE`.
        #[arg(required = true)]
        ports: Vec<String>,
    },
    /// Open a shell in a machine over SSH.
    Ssh {
        name: String,
        #[arg(value_name = "USER")]
        login: String,
        /// Arguments of ssh.
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Take a snapshot of the disks of a machine.
    Snapshot {
        name: String,
        snapshot: Option<String>,
        /// Include the memory of a running machine; restored, it continues where it was.
        #[arg(long)]
        memory: bool,
    },
    /// Copy a stopped machine with its disks.
    Clone {
        name: String,
        /// Name of the copy.
        to: String,
        /// Do not start the copy.
        #[arg(long)]
        stopped: bool,
        /// Store only the differences: fast, but the original can be neither started nor deleted
        /// while the copy exists.
        #[arg(long)]
        linked: bool,
    },
    /// Delete a machine and its disks.
    #[command(visible_alias = "rm")]
    Delete {
        name: String,
        #[command(flatten)]
        consent: Consent,
    },
    /// Manage images that machines boot from.
    #[command(subcommand)]
    Image(image::Image),
}

/// Options of a wait.
#[derive(Args)]
struct Waiting {
    /// Wait until it runs; print on stderr what it waits for.
    #[arg(long)]
    wait: bool,

    /// Time limit of --wait.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = parse_duration)]
    timeout: Duration,
}

impl Waiting {
    /// Waits until a machine runs, if --wait was given, and prints its state. `cancel` is what a
    /// second Ctrl-C does, with its description.
    async fn wait<F>(
        &self,
        (cluster, context): (&Cluster, &Context),
        (kind, name): (Kind, &str),
        (does, cancel): (&str, impl FnOnce() -> F),
    ) -> Result<ExitCode>
    where
        F: Future<Output = Result<()>>,
    {
        if !self.wait {
            return Ok(ExitCode::SUCCESS);
        }
        let shown = name.strip_suffix(MACHINE_SUFFIX).filter(|_| kind == INSTANCE).unwrap_or(name);
        let hint = format!("setpoint vm show {shown}");
        let what = format!("machine {shown}");
        let reader = Reader { client: &cluster.requests.client, namespace: &cluster.namespace };
        let waited = Waited { what: &what, timeout: self.timeout, hint, reader };
        let full_name = cluster.name(name);
        let observe = || async {
            let found = cluster.requests.get(kind, &full_name).await;
            let found = found.context("could not read the machine")?;
            let object = found.map(|found| found.value.clone()).unwrap_or_default();
            Ok(Observation { object, ..Observation::default() })
        };
        tokio::select! {
            ended = waited.until_ready(observe) => {
                ended?;
                context.output.print(&show::running(cluster, shown).await?)?;
                Ok(ExitCode::SUCCESS)
            }
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
            Command::Show { name } => {
                context.output.print(&show::show(&cluster, name).await?)?;
            }
            Command::Top => top::top(&cluster, context).await?,
            Command::Start { name, paused, waiting } => {
                let done = cluster.ask_machine(name, "start", &json!({"paused": paused})).await?;
                context.output.print(&done)?;
                let stop = || async {
                    let stopped = cluster.ask_machine(name, "stop", &json!({})).await?;
                    Ok(context.output.print(&stopped)?)
                };
                let cancel = ("stops it again", stop);
                return waiting.wait((&cluster, context), (INSTANCE, &done.name), cancel).await;
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
                consent.ask(&format!("This deletes machine {name} and its disks."), name)?;
                context.output.print(&cluster.delete(name).await?)?;
            }
            Command::Image(image) => return image::perform(&cluster, image, context).await,
        }
        Ok(ExitCode::SUCCESS)
    }
}
