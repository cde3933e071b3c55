//! Reads that are not older than any commit acknowledged before them.
//!
//! One small linearizable read tells the newest commit; the mirror shows it a moment later. Callers
//! that come while such a read is under way share the next one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tonic::Status;

use crate::{Error, Revision};

use super::Shared;
use super::failure;
use super::messages::RangeRequest;
use super::mirror::revision;

/// How long a read of the newest revision may be tried.
const READ_DEADLINE: Duration = Duration::from_secs(5);
/// How long the mirror may take to show it; after a part of it the watch is opened again.
const SHOW_DEADLINE: Duration = Duration::from_secs(5);
const REOPEN_AFTER: Duration = Duration::from_secs(2);

/// What the newest shared read found.
#[derive(Default)]
pub struct Freshness {
    /// How many callers there have been.
    callers: AtomicU64,
    latest: tokio::sync::Mutex<Latest>,
}

#[derive(Default)]
struct Latest {
    /// The callers that had come when the read began.
    covers: u64,
    newest: Option<Result<Revision, Status>>,
}

/// Returns when the state holds every commit acknowledged before the call.
pub async fn catch_up(shared: &Shared) -> Result<(), Error> {
    let newest = newest(shared).await;
    {
        let known = shared.known();
        if let Some(revision) = known.went_back_to {
            return Err(super::went_back(known.applied, revision));
        }
    }
    match newest {
        Ok(newest) => shown(shared, newest).await,
        Err(status) => {
            Err(failure::unavailable(&shared.client, "read the newest revision of", status))
        }
    }
}

async fn newest(shared: &Shared) -> Result<Revision, Status> {
    let freshness = &shared.freshness;
    let me = freshness.callers.fetch_add(1, Ordering::SeqCst) + 1;
    let mut latest = freshness.latest.lock().await;
    if latest.covers >= me
        && let Some(newest) = &latest.newest
    {
        return newest.clone();
    }
    let covers = freshness.callers.load(Ordering::SeqCst);
    let request = RangeRequest { keys_only: true, ..RangeRequest::one(shared.layout.head()) };
    let applied = shared.known().applied;
    let answer = shared.client.range_until(Instant::now() + READ_DEADLINE, request).await;
    if let Ok(page) = &answer {
        let at = revision(page.header.as_ref().map_or(i64::MAX, |header| header.revision));
        if at < applied {
            shared.known().went_back_to = Some(at);
        }
    }
    let newest =
        answer.map(|page| page.kvs.first().map_or(Revision::ZERO, |kv| revision(kv.mod_revision)));
    *latest = Latest { covers, newest: Some(newest.clone()) };
    newest
}

/// Waits until the mirror shows a revision.
async fn shown(shared: &Shared, revision: Revision) -> Result<(), Error> {
    if let Ok(result) = timeout(REOPEN_AFTER, shared.state.reached(revision)).await {
        return result;
    }
    // The watch is silent though there is something to tell.
    shared.behind.notify_one();
    match timeout(SHOW_DEADLINE - REOPEN_AFTER, shared.state.reached(revision)).await {
        Ok(result) => result,
        Err(_) => {
            let what = format!("the watch on etcd does not show revision {revision}");
            Err(Error::Unavailable { what, source: None })
        }
    }
}

/// Waits until a commit is shown. It is durable in any case, and reads wait for it themselves, so
/// the wait is bounded and its end is no error.
pub async fn show_committed(shared: &Shared, revision: Revision) {
    let _ = shown(shared, revision).await;
}
