//! `setpoint up`: the same as `start`, in the background.
//!
//! The log file is locked by whoever starts a program that writes to it, and stays locked while
//! that program runs: of two `up` at once, one starts a program and the other waits for it. So no
//! process that outlives the program may inherit its stdout or stderr.

use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use serde::Serialize;
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::ls;
use super::serving::{self, Serving};
use super::{Context, small_runtime};
use crate::census::Census;
use crate::client;
use crate::config::LogLevel;
use crate::health;
use crate::instance::{self, Instance};
use crate::kubeconfig::{self, Selection};
use crate::log_file;
use crate::output::{self, Marks};
use crate::parts::Part;
use crate::runtimes::PLAIN;
use crate::server::Plan;
use crate::time;

/// How much of the log is looked at, and how many lines of it shown, after a failure.
const LOG_TAIL_BYTES_MAX: u64 = 64 << 10;
const LOG_TAIL_LINES_MAX: usize = 20;
const READY_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(2);

const AFTER_HELP: &str = "\
Examples:
  setpoint up                      start, wait until ready, return
  setpoint up --store mysql        with the server that the configuration names
  setpoint up -o json              tell where it listens, for a script
  kubectl --context setpoint get namespaces

When one already runs on the data directory, that is said and it is left as it is. The context
`setpoint` in your kubeconfig (the first file of $KUBECONFIG, else ~/.kube/config) leads to it, or
`setpoint-NAME` where another data directory has that already; it becomes the current context where
there is none, or with --switch. The rest of that file stays as it was. The log is `setpoint.log` in the data directory.
`setpoint down` stops it.";

/// Start in the background and wait until it is ready.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Up {
    #[command(flatten)]
    serving: Serving,

    /// Leave the user's kubeconfig alone.
    #[arg(long)]
    no_kubeconfig: bool,

    /// Make its context the current one of the kubeconfig, also where another is.
    #[arg(long, conflicts_with = "no_kubeconfig")]
    switch: bool,
}

impl Up {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let plan = self.serving.plan(context)?;
        // The rest is in the log of the program that is started.
        let format = serving::log_format(context, &plan.loaded).for_people();
        let _traces = serving::start_log_as(context, (LogLevel::Warn, format), &plan.loaded)?;
        match small_runtime()?.block_on(self.bring_up(context, &plan))? {
            Outcome::Running(mut report) => {
                ls::remember(&plan.data);
                if !self.no_kubeconfig {
                    report.merge_kubeconfig(context.began, self.selection());
                }
                context.output.print(&*report)?;
                Ok(ExitCode::SUCCESS)
            }
            Outcome::Failed { status, lines } => {
                eprintln!("{lines}");
                let code = status.code().and_then(|code| u8::try_from(code).ok());
                Ok(ExitCode::from(code.filter(|code| *code != 0).unwrap_or(1)))
            }
        }
    }

    fn selection(&self) -> Selection {
        match self.switch {
            true => Selection::Always,
            false => Selection::WhereThereIsNone,
        }
    }

    async fn bring_up(&self, context: &Context, plan: &Plan) -> Result<Outcome> {
        let deadline = Instant::now() + READY_MAX;
        if let Some(instance) = running(&plan.data) {
            return Ok(Outcome::already(plan, instance).await);
        }
        instance::make(&plan.data)?;
        let path = plan.data.join(log_file::NAME);
        let mut log = loop {
            if let Some(log) = lock_log(&path)? {
                break log;
            }
            if let Some(instance) = running(&plan.data) {
                return Ok(Outcome::already(plan, instance).await);
            }
            if Instant::now() > deadline {
                let seconds = READY_MAX.as_secs();
                bail!("another `setpoint up` is not done after {seconds} s; see {}", path.display())
            }
            sleep(POLL).await;
        };
        let start = log.seek(SeekFrom::End(0)).context("could not read the log")?;
        let mut child = self.spawn(context, plan, &log)?;
        loop {
            if let Some(status) = child.try_wait().context("could not wait for the program")? {
                return Ok(Outcome::Failed { status, lines: tail(&mut log, start)? });
            }
            if let Some(instance) = ready(&plan.data, child.id()).await {
                let report = Report::new("started", plan, instance);
                return Ok(Outcome::Running(Box::new(report)));
            }
            if Instant::now() > deadline {
                bail!(
                    "process {} is not ready after {} s; look at {}, or stop it with `kill {}`",
                    child.id(),
                    READY_MAX.as_secs(),
                    path.display(),
                    child.id()
                );
            }
            sleep(POLL).await;
        }
    }

    /// Starts this same program, with the same options, in the foreground of no terminal.
    fn spawn(&self, context: &Context, plan: &Plan, log: &File) -> Result<Child> {
        let program = std::env::current_exe().context("could not find this program's file")?;
        let mut command = Command::new(&program);
        command.args(["start", "--detached"]).arg("--data-dir").arg(&plan.data);
        if let Some(listen) = self.serving.place.listen {
            command.args(["--listen", &listen.to_string()]);
        }
        let format = serving::log_format(context, &plan.loaded).for_people();
        command.args(["--log-format", format.name()]);
        command.args((0..context.global.verbose).map(|_| "--verbose"));
        if let Some(number) = context.global.numbered {
            command.arg(format!("--v={number}"));
        }
        if let Some(file) = &self.serving.place.config {
            command.arg("--config").arg(file);
        }
        if let Some(file) = &plan.kubeconfig_out {
            command.arg("--kubeconfig-out").arg(file);
        }
        let components: Vec<_> = self.serving.components.iter().map(|one| one.name()).collect();
        command.arg("--components").arg(components.join(","));
        if let Some(runtime) = self.serving.runtime.runtime {
            command.args(["--runtime", runtime.name()]);
        }
        if let Some(socket) = &self.serving.runtime.container_runtime_endpoint {
            command.arg("--container-runtime-endpoint").arg(socket);
        }
        if let Some(python) = &self.serving.python {
            command.arg("--python").arg(python);
        }
        if !self.serving.node_resources.text.is_empty() {
            command.args(["--node-resources", &self.serving.node_resources.text]);
        }
        if self.serving.fake_nodes > 0 {
            command.args(["--fake-nodes", &self.serving.fake_nodes.to_string()]);
            command.args(["--fake-node-resources", &self.serving.fake_node_resources.text]);
        }
        if let Some(kind) = self.serving.place.store {
            command.args(["--store", &kind.to_string()]);
        }
        let delay = self.serving.place.shutdown_delay.as_millis();
        command.args(["--shutdown-delay", &format!("{delay}ms")]);
        let log = || log.try_clone().context("could not open the log");
        command.stdin(Stdio::null()).stdout(log()?).stderr(log()?);
        command.spawn().with_context(|| format!("could not start {}", program.display()))
    }
}

enum Outcome {
    Running(Box<Report>),
    Failed { status: ExitStatus, lines: String },
}

impl Outcome {
    async fn already(plan: &Plan, instance: Instance) -> Outcome {
        let mut report = Report::new("already-running", plan, instance);
        let told = client::get(&plan.data, "/statusz").await.ok();
        let told = told.and_then(|(_, body)| serde_json::from_slice::<health::Status>(&body).ok());
        report.census = told.and_then(|told| told.census);
        Outcome::Running(Box::new(report))
    }
}

#[derive(Serialize)]
struct Report {
    state: &'static str,
    url: Option<String>,
    /// Whose context of ours reaches it.
    kubeconfig: PathBuf,
    context: String,
    data_dir: PathBuf,
    log: PathBuf,
    /// What it was doing, where it ran already.
    #[serde(skip_serializing_if = "Option::is_none")]
    census: Option<Census>,
    /// When the kubeconfig was written, from when this command began.
    kubeconfig_micros: Option<u64>,
    /// What kubectl asks when no context is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    current_context: Option<String>,
    #[serde(flatten)]
    instance: Instance,
}

impl Report {
    fn new(state: &'static str, plan: &Plan, instance: Instance) -> Report {
        let data_dir = plan.data.clone();
        Report {
            state,
            url: instance.url(),
            kubeconfig: kubeconfig::in_data(&data_dir),
            context: kubeconfig::CONTEXT.to_owned(),
            log: data_dir.join(log_file::NAME),
            census: None,
            kubeconfig_micros: None,
            current_context: None,
            data_dir,
            instance,
        }
    }

    /// Puts our entry into the user's kubeconfig. It runs also when that is not possible.
    fn merge_kubeconfig(&mut self, began: Instant, selection: Selection) {
        let others = ls::others(&self.data_dir);
        match kubeconfig::merge_into_users(&self.data_dir, &others, selection) {
            Ok(merged) => {
                (self.kubeconfig, self.context) = (merged.path, merged.context);
                self.current_context = merged.current;
                self.kubeconfig_micros = u64::try_from(began.elapsed().as_micros()).ok();
            }
            Err(error) => {
                let (why, ours) = (output::one_line(&error), self.kubeconfig.display());
                warn!("your kubeconfig was left alone: {why}; use `kubectl --kubeconfig {ours}`");
            }
        }
    }

    /// That bare kubectl goes on asking another cluster, where it does.
    fn stays(&self) -> String {
        match self.current_context.as_ref().filter(|current| **current != self.context) {
            Some(current) => {
                format!("; your current context stays {current:?} (--switch changes it)")
            }
            None => String::new(),
        }
    }

    /// What there was when this command was called and one ran already.
    fn say_that_it_runs(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let up = time::elapsed(self.instance.up());
        let pods = self.census.iter().map(|census| format!(", {} pods", census.pods));
        write!(formatter, "already running (up {up}{})", pods.collect::<String>())?;
        if let Some(url) = &self.url {
            write!(formatter, " at {url}")?;
        }
        write!(formatter, "   see `setpoint status`")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.state != "started" {
            return self.say_that_it_runs(formatter);
        }
        let marks = Marks::of_stdout();
        let mut line = |at: Duration, mark: &str, name: &str, detail: &str| {
            let seconds = at.as_secs_f64();
            writeln!(formatter, "{seconds:>6.2}s  {mark} {name:<10} {detail}")
        };
        let Instance { version, parts, ready_millis, pid, config, .. } = &self.instance;
        line(Duration::ZERO, marks.well(), "setpoint", &format!("{version} · {}", machine()))?;
        for part in parts {
            let mark = if part.is_well { marks.well() } else { marks.unwell() };
            line(part.at(), mark, &part.name, &part.detail)?;
        }
        let (context, kubeconfig) = (&self.context, self.kubeconfig.display());
        if let Some(micros) = self.kubeconfig_micros {
            let detail = format!("context {context} in {kubeconfig}{}", self.stays());
            line(Duration::from_micros(micros), marks.well(), "kubeconfig", &detail)?;
        }
        let data = self.data_dir.display();
        writeln!(formatter, "ready in {ready_millis} ms   (process {pid}, data {data}, {config})")?;
        let kubectl = match self.kubeconfig_micros {
            Some(_) => format!("kubectl --context {context}"),
            None => format!("kubectl --kubeconfig {kubeconfig}"),
        };
        let image = image_to_try(parts);
        write!(
            formatter,
            "\nTry:\n  {kubectl} get nodes\n  {kubectl} create job hello --image={image} -- \
             echo hello\n  setpoint logs job/hello\n  setpoint status     setpoint doctor     \
             setpoint down"
        )
    }
}

/// The image of a first job: where pods are processes it is a name and nothing else, and a runtime
/// of containers pulls it.
fn image_to_try(parts: &[Part]) -> &'static str {
    match parts.iter().find(|part| part.name == "runtime") {
        Some(part) if !part.detail.starts_with(PLAIN) => "busybox",
        _ => "none",
    }
}

/// For people: what this machine is.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (system, architecture) = (std::env::consts::OS, node::machine::architecture());
    let memory = node::machine::memory_kibibytes() * 1024 / 1_000_000_000;
    format!("{system}/{architecture} · {cores} cores · {memory} GB")
}

/// What runs. A file that cannot be read counts as none: the started program knows better.
fn running(data: &Path) -> Option<Instance> {
    Instance::running(data).ok().flatten()
}

/// The instance of a process, once it answers.
async fn ready(data: &Path, pid: u32) -> Option<Instance> {
    let instance = running(data).filter(|instance| instance.pid == pid)?;
    let (status, _) = client::get(data, "/readyz").await.ok()?;
    status.is_success().then_some(instance)
}

/// Opens the log to write at its end; `None` while another program has it.
fn lock_log(path: &Path) -> Result<Option<File>> {
    let opening = || format!("could not open the log {}", path.display());
    let log = log_file::open(path).with_context(opening)?;
    match log.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error).with_context(opening),
    }
    if log.metadata().with_context(opening)?.len() <= log_file::BYTES_MAX {
        return Ok(Some(log));
    }
    log_file::set_aside(path).with_context(opening)?;
    // The next round locks the file that takes its place.
    Ok(None)
}

/// The errors a program wrote after a place in its log, or else its last lines.
fn tail(log: &mut File, start: u64) -> Result<String> {
    let end = log.seek(SeekFrom::End(0)).context("could not read the log")?;
    let start = start.max(end.saturating_sub(LOG_TAIL_BYTES_MAX));
    log.seek(SeekFrom::Start(start)).context("could not read the log")?;
    let mut bytes = Vec::new();
    log.read_to_end(&mut bytes)
        .map_err(|error| anyhow!(error).context("could not read the log"))?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    let is_error = |line: &&str| line.starts_with("error:");
    let mut chosen: Vec<&str> = lines.iter().copied().filter(is_error).collect();
    if chosen.is_empty() {
        chosen.push("error: the program ended before it was ready; the end of its log:");
        chosen.extend(&lines[lines.len().saturating_sub(LOG_TAIL_LINES_MAX)..]);
    }
    Ok(chosen.join("\n"))
}
