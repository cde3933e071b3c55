//! The one watch on etcd that feeds the state, for as long as the store is open.
//!
//! A watch that breaks is opened again after the last event taken. When etcd has forgotten what
//! came after it, everything is read again and the watchers behind it are ended.

use std::sync::Arc;
use std::time::Duration;

use tonic::Status;
use tracing::{debug, info, warn};

use crate::Revision;

use super::Shared;
use super::layout::FORMAT;
use super::load;
use super::messages::{WatchCreateRequest, WatchResponse};
use super::mirror::{Mirror, Taken, signed};

const BACK_OFF_FIRST: Duration = Duration::from_millis(20);
const BACK_OFF_MAX: Duration = Duration::from_millis(500);

/// Why a watch ended.
enum End {
    /// It had been opened, and broke.
    Broken(Status),
    /// It could not be opened.
    Refused(Status),
    /// etcd no longer has the events that come next.
    Compacted,
}

/// Follows until the task is stopped.
pub async fn follow(shared: Arc<Shared>, mut mirror: Mirror) {
    let mut back_off = BACK_OFF_FIRST;
    loop {
        match watch(&shared, &mut mirror).await {
            End::Broken(status) => {
                warn!(error = %status, position = %mirror.position, "the watch on etcd broke");
                back_off = BACK_OFF_FIRST;
                tokio::time::sleep(back_off).await;
            }
            End::Refused(status) => {
                debug!(error = %status, "etcd cannot be watched");
                tokio::time::sleep(back_off).await;
                back_off = (back_off * 2).min(BACK_OFF_MAX);
            }
            End::Compacted => {
                info!(position = %mirror.position, "etcd has forgotten events; reading all again");
                mirror = start_over(&shared).await;
                back_off = BACK_OFF_FIRST;
            }
        }
    }
}

async fn watch(shared: &Shared, mirror: &mut Mirror) -> End {
    let span = shared.layout.followed();
    let start_revision = signed(mirror.position.next());
    let create = WatchCreateRequest { key: span.start, range_end: span.end, start_revision };
    let mut stream = match shared.client.watch(create).await {
        Ok(stream) => stream,
        Err(status) => return End::Refused(status),
    };
    let mut end: fn(Status) -> End = End::Refused;
    loop {
        let message = tokio::select! {
            message = stream.message() => message,
            () = shared.behind.notified() => {
                shared.client.leave_current();
                return end(Status::unavailable("it fell behind"));
            }
        };
        let response = match message {
            Ok(Some(response)) => response,
            Ok(None) => return end(Status::unavailable("the server ended it")),
            Err(status) => return end(status),
        };
        if let Some(ended) = ended(shared, &response).await {
            return ended;
        }
        end = End::Broken;
        let taken = mirror.take(response.events, shared.environment.now());
        publish(shared, mirror, taken);
    }
}

async fn ended(shared: &Shared, response: &WatchResponse) -> Option<End> {
    if response.compact_revision > 0 {
        return Some(End::Compacted);
    }
    if !response.canceled {
        return None;
    }
    // A token that has run out is told as a missing permission; a new one does no harm.
    let _ = shared.client.log_in(None).await;
    Some(End::Refused(Status::unavailable(response.cancel_reason.clone())))
}

fn publish(shared: &Shared, mirror: &Mirror, taken: Taken) {
    let mut known = shared.known();
    taken.epochs.iter().for_each(|epoch| known.epochs.raise(epoch));
    for (revision, source) in taken.journal {
        known.journal.insert(revision, source);
    }
    if let Some(value) = taken.format {
        let found = std::str::from_utf8(&value).ok().and_then(|text| text.parse().ok());
        known.newer_format = found.filter(|found| *found > FORMAT);
    }
    drop(known);
    if !taken.batches.is_empty() {
        shared.state.publish(mirror.tree.clone(), taken.batches);
    }
    if let Some(thinned) = taken.thinned {
        shared.state.forget_thinned(thinned);
    }
    if let Some(compacted) = taken.compacted {
        shared.state.compact(compacted.min(shared.state.head()));
    }
    // After the compaction: whoever misses an entry must find that it is compacted.
    let mut known = shared.known();
    known.applied = mirror.position;
    known.compacted = known.compacted.max(taken.compacted.unwrap_or_default());
    if !taken.deleted.is_empty() {
        let compacted = known.compacted;
        known.journal.remove(taken.deleted, compacted);
    }
}

async fn start_over(shared: &Shared) -> Mirror {
    let mut back_off = BACK_OFF_FIRST;
    let loaded = loop {
        match load::load(&shared.client, &shared.layout).await {
            Ok(loaded) => break loaded,
            Err(status) => warn!(error = %status, "could not read the entries from etcd"),
        }
        tokio::time::sleep(back_off).await;
        back_off = (back_off * 2).min(BACK_OFF_MAX);
    };
    // Somebody else's deletion leaves no trace, so there may be changes that are newer than any
    // entry: a revision of its own makes every watcher start over.
    let head: Revision = loaded.head.max(shared.state.head().next());
    let mut known = shared.known();
    known.applied = loaded.mirror.position;
    known.epochs = loaded.epochs;
    known.journal = loaded.journal;
    known.compacted = loaded.compacted;
    known.complete_from = head;
    drop(known);
    shared.state.reset(loaded.mirror.tree.clone(), head);
    shared.state.compact(loaded.compacted.min(head));
    loaded.mirror
}
