//! A commit: one transaction that compares every key and writes all of them, or nothing.
//!
//! Beside the entries it writes the head, a log entry under a name of its own, and the epoch when
//! that rises. The log entry's name must be free: so a commit happens at most once, and one whose
//! answer was lost can be found, or prevented for good (`outcome.rs`).

use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use tokio::time::Instant;
use tonic::Status;

use crate::{Commit, Committed, Entry, Error, Key, Mutation, Precondition, Revision};

use super::Shared;
use super::draft::{self, Draft};
use super::failure;
use super::freshness;
use super::messages::*;
use super::mirror::{self, revision};
use super::outcome::{self, Settled};

/// The largest transaction. etcd refuses requests over 1.5 MiB by default, with a frame of its own
/// that holds the name of the user.
pub const REQUEST_BYTES_MAX: usize = 1_536 * 1_024 - 1_024;

/// How often a commit is tried that did not happen.
const ATTEMPTS_MAX: usize = 4;
/// How long a server is looked for.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// How long parts of a log entry may be tried to be put aside, and reads before a commit.
const PREPARE_DEADLINE: Duration = Duration::from_secs(5);
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// How an attempt ended.
enum Attempt {
    Committed(Revision),
    Refused(Error),
    /// The epoch is another than was thought, but not newer than the commit's.
    EpochMoved(Option<u64>),
    NotDone(Status),
    Unknown(Status),
}

/// What etcd holds now of what a commit names.
#[derive(Debug, Default, PartialEq)]
pub struct Current {
    /// For each operation; without values unless they were asked for.
    pub entries: Vec<Option<Entry>>,
    pub epoch: Option<u64>,
}

/// Commits, however often it has to be tried.
pub async fn commit(shared: &Shared, commit: Commit) -> Result<Committed, Error> {
    let revision = attempts(shared, &commit).await?;
    freshness::show_committed(shared, revision).await;
    Ok(Committed { revision })
}

async fn attempts(shared: &Shared, commit: &Commit) -> Result<Revision, Error> {
    let connect_deadline = Instant::now() + CONNECT_DEADLINE;
    let mut epoch = commit.epoch.as_ref().and_then(|epoch| {
        let known = shared.known();
        known.epochs.0.get(&epoch.group).copied()
    });
    let mut tried = 0;
    loop {
        let previous = previous(shared, commit, &mut epoch).await?;
        let draft = draft::draft(shared, commit, epoch, previous)?;
        draft::put_aside(shared, &draft, Instant::now() + PREPARE_DEADLINE).await?;
        let unsent;
        match attempt(shared, commit, &draft).await {
            Attempt::Committed(revision) => return Ok(revision),
            Attempt::Unknown(status) => {
                return Err(Error::unknown("etcd did not answer, nor could it be asked", status));
            }
            Attempt::Refused(error) => {
                draft::clean_up(shared, &draft).await;
                return Err(error);
            }
            Attempt::EpochMoved(current) => {
                epoch = current;
                unsent = None;
            }
            Attempt::NotDone(status) => unsent = Some(status),
        }
        draft::clean_up(shared, &draft).await;
        // Nothing was sent while no server could be reached: that may go on for longer.
        let waits = unsent.as_ref().is_some_and(failure::is_unsent);
        tried += usize::from(!waits);
        let Some(status) = unsent else {
            if tried < ATTEMPTS_MAX {
                continue;
            }
            let what = "the epoch changes all the time".to_owned();
            return Err(Error::Unavailable { what, source: None });
        };
        let hopeless = failure::is_out_of_space(&status) || tried >= ATTEMPTS_MAX;
        if hopeless || Instant::now() > connect_deadline {
            return Err(failure::unavailable(&shared.client, "commit to", status));
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

async fn attempt(shared: &Shared, commit: &Commit, draft: &Draft) -> Attempt {
    let answer = match shared.client.txn(draft.request.clone()).await {
        Ok(answer) => answer,
        Err(status) if failure::is_unsent(&status) => return Attempt::NotDone(status),
        Err(status) if failure::is_refused(&status) => {
            let bytes = draft.request.encoded_len();
            return Attempt::Refused(failure::refused(&shared.client, bytes, status));
        }
        Err(status) => {
            return match outcome::settle(shared, draft.id, &status).await {
                Settled::Committed(revision) => Attempt::Committed(revision),
                Settled::Never => Attempt::NotDone(status),
                Settled::Unknown => Attempt::Unknown(status),
            };
        }
    };
    if answer.succeeded {
        return Attempt::Committed(revision(answer.revision()));
    }
    let ranges: Vec<RangeResponse> = match draft.request.failure.is_empty() {
        false => answer.ranges().collect(),
        true => {
            let deadline = Instant::now() + PREPARE_DEADLINE;
            let reads = draft::reads(&shared.layout, commit, Some(draft.id));
            match read(shared, reads, deadline).await {
                Ok(ranges) => ranges,
                Err(status) => return Attempt::NotDone(status),
            }
        }
    };
    // The name of the log entry can only be taken by this very commit, sent twice on its way.
    if let Some(logged) = ranges.last().and_then(|range| range.kvs.first()) {
        return Attempt::Committed(revision(logged.mod_revision));
    }
    let current = current(commit, &ranges);
    match judge(commit, &current) {
        Err(error) => Attempt::Refused(error),
        Ok(()) => Attempt::EpochMoved(current.epoch),
    }
}

/// What the written keys hold now, for the log. The mirror knows it, unless the commit expects
/// another revision than the mirror shows: then etcd tells, and whether there is a conflict.
async fn previous(
    shared: &Shared,
    commit: &Commit,
    epoch: &mut Option<u64>,
) -> Result<Vec<Option<Arc<Entry>>>, Error> {
    let fenced = commit.epoch.as_ref().is_some_and(|own| epoch.is_some_and(|e| e > own.number));
    let view = shared.state.live();
    let mut known = Vec::with_capacity(commit.operations.len());
    for operation in &commit.operations {
        known.push(match (&operation.mutation, operation.when) {
            (Mutation::Keep, _) | (_, Precondition::Absent) => Some(None),
            (_, Precondition::At(at)) => {
                let entry = view.get(&operation.key).filter(|entry| entry.modified == at);
                entry.map(Some)
            }
        });
    }
    if !fenced && let Some(known) = known.into_iter().collect() {
        return Ok(known);
    }
    let deadline = Instant::now() + PREPARE_DEADLINE;
    let mut reads = draft::reads(&shared.layout, commit, None);
    reads.iter_mut().for_each(|read| read.keys_only = false);
    let ranges = read(shared, reads, deadline).await;
    let ranges = ranges.map_err(|status| {
        failure::unavailable(&shared.client, "read before a commit from", status)
    })?;
    let current = current(commit, &ranges);
    judge(commit, &current)?;
    *epoch = current.epoch;
    Ok(current.entries.into_iter().map(|entry| entry.map(Arc::new)).collect())
}

/// Several reads at one revision.
async fn read(
    shared: &Shared,
    reads: Vec<RangeRequest>,
    deadline: Instant,
) -> Result<Vec<RangeResponse>, Status> {
    let success = reads.into_iter().map(range).collect();
    let request = TxnRequest { success, ..TxnRequest::default() };
    let answer = shared.client.txn_until(deadline, request).await?;
    Ok(answer.ranges().collect())
}

/// Sorts the answers to [`draft::reads`].
fn current(commit: &Commit, ranges: &[RangeResponse]) -> Current {
    let first = |index: usize| ranges.get(index).and_then(|range| range.kvs.first());
    let entry = |(index, key): (usize, &Key)| first(index).map(|kv| mirror::entry(key.clone(), kv));
    let keys = commit.operations.iter().map(|operation| &operation.key);
    let entries = keys.enumerate().map(entry).collect();
    let epoch = match commit.epoch {
        Some(_) => first(commit.operations.len()).and_then(|kv| mirror::number(&kv.value)),
        None => None,
    };
    Current { entries, epoch }
}

/// Whether a commit may happen: the epoch first, then the operations in their order.
fn judge(commit: &Commit, current: &Current) -> Result<(), Error> {
    if let (Some(epoch), Some(newest)) = (&commit.epoch, current.epoch)
        && newest > epoch.number
    {
        return Err(crate::sequence::fenced(epoch, newest));
    }
    for (operation, entry) in commit.operations.iter().zip(&current.entries) {
        let current = entry.as_ref().map(|entry| entry.modified);
        let expected = operation.when.expected();
        if current != expected {
            let key = operation.key.clone();
            return Err(Error::Conflict { key, expected, current });
        }
    }
    Ok(())
}
