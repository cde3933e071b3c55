//! The command line: one file per command, and one line per command in the list below.

mod all;
mod apply;
mod blockers;
mod candidates;
mod cluster;
mod completions;
mod config;
mod confirm;
mod connect;
mod controller;
mod demo;
mod diff;
mod docs;
mod doctor;
mod down;
mod errors;
mod events;
mod evidence;
mod exit;
mod export;
mod get;
mod history;
mod image;
mod import;
mod interrupted;
mod keys;
mod known;
mod kubeconfig;
mod kubectl;
mod layout;
mod log_stream;
mod logs;
mod ls;
mod man;
mod manifests;
mod operator;
mod past;
mod paths;
mod plan;
mod readable;
mod removal;
mod runtime;
mod sealed;
mod serve;
mod service;
mod serving;
mod snapshot;
mod spans;
mod start;
mod status;
mod storage;
mod train;
mod ui;
mod undo;
mod uninstall;
mod up;
mod upgrade;
mod verdict;
mod version;
mod vm;
mod wait;
mod warnings;
mod web;
mod why;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::config::LogLevel;
use crate::output::{self, Output};
use crate::telemetry;
use demo::echo;

/// What kubectl calls this program when it is `kubectl setpoint`.
const PLUGIN: &str = "kubectl-setpoint";

/// No help is wider, however wide the terminal is.
const HELP_WIDTH_MAX: usize = 100;

const AFTER_HELP: &str = "\
Examples:
  setpoint demo                    try everything in a temporary cluster
  setpoint up                      start a cluster in the background and wait until it is ready
  setpoint status                  show cluster status
  setpoint doctor                  check this machine and print remedies
  setpoint ui                      open the web console
  setpoint down                    stop the cluster
  setpoint logs POD                show the log of a pod; `logs operators` that of the operators
  setpoint train train.py --watch  run a training job and show its output
  setpoint serve -f graph.yaml --watch   serve models; print the address when they answer
  setpoint vm create NAME --image URL    create a virtual machine; `vm console NAME` connects to it
  setpoint why pod/NAME            explain an object's state and what it is waiting for
  setpoint history pod/NAME        list changes and their authors; `setpoint undo` reverts one
  setpoint start --store memory    run in the foreground, without data on disk
  setpoint operator manifests      print the manifests that install the operators on a cluster
  setpoint describe pod NAME       kubectl's commands, run by kubectl on this cluster

Exit codes: 0 done, 1 failed, 2 usage, 3 timed out, 4 a workload failed, 5 not found,
6 conflict, 7 forbidden, 130 interrupted; `setpoint help exit-codes` says more.
A code behind an error, such as SP1001, has a page: `setpoint help SP1001`.
`setpoint help --all` lists every command with those below it.

Environment:
  SETPOINT_DATA_DIR   the data directory, unless --data-dir is given
  CONFIG_PATH         the configuration file, unless --config is given
  NODE_NAME           the name of this node; the host's name when it is not set
  SETPOINT_RUNTIME    what runs containers, unless --runtime is given
  SETPOINT_LOG        what to log, such as `debug` or `store=trace`; RUST_LOG works as well
  KUBECONFIG          the cluster that is asked when none runs here
  NO_COLOR            when set, nothing is coloured; CLICOLOR_FORCE does the opposite
  HTTPS_PROXY         how other clusters are reached; NO_PROXY names those that need none";

/// Makes the enum of all commands and the function that runs one.
macro_rules! commands {
    ($($module:ident :: $name:ident),+ $(,)?) => {
        #[derive(Subcommand)]
        enum Command {
            $($name($module::$name)),+,
            #[command(external_subcommand)]
            Other(Vec<OsString>),
        }

        impl Command {
            fn run(&self, context: &Context) -> anyhow::Result<ExitCode> {
                match self {
                    $(Command::$name(command) => command.run(context)),+,
                    Command::Other(words) => kubectl::run(words, context),
                }
            }
        }
    };
}

commands! {
    demo::Demo,
    start::Start,
    up::Up,
    down::Down,
    status::Status,
    ui::Ui,
    doctor::Doctor,
    logs::Logs,
    controller::Controller,
    storage::Storage,
    web::Web,
    apply::Apply,
    get::Get,
    plan::Plan,
    why::Why,
    history::History,
    diff::Diff,
    events::Events,
    undo::Undo,
    snapshot::Snapshot,
    export::Export,
    import::Import,
    cluster::Cluster,
    image::Image,
    train::Train,
    serve::Serve,
    vm::Vm,
    operator::Operator,
    ls::Ls,
    paths::Paths,
    config::Config,
    kubeconfig::Kubeconfig,
    keys::Keys,
    service::Service,
    version::Version,
    upgrade::Upgrade,
    uninstall::Uninstall,
    completions::Completions,
    candidates::Candidates,
    man::Man,
    errors::Errors,
    docs::Docs,
    exit::ExitCodes,
    all::HelpAll,
    echo::EchoServer,
}

/// An embedded, Kubernetes-compatible control plane with its operators, in one program.
#[derive(Parser)]
#[command(name = "setpoint", version, after_help = AFTER_HELP)]
#[command(max_term_width = HELP_WIDTH_MAX)]
struct CommandLine {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(Args, Clone)]
#[command(next_help_heading = "Options of every command")]
struct Global {
    /// How results are printed: text, json, yaml, wide or name.
    #[arg(short, long, global = true, value_name = "FORMAT", default_value = "text")]
    #[arg(hide_possible_values = true)]
    output: output::Format,

    /// When there are colours: auto, always or never.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    #[arg(hide_possible_values = true, visible_alias = "colour")]
    color: output::Colour,

    /// Log more to stderr; twice for everything.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,

    /// The same, by a number as kubectl has it: from 4 on more, from 8 on everything.
    #[arg(long = "v", global = true, value_name = "N", hide = true)]
    numbered: Option<u8>,

    /// Only print results and errors.
    #[arg(short, long, global = true, conflicts_with_all = ["verbose", "numbered"])]
    quiet: bool,

    /// How the log is written: auto, text or json; auto is text for people, JSON for programs.
    #[arg(long, global = true, value_name = "FORMAT")]
    #[arg(hide_possible_values = true)]
    log_format: Option<telemetry::Format>,
}

impl Global {
    /// What is logged, where these options say so.
    fn level(&self) -> Option<LogLevel> {
        match (self.quiet, self.verbose, self.numbered) {
            (true, ..) => Some(LogLevel::Error),
            (false, 2.., _) | (false, _, Some(8..)) => Some(LogLevel::Trace),
            (false, 1, _) | (false, _, Some(4..)) => Some(LogLevel::Debug),
            (false, 0, _) => None,
        }
    }
}

/// What a command is given besides its own arguments.
struct Context {
    /// When the program began.
    began: Instant,
    global: Global,
    output: Output,
}

/// Does what the command line says.
pub fn run(began: Instant) -> ExitCode {
    let words = arguments();
    let CommandLine { global, command } = match CommandLine::try_parse_from(&words) {
        Ok(line) => line,
        Err(error) if is_help(&error) => helped(&words, error),
        Err(error) => match kubectl::instead(&words, &error) {
            Some(code) => return code,
            None => error.exit(),
        },
    };
    let output = Output { format: global.output };
    output::choose_colour(global.color);
    if global.quiet {
        output::be_quiet();
    }
    match command.run(&Context { began, global, output }) {
        Ok(code) => code,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn is_help(error: &clap::Error) -> bool {
    use clap::error::ErrorKind;
    let help = [ErrorKind::DisplayHelp, ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand];
    help.contains(&error.kind())
}

/// Prints the help that was asked for, as wide as the terminal, and ends the program.
fn helped(words: &[OsString], error: clap::Error) -> ! {
    let width = output::width(&io::stdout()).unwrap_or(HELP_WIDTH_MAX).min(HELP_WIDTH_MAX);
    let laid_out = layout::lay_out(definition(), width).try_get_matches_from(words);
    laid_out.err().unwrap_or(error).exit()
}

/// Says why something failed and what to do about it; the code that it comes to.
fn failed(error: &anyhow::Error) -> ExitCode {
    match known::of(error) {
        Some(known) => eprintln!("error: {} ({})", output::one_line(error), known.code),
        None => eprintln!("error: {}", output::one_line(error)),
    }
    if let Some(shown) = exit::shown_of(error) {
        eprintln!("{shown}");
    }
    if let Some(hint) = exit::hint_of(error) {
        eprintln!("hint: {hint}");
    }
    ExitCode::from(exit::code_of(error))
}

/// Whether kubectl runs us, as a plugin of its own: then its cluster is meant.
fn is_plugin() -> bool {
    let called = std::env::args_os().next();
    let called = called.as_ref().map(Path::new).and_then(Path::file_name);
    called.is_some_and(|name| name == PLUGIN)
}

/// The command line. A program that is called `controller` is that command, help about the code of
/// an error is the page that it has, and help about all is a list.
fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let called = arguments.first().map(Path::new).and_then(Path::file_name);
    if called.is_some_and(|name| name == controller::NAME) {
        arguments.insert(1, controller::NAME.into());
    }
    let is_code = |word: &OsString| word.to_str().is_some_and(known::is_code);
    if matches!(&arguments[..], [_, help, code, ..] if help == "help" && is_code(code)) {
        arguments[1] = errors::NAME.into();
    }
    if matches!(&arguments[..], [_, help, all, ..] if help == "help" && all == "--all") {
        arguments.splice(1..3, [all::NAME.into()]);
    }
    arguments
}

/// Whether the reader of our output went away, as in `setpoint status | head -1`.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

/// The whole command line, for completions.
fn definition() -> clap::Command {
    CommandLine::command()
}

/// For commands that only ask: everything on one thread.
fn small_runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_well_formed() {
        super::definition().debug_assert();
    }

    /// An argument with the name of an option of all commands would silently be that option too.
    #[test]
    fn arguments_are_not_taken_for_options_of_all_commands() {
        // Of `vm`, which knows.
        const MEANT: [&str; 1] = ["create: user"];
        let mut found = Vec::new();
        clashes(&super::definition(), &[], &mut found);
        found.retain(|clash| !MEANT.contains(&clash.as_str()));
        assert!(found.is_empty(), "{found:?}");
    }

    fn clashes(command: &clap::Command, above: &[&str], found: &mut Vec<String>) {
        let own: Vec<_> = command.get_arguments().collect();
        let taken = own.iter().filter(|one| !one.is_global_set());
        let taken = taken.filter(|one| above.contains(&one.get_id().as_str()));
        found.extend(taken.map(|one| format!("{}: {}", command.get_name(), one.get_id())));
        let global = own.iter().filter(|one| one.is_global_set()).map(|one| one.get_id().as_str());
        let above: Vec<&str> = above.iter().copied().chain(global).collect();
        command.get_subcommands().for_each(|below| clashes(below, &above, found));
    }
}
