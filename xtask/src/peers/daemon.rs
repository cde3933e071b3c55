//! Daemons of peers: started with a log file, waited for, and killed when dropped.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Time between two looks at a condition.
const INTERVAL: Duration = Duration::from_millis(200);
/// Lines of a log that an error shows.
const LOG_LINES_MAX: usize = 40;

/// A running daemon.
pub struct Daemon {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Daemon {
    pub fn start(name: &'static str, mut command: Command, log: PathBuf) -> Result<Daemon> {
        let file = File::create(&log).with_context(|| format!("no log {}", log.display()))?;
        let errors = file.try_clone().context("could not share the log")?;
        command.stdin(Stdio::null()).stdout(file).stderr(errors);
        let child = command.spawn().with_context(|| format!("could not start {name}"))?;
        Ok(Daemon { name, child, log })
    }

    /// Returns the end of the log, for errors.
    pub fn log_tail(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(LOG_LINES_MAX)..];
        format!("log of {}:\n{}", self.name, tail.join("\n"))
    }

    /// Waits until a condition holds. Fails if the daemon ends or the time is over.
    pub fn wait_for(
        &mut self,
        what: &str,
        limit: Duration,
        mut holds: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let found = wait_for(what, limit, || match self.child.try_wait() {
            Ok(None) => holds().map_err(Waiting::Retry),
            ended => bail_now(format!("{} ended: {ended:?}", self.name)),
        });
        found.with_context(|| self.log_tail())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reason why a condition does not hold.
pub enum Waiting {
    Retry(anyhow::Error),
    GiveUp(anyhow::Error),
}

fn bail_now(reason: String) -> Result<(), Waiting> {
    Err(Waiting::GiveUp(anyhow::anyhow!(reason)))
}

/// Waits until a condition holds, and returns its last reason if that takes too long.
pub fn wait_for(
    what: &str,
    limit: Duration,
    mut holds: impl FnMut() -> Result<(), Waiting>,
) -> Result<()> {
    let start = now();
    loop {
        match holds() {
            Ok(()) => return Ok(()),
            Err(Waiting::GiveUp(reason)) => return Err(reason.context(what.to_owned())),
            Err(Waiting::Retry(reason)) if start.elapsed() > limit => {
                bail!("{what}: not within {} s: {reason:#}", limit.as_secs())
            }
            Err(Waiting::Retry(_)) => thread::sleep(INTERVAL),
        }
    }
}

/// Fails until a file, such as a socket, exists.
pub fn check_file(path: &Path) -> Result<()> {
    match path.exists() {
        true => Ok(()),
        false => bail!("{} does not exist", path.display()),
    }
}

/// Returns a loopback port that was free a moment ago.
pub fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port")?;
    Ok(listener.local_addr().context("no address")?.port())
}

#[expect(clippy::disallowed_methods, reason = "peers are processes in real time")]
fn now() -> Instant {
    Instant::now()
}
