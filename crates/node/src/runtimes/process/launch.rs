//! Starting the shim of a run, and giving up on one.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use super::record::{Asked, Place, Started};
use super::{Held, OUTPUT_BYTES_MAX, sandbox, shim, system};

/// A run that is being started. Dropped before it has succeeded, nothing of it is left.
pub struct Attempt {
    held: Arc<Mutex<Held>>,
    place: Place,
    asked: Asked,
    is_settled: bool,
}

impl Attempt {
    pub fn new(held: Arc<Mutex<Held>>, place: Place, asked: Asked) -> Attempt {
        Attempt { held, place, asked, is_settled: false }
    }

    pub fn succeed(mut self) {
        self.is_settled = true;
    }

    /// Ends what there is of it; returns when that is done.
    pub async fn give_up(mut self) {
        self.is_settled = true;
        let (place, asked) = (self.place.clone(), self.asked.clone());
        let _ = tokio::task::spawn_blocking(move || end(&place, &asked)).await;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.is_settled {
            end(&self.place, &self.asked);
        }
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.starting.remove(&self.asked.spec.id);
    }
}

/// With its shim dies the program; its group has what is left.
fn end(place: &Place, asked: &Asked) {
    if let Some(shim) = place.holder() {
        let _ = system::signal(&shim, libc::SIGKILL);
    }
    if let Some(group) = &asked.group {
        group.end();
        group.remove();
    }
    let _ = place.remove();
}

/// Removes a log with what was set aside of it.
pub fn remove_logs(log: &Path) {
    let (Some(folder), Some(name)) = (log.parent(), log.file_name()) else { return };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let found = entry.file_name();
        if found.to_string_lossy().starts_with(&*name.to_string_lossy()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// A shim that was started but has not said that its program runs.
pub struct Began {
    child: Child,
    says: File,
}

pub fn spawn_shim(
    program: &[OsString],
    place: &Place,
    network: Option<PathBuf>,
) -> io::Result<Began> {
    let (first, rest) = program.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(first);
    command.args(rest).env_clear().env(shim::VARIABLE, place.directory());
    command.envs(network.map(|network| (sandbox::VARIABLE, network)));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // Not in our group: what a terminal sends to us is not for containers.
    command.process_group(0).current_dir("/");
    let mut child = command.spawn()?;
    let says = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    Ok(Began { child, says: File::from(std::os::fd::OwnedFd::from(says)) })
}

impl Began {
    /// Returns when the shim has recorded that its program runs, or why not.
    pub async fn wait(self, place: &Place) -> Result<(Child, Started), String> {
        let Began { mut child, says } = self;
        let said = system::read_all(says, OUTPUT_BYTES_MAX).await;
        if let Some(started) = place.started() {
            return Ok((child, started));
        }
        let _ = child.kill();
        let _ = child.wait();
        let said = said.unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let why = said.lines().find_map(|line| Some(line.split_once(shim::REFUSED)?.1));
        Err(why.unwrap_or("its shim ended before it started").to_owned())
    }
}
