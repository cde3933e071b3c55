//! The file of the audit log: a line for every event, written by a thread of its own, so that no
//! request waits for a disk. What the thread cannot keep up with is dropped and counted.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};

use tracing::warn;

/// Events that wait to be written.
const QUEUE_MAX: usize = 8_192;
/// A larger file is set aside as `NAME.1`, in place of the one before it.
const FILE_BYTES_MAX: u64 = 100 << 20;

/// Where events go.
#[derive(Debug)]
pub struct Log {
    queue: SyncSender<Message>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    written: AtomicU64,
    lost: AtomicU64,
}

enum Message {
    Line(String),
    /// Answered when all before it is in the file.
    Flush(SyncSender<()>),
}

/// Writes what the log is given, until the log is gone.
pub struct Writer {
    path: PathBuf,
    file: BufWriter<File>,
    bytes: u64,
    queue: Receiver<Message>,
    counts: Arc<Counts>,
}

/// Opens a log at its end; the writer is to be run on a thread.
pub fn open(path: &Path) -> io::Result<(Log, Writer)> {
    let file = append_to(path)?;
    let bytes = file.metadata()?.len();
    let (sender, queue) = mpsc::sync_channel(QUEUE_MAX);
    let counts = Arc::new(Counts::default());
    let log = Log { queue: sender, counts: counts.clone() };
    let (path, file) = (path.to_owned(), BufWriter::new(file));
    Ok((log, Writer { path, file, bytes, queue, counts }))
}

/// It tells who did what: for its owner only.
fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

impl Log {
    pub fn write(&self, line: String) {
        match self.queue.try_send(Message::Line(line)) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.counts.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    pub fn flush(&self) {
        let (sender, written) = mpsc::sync_channel(1);
        if self.queue.send(Message::Flush(sender)).is_ok() {
            let _ = written.recv();
        }
    }

    pub fn metrics(&self) -> String {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (written, lost) = (count(&self.counts.written), count(&self.counts.lost));
        format!(
            "# HELP apiserver_audit_event_total Events that were written.\n\
             # TYPE apiserver_audit_event_total counter\napiserver_audit_event_total {written}\n\
             # HELP apiserver_audit_error_total Events that could not be written.\n\
             # TYPE apiserver_audit_error_total counter\napiserver_audit_error_total {lost}\n"
        )
    }
}

impl Writer {
    /// Returns when the log is gone.
    pub fn run(mut self) {
        while let Ok(first) = self.queue.recv() {
            let mut next = Some(first);
            while let Some(message) = next {
                self.take(message);
                next = self.queue.try_recv().ok();
            }
            // Nothing waits: whoever reads the file finds all of it.
            self.sync();
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Flush(done) => {
                self.sync();
                let _ = done.send(());
            }
            Message::Line(line) => match self.write(&line) {
                Ok(()) => drop(self.counts.written.fetch_add(1, Ordering::Relaxed)),
                Err(error) => self.lose(&error),
            },
        }
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        if self.bytes >= FILE_BYTES_MAX {
            self.set_aside()?;
        }
        writeln!(self.file, "{line}")?;
        self.bytes += line.len() as u64 + 1;
        Ok(())
    }

    fn set_aside(&mut self) -> io::Result<()> {
        self.file.flush()?;
        let mut aside = self.path.clone().into_os_string();
        aside.push(".1");
        std::fs::rename(&self.path, aside)?;
        self.file = BufWriter::new(append_to(&self.path)?);
        self.bytes = 0;
        Ok(())
    }

    fn sync(&mut self) {
        if let Err(error) = self.file.flush() {
            self.lose(&error);
        }
    }

    /// Said once; the metrics count the rest.
    fn lose(&self, error: &io::Error) {
        if self.counts.lost.fetch_add(1, Ordering::Relaxed) == 0 {
            warn!(%error, file = %self.path.display(), "the audit log cannot be written");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("setpoint-audit-log-{}-{name}", std::process::id()))
    }

    #[test]
    fn lines_are_in_the_file_when_it_is_flushed_and_a_full_one_is_set_aside() {
        let path = path("whole");
        let (log, mut writer) = open(&path).unwrap();
        writer.bytes = FILE_BYTES_MAX - 1;
        let thread = std::thread::spawn(move || writer.run());
        log.write("first".to_owned());
        log.write("second".to_owned());
        log.flush();
        let aside = path.with_file_name(format!(
            "{}.1",
            path.file_name().unwrap_or_default().to_string_lossy()
        ));
        assert_eq!(std::fs::read_to_string(&aside).unwrap(), "first\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "second\n");
        assert!(log.metrics().contains("apiserver_audit_event_total 2\n"));
        drop(log);
        thread.join().unwrap();
        std::fs::remove_file(path).unwrap();
        std::fs::remove_file(aside).unwrap();
    }

    #[test]
    fn what_cannot_wait_is_counted_and_nobody_waits_for_it() {
        let path = path("full");
        let (log, _writer) = open(&path).unwrap();
        for _ in 0..QUEUE_MAX + 3 {
            log.write(String::new());
        }
        assert!(log.metrics().contains("apiserver_audit_error_total 3\n"));
        std::fs::remove_file(path).unwrap();
    }
}
