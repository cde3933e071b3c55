//! What became of a commit whose answer was lost.
//!
//! The commit's log entry has a name of its own that must be free. So one transaction settles it:
//! if the entry is there, the commit has happened; if not, an empty entry takes the name, and the
//! commit can never happen any more, wherever its request still is.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tonic::Status;

use crate::Revision;

use super::Shared;
use super::failure;
use super::layout::Id;
use super::messages::*;
use super::mirror::revision;

/// How long etcd is asked.
const SETTLE_DEADLINE: Duration = Duration::from_secs(10);
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// What became of it.
pub enum Settled {
    Committed(Revision),
    /// It has not happened, and cannot any more.
    Never,
    Unknown,
}

/// Settles a commit after a failure that does not tell whether it happened.
pub async fn settle(shared: &Shared, id: Id, lost: &Status) -> Settled {
    let deadline = Instant::now() + SETTLE_DEADLINE;
    let log = shared.layout.log(id);
    let request = TxnRequest {
        compare: vec![created_at(log.clone(), 0)],
        success: vec![put(log.clone(), Bytes::new())],
        failure: vec![range(RangeRequest::one(log.clone()))],
    };
    while Instant::now() < deadline {
        match shared.client.txn(request.clone()).await {
            Ok(answer) if answer.succeeded => return Settled::Never,
            Ok(answer) => return found(answer.ranges().next()),
            // A full server takes no empty entry either. But when it was the one that answered,
            // the commit is no longer under way, and looking is enough.
            Err(status) if failure::is_out_of_space(&status) && failure::is_out_of_space(lost) => {
                match shared.client.range_until(deadline, RangeRequest::one(log.clone())).await {
                    Ok(range) => return found(Some(range)),
                    Err(_) => return Settled::Unknown,
                }
            }
            Err(_) => tokio::time::sleep(RETRY_AFTER).await,
        }
    }
    Settled::Unknown
}

fn found(range: Option<RangeResponse>) -> Settled {
    match range.and_then(|range| range.kvs.into_iter().next()) {
        // An earlier try to settle took the name, and its answer was lost too.
        Some(kv) if kv.value.is_empty() => Settled::Never,
        Some(kv) => Settled::Committed(revision(kv.mod_revision)),
        None => Settled::Never,
    }
}
