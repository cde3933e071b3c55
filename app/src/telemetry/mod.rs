//! The log: what is written, and how. It goes to stderr; results go to stdout.

mod json;

use std::env;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use anyhow::{Context, Result};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::LogLevel;
use crate::kept_lines::Keeper;
use crate::traces::{self, Traces};
use json::Json;

/// The first that is set says what to log.
const VARIABLES: &[&str] = &["SETPOINT_LOG", "RUST_LOG"];
/// Libraries that tell at `debug` what only their authors want to know.
const QUIETER: &str = "h2=info,hyper=info,hyper_util=info,tower=info,mysql_async=info";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Text where people read it: at a terminal and in systemd's journal; else JSON.
    #[default]
    Auto,
    /// For people.
    Text,
    /// For programs: one object per line.
    Json,
}

impl Format {
    /// As it is written on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::Auto => "auto",
            Format::Text => "text",
            Format::Json => "json",
        }
    }

    /// The same, where people read the log whatever it goes to: that of a command which they typed,
    /// and the file that `setpoint up` has written.
    pub fn for_people(self) -> Format {
        match self {
            Format::Auto => Format::Text,
            said => said,
        }
    }

    fn is_json(self) -> bool {
        match self {
            Format::Auto => !io::stderr().is_terminal() && !is_journal(),
            Format::Text => false,
            Format::Json => true,
        }
    }
}

/// Whether stderr is the journal of systemd, which names it by device and inode.
fn is_journal() -> bool {
    let Ok(named) = env::var("JOURNAL_STREAM") else { return false };
    let stderr = io::stderr().as_fd().try_clone_to_owned();
    let found = stderr.and_then(|stderr| File::from(stderr).metadata());
    found.is_ok_and(|found| named == format!("{}:{}", found.dev(), found.ino()))
}

/// Has the log follow another level of the file, where nothing else says what is logged.
type Change = Box<dyn Fn(LogLevel) + Send + Sync>;
static CHANGE: OnceLock<Change> = OnceLock::new();

/// From now on the log has what the file says.
pub fn follow(level: LogLevel) {
    if let Some(change) = CHANGE.get() {
        change(level);
    }
}

pub struct Options {
    /// What the command line says.
    pub said: Option<LogLevel>,
    /// What the configuration says.
    pub level: LogLevel,
    pub format: Format,
    pub keeps: Keeps,
}

/// Whether the last lines of operators are kept for whoever asks this process for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    Lines,
    /// They are in the log alone: that of a pod, or of whoever started the process.
    Nothing,
}

/// Starts the log, and sends spans to whom the environment names; they are sent as long as what is
/// returned lives. A flag wins over the environment, the environment over the file.
pub fn start(options: &Options) -> Result<Option<Traces>> {
    let variable = VARIABLES.iter().find_map(|name| {
        let value = env::var(name).ok().filter(|value| !value.is_empty());
        value.map(|value| (*name, value))
    });
    let filter = || match (options.said, &variable) {
        (Some(level), _) => Ok(EnvFilter::new(directives(level))),
        (None, None) => Ok(EnvFilter::new(directives(options.level))),
        (None, Some((name, value))) => EnvFilter::try_new(value).with_context(|| {
            format!(
                "{name} is {value:?}; write a level such as debug, or parts such as store=debug"
            )
        }),
    };
    let is_plain = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let log = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    // Spans for a collector are no lines of the log, and cost nothing where there is none.
    let no_spans = || format!("{}=off", traces::TARGET).parse();
    let (kept, kept_handle) = reload::Layer::new(filter()?.add_directive(no_spans()?));
    let kept = (options.keeps == Keeps::Lines).then(|| Keeper.with_filter(kept));
    let (filter, handle) = reload::Layer::new(filter()?.add_directive(no_spans()?));
    if options.said.is_none() && variable.is_none() {
        let change: Change = Box::new(move |level| {
            let filter = || EnvFilter::new(format!("{},{}=off", directives(level), traces::TARGET));
            // The log is gone only when the program is.
            let _ = (kept_handle.reload(filter()), handle.reload(filter()));
        });
        let _ = CHANGE.set(change);
    }
    let traces = Traces::from_environment()?;
    let spans = traces.as_ref().map(|traces| {
        let only = Targets::new().with_target(traces::TARGET, tracing::Level::INFO);
        tracing_opentelemetry::layer().with_tracer(traces.tracer()).with_filter(only)
    });
    let registry = tracing_subscriber::registry().with(spans).with(kept);
    match options.format.is_json() {
        true => {
            let log = log.event_format(Json).fmt_fields(JsonFields::new()).with_ansi(false);
            registry.with(log.with_filter(filter)).init();
        }
        false => {
            let log = log.with_target(false).with_ansi(io::stderr().is_terminal() && !is_plain);
            registry.with(log.with_filter(filter)).init();
        }
    }
    Ok(traces)
}

fn directives(level: LogLevel) -> String {
    match level {
        LogLevel::Error => "error".to_owned(),
        LogLevel::Warn => "warn".to_owned(),
        LogLevel::Info => "info".to_owned(),
        LogLevel::Debug => format!("debug,{QUIETER}"),
        LogLevel::Trace => format!("trace,{QUIETER}"),
    }
}
