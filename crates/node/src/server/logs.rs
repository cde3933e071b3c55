//! The output of a container, as `kubectl logs` asks for it.
//!
//! It is in up to five files: the newest, and those that were set aside when it became too large,
//! `0.log.1` to `0.log.4`. A reader holds the files it has not read yet, so that they stay when
//! they are set aside or removed.
//!
//! Upstream: pkg/kubelet/kuberuntime/logs/logs.go

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use k8s_openapi::jiff::Timestamp;
use link::{LogRequest, Missing};

use super::notify::Watched;
use crate::runtime::{Container, ContainerId, PodRuntime};

/// How much is read at once.
const BLOCK_BYTES: usize = 64 << 10;
/// More files are never kept aside.
const ASIDE_MAX: u32 = 16;
/// The time, the stream and the mark before the text of an entry are shorter.
const HEAD_BYTES_MAX: usize = 64;

/// Opens the output of a container.
pub fn open(
    runtime: &Arc<dyn PodRuntime>,
    wanted: &LogRequest,
) -> Result<BoxStream<'static, Bytes>, Missing> {
    let runs = runtime.of_pod(&wanted.pod);
    let mut runs: Vec<Container> =
        runs.into_iter().filter(|run| run.id.name == wanted.container).collect();
    let last = runs.pop().ok_or(Missing::NotStarted)?;
    let run = if wanted.previous { runs.pop().ok_or(Missing::NoPrevious)? } else { last };
    let path = runtime.log(&run.id);
    let unreadable = |_: io::Error| Missing::Unreadable;
    // Watched before it is read: what happens meanwhile is told.
    let watched = match (wanted.follow && run.is_running(), path.parent()) {
        (true, Some(folder)) => Some(Watched::new(folder).map_err(unreadable)?),
        _ => None,
    };
    let mut files = files(&path, None);
    if files.is_empty() {
        return Err(Missing::Unreadable);
    }
    if let Some(lines) = wanted.tail_lines {
        skip_to_tail(&mut files, lines).map_err(unreadable)?;
    }
    let reader = Reader {
        runtime: runtime.clone(),
        id: run.id,
        path,
        files: files.into(),
        is_whole: false,
        watched,
        held: Vec::new(),
        is_within_line: false,
        since: wanted.since.map(time),
        timestamps: wanted.timestamps,
        left: wanted.limit_bytes.unwrap_or(u64::MAX),
    };
    Ok(stream::unfold(reader, Reader::next).boxed())
}

/// The files of a log, the oldest first; only those that are newer than a file, if one is given.
///
/// Files move from each name to the next while this looks in the same direction, so one may be met
/// twice but none is missed.
fn files(path: &Path, after: Option<&File>) -> Vec<File> {
    let number = |file: &File| file.metadata().ok().map(|data| (data.dev(), data.ino()));
    let after = after.and_then(number);
    let names = (1..=ASIDE_MAX).map(|aside| path.with_extension(format!("log.{aside}")));
    let mut found: Vec<File> = Vec::new();
    for name in std::iter::once(path.to_owned()).chain(names) {
        let Ok(file) = File::open(name) else {
            // The newest is missing for a moment while it is replaced.
            if found.is_empty() && after.is_some() { continue } else { break }
        };
        if after.is_some() && number(&file) == after {
            break;
        }
        if found.last().is_none_or(|last| number(last) != number(&file)) {
            found.push(file);
        }
    }
    found.reverse();
    found
}

/// Leaves out what is before the last lines.
fn skip_to_tail(files: &mut Vec<File>, lines: u64) -> io::Result<()> {
    // A last line without an end is a piece that no entry completes.
    let mut seen = u64::from(ends_within_line(files)?);
    for index in (0..files.len()).rev() {
        if let Some(from) = tail(&files[index], lines, &mut seen)? {
            files.drain(..index);
            files[0].seek(SeekFrom::Start(from))?;
            return Ok(());
        }
    }
    Ok(())
}

/// Returns whether the last entry of a log is a piece of a line.
fn ends_within_line(files: &[File]) -> io::Result<bool> {
    let Some(file) = files.iter().rev().find(|file| file.metadata().is_ok_and(|it| it.len() > 0))
    else {
        return Ok(false);
    };
    let end = file.metadata()?.len();
    let from = end.saturating_sub(BLOCK_BYTES as u64);
    let mut block = vec![0; usize::try_from(end - from).unwrap_or(BLOCK_BYTES)];
    file.read_exact_at(&mut block, from)?;
    let last = block.strip_suffix(b"\n").unwrap_or(&block);
    let last = last.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(last.split(|byte| *byte == b' ').nth(2) == Some(b"P"))
}

/// Where the last lines begin, if they begin in this file; `seen` is how many newer files have.
fn tail(file: &File, lines: u64, seen: &mut u64) -> io::Result<Option<u64>> {
    let end = file.metadata()?.len();
    // The end of the entry that is looked at, whose beginning is looked for.
    let mut after = end;
    let mut at = end;
    let mut block = vec![0; BLOCK_BYTES];
    while at > 0 {
        let size = at.min(BLOCK_BYTES as u64);
        at -= size;
        let block = &mut block[..usize::try_from(size).unwrap_or(BLOCK_BYTES)];
        file.read_exact_at(block, at)?;
        for index in (0..block.len()).rev().filter(|index| block[*index] == b'\n') {
            let begin = at + index as u64 + 1;
            if begin < after && counts(file, begin, lines, seen)? {
                return Ok(Some(after));
            }
            after = begin;
        }
    }
    if after > 0 && counts(file, 0, lines, seen)? {
        return Ok(Some(after));
    }
    Ok(None)
}

/// Counts the entry that begins here if it ends a line; true if it is one too many.
fn counts(file: &File, begin: u64, lines: u64, seen: &mut u64) -> io::Result<bool> {
    let mut head = [0; HEAD_BYTES_MAX];
    let count = file.read_at(&mut head, begin)?;
    let tag = head[..count].split(|byte| *byte == b' ').nth(2);
    // A piece belongs to the line that ends after it.
    *seen += u64::from(tag != Some(b"P"));
    Ok(*seen > lines)
}

struct Reader {
    runtime: Arc<dyn PodRuntime>,
    id: ContainerId,
    path: PathBuf,
    /// Those that are not read yet; the last was the newest when it was looked for.
    files: VecDeque<File>,
    /// Whether the last of them was found to be set aside, so that nothing is added to it.
    is_whole: bool,
    /// Set while there may be more.
    watched: Option<Watched>,
    /// The beginning of an entry whose end is not there yet.
    held: Vec<u8>,
    /// Whether the last entry was a piece of a line.
    is_within_line: bool,
    since: Option<Timestamp>,
    timestamps: bool,
    /// Bytes that may still be sent.
    left: u64,
}

impl Reader {
    async fn next(mut self) -> Option<(Bytes, Reader)> {
        let mut block = vec![0; BLOCK_BYTES];
        while self.left > 0 {
            let count = self.files.front_mut()?.read(&mut block).ok()?;
            if count > 0 {
                self.held.extend_from_slice(&block[..count]);
                let text = self.take_lines();
                if !text.is_empty() {
                    return Some((Bytes::from(text), self));
                }
                continue;
            }
            if self.files.len() > 1 {
                self.files.pop_front();
                self.held.clear();
            } else if !self.find_newer() {
                let watched = self.watched.as_ref()?;
                let is_over = tokio::select! {
                    changed = watched.changed() => changed.is_err(),
                    () = self.runtime.ended(&self.id) => true,
                };
                if is_over {
                    self.watched = None;
                }
            }
        }
        None
    }

    /// Looks for files that came after the last one. That one may have been added to between its
    /// last read and when it was set aside, so it is read once more before they are.
    fn find_newer(&mut self) -> bool {
        let newer = files(&self.path, self.files.back());
        if newer.is_empty() {
            return false;
        }
        if self.is_whole {
            self.files.extend(newer);
        }
        self.is_whole = !self.is_whole;
        true
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
    fn add(&mut self, line: &[u8], text: &mut Vec<u8>) {
        let mut parts = line.splitn(4, |byte| *byte == b' ');
        let (Some(at), Some(_), Some(tag), Some(rest)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return;
        };
        // Engines write the time of their own zone: texts do not compare as times do.
        let is_before = |since: Timestamp| {
            let at = str::from_utf8(at).ok().and_then(|at| at.parse::<Timestamp>().ok());
            at.is_some_and(|at| at < since)
        };
        if self.since.is_some_and(is_before) {
            return;
        }
        if self.timestamps && !self.is_within_line {
            text.extend_from_slice(at);
            text.push(b' ');
        }
        self.is_within_line = tag == b"P";
        let rest = match self.is_within_line {
            true => rest.strip_suffix(b"\n").unwrap_or(rest),
            false => rest,
        };
        text.extend_from_slice(rest);
    }
}

fn time(microseconds: i64) -> Timestamp {
    Timestamp::from_microsecond(microseconds).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::runtimes::fake::Fake;

    struct Log(PathBuf);

    impl Log {
        fn new(name: &str) -> Log {
            let name = format!("setpoint-log-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&folder).unwrap();
            Log(folder.join("0.log"))
        }

        fn aside(&self, number: u32) -> PathBuf {
            self.0.with_extension(format!("log.{number}"))
        }

        fn write(&self, text: &str) {
            let mut file = File::options().create(true).append(true).open(&self.0).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }

        fn rotate(&self) {
            for number in (1..4).rev() {
                let _ = std::fs::rename(self.aside(number), self.aside(number + 1));
            }
            std::fs::rename(&self.0, self.aside(1)).unwrap();
            self.write("");
        }

        fn reader(&self, wanted: &LogRequest) -> Reader {
            let mut files = files(&self.0, None);
            if let Some(lines) = wanted.tail_lines {
                skip_to_tail(&mut files, lines).unwrap();
            }
            Reader {
                runtime: Arc::new(Fake::default()),
                id: ContainerId::new("u", "c", 0),
                path: self.0.clone(),
                files: files.into(),
                is_whole: false,
                watched: None,
                held: Vec::new(),
                is_within_line: false,
                since: wanted.since.map(time),
                timestamps: wanted.timestamps,
                left: wanted.limit_bytes.unwrap_or(u64::MAX),
            }
        }

        async fn read(&self, wanted: &LogRequest) -> String {
            let mut whole = Vec::new();
            let mut reader = Some(self.reader(wanted));
            while let Some((piece, rest)) = reader.take().expect("it goes on").next().await {
                whole.extend_from_slice(&piece);
                reader = Some(rest);
            }
            String::from_utf8(whole).unwrap()
        }
    }

    impl Drop for Log {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(self.0.parent().unwrap());
        }
    }

    fn entry(second: u32, tag: &str, text: &str) -> String {
        format!("2026-01-01T00:00:{second:02}.000000000Z stdout {tag} {text}\n")
    }

    fn filled(name: &str) -> Log {
        let log = Log::new(name);
        log.write(&entry(1, "F", "one"));
        log.write(&entry(2, "P", "tw"));
        log.rotate();
        log.write(&entry(2, "F", "o"));
        log.write(&entry(3, "F", "three"));
        log.rotate();
        log.write(&entry(4, "F", "four"));
        log
    }

    #[tokio::test]
    async fn a_log_is_read_from_its_oldest_file_on() {
        let log = filled("oldest");
        assert_eq!(log.read(&LogRequest::default()).await, "one\ntwo\nthree\nfour\n");
        let bounded = LogRequest { limit_bytes: Some(6), ..LogRequest::default() };
        assert_eq!(log.read(&bounded).await, "one\ntw");
        let late = LogRequest { since: Some(1_767_225_603_000_000), ..LogRequest::default() };
        assert_eq!(log.read(&late).await, "three\nfour\n");
        log.write("2026-01-01T02:00:02.5+02:00 stdout F early\n");
        log.write("2025-12-31T22:00:05-02:00 stdout F five\n");
        assert_eq!(log.read(&late).await, "three\nfour\nfive\n");
    }

    #[tokio::test]
    async fn a_line_in_pieces_is_one_line_with_one_time() {
        let log = filled("pieces");
        let wanted = LogRequest { timestamps: true, tail_lines: Some(3), ..LogRequest::default() };
        let expected = "2026-01-01T00:00:02.000000000Z two\n\
            2026-01-01T00:00:03.000000000Z three\n2026-01-01T00:00:04.000000000Z four\n";
        assert_eq!(log.read(&wanted).await, expected);
    }

    #[tokio::test]
    async fn the_last_lines_are_found_from_the_end_whatever_file_they_are_in() {
        let log = filled("tail");
        for (lines, expected) in [
            (0, ""),
            (1, "four\n"),
            (2, "three\nfour\n"),
            (3, "two\nthree\nfour\n"),
            (4, "one\ntwo\nthree\nfour\n"),
            (9, "one\ntwo\nthree\nfour\n"),
        ] {
            let wanted = LogRequest { tail_lines: Some(lines), ..LogRequest::default() };
            assert_eq!(log.read(&wanted).await, expected, "{lines}");
        }
    }

    #[tokio::test]
    async fn a_last_line_without_an_end_counts_as_a_line() {
        let log = filled("unfinished");
        log.write(&entry(5, "P", "fi"));
        log.write(&entry(5, "P", "ve"));
        for (lines, expected) in [(1, "five"), (2, "four\nfive"), (3, "three\nfour\nfive")] {
            let wanted = LogRequest { tail_lines: Some(lines), ..LogRequest::default() };
            assert_eq!(log.read(&wanted).await, expected, "{lines}");
        }
    }

    #[tokio::test]
    async fn nothing_is_lost_or_told_twice_when_files_are_set_aside_while_they_are_read() {
        let log = filled("moves");
        let mut reader = log.reader(&LogRequest::default());
        let (mut whole, mut number) = (Vec::new(), 5);
        while let Some((piece, rest)) = reader.next().await {
            whole.extend_from_slice(&piece);
            reader = rest;
            if number < 20 && reader.files.len() == 1 {
                // More than one at a time, and with something in the old file after its last read.
                log.write(&entry(number, "F", &number.to_string()));
                log.rotate();
                log.write(&entry(number + 1, "F", &(number + 1).to_string()));
                log.rotate();
                number += 2;
            }
        }
        let expected: String = (5..number).map(|number| format!("{number}\n")).collect();
        let expected = format!("one\ntwo\nthree\nfour\n{expected}");
        assert_eq!(String::from_utf8(whole).unwrap(), expected);
    }
}
