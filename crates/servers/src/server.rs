//! One server process: start it, wait until it answers, stop it, kill it.
//!
//! Knows nothing of what the server is; `mariadb` and `etcd` say that.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::clock::{Look, wait_for};
use crate::error::Error;
use crate::process;

const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// How much of the end of a server's log an error shows.
const LOG_TAIL_LINES: usize = 20;

/// How many errors from before the end it shows too: some programs end with long advice.
const LOG_ERRORS_MAX: usize = 5;

/// How a server is started, every time alike.
pub struct Recipe {
    pub name: &'static str,
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub environment: Vec<(&'static str, &'static str)>,
    /// Variables of our environment that begin so would change the server: they are not handed on.
    pub environment_removed_prefix: &'static str,
    /// Where the server's output goes.
    pub log: PathBuf,
}

/// A server that runs, or that was stopped and can be started again.
pub struct Server {
    recipe: Recipe,
    child: Option<Child>,
}

impl Server {
    /// Starts the server and waits until `answers` says that it does.
    pub fn start(
        recipe: Recipe,
        answers: impl FnMut() -> io::Result<Look<()>>,
    ) -> Result<Server, Error> {
        let mut server = Server { recipe, child: None };
        server.start_again(answers)?;
        Ok(server)
    }

    /// Starts a stopped server; a running one is only waited for.
    pub fn start_again(
        &mut self,
        mut answers: impl FnMut() -> io::Result<Look<()>>,
    ) -> Result<(), Error> {
        let child = match self.child.take() {
            Some(child) => self.child.insert(child),
            None => self.child.insert(spawn(&self.recipe)?),
        };
        let answered = wait_for(START_TIMEOUT, || match child.try_wait() {
            Ok(None) => answers().map_err(|error| format!("it answered wrongly: {error}")),
            Ok(Some(status)) => Err(format!("it ended with {status}")),
            Err(error) => Err(format!("its state is unknown: {error}")),
        });
        let reason = match answered {
            Ok(Some(())) => return Ok(()),
            Ok(None) => format!("no answer within {} s", START_TIMEOUT.as_secs()),
            Err(reason) => reason,
        };
        self.kill()?;
        let log_tail = log_tail(&self.recipe.log);
        Err(Error::DidNotStart { server: self.recipe.name, reason, log_tail })
    }

    /// Asks the server to stop and waits until it has; a stopped server stays stopped.
    pub fn stop(&mut self) -> Result<(), Error> {
        let name = self.recipe.name;
        let Some(child) = &mut self.child else { return Ok(()) };
        process::terminate(child).map_err(Error::io(format!("stop {name}")))?;
        let ended = wait_for(STOP_TIMEOUT, || {
            child.try_wait().map(|status| status.map_or(Look::NotYet, Look::Found))
        });
        let ended: Option<ExitStatus> = ended.map_err(Error::io(format!("wait for {name}")))?;
        if ended.is_none() {
            self.kill()?;
            return Err(Error::DidNotStop { server: name, waited: STOP_TIMEOUT });
        }
        self.child = None;
        Ok(())
    }

    /// Ends the server as a power cut of its process would, and waits until it is gone.
    pub fn kill(&mut self) -> Result<(), Error> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let name = self.recipe.name;
        child.kill().map_err(Error::io(format!("kill {name}")))?;
        child.wait().map_err(Error::io(format!("wait for {name}")))?;
        Ok(())
    }

    /// The id of the server's process, while it runs.
    pub fn process_id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that cannot be killed here dies with the process.
        self.kill().ok();
    }
}

/// Runs a program to its end, with its output in the log.
pub fn run(recipe: &Recipe) -> Result<(), Error> {
    let mut child = spawn(recipe)?;
    let name = recipe.name;
    let status = child.wait().map_err(Error::io(format!("wait for {name}")))?;
    match status.success() {
        true => Ok(()),
        false => Err(Error::DidNotStart {
            server: name,
            reason: format!("it ended with {status}"),
            log_tail: log_tail(&recipe.log),
        }),
    }
}

fn spawn(recipe: &Recipe) -> Result<Child, Error> {
    let doing = || format!("open the log {}", recipe.log.display());
    let log = File::options().create(true).append(true).open(&recipe.log);
    let log = log.map_err(Error::io(doing()))?;
    let log_too = log.try_clone().map_err(Error::io(doing()))?;
    let mut command = Command::new(&recipe.program);
    let prefix = recipe.environment_removed_prefix;
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with(prefix) {
            command.env_remove(&name);
        }
    }
    command.envs(recipe.environment.iter().copied());
    command.args(&recipe.arguments).stdin(Stdio::null()).stdout(log).stderr(log_too);
    process::spawn(command).map_err(Error::io(format!("run {}", recipe.program.display())))
}

fn log_tail(log: &PathBuf) -> String {
    let text = fs::read(log).unwrap_or_default();
    what_matters(&String::from_utf8_lossy(&text))
}

/// The last lines, and before them the first errors that are not among them.
fn what_matters(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let (before, tail) = lines.split_at(lines.len().saturating_sub(LOG_TAIL_LINES));
    let errors = before.iter().filter(|line| line.contains("ERROR")).take(LOG_ERRORS_MAX);
    errors.chain(tail).copied().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_log_the_last_lines_are_shown_and_earlier_errors() {
        assert_eq!(what_matters(""), "");
        assert_eq!(what_matters("a\nb\n"), "a\nb");
        let advice = vec!["advice"; LOG_TAIL_LINES].join("\n");
        let log = format!("start\n1 [ERROR] disk\nwords\n{advice}");
        assert_eq!(what_matters(&log), format!("1 [ERROR] disk\n{advice}"));
    }
}
