//! The output of a container, as `kubectl logs` asks for it.
//!
//! Upstream: pkg/kubelet/kuberuntime/logs/logs.go

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use k8s_openapi::jiff::Timestamp;

use super::notify::Watched;
use crate::runtime::{Container, ContainerId, PodRuntime};

/// How much is read at once.
const BLOCK_BYTES: usize = 64 << 10;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The pod's UID.
    pub pod: String,
    pub container: String,
    pub follow: bool,
    /// Of the run before.
    pub previous: bool,
    pub timestamps: bool,
    pub tail_lines: Option<u64>,
    pub limit_bytes: Option<u64>,
    /// Since 1970.
    pub since_microseconds: Option<i64>,
}

/// Why there is no output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The container has not run.
    NotStarted,
    /// There was no run before.
    NoPrevious,
    /// The file cannot be read.
    Unreadable,
}

/// Opens the output of a container.
pub fn open(
    runtime: &Arc<dyn PodRuntime>,
    wanted: &Wanted,
) -> Result<BoxStream<'static, Bytes>, Missing> {
    let runs = runtime.of_pod(&wanted.pod);
    let mut runs: Vec<Container> =
        runs.into_iter().filter(|run| run.id.name == wanted.container).collect();
    let last = runs.pop().ok_or(Missing::NotStarted)?;
    let run = if wanted.previous { runs.pop().ok_or(Missing::NoPrevious)? } else { last };
    let path = runtime.log(&run.id);
    let unreadable = |_: io::Error| Missing::Unreadable;
    let watched = match wanted.follow && run.is_running() {
        true => Some(Watched::new(&path).map_err(unreadable)?),
        false => None,
    };
    let mut file = File::open(&path).map_err(unreadable)?;
    if let Some(lines) = wanted.tail_lines {
        file.seek(SeekFrom::Start(tail(&path, lines).map_err(unreadable)?)).map_err(unreadable)?;
    }
    let reader = Reader {
        runtime: runtime.clone(),
        id: run.id,
        path,
        file,
        watched,
        held: Vec::new(),
        since: wanted.since_microseconds.map(stamp),
        timestamps: wanted.timestamps,
        left: wanted.limit_bytes.unwrap_or(u64::MAX),
    };
    Ok(stream::unfold(reader, Reader::next).boxed())
}

/// Where the last lines begin.
fn tail(path: &Path, lines: u64) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let end = file.metadata()?.len();
    let mut at = end;
    let mut seen = 0;
    let mut block = vec![0; BLOCK_BYTES];
    while at > 0 {
        let size = at.min(BLOCK_BYTES as u64);
        at -= size;
        file.seek(SeekFrom::Start(at))?;
        let block = &mut block[..usize::try_from(size).unwrap_or(BLOCK_BYTES)];
        file.read_exact(block)?;
        for (index, byte) in block.iter().enumerate().rev() {
            let here = at + index as u64;
            // The end of the last line begins no line.
            if *byte == b'\n' && here + 1 < end {
                seen += 1;
                if seen == lines {
                    return Ok(here + 1);
                }
            }
        }
    }
    Ok(if lines == 0 { end } else { 0 })
}

struct Reader {
    runtime: Arc<dyn PodRuntime>,
    id: ContainerId,
    path: PathBuf,
    file: File,
    /// Set while there may be more.
    watched: Option<Watched>,
    /// The beginning of a line whose end is not there yet.
    held: Vec<u8>,
    since: Option<String>,
    timestamps: bool,
    /// Bytes that may still be sent.
    left: u64,
}

impl Reader {
    async fn next(mut self) -> Option<(Bytes, Reader)> {
        let mut block = vec![0; BLOCK_BYTES];
        loop {
            if self.left == 0 {
                return None;
            }
            let count = self.file.read(&mut block).ok()?;
            if count == 0 {
                let watched = self.watched.as_ref()?;
                let is_over = tokio::select! {
                    changed = watched.changed() => changed.is_err(),
                    () = self.runtime.ended(&self.id) => true,
                };
                self.follow_rotation();
                if is_over {
                    self.watched = None;
                }
                continue;
            }
            self.held.extend_from_slice(&block[..count]);
            let text = self.take_lines();
            if !text.is_empty() {
                return Some((Bytes::from(text), self));
            }
        }
    }

    /// Goes on with the file that took the place of this one, if there is one. What was written to
    /// the old one after the last look is read first.
    fn follow_rotation(&mut self) {
        let next = File::open(&self.path).and_then(|next| Ok((next.metadata()?.ino(), next)));
        let Ok((number, next)) = next else { return };
        if self.file.metadata().is_ok_and(|held| held.ino() == number) {
            return;
        }
        let Ok(watched) = Watched::new(&self.path) else { return };
        let mut rest = Vec::new();
        if self.file.read_to_end(&mut rest).is_ok() {
            self.held.extend_from_slice(&rest);
        }
        (self.file, self.watched) = (next, Some(watched));
    }

    /// The whole lines that are held, as they are to be sent.
    fn take_lines(&mut self) -> Vec<u8> {
        let Some(end) = self.held.iter().rposition(|byte| *byte == b'\n') else {
            return Vec::new();
        };
        let rest = self.held.split_off(end + 1);
        let lines = std::mem::replace(&mut self.held, rest);
        let mut text = Vec::new();
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            self.add(line, &mut text);
        }
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        text.truncate(left);
        self.left -= text.len() as u64;
        text
    }

    /// `TIME STREAM TAG TEXT`: a piece of a line (`P`) has no end of its own.
    fn add(&self, line: &[u8], text: &mut Vec<u8>) {
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let (Some(at), Some(_), Some(tag), Some(rest)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return;
        };
        if self.since.as_ref().is_some_and(|since| at < since.as_bytes()) {
            return;
        }
        if self.timestamps {
            text.extend_from_slice(at);
            text.push(b' ');
        }
        let rest = if tag == b"P" { rest.strip_suffix(b"\n").unwrap_or(rest) } else { rest };
        text.extend_from_slice(rest);
    }
}

/// A time as the log has it, so that texts compare as times do.
fn stamp(microseconds: i64) -> String {
    let at = Timestamp::from_microsecond(microseconds).unwrap_or(Timestamp::UNIX_EPOCH);
    at.strftime("%Y-%m-%dT%H:%M:%S.%9fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_found_from_the_end() {
        let path = std::env::temp_dir().join(format!("setpoint-tail-{}", std::process::id()));
        std::fs::write(&path, "one\ntwo\nthree\n").unwrap();
        let from = |lines| tail(&path, lines).unwrap();
        assert_eq!([from(0), from(1), from(2), from(3), from(9)], [14, 8, 4, 0, 0]);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn lines_lose_their_marks_and_pieces_are_joined() {
        let path = std::env::temp_dir().join(format!("setpoint-lines-{}", std::process::id()));
        std::fs::write(&path, "").unwrap();
        let mut reader = Reader {
            runtime: Arc::new(crate::runtimes::fake::Fake::default()),
            id: ContainerId::new("u", "c", 0),
            path: path.clone(),
            file: File::open(&path).unwrap(),
            watched: None,
            held: b"2026-01-01T00:00:01.000000000Z stdout F old\n\
                2026-01-01T00:00:02.000000000Z stdout P be\n\
                2026-01-01T00:00:02.000000000Z stdout F gin\n2026-01-01T00:00:03"
                .to_vec(),
            since: Some("2026-01-01T00:00:02.000000000Z".to_owned()),
            timestamps: false,
            left: 100,
        };
        assert_eq!(reader.take_lines(), b"begin\n");
        assert_eq!(reader.held, b"2026-01-01T00:00:03");
        std::fs::remove_file(&path).unwrap();
    }
}
