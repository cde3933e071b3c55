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
    let mut writer = Writer {
        log: Log::open(followed.path.clone()).map_err(silent)?,
        position: Position::of_file(&followed.path),
        is_terminal: followed.is_terminal,
    };
    let held = writer.copy(followed, Reading::Follow).await?;
    // The engine may end the stream before it has sent a last line without a newline.
    if let Err(error) = writer.copy(followed, Reading::Rest).await {
        writer.write_unfinished(&held);
        return Err(error);
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// Waits for more until the container ends.
    Follow,
    /// Reads the output that the engine has by now.
    Rest,
}

/// Place in the output of a container up to which it is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Position {
    /// Time of the last entry.
    at: Option<Timestamp>,
    /// Entries of that time: pieces of a long line have the same.
    count: usize,
}

impl Position {
    /// Position of the last entry of a log file.
    fn of_file(path: &Path) -> Position {
        let bytes = fs::read(path).unwrap_or_default();
        let tail = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
        let time = |line: &[u8]| -> Option<Timestamp> {
            let time = line.split(|byte| *byte == b' ').next()?;
            std::str::from_utf8(time).ok()?.parse().ok()
        };
        let mut times = tail.split(|byte| *byte == b'\n').rev().filter_map(time).peekable();
        let at = times.peek().copied();
        Position { at, count: times.take_while(|time| Some(*time) == at).count() }
    }

    /// The query parameter for entries from here on.
    fn since(&self) -> String {
        self.at.map_or_else(String::new, |at| {
            format!("&since={}.{:09}", at.as_second(), at.subsec_nanosecond())
        })
    }

    fn advance(&mut self, at: Timestamp) {
        match self.at == Some(at) {
            true => self.count += 1,
            false => *self = Position { at: Some(at), count: 1 },
        }
    }
}

/// Writes the entries of a container's output that are not written yet.
struct Writer {
    log: Log,
    position: Position,
    is_terminal: bool,
}

impl Writer {
    /// Copies output until the stream ends. Returns what is left of a terminal's last line, which
    /// only `Reading::Rest` writes.
    async fn copy(&mut self, followed: &Followed, reading: Reading) -> Result<BytesMut, Error> {
        let path = format!(
            "/containers/{}/logs?follow={}&stdout=1&stderr=1&timestamps=1{}",
            followed.native,
            u8::from(reading == Reading::Follow),
            self.position.since()
        );
        let mut answer = followed.client.stream((Method::GET, &path), &[]).await?;
        let mut held = BytesMut::new();
        // Entries from the position on are sent again.
        let mut known = self.position;
        while let Some(data) = next(&mut answer).await {
            held.extend_from_slice(&data);
            match self.is_terminal {
                true => raw_lines(&mut held).iter().for_each(|line| self.write(line, &mut known)),
                false => {
                    while let Ok(Some(piece)) = frames::next(&mut held) {
                        self.write(&piece, &mut known);
                    }
                }
            }
        }
        if reading == Reading::Rest && self.is_terminal && !held.is_empty() {
            self.write(&Piece { is_error: false, bytes: held.to_vec() }, &mut known);
        }
        Ok(held)
    }

    fn write(&mut self, piece: &Piece, known: &mut Position) {
        let Some((entry, at)) = entry(piece) else { return };
        if known.at.is_some_and(|known| at < known) {
            return;
        }
        if known.at == Some(at) && known.count > 0 {
            known.count -= 1;
            return;
        }
        self.position.advance(at);
        // A full disk must not stop the container: what cannot be kept is dropped.
        let _ = self.log.write(&entry);
    }

    fn write_unfinished(&mut self, held: &[u8]) {
        if self.is_terminal {
            let mut known = self.position;
            self.write(&Piece { is_error: false, bytes: held.to_vec() }, &mut known);
        }
    }
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
    // A last line without a newline is a piece of one, as CRI has it.
    let (text, mark) = match text.strip_suffix(b"\n") {
        Some(text) => (text, "F"),
        None => (text, "P"),
    };
    let stream = if piece.is_error { "stderr" } else { "stdout" };
    let mut entry = format!("{time} {stream} {mark} ").into_bytes();
    entry.extend_from_slice(text);
    entry.push(b'\n');
    Some((entry, at))
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
        assert_eq!(kept(true, &format!("{at} end")), Some(format!("{at} stderr P end\n")));
        let long = "x".repeat(LINE_BYTES_MAX);
        assert_eq!(kept(false, &format!("{at} {long}")), Some(format!("{at} stdout P {long}\n")));
        assert_eq!(kept(false, "no time"), None);
    }

    #[test]
    fn entries_are_written_once_although_they_are_sent_again() {
        let directory = crate::runtimes::process::tests::directory("docker-position");
        fs::create_dir_all(&directory.0).unwrap();
        let path = directory.0.join("0.log");
        let at = |second: u8| format!("2026-11-17T00:00:0{second}.000000001Z");
        let line = |second: u8, text: &str| Piece {
            is_error: false,
            bytes: format!("{} {text}", at(second)).into_bytes(),
        };
        let send = |pieces: &[Piece]| {
            let position = Position::of_file(&path);
            let log = Log::open(path.clone()).unwrap();
            let mut writer = Writer { log, position, is_terminal: false };
            let mut known = position;
            pieces.iter().for_each(|piece| writer.write(piece, &mut known));
            writer.position
        };
        send(&[line(1, "one\n"), line(2, "tw")]);
        assert_eq!(Position::of_file(&path).count, 1);
        // Pieces of one line have its time; the last is new.
        let position = send(&[line(1, "one\n"), line(2, "tw"), line(2, "o\n"), line(3, "end")]);
        assert_eq!(position, Position::of_file(&path));
        send(&[line(3, "end")]);
        let [one, two, three] = [1, 2, 3].map(at);
        let expected = format!(
            "{one} stdout F one\n{two} stdout P tw\n{two} stdout F o\n{three} stdout P end\n"
        );
        assert_eq!(fs::read_to_string(&path).unwrap(), expected);
    }
}
