//! Output that has become too large is set aside, and the runtime told to begin a new file.

use std::fs;
use std::path::{Path, PathBuf};

use super::messages::{ContainerRequest, Empty};
use super::{Inner, container};
use crate::runtime::Container;

/// Of one file.
const LOG_BYTES_MAX: u64 = 10 << 20;
/// Files that are kept beside the newest.
const LOGS_ASIDE: u32 = 4;

impl Inner {
    pub async fn set_logs_aside(&self) {
        let running: Vec<(PathBuf, String)> = {
            let held = self.lock();
            let runs = held.pods.values().flat_map(|pod| pod.runs.iter());
            let runs =
                runs.filter(|(_, run)| run.container.as_ref().is_some_and(Container::is_running));
            let of_run = |(id, run): (&crate::runtime::ContainerId, &super::look::Run)| {
                let path = self.logs(&id.pod).join(container::log_path(id));
                (path, run.native.clone())
            };
            runs.map(of_run).collect()
        };
        for (path, container_id) in running {
            let is_large = fs::metadata(&path).is_ok_and(|found| found.len() > LOG_BYTES_MAX);
            if !is_large || set_aside(&path).is_err() {
                continue;
            }
            let request = ContainerRequest { container_id };
            let reopened = self.client.runtime("ReopenContainerLog", request).await;
            if let Err(status) = reopened.map(|Empty {}| ()) {
                tracing::warn!(path = %path.display(), why = status.message(), "not begun anew");
            }
        }
    }
}

/// Sets a file aside under a number; the oldest goes.
fn set_aside(path: &Path) -> std::io::Result<()> {
    let aside = |number: u32| path.with_extension(format!("log.{number}"));
    for number in (1..LOGS_ASIDE).rev() {
        let _ = fs::rename(aside(number), aside(number + 1));
    }
    fs::rename(path, aside(1))
}
