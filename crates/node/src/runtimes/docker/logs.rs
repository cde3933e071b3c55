//! Keeps the output of Docker's containers in files in the format of CRI, where everything else
//! looks for it. The engine has it too, in a form and for a time of its own; what was written while
//! nobody followed is taken from there. Podman writes such files by itself.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::BytesMut;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use k8s_openapi::jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::client::{Client, Error};
use super::frames::{self, Piece};
use super::tasks;
use crate::runtimes::process::shim::Log;

/// How much of the end of a file is read to find the time of its last line.
const TAIL_BYTES: usize = 64 << 10;
/// A line without an end that grows longer is written in parts.
const LINE_BYTES_MAX: usize = 16 << 10;

/// Whose output it is, and where it goes.
#[derive(Clone, Debug)]
pub struct Followed {
    pub client: Client,
    /// What the engine calls it.
    pub native: String,
    pub path: PathBuf,
    pub is_terminal: bool,
}

/// The output of a container, while it is followed.
pub struct Output {
    task: JoinHandle<()>,
    /// Closed when all that will be written is.
    written: watch::Receiver<()>,
}

impl Output {
    pub fn of(followed: Followed) -> Output {
        let (writing, written) = watch::channel(());
        let task = tasks::spawn(async move {
            follow(followed).await;
            drop(writing);
        });
        Output { task, written }
    }

    /// Returns when all of it is written. Any number may wait.
    pub fn written(&self) -> impl Future<Output = ()> + use<> {
        let mut written = self.written.clone();
        async move {
            let _ = written.changed().await;
        }
    }

    pub fn is_written(&self) -> bool {
        self.written.has_changed().is_err()
    }

    /// Follows it no longer.
    pub fn cut(&self) {
        self.task.abort();
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.cut();
    }
}

/// Writes what comes until the container ends.
async fn follow(followed: Followed) {
    if let Err(error) = try_follow(&followed).await {
        let log = followed.path.display();
        tracing::debug!(%log, error = error.message, "output is not followed");
    }
}

async fn try_follow(followed: &Followed) -> Result<(), Error> {
    let silent = |error: std::io::Error| Error { status: None, message: error.to_string() };
    let last = last_time(&followed.path);
    let since = last.map_or_else(String::new, |last| {
        format!("&since={}.{:09}", last.as_second(), last.subsec_nanosecond())
    });
    let path = format!(
        "/containers/{}/logs?follow=1&stdout=1&stderr=1&timestamps=1{since}",
        followed.native
    );
    let mut answer = followed.client.stream((Method::GET, &path), &[]).await?;
    let mut log = Log::open(followed.path.clone()).map_err(silent)?;
    let mut held = BytesMut::new();
    let mut write = |piece: &Piece| {
        let Some((entry, at)) = entry(piece) else { return };
        // What is there already is told again.
        if last.is_none_or(|last| at > last) {
            // A full disk must not stop the container: what cannot be kept is dropped.
            let _ = log.write(&entry);
        }
    };
    while let Some(data) = next(&mut answer).await {
        held.extend_from_slice(&data);
        match followed.is_terminal {
            true => raw_lines(&mut held).iter().for_each(&mut write),
            false => {
                while let Ok(Some(piece)) = frames::next(&mut held) {
                    write(&piece);
                }
            }
        }
    }
    if followed.is_terminal && !held.is_empty() {
        write(&Piece { is_error: false, bytes: held.to_vec() });
    }
    Ok(())
}

async fn next(answer: &mut Incoming) -> Option<bytes::Bytes> {
    loop {
        let frame = answer.frame().await?.ok()?;
        if let Ok(data) = frame.into_data() {
            return Some(data);
        }
    }
}

/// The lines of a terminal.
fn raw_lines(held: &mut BytesMut) -> Vec<Piece> {
    let mut lines = Vec::new();
    loop {
        let end = held.iter().position(|byte| *byte == b'\n').map(|end| end + 1);
        let end = end.or((held.len() > LINE_BYTES_MAX).then_some(held.len()));
        let Some(end) = end else { return lines };
        lines.push(Piece { is_error: false, bytes: held.split_to(end).to_vec() });
    }
}

/// A line as it is kept, and when it was written.
fn entry(piece: &Piece) -> Option<(Vec<u8>, Timestamp)> {
    let space = piece.bytes.iter().position(|byte| *byte == b' ')?;
    let time = std::str::from_utf8(&piece.bytes[..space]).ok()?;
    let at: Timestamp = time.parse().ok()?;
    let text = &piece.bytes[space + 1..];
    let (text, mark) = match text.strip_suffix(b"\n") {
        Some(text) => (text, "F"),
        None => (text, if text.len() < LINE_BYTES_MAX { "F" } else { "P" }),
    };
    let stream = if piece.is_error { "stderr" } else { "stdout" };
    let mut entry = format!("{time} {stream} {mark} ").into_bytes();
    entry.extend_from_slice(text);
    entry.push(b'\n');
    Some((entry, at))
}

/// When the last line of a file was written.
fn last_time(path: &Path) -> Option<Timestamp> {
    let bytes = fs::read(path).ok()?;
    let tail = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
    let lines = tail.split(|byte| *byte == b'\n').rev();
    lines.filter(|line| !line.is_empty()).find_map(|line| {
        let time = line.split(|byte| *byte == b' ').next()?;
        std::str::from_utf8(time).ok()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_kept_as_cri_has_them() {
        let kept = |is_error: bool, text: &str| {
            let piece = Piece { is_error, bytes: text.as_bytes().to_vec() };
            entry(&piece).map(|(entry, _)| String::from_utf8(entry).unwrap())
        };
        let at = "2026-11-17T00:00:00.000000001Z";
        assert_eq!(kept(false, &format!("{at} a b\n")), Some(format!("{at} stdout F a b\n")));
        assert_eq!(kept(true, &format!("{at} end")), Some(format!("{at} stderr F end\n")));
        let long = "x".repeat(LINE_BYTES_MAX);
        assert_eq!(kept(false, &format!("{at} {long}")), Some(format!("{at} stdout P {long}\n")));
        assert_eq!(kept(false, "no time"), None);
    }
}
