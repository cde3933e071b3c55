//! The one writer: takes what waits, decides in order, writes one frame, syncs, answers.
//!
//! A batch is whatever arrived during the last sync; there are no timers. Nobody is answered, not
//! even with a conflict, before the state the answer rests on is durable.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{mpsc, oneshot};

use super::keeper::{Done, Job, Keeper};
use super::log::Log;
use super::segment::{FRAME_BYTES_MAX, FrameBuilder, Item};
use super::snapshot::Snapshot;
use crate::record::Record;
use crate::sequence::Sequence;
use crate::state::State;
use crate::{Batch, Commit, Committed, Error, Revision, Timestamp};

/// How many commits may wait.
pub(super) const QUEUE_MAX: usize = 4_096;
/// A batch takes no further commit when its frame has grown past this.
const BATCH_BYTES: usize = 1 << 20;

pub(super) enum Request {
    Commit { commit: Commit, reply: oneshot::Sender<Result<Committed, Error>> },
    Compact { before: Revision, reply: oneshot::Sender<Result<(), Error>> },
    Close { reply: oneshot::Sender<()> },
}

/// Why writes are refused, shared with whoever asks for the store's health.
#[derive(Clone, Default)]
pub(super) struct Stopped(Arc<Mutex<Option<String>>>);

impl Stopped {
    pub fn check(&self) -> Result<(), Error> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some(reason) => Err(Error::Stopped { reason: reason.clone() }),
        }
    }

    fn set(&self, reason: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
    }
}

pub(super) struct Sequencer {
    pub log: Log,
    pub keeper: Keeper,
    pub state: Arc<State>,
    pub sequence: Sequence,
    pub store: u64,
    pub stopped: Stopped,
    /// Log written since the last snapshot.
    pub log_bytes: u64,
    /// The size of the live values, roughly, for deciding when a snapshot pays.
    pub live_bytes: u64,
    pub snapshot_log_bytes_min: u64,
    pub snapshot_under_way: bool,
    pub segment: NextSegment,
    pub frame: FrameBuilder,
    /// The directory is ours until the last write is done, whoever forgets the store meanwhile.
    pub _lock: Box<dyn Send + Sync>,
}

/// The segment after the one being written.
#[derive(Clone, Copy, PartialEq, Default)]
pub(super) enum NextSegment {
    #[default]
    Wanted,
    UnderWay,
    /// It could not be made; a commit that needs it will try again.
    Failed,
}

/// A request that was decided, and waits for the sync.
enum Decided {
    Committed { reply: oneshot::Sender<Result<Committed, Error>>, revision: Revision },
    Refused { reply: oneshot::Sender<Result<Committed, Error>>, error: Error },
    Compacted { reply: oneshot::Sender<Result<(), Error>> },
}

impl Sequencer {
    /// Runs until the store is closed or forgotten.
    pub fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        let mut batch = Vec::new();
        while let Some(first) = requests.blocking_recv() {
            batch.push(first);
            while batch.len() < QUEUE_MAX
                && let Ok(request) = requests.try_recv()
            {
                batch.push(request);
            }
            if let Some(close) = self.serve(&mut batch) {
                requests.close();
                while let Ok(request) = requests.try_recv() {
                    refuse(request);
                }
                // The files are released before the caller goes on.
                drop(self);
                let _ = close.send(());
                return;
            }
        }
    }

    /// Serves requests in order, in as few frames as possible. Answers a request to close.
    pub fn serve(&mut self, requests: &mut Vec<Request>) -> Option<oneshot::Sender<()>> {
        let mut waiting = requests.drain(..).peekable();
        while waiting.peek().is_some() {
            let before = self.sequence.clone();
            let mut decided = Vec::new();
            let mut batches = Vec::new();
            let mut compacted = None;
            self.frame.start();
            while self.frame.length() < BATCH_BYTES
                && let Some(request) = waiting.next()
            {
                match request {
                    Request::Commit { commit, reply } => {
                        decided.push(self.decide(commit, reply, &mut batches));
                    }
                    Request::Compact { before, reply } => {
                        self.frame.push(&Item::Compact(before));
                        compacted = compacted.max(Some(before));
                        decided.push(Decided::Compacted { reply });
                    }
                    Request::Close { reply } => {
                        self.finish(before, decided, batches, compacted);
                        waiting.for_each(refuse);
                        return Some(reply);
                    }
                }
            }
            self.finish(before, decided, batches, compacted);
        }
        None
    }

    fn decide(
        &mut self,
        commit: Commit,
        reply: oneshot::Sender<Result<Committed, Error>>,
        batches: &mut Vec<Arc<Batch>>,
    ) -> Decided {
        if let Err(error) = self.sequence.admit(&commit) {
            return Decided::Refused { reply, error };
        }
        let revision = self.sequence.head.next();
        let item = Item::Commit(Record::of(commit, revision));
        self.frame.push(&item);
        if let Item::Commit(record) = item {
            batches.push(Arc::new(self.sequence.perform(record)));
        }
        Decided::Committed { reply, revision }
    }

    /// Makes what was decided durable, then visible, then known to the callers.
    fn finish(
        &mut self,
        before: Sequence,
        decided: Vec<Decided>,
        batches: Vec<Arc<Batch>>,
        compacted: Option<Revision>,
    ) {
        let first = batches.first().map(|batch| (batch.revision, batch.provenance.time));
        if !self.frame.is_empty()
            && let Err(error) = self.append(first)
        {
            self.sequence = before;
            answer_failure(decided, &error);
            return;
        }
        for batch in &batches {
            self.live_bytes = self.live_bytes.saturating_add_signed(growth(batch));
        }
        if !batches.is_empty() {
            self.state.publish(self.sequence.tree.clone(), batches);
        }
        if let Some(before) = compacted {
            self.state.compact(before);
            self.keeper.submit(Job::CleanUp { compacted: before });
        }
        for decided in decided {
            // A caller that was dropped does not want its answer; the write stays whole.
            match decided {
                Decided::Committed { reply, revision } => {
                    let _ = reply.send(Ok(Committed { revision }));
                }
                Decided::Refused { reply, error } => {
                    let _ = reply.send(Err(error));
                }
                Decided::Compacted { reply } => {
                    let _ = reply.send(Ok(()));
                }
            }
        }
        self.look_ahead();
    }

    fn append(&mut self, first: Option<(Revision, Timestamp)>) -> Result<(), Error> {
        self.stopped.check()?;
        let length = self.frame.length();
        assert!(length <= FRAME_BYTES_MAX, "a frame must fit into a segment");
        self.take_finished();
        while !self.log.has_room(length) && self.segment == NextSegment::UnderWay {
            match self.keeper.wait() {
                Some(done) => self.take(done),
                None => self.segment = NextSegment::Failed,
            }
        }
        self.log.make_room(length)?;
        if self.segment == NextSegment::Failed {
            self.segment = NextSegment::Wanted;
        }
        self.log.write(&mut self.frame)?;
        if let Err(error) = self.log.sync() {
            // What the disk holds now is unknown, and asking again would hide it: the kernel
            // reports a failed write-back once. Only reading the files again can tell.
            let reason = format!("{}; restart setpoint to go on", chain(&error));
            tracing::error!(reason, "the log could not be synced, writes are refused");
            self.stopped.set(reason);
            return Err(Error::unknown("the log could not be synced", error));
        }
        self.log.advance(length, first);
        self.log_bytes += length as u64;
        Ok(())
    }

    /// Starts the slow work that will be needed soon.
    fn look_ahead(&mut self) {
        self.take_finished();
        if self.log.wants_spare() && self.segment == NextSegment::Wanted {
            self.segment = NextSegment::UnderWay;
            self.keeper.submit(Job::Prepare(self.log.next_plan()));
        }
        let due = self.snapshot_log_bytes_min.max(self.live_bytes / 2);
        if self.log_bytes >= due && !self.snapshot_under_way {
            self.snapshot_under_way = true;
            self.log_bytes = 0;
            self.keeper.submit(Job::Snapshot(Snapshot {
                store: self.store,
                compacted: self.state.compacted(),
                sequence: self.sequence.clone(),
            }));
        }
    }

    fn take_finished(&mut self) {
        for done in self.keeper.finished() {
            self.take(done);
        }
    }

    fn take(&mut self, done: Done) {
        match done {
            Done::Prepared(Ok(segment)) => {
                self.segment = NextSegment::Wanted;
                self.log.add_spare(segment);
            }
            Done::Prepared(Err(error)) => {
                self.segment = NextSegment::Failed;
                tracing::warn!(error = %chain(&error), "no next segment yet");
            }
            Done::Snapshot(written) => {
                self.snapshot_under_way = false;
                if let Err(error) = written {
                    tracing::warn!(error = %chain(&error), "no snapshot was written");
                }
            }
        }
    }
}

fn refuse(request: Request) {
    let stopped = || Error::Stopped { reason: "it was closed".into() };
    match request {
        Request::Commit { reply, .. } => drop(reply.send(Err(stopped()))),
        Request::Compact { reply, .. } => drop(reply.send(Err(stopped()))),
        Request::Close { reply } => drop(reply.send(())),
    }
}

fn growth(batch: &Batch) -> i64 {
    let bytes = |entry: &Option<Arc<crate::Entry>>| {
        entry.as_ref().map_or(0, |entry| entry.value.len() as i64)
    };
    batch.changes.iter().map(|change| bytes(&change.entry) - bytes(&change.previous)).sum()
}

fn answer_failure(decided: Vec<Decided>, error: &Error) {
    for decided in decided {
        let error = repeat(error);
        match decided {
            Decided::Committed { reply, .. } | Decided::Refused { reply, .. } => {
                let _ = reply.send(Err(error));
            }
            Decided::Compacted { reply } => {
                let _ = reply.send(Err(error));
            }
        }
    }
}

/// The same failure for each caller of a batch.
fn repeat(error: &Error) -> Error {
    match error {
        Error::Stopped { reason } => Error::Stopped { reason: reason.clone() },
        Error::OutcomeUnknown { .. } => Error::OutcomeUnknown { what: chain(error), source: None },
        _ => Error::Unavailable { what: chain(error), source: None },
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
