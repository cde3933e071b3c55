//! Forgetting: our history after its time, etcd's own every few minutes.
//!
//! Compaction is first written down, then told to the state, and only then are log entries
//! deleted, so that a missing entry is always known to be compacted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tonic::Status;
use tracing::{debug, warn};

use crate::{Error, Revision, Thinning};

use super::Shared;
use super::failure;
use super::layout::Id;
use super::load::Pages;
use super::messages::*;
use super::mirror::{number, number_bytes, signed};
use super::thin;

const COMPACT_DEADLINE: Duration = Duration::from_secs(5);
/// Log entries deleted at once: each takes two of the 128 operations of a transaction.
const TRIM_ENTRIES: usize = 60;
const TRIM_DEADLINE: Duration = Duration::from_secs(10);
/// How long etcd keeps its own history; a watch that is away for longer starts over.
const SERVER_HISTORY: Duration = Duration::from_secs(5 * 60);
/// Parts that were put aside belong to nobody when no log entry names them for so long.
const ORPHAN_AGE: Duration = Duration::from_secs(60 * 60);

/// Forgets the history before a revision.
pub async fn compact(shared: &Shared, before: Revision) -> Result<(), Error> {
    let compacted = raise_compacted(shared, before)
        .await
        .map_err(|status| failure::unavailable(&shared.client, "compact the history in", status))?;
    shared.state.compact(compacted.min(shared.state.head()));
    {
        let mut known = shared.known();
        known.compacted = known.compacted.max(compacted);
    }
    shared.forget.notify_one();
    Ok(())
}

/// Writes the compaction down, unless there is a later one, which is returned.
async fn raise_compacted(shared: &Shared, before: Revision) -> Result<Revision, Status> {
    let deadline = Instant::now() + COMPACT_DEADLINE;
    let key = shared.layout.compacted();
    let wanted = number_bytes(before.0);
    // A comparison of values fails for a missing key, so there are two cases.
    let absent = created_at(key.clone(), 0);
    let lower = value_is(CompareResult::Less, key.clone(), wanted.clone());
    for compare in [lower.clone(), absent, lower] {
        let request = TxnRequest {
            compare: vec![compare],
            success: vec![put(key.clone(), wanted.clone())],
            failure: vec![range(RangeRequest::one(key.clone()))],
        };
        let answer = shared.client.txn_until(deadline, request).await?;
        if answer.succeeded {
            return Ok(before);
        }
        let current = answer.ranges().next().and_then(|range| range.kvs.into_iter().next());
        let current = current.and_then(|kv| number(&kv.value)).map(Revision);
        if let Some(current) = current.filter(|current| *current >= before) {
            return Ok(current);
        }
    }
    Err(Status::aborted("the compaction changes all the time"))
}

/// Moves the window of history, and deletes what has left it, until the task is stopped.
pub async fn keep_window(shared: Arc<Shared>) {
    let mut orphans = BTreeMap::new();
    loop {
        tokio::select! {
            () = tokio::time::sleep(shared.retention.interval) => {
                if let Some(thinning) = &shared.retention.thinning {
                    thin_out(&shared, thinning).await;
                }
                move_window(&shared).await;
                if let Err(status) = sweep(&shared, &mut orphans).await {
                    debug!(error = %status, "could not look for parts of log entries");
                }
            }
            () = shared.forget.notified() => {}
        }
        if let Err(status) = trim(&shared).await {
            // The next interval tries again.
            warn!(error = %status, "could not delete old history in etcd");
        }
    }
}

async fn thin_out(shared: &Shared, thinning: &Thinning) {
    let before = thinning.until(shared.environment.now());
    match thin::thin(shared, thinning, before).await {
        Ok(0) => {}
        Ok(entries) => debug!(entries, "thinned out old history"),
        Err(status) => warn!(error = %status, "could not thin out old history in etcd"),
    }
}

async fn move_window(shared: &Shared) {
    let excess = shared.known().journal.excess(&shared.retention, shared.environment.now());
    let Some(excess) = excess else { return };
    let before = excess.next().min(shared.state.head());
    if before <= shared.state.compacted() {
        return;
    }
    if let Err(error) = compact(shared, before).await {
        warn!(%error, "could not move the window of history");
    }
}

/// Deletes the log entries that are compacted.
async fn trim(shared: &Shared) -> Result<(), Status> {
    loop {
        // Not the state's: this process may have missed what others still know.
        let (before, ids) = {
            let mut known = shared.known();
            let before = known.compacted;
            known.journal.remove_foreign(before);
            (before, known.journal.oldest(before, TRIM_ENTRIES))
        };
        if ids.is_empty() {
            return Ok(());
        }
        let mut success = Vec::new();
        for id in &ids {
            let aside = shared.layout.previous_of(*id);
            success.push(delete(shared.layout.log(*id)));
            success.push(delete_range(aside.start, aside.end));
        }
        let request = TxnRequest { success, ..TxnRequest::default() };
        shared.client.txn_until(Instant::now() + TRIM_DEADLINE, request).await?;
        shared.known().journal.remove(ids, before);
    }
}

/// Deletes parts that were put aside for commits that never happened.
async fn sweep(shared: &Shared, seen: &mut BTreeMap<Id, Instant>) -> Result<(), Status> {
    let mut found = Vec::new();
    let pages = Pages { client: &shared.client, at: 0, keys_only: true };
    pages
        .read(shared.layout.all_previous(), |kv| {
            found.extend(shared.layout.owner_of_previous(&kv.key));
            0
        })
        .await?;
    found.dedup();
    found.retain(|id| !shared.known().journal.contains(*id));
    seen.retain(|id, _| found.contains(id));
    for id in found {
        let since = *seen.entry(id).or_insert_with(Instant::now);
        if since.elapsed() > ORPHAN_AGE {
            let span = shared.layout.previous_of(id);
            let success = vec![delete_range(span.start, span.end)];
            let request = TxnRequest { success, ..TxnRequest::default() };
            shared.client.txn_until(Instant::now() + TRIM_DEADLINE, request).await?;
        }
    }
    Ok(())
}

/// Lets etcd forget what was seen long ago, until the task is stopped. Our history is our own, so
/// this goes on whatever we keep.
pub async fn keep_server_small(shared: Arc<Shared>) {
    loop {
        let seen = shared.known().applied;
        tokio::time::sleep(SERVER_HISTORY).await;
        let request = CompactionRequest { revision: signed(seen) };
        match shared.client.compact(request).await {
            // Another process was faster.
            Err(status) if failure::is_compacted(&status) => {}
            Err(status) => debug!(error = %status, "could not compact etcd's own history"),
            Ok(_) => {}
        }
    }
}
