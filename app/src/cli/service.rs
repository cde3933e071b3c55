//! `setpoint service`: a unit for systemd, so that a cluster starts with the machine or its user.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use serde::Serialize;

use super::exit;
use super::{Context, kubectl};
use crate::directories;
use crate::listener::USUAL;

const UNIT: &str = "setpoint.service";
/// Beside it, where systemd listens for the program.
const SOCKET: &str = "setpoint.socket";
const SYSTEM_UNITS: &str = "/etc/systemd/system";
/// Where a cluster of the whole machine keeps its data.
const SYSTEM_DATA: &str = "/var/lib/setpoint";

const AFTER_HELP: &str = "\
Examples:
  setpoint service install             for this user; for the machine when you are root
  setpoint service install --print     only show the unit
  setpoint service install --socket    systemd listens, and starts it when somebody connects
  setpoint service status
  setpoint service uninstall           data is kept

Pods and machines go on while the service restarts, as they do with `setpoint down`.";

/// Run as a systemd service.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Service {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Write the unit and start it.
    Install(Install),
    /// Stop it and remove the unit; data is kept.
    Uninstall(Place),
    /// Whether it is installed and runs.
    Status(Place),
}

#[derive(Args)]
struct Install {
    #[command(flatten)]
    place: Place,

    /// Print the unit and change nothing.
    #[arg(long)]
    print: bool,

    /// Write the unit, but do not start it.
    #[arg(long)]
    no_start: bool,

    /// Have systemd listen at 127.0.0.1:6443 and start the program when somebody connects. Who
    /// connects while it starts again waits, and is not refused.
    #[arg(long)]
    socket: bool,

    /// The data directory. Else /var/lib/setpoint for the machine, and the user's own for a user.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    /// The configuration file that it starts with.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Args)]
struct Place {
    /// For this user alone, which is usual for all but root.
    #[arg(long, conflicts_with = "system")]
    user: bool,

    /// For the machine, which is usual for root.
    #[arg(long)]
    system: bool,
}

/// Whose unit it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Machine,
    User,
}

#[derive(Serialize)]
struct Report {
    unit: PathBuf,
    installed: bool,
    /// As systemd calls it; `unknown` where it cannot be asked.
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl Service {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        match &self.action {
            Action::Install(install) => install.run(context),
            Action::Uninstall(place) => uninstall(place.whose(), context),
            Action::Status(place) => {
                let report = Report::of(place.whose(), None)?;
                context.output.print(&report)?;
                Ok(match (report.installed, report.state.as_str()) {
                    (false, _) => ExitCode::from(exit::NOT_FOUND),
                    (true, "active") => ExitCode::SUCCESS,
                    (true, _) => ExitCode::FAILURE,
                })
            }
        }
    }
}

impl Place {
    fn whose(&self) -> Whose {
        match (self.user, self.system) {
            (true, _) => Whose::User,
            (_, true) => Whose::Machine,
            _ if is_root() => Whose::Machine,
            _ => Whose::User,
        }
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|it| std::os::unix::fs::MetadataExt::uid(&it) == 0)
}

impl Install {
    fn run(&self, context: &Context) -> Result<ExitCode> {
        let whose = self.place.whose();
        let data = match (&self.data_dir, whose) {
            (None, Whose::Machine) => PathBuf::from(SYSTEM_DATA),
            (given, _) => directories::data(given.as_deref())?,
        };
        let program = std::env::current_exe().context("could not find this program's file")?;
        let config = self.config.as_deref().map(std::path::absolute).transpose()?;
        let mut text = unit(whose, &program, &data, config.as_deref());
        if self.socket {
            // Started by hand, it is given the same socket.
            let needs = format!("[Unit]\nRequires={SOCKET}\nAfter={SOCKET}\n");
            text = text.replacen("[Unit]\n", &needs, 1);
        }
        let socket = self.socket.then(socket);
        if self.print {
            let unit = path(whose)?;
            let both = [Some(&text), socket.as_ref()].into_iter().flatten();
            let both: Vec<&str> = both.map(|one| one.trim_end()).collect();
            let object = serde_json::json!({"unit": unit, "text": text, "socket": socket});
            context.output.tell(&both.join("\n\n"), &object)?;
            return Ok(ExitCode::SUCCESS);
        }
        let path = path(whose)?;
        let writing = || format!("could not write {}; be root, or say --user", path.display());
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).with_context(writing)?;
        }
        fs::write(&path, text).with_context(writing)?;
        if let Some(socket) = socket {
            fs::write(path.with_file_name(SOCKET), socket).with_context(writing)?;
        }
        let started = if self.socket { SOCKET } else { UNIT };
        let note = match self.no_start {
            true => Some(by_hand(whose, started)),
            false => start(whose, started).err().map(|error| {
                let by_hand = by_hand(whose, started);
                format!("systemd was not asked to start it: {error:#}; {by_hand}")
            }),
        };
        context.output.print(&Report::of(whose, note)?)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn uninstall(whose: Whose, context: &Context) -> Result<ExitCode> {
    let path = path(whose)?;
    if path.exists() {
        let socket = path.with_file_name(SOCKET);
        for (unit, path) in [(SOCKET, &socket), (UNIT, &path)].iter().filter(|it| it.1.exists()) {
            // One that does not run is stopped already.
            let _ = systemctl(whose, &["disable", "--now", unit]);
            let removing = || format!("could not remove {}", path.display());
            fs::remove_file(path).with_context(removing)?;
        }
        let _ = systemctl(whose, &["daemon-reload"]);
    }
    let note = Some("data is kept; see `setpoint paths`".to_owned());
    context.output.print(&Report::of(whose, note)?)?;
    Ok(ExitCode::SUCCESS)
}

impl Report {
    fn of(whose: Whose, note: Option<String>) -> Result<Report> {
        let unit = path(whose)?;
        let state = systemctl(whose, &["is-active", UNIT]);
        let state = state.unwrap_or_else(|_| "unknown".to_owned());
        Ok(Report { installed: unit.exists(), unit, state, note })
    }
}

fn path(whose: Whose) -> Result<PathBuf> {
    Ok(match whose {
        Whose::Machine => Path::new(SYSTEM_UNITS).join(UNIT),
        Whose::User => {
            let ours = directories::config().context("HOME is not set; set XDG_CONFIG_HOME")?;
            ours.with_file_name("systemd").join("user").join(UNIT)
        }
    })
}

fn start(whose: Whose, unit: &str) -> Result<()> {
    systemctl(whose, &["daemon-reload"])?;
    systemctl(whose, &["enable", "--now", unit]).map(drop)
}

fn by_hand(whose: Whose, unit: &str) -> String {
    let user = if whose == Whose::User { " --user" } else { "" };
    format!(
        "start it with `systemctl{user} daemon-reload` and `systemctl{user} enable --now {unit}`"
    )
}

/// The text of the unit that listens.
fn socket() -> String {
    format!(
        "[Unit]\n\
         Description=Where Setpoint is asked\n\n\
         [Socket]\n\
         ListenStream={USUAL}\n\n\
         [Install]\n\
         WantedBy=sockets.target\n"
    )
}

/// What systemctl says. For `is-active`, the word counts and not the code.
fn systemctl(whose: Whose, words: &[&str]) -> Result<String> {
    let program = kubectl::on_path("systemctl").context("systemctl is not on PATH")?;
    let mut command = Command::new(program);
    if whose == Whose::User {
        command.arg("--user");
    }
    let ended = command.args(words).stdin(Stdio::null()).output()?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let said = text(&ended.stdout);
    match ended.status.success() || (words.contains(&"is-active") && !said.is_empty()) {
        true => Ok(said),
        false => anyhow::bail!("{}", text(&ended.stderr)),
    }
}

/// The text of the unit.
fn unit(whose: Whose, program: &Path, data: &Path, config: Option<&Path>) -> String {
    let quoted = |path: &Path| {
        let text = path.display().to_string().replace('%', "%%");
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
    };
    let mut command = format!("{} start --data-dir {}", quoted(program), quoted(data));
    if let Some(config) = config {
        command.push_str(&format!(" --config {}", quoted(config)));
    }
    let wanted = match whose {
        Whose::Machine => "multi-user.target",
        Whose::User => "default.target",
    };
    format!(
        "[Unit]\n\
         Description=Setpoint, an embedded control plane compatible with Kubernetes\n\
         Documentation=man:setpoint(1)\n\
         Wants=network-online.target\n\
         # Those that are there begin first: one of them may have the containers.\n\
         After=network-online.target docker.service podman.socket containerd.service \
         crio.service\n\n\
         [Service]\n\
         # The program says when it is ready.\n\
         Type=notify\n\
         ExecStart={command}\n\
         # What is logged follows the configuration; the rest needs a restart.\n\
         ExecReload=/bin/kill -HUP $MAINPID\n\
         # It says so while it can commit, and is started again when it cannot.\n\
         WatchdogSec=60\n\
         Restart=on-failure\n\
         RestartSec=2\n\
         # Pods and machines outlive the program, and are found again.\n\
         KillMode=process\n\
         # Limits of pods are control groups below this one.\n\
         Delegate=yes\n\
         LimitNOFILE=1048576\n\
         TasksMax=infinity\n\n\
         [Install]\n\
         WantedBy={wanted}\n"
    )
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let installed = if self.installed { "installed" } else { "not installed" };
        write!(formatter, "{installed} ({}), {}", self.unit.display(), self.state)?;
        match &self.note {
            Some(note) => write!(formatter, "\n{note}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_tells_when_it_is_ready_and_leaves_pods_alone() {
        let text = unit(Whose::User, Path::new("/a b/setpoint"), Path::new("/d%1"), None);
        let lines = [
            "Type=notify",
            "KillMode=process",
            "Delegate=yes",
            "WatchdogSec=60",
            "ExecReload=/bin/kill -HUP $MAINPID",
            "WantedBy=default.target",
            "After=network-online.target docker.service podman.socket containerd.service \
             crio.service",
            "ExecStart=\"/a b/setpoint\" start --data-dir \"/d%%1\"",
        ];
        for line in lines {
            assert!(text.lines().any(|one| one == line), "{line}: {text}");
        }
        let machine = unit(Whose::Machine, Path::new("/s"), Path::new("/d"), Some(Path::new("/c")));
        assert!(machine.contains("--config \"/c\"") && machine.contains("multi-user.target"));
    }
}
