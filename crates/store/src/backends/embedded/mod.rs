//! The default backend: our own log in one directory, the state in memory.
//!
//! Read `sequencer.rs` for how a commit becomes durable, `recover.rs` for how a directory is
//! opened, `segment.rs` and `snapshot.rs` for the files. The log is also the history: changes that
//! are too old to be in memory are replayed from it (`replay.rs`).

mod disk;
mod files;
mod keeper;
mod log;
mod recover;
mod replay;
mod segment;
mod sequencer;
#[cfg(feature = "testing")]
pub mod simulated_disk;
mod snapshot;
mod thin;

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

use async_trait::async_trait;
use tokio::sync::{Semaphore, mpsc, oneshot};

pub use disk::{Disk, DiskFile, RealDisk};

use crate::replica::{Backend, Replica};
use crate::state::{Start, State};
use crate::tasks::Tasks;
use crate::{Changes, Commit, Committed, Environment, Error, KeyRange, Retention, Revision, Store};
use crate::{Thinning, Timestamp};
use files::Files;
use keeper::Keeper;
use log::Log;
pub use log::Tuning;
use recover::Recovered;
use segment::FrameBuilder;
use sequencer::{NextSegment, QUEUE_MAX, Request, Sequencer, Stopped};
use thin::{Gate, Rule, Thinned};

/// How many readers of old history may work at once.
const OLDER_READERS_MAX: usize = 2;

/// How to open it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The directory of the store; made when missing. It belongs to the store alone.
    pub directory: PathBuf,
}

/// The format of a store on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    pub found: u32,
    /// The newest that this program reads.
    pub supported: u32,
}

/// The newest format of the files in a directory; `None` where there are none. Nothing is locked or
/// changed, so that it may be asked while the store is in use.
pub fn format_of(directory: &Path) -> io::Result<Option<Format>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    let mut newest = None;
    for entry in entries {
        let entry = entry?;
        if segment::index_of(&entry.file_name().to_string_lossy()).is_none() {
            continue;
        }
        let mut header = Vec::new();
        File::open(entry.path())?.take(segment::HEADER_BYTES).read_to_end(&mut header)?;
        newest = newest.max(segment::format_of(&header));
    }
    Ok(newest.map(|found| Format { found, supported: segment::FORMAT }))
}

/// Opens the store in a directory, on a thread of its own.
pub async fn open(
    settings: &Settings,
    retention: Retention,
    environment: Arc<dyn Environment>,
) -> Result<Arc<dyn Store>, Error> {
    let directory = settings.directory.clone();
    let open = move || {
        let file = directory.display().to_string();
        let failed = |source| Error::Disk { doing: "make the data directory", file, source };
        let disk = RealDisk::open(&directory).map_err(failed)?;
        let tuning = Tuning::for_history(retention.bytes_max);
        Opened::open(Arc::new(disk), retention, environment.clone(), tuning)
            .map(|opened| (opened, environment))
    };
    let (opened, environment) = match tokio::task::spawn_blocking(open).await {
        Ok(opened) => opened?,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    };
    opened.start(retention, environment)
}

/// Opens the store on any disk, doing all work on the caller's task. For simulation.
#[cfg(feature = "testing")]
pub fn open_inline(
    disk: Arc<dyn Disk>,
    retention: Retention,
    environment: Arc<dyn Environment>,
    tuning: Tuning,
) -> Result<Arc<dyn Store>, Error> {
    Inline::open(disk, retention, environment, tuning).map(|inline| inline.store)
}

/// A store whose background work is done when it is asked for. For simulation.
#[cfg(feature = "testing")]
pub struct Inline {
    pub store: Arc<dyn Store>,
    embedded: Arc<Embedded>,
}

#[cfg(feature = "testing")]
impl Inline {
    pub fn open(
        disk: Arc<dyn Disk>,
        retention: Retention,
        environment: Arc<dyn Environment>,
        tuning: Tuning,
    ) -> Result<Inline, Error> {
        let opened = Opened::open(disk, retention, environment, tuning)?;
        let keeper = Keeper::inline(opened.files.clone());
        let parts = opened.parts(keeper);
        let embedded = Arc::new(Embedded {
            writer: Writer::Inline(Box::new(Mutex::new(Some(parts.sequencer)))),
            ..parts.embedded
        });
        Ok(Inline { store: Arc::new(Replica::new(embedded.clone())), embedded })
    }

    /// Thins out the segments that are older than a time; answers how many bytes that freed.
    pub fn thin(&self, thinning: &Thinning, before: Timestamp) -> Result<u64, Error> {
        let Embedded { files, state, thinning: gate, .. } = &*self.embedded;
        let rule = Rule { thinning: *thinning, before, gate };
        thin::thin(files, state, &rule, &mut Thinned::default())
    }
}

/// A directory that was recovered, before anything runs.
struct Opened {
    files: Arc<Files>,
    log: Log,
    recovered: Recovered,
    lock: Box<dyn Send + Sync>,
    retention: Retention,
    tuning: Tuning,
}

/// The writer and the rest of an open store.
struct Parts {
    sequencer: Sequencer,
    embedded: Embedded,
}

impl Opened {
    fn open(
        disk: Arc<dyn Disk>,
        retention: Retention,
        environment: Arc<dyn Environment>,
        tuning: Tuning,
    ) -> Result<Opened, Error> {
        // First of all: what is not ours must not even get a lock file.
        recover::inspect(&*disk)?;
        let directory = disk.path();
        let file = directory.display().to_string();
        let lock = disk.lock().map_err(|source| Error::Disk { doing: "lock", file, source })?;
        let lock = lock.ok_or(Error::Locked { directory })?;
        let mut recovered = recover::recover(&*disk, retention.recent_bytes_max)?;
        let store = recovered.store.unwrap_or_else(|| environment.random());
        let catalog = std::mem::take(&mut recovered.catalog);
        let files = Arc::new(Files::new(disk, store, catalog));
        let log = Log::open(files.clone(), environment, tuning, &mut recovered)?;
        Ok(Opened { files, log, recovered, lock, retention, tuning })
    }

    fn parts(self, keeper: Keeper) -> Parts {
        let Recovered { sequence, compacted, recent, base, replayed_bytes, .. } = self.recovered;
        let tree = sequence.tree.clone();
        let all = KeyRange::all();
        let live_bytes = tree.range(&all).map(|entry| entry.value.len() as u64).sum();
        let start = Start { tree, head: sequence.head, compacted, recent, base };
        let state = Arc::new(State::new(start, self.retention.recent_bytes_max));
        let stopped = Stopped::default();
        let sequencer = Sequencer {
            log: self.log,
            keeper,
            state: state.clone(),
            sequence,
            store: self.files.store,
            stopped: stopped.clone(),
            log_bytes: replayed_bytes,
            live_bytes,
            snapshot_log_bytes_min: self.tuning.snapshot_log_bytes_min,
            snapshot_under_way: false,
            segment: NextSegment::default(),
            frame: FrameBuilder::default(),
            _lock: self.lock,
        };
        let embedded = Embedded {
            state,
            files: self.files,
            stopped,
            writer: Writer::Gone,
            older_readers: Semaphore::new(OLDER_READERS_MAX),
            tasks: Tasks::default(),
            thinning: Gate::default(),
        };
        Parts { sequencer, embedded }
    }

    fn start(
        self,
        retention: Retention,
        environment: Arc<dyn Environment>,
    ) -> Result<Arc<dyn Store>, Error> {
        let keeper = Keeper::start(self.files.clone())?;
        let Parts { sequencer, embedded } = self.parts(keeper);
        let (requests, receiver) = mpsc::channel(QUEUE_MAX);
        let run = move || sequencer.run(receiver);
        let failed =
            |source| Error::Disk { doing: "start", file: "the log's thread".into(), source };
        thread::Builder::new().name("store-log".into()).spawn(run).map_err(failed)?;
        let embedded = Arc::new(Embedded { writer: Writer::Thread(requests), ..embedded });
        let forget = forget_old(Arc::downgrade(&embedded), retention, environment);
        embedded.tasks.spawn("retention", forget);
        Ok(Arc::new(Replica::new(embedded)))
    }
}

struct Embedded {
    state: Arc<State>,
    files: Arc<Files>,
    stopped: Stopped,
    writer: Writer,
    older_readers: Semaphore,
    tasks: Tasks,
    thinning: Gate,
}

enum Writer {
    Gone,
    Thread(mpsc::Sender<Request>),
    #[cfg_attr(not(feature = "testing"), expect(dead_code, reason = "only simulation is inline"))]
    Inline(Box<Mutex<Option<Sequencer>>>),
}

impl Embedded {
    /// Whether history has to go for its size, before it is old.
    fn is_too_much(&self, oldest: Timestamp, bytes_max: u64) -> bool {
        let catalog = self.files.catalog();
        let by_age = catalog.window_start(oldest, u64::MAX);
        catalog.window_start(oldest, bytes_max) > by_age.max(self.state.compacted())
    }

    async fn send(&self, request: Request) -> Result<(), Error> {
        let gone = || Error::Stopped { reason: "it was closed".into() };
        match &self.writer {
            Writer::Gone => Err(gone()),
            Writer::Thread(requests) => requests.send(request).await.map_err(|_| gone()),
            Writer::Inline(sequencer) => {
                let mut sequencer = sequencer.lock().unwrap_or_else(PoisonError::into_inner);
                let close = sequencer.as_mut().ok_or_else(gone)?.serve(&mut vec![request]);
                if let Some(close) = close {
                    *sequencer = None;
                    let _ = close.send(());
                }
                Ok(())
            }
        }
    }
}

#[async_trait]
impl Backend for Embedded {
    fn state(&self) -> &State {
        &self.state
    }

    async fn catch_up(&self) -> Result<(), Error> {
        // This process is the only one, and publishes before it answers.
        Ok(())
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, Error> {
        let (reply, answer) = oneshot::channel();
        self.send(Request::Commit { commit, reply }).await?;
        answer.await.unwrap_or_else(|_| Err(unanswered()))
    }

    async fn compact(&self, before: Revision) -> Result<(), Error> {
        let (reply, answer) = oneshot::channel();
        self.send(Request::Compact { before, reply }).await?;
        answer.await.unwrap_or_else(|_| Err(unanswered()))
    }

    async fn older(
        &self,
        range: &KeyRange,
        after: Revision,
        to: Revision,
    ) -> Result<Changes, Error> {
        let _permit = self.older_readers.acquire().await;
        if matches!(self.writer, Writer::Inline(_)) {
            return replay::older(&self.files, range, after, to);
        }
        let (files, range) = (self.files.clone(), range.clone());
        let read = move || replay::older(&files, &range, after, to);
        match tokio::task::spawn_blocking(read).await {
            Ok(changes) => {
                // A compaction may have removed files that the answer needed.
                let oldest = self.state.compacted();
                if after.next() < oldest {
                    return Err(Error::Compacted { requested: after.next(), oldest });
                }
                changes
            }
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    }

    fn health(&self) -> Result<(), Error> {
        self.stopped.check()
    }

    async fn close(&self) {
        self.tasks.stop().await;
        // A thread may still write a segment; whoever opens the directory next must find it whole.
        let gate = self.thinning.clone();
        let _ = tokio::task::spawn_blocking(move || gate.close()).await;
        let (reply, answer) = oneshot::channel();
        if self.send(Request::Close { reply }).await.is_ok() {
            let _ = answer.await;
        }
    }
}

fn unanswered() -> Error {
    let what = "the log's thread ended before it answered".to_owned();
    Error::OutcomeUnknown { what, source: None }
}

/// Thins out old segments, on a thread where that may take its time.
async fn thin_out(
    embedded: Arc<Embedded>,
    thinning: Thinning,
    before: Timestamp,
    mut thinned: Thinned,
) -> Thinned {
    let work = move || {
        let Embedded { files, state, thinning: gate, .. } = &*embedded;
        match thin::thin(files, state, &Rule { thinning, before, gate }, &mut thinned) {
            Ok(0) => {}
            Ok(bytes) => tracing::debug!(bytes, "thinned out old history"),
            Err(error) => tracing::warn!(%error, "old history could not be thinned out"),
        }
        thinned
    };
    tokio::task::spawn_blocking(work).await.unwrap_or_default()
}

/// Moves the window of history.
async fn forget_old(
    embedded: Weak<Embedded>,
    retention: Retention,
    environment: Arc<dyn Environment>,
) {
    let mut thinned = Thinned::default();
    loop {
        tokio::time::sleep(retention.interval).await;
        let Some(embedded) = embedded.upgrade() else { return };
        if let Some(thinning) = retention.thinning {
            let before = environment.now().minus(thinning.after);
            thinned = thin_out(embedded.clone(), thinning, before, thinned).await;
        }
        let oldest = environment.now().minus(retention.age_max);
        let is_too_much = embedded.is_too_much(oldest, retention.bytes_max);
        if let Some(thinning) = retention.thinning.filter(|_| is_too_much) {
            // Churn goes first, however young: it must not push out what changes rarely.
            let now = environment.now();
            thinned = thin_out(embedded.clone(), thinning, now, thinned).await;
        }
        let by_file = embedded.files.catalog().window_start(oldest, retention.bytes_max);
        let by_time = embedded.state.newest_before(oldest).map_or(Revision::ZERO, Revision::next);
        let before = by_file.max(by_time).min(embedded.state.head());
        if before > embedded.state.compacted()
            && let Err(error) = embedded.compact(before).await
        {
            tracing::warn!(%error, "history could not be compacted; it is tried again");
        }
    }
}
