//! What a container says when it ends: a file of this machine that it sees at its
//! `terminationMessagePath`, or the end of its output.
//!
//! Upstream: pkg/kubelet/kuberuntime/kuberuntime_container.go (getTerminationMessage)

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::runtime::{ContainerId, Exit, Mount};

const MESSAGE_BYTES_MAX: u64 = 4 << 10;
/// How much of the output stands in for a message.
const LOG_BYTES_MAX: usize = 2 << 10;
const LOG_LINES_MAX: usize = 80;
/// What is read of a log to find that: its lines have marks before them.
const LOG_READ_BYTES_MAX: u64 = 64 << 10;

/// Makes the file for a run, and says where its container is to see it; `None` where a volume of
/// the container is in that place.
pub fn mount(directory: &Path, id: &ContainerId, container: &Value) -> io::Result<Option<Mount>> {
    let Some(target) = container["terminationMessagePath"].as_str().filter(|it| !it.is_empty())
    else {
        return Ok(None);
    };
    let target = Path::new("/").join(target);
    let mut mounts = container["volumeMounts"].as_array().into_iter().flatten();
    let is_taken =
        |mount: &Value| mount["mountPath"].as_str().is_some_and(|it| target == Path::new(it));
    if mounts.any(is_taken) {
        return Ok(None);
    }
    let source = file(directory, id);
    if let Some(folder) = source.parent() {
        fs::create_dir_all(folder)?;
    }
    File::create(&source)?;
    // Whoever the container runs as may write.
    fs::set_permissions(&source, fs::Permissions::from_mode(0o666))?;
    Ok(Some(Mount { source, target, optional: true, ..Mount::default() }))
}

/// Removes the file of a run.
pub fn forget(directory: &Path, id: &ContainerId) {
    let _ = fs::remove_file(file(directory, id));
}

fn file(directory: &Path, id: &ContainerId) -> PathBuf {
    directory.join("termination").join(&id.name).join(id.attempt.to_string())
}

/// What a run that ended had to say.
pub fn read(
    directory: &Path,
    (id, exit): (&ContainerId, &Exit),
    container: &Value,
    log: &Path,
) -> String {
    let mut said = Vec::new();
    if let Ok(file) = File::open(file(directory, id)) {
        let _ = file.take(MESSAGE_BYTES_MAX).read_to_end(&mut said);
    }
    let falls_back = container["terminationMessagePolicy"] == "FallbackToLogsOnError";
    if said.is_empty() && falls_back && exit.code != 0 {
        return tail(log).unwrap_or_default();
    }
    String::from_utf8_lossy(&said).into_owned()
}

/// The last lines of a log, without the marks of CRI.
fn tail(log: &Path) -> io::Result<String> {
    let mut file = File::open(log)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(LOG_READ_BYTES_MAX)))?;
    let mut read = Vec::new();
    file.take(LOG_READ_BYTES_MAX).read_to_end(&mut read)?;
    let text = String::from_utf8_lossy(&read);
    // The first line may be half of one.
    let whole =
        if size > LOG_READ_BYTES_MAX { text.split_once('\n').map_or("", |it| it.1) } else { &text };
    let mut said = String::new();
    for line in whole.lines() {
        let mut parts = line.splitn(4, ' ');
        let (tag, rest) = (parts.nth(2), parts.next());
        said.push_str(rest.unwrap_or_default());
        if tag != Some("P") {
            said.push('\n');
        }
    }
    let lines: Vec<&str> = said.split_inclusive('\n').collect();
    let last = lines[lines.len().saturating_sub(LOG_LINES_MAX)..].concat();
    let mut from = last.len().saturating_sub(LOG_BYTES_MAX);
    while !last.is_char_boundary(from) {
        from += 1;
    }
    Ok(last[from..].to_owned())
}
