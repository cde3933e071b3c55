//! The state of the database in memory: loaded once, then advanced record by record.
//!
//! Nothing is believed that could be a part of the truth: a list counts its rows, a stretch of the
//! log has every revision and every change of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use mysql_async::Row;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::connect::{Result, Session, Sessions, next_row, single, take, unexpected};
use crate::record::{Record, Write};
use crate::sequence::Sequence;
use crate::state::{Start, State};
use crate::tree::Tree;
use crate::{Entry, Error, Key, Provenance, Revision, Timestamp};

/// How much of the log is read at once.
const PAGE_REVISIONS_MAX: u64 = 1_000;
const PAGE_BYTES_MAX: u64 = 16 << 20;
/// An outage shorter than this is not worth refusing commits for: they are tried again meanwhile.
const OUTAGE_GRACE: Duration = Duration::from_secs(5);

/// The columns of a commit's provenance, as [`provenance`] takes them.
pub const PROVENANCE: &str = "c.time, c.actor, c.manager, c.request, c.cause, c.reconcile";

/// How far the database is.
#[derive(Clone, Copy, Debug)]
pub struct Tip {
    pub head: Revision,
    pub compacted: Revision,
    /// History up to here may lack churn.
    pub thinned: Revision,
}

/// The state of the database at one moment.
pub struct Loaded {
    pub tree: Tree,
    pub tip: Tip,
}

/// What the tasks of one open store share.
pub struct Mirror {
    pub sessions: Sessions,
    pub state: State,
    /// Whoever advances the state holds it; what it holds is what the state shows.
    pub sequence: tokio::sync::Mutex<Sequence>,
    /// Wakes the follower.
    pub poke: Notify,
    /// How many read barriers were asked for, and up to which they are answered.
    pub asked: AtomicU64,
    pub answered: watch::Sender<u64>,
    /// Wakes the cleaner.
    pub clean: Notify,
    /// How many compacted revisions are still in the tables.
    lag: AtomicU64,
    outage: Mutex<Option<Outage>>,
    stopping: watch::Sender<bool>,
}

struct Outage {
    since: Instant,
    what: String,
}

impl Mirror {
    pub fn new(sessions: Sessions, loaded: Loaded, recent_bytes_max: u64) -> Mirror {
        let Loaded { tree, tip } = loaded;
        let sequence = Sequence { tree: tree.clone(), head: tip.head, ..Sequence::default() };
        let start = Start {
            tree,
            head: tip.head,
            compacted: tip.compacted,
            recent: Vec::new(),
            base: tip.head,
        };
        Mirror {
            sessions,
            state: State::new(start, recent_bytes_max),
            sequence: tokio::sync::Mutex::new(sequence),
            poke: Notify::new(),
            asked: AtomicU64::new(0),
            answered: watch::Sender::new(0),
            clean: Notify::new(),
            lag: AtomicU64::new(0),
            outage: Mutex::new(None),
            stopping: watch::Sender::new(false),
        }
    }

    /// Brings the state to where the database is, or was when `tip` was read.
    pub async fn reach(&self, session: &mut Session, tip: Tip) -> Result<()> {
        let mut sequence = self.sequence.lock().await;
        self.advance(&mut sequence, session, tip).await?;
        self.state.compact(tip.compacted);
        self.state.forget_thinned(tip.thinned);
        Ok(())
    }

    /// As [`Mirror::reach`], for the holder of the sequence.
    pub async fn advance(
        &self,
        sequence: &mut Sequence,
        session: &mut Session,
        tip: Tip,
    ) -> Result<()> {
        while sequence.head < tip.head {
            if tip.compacted > sequence.head.next() {
                // What lies between was forgotten before we read it.
                let loaded = load(session).await?;
                sequence.tree = loaded.tree;
                sequence.head = loaded.tip.head;
                self.state.reset(sequence.tree.clone(), sequence.head);
                continue;
            }
            let records = fetch(session, sequence.head, tip.head).await?;
            self.show(sequence, records);
        }
        Ok(())
    }

    /// Performs records and makes them visible. Those that are visible already are left out.
    pub fn show(&self, sequence: &mut Sequence, records: Vec<Record>) {
        let mut batches = Vec::with_capacity(records.len());
        for record in records {
            if record.revision > sequence.head {
                batches.push(Arc::new(sequence.perform(record)));
            }
        }
        if !batches.is_empty() {
            self.state.publish(sequence.tree.clone(), batches);
        }
    }

    pub fn health(&self) -> std::result::Result<(), Error> {
        match &*self.outage() {
            Some(outage) if outage.since.elapsed() > OUTAGE_GRACE => Err(Error::Unavailable {
                what: format!("{} cannot be reached: {}", self.sessions.server.name, outage.what),
                source: None,
            }),
            _ => Ok(()),
        }
    }

    /// Notes that the server was reached, or that it was not. Says whether that is news.
    pub fn note(&self, reached: std::result::Result<(), &mysql_async::Error>) -> bool {
        let mut outage = self.outage();
        let was_out = outage.is_some();
        match reached {
            Ok(()) => *outage = None,
            Err(error) => {
                let since = outage.as_ref().map_or_else(Instant::now, |outage| outage.since);
                *outage = Some(Outage { since, what: error.to_string() });
            }
        }
        was_out != outage.is_some()
    }

    /// How many compacted revisions are still in the tables.
    pub fn compaction_lag(&self) -> u64 {
        self.lag.load(Ordering::Relaxed)
    }

    pub fn set_compaction_lag(&self, revisions: u64) {
        self.lag.store(revisions, Ordering::Relaxed);
    }

    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Returns when the store is being closed.
    pub async fn stopped(&self) {
        // The sender is ours, so the wait ends only for its reason.
        let _ = self.stopping.subscribe().wait_for(|stopping| *stopping).await;
    }

    // A panic while the lock is held leaves a whole value.
    fn outage(&self) -> MutexGuard<'_, Option<Outage>> {
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub fn closed() -> Error {
    Error::Stopped { reason: "it was closed".into() }
}

pub async fn read_tip(session: &mut Session) -> Result<Tip> {
    let statement = "SELECT head, compacted, thinned FROM setpoint_revision WHERE id = 1";
    tip_of(single(session.rows(statement).await?)?)
}

fn tip_of(mut row: Row) -> Result<Tip> {
    let mut revision = |column| take(&mut row, column).map(Revision);
    Ok(Tip { head: revision(0)?, compacted: revision(1)?, thinned: revision(2)? })
}

/// Reads the whole state as of one moment.
pub async fn load(session: &mut Session) -> Result<Loaded> {
    let begin = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; \
                 START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY; \
                 SELECT head, compacted, thinned FROM setpoint_revision WHERE id = 1; \
                 SELECT COUNT(*) FROM setpoint_current";
    let mut sets = session.sets(begin.into(), 4).await?;
    let count: usize = take(&mut single(sets.pop().unwrap_or_default())?, 0)?;
    let tip = tip_of(single(sets.pop().unwrap_or_default())?)?;
    // The first table decides the order, so that the server need not sort.
    let statement = "SELECT c.name, c.created, c.modified, l.value \
         FROM setpoint_current c FORCE INDEX (PRIMARY) STRAIGHT_JOIN setpoint_log l \
         ON l.revision = c.modified AND l.position = c.position ORDER BY c.name";
    let mut entries = Vec::with_capacity(count);
    let mut result = session.stream(statement).await?;
    while let Some(mut row) = next_row(&mut result).await? {
        let key = take_key(&mut row, 0)?;
        let (created, modified) = (Revision(take(&mut row, 1)?), Revision(take(&mut row, 2)?));
        let value = Bytes::from(take::<Vec<u8>>(&mut row, 3)?);
        entries.push(Arc::new(Entry::new(key, value, created, modified)));
    }
    drop(result);
    session.run("COMMIT").await?;
    if entries.len() != count {
        return Err(unexpected(format!("{} of {count} keys have a value", entries.len())));
    }
    Ok(Loaded { tree: Tree::from_sorted(entries), tip })
}

/// Reads the log after one revision, up to another or to the end of a page.
async fn fetch(session: &mut Session, after: Revision, head: Revision) -> Result<Vec<Record>> {
    let first = after.next();
    let mut last = head.min(Revision(after.0 + PAGE_REVISIONS_MAX));
    if last > first {
        // As many as fit in a page, and at least one.
        let size = format!(
            "SELECT MAX(n.revision) FROM setpoint_commit f JOIN setpoint_commit n \
             ON n.revision >= f.revision AND n.total <= f.total - f.bytes + {PAGE_BYTES_MAX} \
             WHERE f.revision = {first} AND n.revision <= {last}"
        );
        let fits: Option<u64> = take(&mut single(session.rows(size).await?)?, 0)?;
        last = fits.map_or(first, Revision).max(first);
    }
    let page = format!(
        "SELECT c.revision, l.position, l.name, l.value, c.changes, {PROVENANCE} \
         FROM setpoint_commit c FORCE INDEX (PRIMARY) LEFT JOIN setpoint_log l \
         ON l.revision = c.revision WHERE c.revision >= {first} AND c.revision <= {last} \
         ORDER BY c.revision, l.position"
    );
    let mut stretch = Stretch::after(after);
    let mut result = session.stream(page).await?;
    while let Some(row) = next_row(&mut result).await? {
        stretch.push(row)?;
    }
    stretch.end(last)
}

/// Records put together from the rows of the log, with nothing missing but churn that has gone.
struct Stretch {
    records: Vec<Record>,
    newest: Revision,
    /// How many rows of the newest record are still to come.
    missing: u32,
    /// The position of its last row.
    position: Option<u32>,
}

impl Stretch {
    fn after(newest: Revision) -> Stretch {
        Stretch { records: Vec::new(), newest, missing: 0, position: None }
    }

    fn push(&mut self, mut row: Row) -> Result<()> {
        let revision = Revision(take(&mut row, 0)?);
        let position: Option<u32> = take(&mut row, 1)?;
        if self.missing == 0 {
            if revision != self.newest.next() {
                return Err(gap(self.newest.next()));
            }
            self.newest = revision;
            self.missing = take(&mut row, 4)?;
            self.position = None;
            let provenance = provenance(&mut row, 5)?;
            self.records.push(Record { revision, provenance, epoch: None, writes: Vec::new() });
        }
        let newest = self.records.last_mut().filter(|record| record.revision == revision);
        let Some(record) = newest.filter(|_| position > self.position || position.is_none()) else {
            return Err(gap(self.newest));
        };
        if position.is_none() {
            // Of a commit of which no change is left there is the commit alone.
            return if self.missing == 0 { Ok(()) } else { Err(gap(revision)) };
        }
        self.position = position;
        let key = take_key(&mut row, 2)?;
        let value: Option<Vec<u8>> = take(&mut row, 3)?;
        record.writes.push(Write { key, value: value.map(Bytes::from) });
        self.missing = self.missing.checked_sub(1).ok_or_else(|| gap(revision))?;
        Ok(())
    }

    fn end(self, last: Revision) -> Result<Vec<Record>> {
        if self.missing > 0 {
            return Err(gap(self.newest));
        }
        if self.newest != last {
            return Err(gap(self.newest.next()));
        }
        Ok(self.records)
    }
}

fn gap(revision: Revision) -> mysql_async::Error {
    unexpected(format!("the log lacks a part of revision {revision}"))
}

/// The columns of [`PROVENANCE`], from one on.
pub fn provenance(row: &mut Row, from: usize) -> Result<Arc<Provenance>> {
    Ok(Arc::new(Provenance {
        time: Timestamp(take(row, from)?),
        actor: take_text(row, from + 1)?,
        manager: take_text(row, from + 2)?,
        request: take_text(row, from + 3)?,
        cause: take::<Option<u64>>(row, from + 4)?.map(Revision),
        reconcile: take_text(row, from + 5)?,
    }))
}

pub fn take_key(row: &mut Row, column: usize) -> Result<Key> {
    let text: String = take(row, column)?;
    Key::new(text).map_err(|error| unexpected(error.to_string()))
}

pub fn take_text(row: &mut Row, column: usize) -> Result<Arc<str>> {
    Ok(take::<String>(row, column)?.into())
}
