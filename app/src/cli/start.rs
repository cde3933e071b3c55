//! `setpoint start`: runs in the foreground.

use std::io;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use tokio::runtime::Runtime;

use super::Context;
use super::serving::{self, Serving};
use crate::server::{self, Plan};
use crate::{allocator, process};

/// Two are enough to serve while one waits for a disk, and cost little when idle.
const WORKERS: usize = 2;

const AFTER_HELP: &str = "\
Examples:
  setpoint start                          state is kept in the data directory
  setpoint start --store memory           nothing is kept
  setpoint start --listen 127.0.0.1:0     on a free port; the line `ready` says which
  setpoint start --config my.yaml -v      with a file of your own, and more in the log

One line on stdout says when it is ready; the log goes to stderr. Ctrl-C or SIGTERM stops it
cleanly with exit code 0; a second one ends it at once.";

/// Run in the foreground until Ctrl-C or SIGTERM.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Start {
    #[command(flatten)]
    serving: Serving,

    /// Leave the terminal's session first, as `up` needs it.
    #[arg(long, hide = true)]
    detached: bool,
}

impl Start {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        if self.detached {
            process::begin_session()?;
        }
        let plan = Plan { is_interactive: self.detached, ..self.serving.plan(context)? };
        // Spans are sent until the end of what follows.
        let _traces = serving::start_log(context, &plan.loaded)?;
        serve(plan)
    }
}

/// For what runs until a signal.
pub fn multi_threaded() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .on_thread_park(allocator::collect_when_idle)
        .enable_all()
        .build()
}

/// Runs what was planned, until a signal.
pub fn serve(plan: Plan) -> Result<ExitCode> {
    let runtime = multi_threaded()?;
    let ended = runtime.block_on(server::run(plan));
    // A blocking call of a library, such as a name that is looked up, must not hold up the end.
    runtime.shutdown_background();
    ended.map(|()| ExitCode::SUCCESS)
}
