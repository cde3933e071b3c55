//! Starting the shim of a run, and giving up on one.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::record::{Asked, Place, Started};
use super::{Held, OUTPUT_BYTES_MAX, shim, system};

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

/// A shim that was asked for but has not said that its program runs.
pub struct Began {
    says: File,
}

impl Began {
    pub fn new(says: OwnedFd) -> Began {
        Began { says: File::from(says) }
    }

    /// Returns when the shim has recorded that its program runs, or why not.
    pub async fn wait(self, place: &Place) -> Result<Started, String> {
        let said = system::read_all(self.says, OUTPUT_BYTES_MAX).await;
        if let Some(started) = place.started() {
            return Ok(started);
        }
        let said = said.unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let why = said.lines().find_map(|line| Some(line.split_once(shim::REFUSED)?.1));
        Err(why.unwrap_or("its shim ended before it started").to_owned())
    }
}
