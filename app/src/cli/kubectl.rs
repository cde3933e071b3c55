//! Commands that are not ours: a program `setpoint-NAME` of the user's path, or a verb of kubectl,
//! which is run with the cluster that our own commands would ask.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, anyhow};
use clap::error::ErrorKind;

use super::connect::{Chosen, Target, no_cluster};
use super::exit::{self, Failure};
use super::known;
use super::{Context, definition};
use crate::config::nearest;
use crate::output::Format;

const INSTALL: &str = "https://kubernetes.io/docs/tasks/tools/";
/// What kubectl calls its commands.
pub const VERBS: [&str; 41] = [
    "annotate",
    "api-resources",
    "api-versions",
    "attach",
    "auth",
    "autoscale",
    "certificate",
    "cluster-info",
    "cordon",
    "cp",
    "create",
    "debug",
    "delete",
    "describe",
    "diff",
    "drain",
    "edit",
    "events",
    "exec",
    "explain",
    "expose",
    "get",
    "kustomize",
    "label",
    "logs",
    "patch",
    "plugin",
    "port-forward",
    "proxy",
    "replace",
    "rollout",
    "run",
    "scale",
    "set",
    "taint",
    "top",
    "uncordon",
    "wait",
    "apply",
    "config",
    "options",
];

/// Runs what somebody else has under this name.
pub fn run(words: &[OsString], context: &Context) -> Result<ExitCode> {
    let (verb, rest) = words.split_first().context("a command is missing")?;
    let verb = verb.to_string_lossy();
    if let Some(plugin) = on_path(format!("setpoint-{verb}")) {
        return pass_on(Command::new(plugin).args(rest));
    }
    if !VERBS.contains(&&*verb) {
        return Err(unknown(&verb));
    }
    let kubectl = on_path("kubectl").ok_or_else(|| {
        let what = format!("`{verb}` is a command of kubectl, which is not on PATH");
        let failure = Failure::new(exit::FAILED, what).known(&known::NO_KUBECTL);
        anyhow!(failure.hint(format!("install it: {INSTALL}")))
    })?;
    let mut command = Asked::of(rest).command(&kubectl, &verb)?;
    // What stands before the verb was read by us.
    let format = match context.output.format {
        Format::Text => None,
        Format::Json => Some("json"),
        Format::Yaml => Some("yaml"),
        Format::Wide => Some("wide"),
        Format::Name => Some("name"),
    };
    if let Some(format) = format {
        command.args(["-o", format]);
    }
    pass_on(&mut command)
}

/// Commands that kubectl has under the same name, with more options.
const SHARED: [&str; 5] = ["apply", "diff", "events", "get", "logs"];
/// Options of ours that kubectl could not fulfil.
const OURS: [&str; 3] = ["--at", "--operator", "--file"];

/// Has kubectl do what our command of the same name does not know, such as `get -o jsonpath=...`.
pub fn instead(words: &[OsString], error: &clap::Error) -> Option<ExitCode> {
    let is_unknown = matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::InvalidValue);
    let (verb, rest) = words.get(1..)?.split_first()?;
    let is_ours = |word: &OsString| {
        let word = word.to_string_lossy();
        OURS.iter().any(|option| *word == **option || word.starts_with(&format!("{option}=")))
    };
    let is_shared = SHARED.iter().any(|name| verb == name);
    if !is_unknown || !is_shared || rest.iter().any(is_ours) {
        return None;
    }
    let Some(kubectl) = on_path("kubectl") else {
        let _ = error.print();
        eprintln!("hint: kubectl would be asked to do this; it is not on PATH: {INSTALL}");
        return Some(ExitCode::from(exit::USAGE));
    };
    let run = || {
        let asked = Asked::of(rest);
        pass_on(&mut asked.command(&kubectl, &verb.to_string_lossy())?)
    };
    Some(run().unwrap_or_else(|error| super::failed(&error)))
}

/// Nobody has such a command.
fn unknown(verb: &str) -> anyhow::Error {
    let ours = definition();
    let ours = ours.get_subcommands().filter(|command| !command.is_hide_set());
    let ours: Vec<&str> = ours.map(clap::Command::get_name).collect();
    let all: Vec<&str> = ours.iter().chain(VERBS.iter()).copied().collect();
    let hint = match nearest(verb, &all) {
        Some(word) => format!("did you mean `setpoint {word}`?"),
        None => "see `setpoint --help`".to_owned(),
    };
    let what = format!("there is no command `{verb}`");
    anyhow!(Failure::new(exit::USAGE, what).hint(hint))
}

fn needs_no_cluster(verb: &str) -> bool {
    matches!(verb, "config" | "kustomize" | "options" | "plugin")
}

/// What is for kubectl, and what is for us.
struct Asked {
    target: Target,
    words: Vec<OsString>,
    says_cluster: bool,
}

impl Asked {
    /// Takes `--data-dir DIR` out; the rest is as it was.
    fn of(words: &[OsString]) -> Asked {
        let mut data_dir = None;
        let (mut kept, mut says_cluster) = (Vec::new(), false);
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let text = word.to_string_lossy();
            if text == "--" {
                kept.push(word.clone());
                kept.extend(words.cloned());
                break;
            }
            let is = |flag: &str| text == flag || text.starts_with(&format!("{flag}="));
            says_cluster |= ["--kubeconfig", "--context", "--server", "--cluster", "-s"]
                .iter()
                .any(|flag| is(flag));
            match text.strip_prefix("--data-dir") {
                Some("") => data_dir = words.next().map(PathBuf::from),
                Some(value) if value.starts_with('=') => {
                    data_dir = Some(PathBuf::from(&value[1..]))
                }
                _ => kept.push(word.clone()),
            }
        }
        let target = Target { data_dir, ..Target::default() };
        Asked { target, words: kept, says_cluster }
    }

    /// What kubectl is called with.
    fn command(&self, kubectl: &Path, verb: &str) -> Result<Command> {
        let mut command = Command::new(kubectl);
        command.arg(verb);
        match self.chosen()? {
            Chosen::Local(path) => {
                command.arg("--kubeconfig").arg(path);
            }
            // It says so itself, or finds it as it always does.
            Chosen::File(_) | Chosen::Usual | Chosen::Around => {}
            Chosen::None if needs_no_cluster(verb) => {}
            Chosen::None => return Err(no_cluster()),
        }
        command.args(&self.words);
        Ok(command)
    }

    fn chosen(&self) -> Result<Chosen> {
        match self.says_cluster {
            true => Ok(Chosen::Usual),
            false => self.target.choose(),
        }
    }
}

/// Runs a program in our place: its output is ours, and so is its code.
fn pass_on(command: &mut Command) -> Result<ExitCode> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("could not run {name}"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(exit::FAILED)))
}

/// A program of the user's path.
pub fn on_path(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|directory| directory.join(name.as_ref()));
    found.into_iter().find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_options_are_taken_out_of_what_kubectl_is_given() {
        let asked = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let Asked { target, words, says_cluster } = Asked::of(&words);
            let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
            (target.data_dir.map(|dir| dir.display().to_string()), words.join(" "), says_cluster)
        };
        let data = Some("/d".to_owned());
        assert_eq!(asked("pods --data-dir /d -A"), (data.clone(), "pods -A".to_owned(), false));
        assert_eq!(asked("pods --data-dir=/d"), (data, "pods".to_owned(), false));
        let after = "p -- sh --context x";
        assert_eq!(asked(after), (None, after.to_owned(), false));
        assert!(asked("pods --context=prod").2);
    }

    #[test]
    fn a_slip_is_answered_with_the_word() {
        let hint = |word: &str| exit::hint_of(&unknown(word)).expect("a hint");
        assert_eq!(hint("strat"), "did you mean `setpoint start`?");
        assert_eq!(hint("descibe"), "did you mean `setpoint describe`?");
        assert_eq!(hint("qqqq"), "see `setpoint --help`");
        assert_eq!(exit::code_of(&unknown("strat")), exit::USAGE);
    }
}
