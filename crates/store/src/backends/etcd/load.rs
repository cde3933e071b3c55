//! The whole store, read at one revision.
//!
//! A list is valid only when it is complete: each page must say how much comes after it, and the
//! next one must bring exactly that.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::Revision;
use crate::sequence::Epochs;
use crate::tree::Tree;

use super::client::Client;
use super::failure;
use super::journal::{Journal, Source};
use super::layout::{Layout, Place, Span};
use super::messages::{KeyValue, RangeRequest, RangeResponse, TxnRequest, range};
use super::mirror::{self, Mirror, revision};

/// Keys in a page: few at first, more while they are small.
const PAGE_KEYS_FIRST: i64 = 64;
const PAGE_KEYS_MAX: i64 = 2_048;
const PAGE_BYTES_AIM: u64 = 4 << 20;
/// How long one page may be retried.
const PAGE_DEADLINE: Duration = Duration::from_secs(10);
/// Another program's compaction may take the revision away while it is read.
const LOADS_MAX: usize = 10;

/// Everything a process knows of the store.
pub struct Loaded {
    pub mirror: Mirror,
    pub epochs: Epochs,
    pub journal: Journal,
    /// The newest change.
    pub head: Revision,
    pub compacted: Revision,
}

pub async fn load(client: &Client, layout: &Layout) -> Result<Loaded, Status> {
    let mut result = load_once(client, layout).await;
    for _ in 1..LOADS_MAX {
        match &result {
            Err(status) if failure::is_compacted(status) => {}
            _ => break,
        }
        result = load_once(client, layout).await;
    }
    result
}

async fn load_once(client: &Client, layout: &Layout) -> Result<Loaded, Status> {
    let small = [
        RangeRequest::one(layout.head()),
        RangeRequest::one(layout.compacted()),
        layout.epochs().request(),
    ];
    let request =
        TxnRequest { success: small.into_iter().map(range).collect(), ..TxnRequest::default() };
    let answer = client.txn_until(Instant::now() + PAGE_DEADLINE, request).await?;
    let at = answer.revision();
    let mut small = answer.ranges();
    let mut next = || small.next().ok_or_else(|| incomplete("an answer lacks a part"));
    let (head, compacted, epochs) = (next()?, next()?, next()?);

    let mut entries = Vec::new();
    let mut newest = head.kvs.first().map_or(0, |kv| kv.mod_revision);
    let pages = Pages { client, at, keys_only: false };
    pages
        .read(layout.entries(), |kv| {
            if let Place::Entry(key) = layout.place(&kv.key) {
                newest = newest.max(kv.mod_revision);
                entries.push(Arc::new(mirror::entry(key, &kv)));
            }
            kv.value.len() as u64
        })
        .await?;

    let mut journal = Journal::default();
    let pages = Pages { client, at, keys_only: true };
    pages
        .read(layout.logs(), |kv| {
            let Place::Log(id) = layout.place(&kv.key) else { return 0 };
            let at = id.of.unwrap_or(revision(kv.mod_revision));
            journal.insert(at, Source::Logged(id));
            u64::from(id.bytes)
        })
        .await?;

    let compacted = compacted.kvs.first().and_then(|kv| mirror::number(&kv.value)).unwrap_or(0);
    Ok(Loaded {
        mirror: Mirror {
            layout: layout.clone(),
            tree: Tree::from_sorted(entries),
            position: revision(at),
        },
        epochs: all_epochs(layout, &epochs.kvs),
        journal,
        head: revision(newest),
        compacted: Revision(compacted),
    })
}

fn all_epochs(layout: &Layout, kvs: &[KeyValue]) -> Epochs {
    let mut epochs = Epochs::default();
    for kv in kvs {
        if let Place::Epoch(group) = layout.place(&kv.key)
            && let Some(epoch) = mirror::epoch(group, &kv.value)
        {
            epochs.raise(&epoch);
        }
    }
    epochs
}

/// How to read a span that may be large.
pub struct Pages<'a> {
    pub client: &'a Client,
    /// The revision to read at.
    pub at: i64,
    pub keys_only: bool,
}

impl Pages<'_> {
    /// Hands out every key of a span, in order. `take` says how much a key weighs, for the size of
    /// the next page.
    pub async fn read(
        &self,
        span: Span,
        mut take: impl FnMut(KeyValue) -> u64,
    ) -> Result<(), Status> {
        let Span { start: mut from, end } = span;
        let mut limit = PAGE_KEYS_FIRST;
        let mut expected = None;
        loop {
            let request = RangeRequest {
                key: from.clone(),
                range_end: end.clone(),
                limit,
                revision: self.at,
                keys_only: self.keys_only,
            };
            let deadline = Instant::now() + PAGE_DEADLINE;
            let page = match self.client.range_until(deadline, request).await {
                Err(status) if failure::is_too_long(&status) && limit > 1 => {
                    limit /= 2;
                    continue;
                }
                page => page?,
            };
            let rest = check(&page, expected)?;
            let Some(last) = page.kvs.last().map(|kv| kv.key.clone()) else { return Ok(()) };
            let bytes: u64 = page.kvs.into_iter().map(&mut take).sum();
            if rest == 0 {
                return Ok(());
            }
            limit = if bytes > PAGE_BYTES_AIM { (limit / 2).max(1) } else { limit * 2 };
            limit = limit.min(PAGE_KEYS_MAX);
            expected = Some(rest);
            from = successor(&last);
        }
    }
}

/// How many keys come after a page, when it is whole and continues the one before.
fn check(page: &RangeResponse, expected: Option<i64>) -> Result<i64, Status> {
    let rest = page.count - page.kvs.len() as i64;
    if expected.is_some_and(|expected| expected != page.count) {
        return Err(incomplete("a page is not what the page before announced"));
    }
    if rest < 0 || page.more != (rest > 0) || (page.kvs.is_empty() && rest > 0) {
        return Err(incomplete("a page is shorter than it says"));
    }
    Ok(rest)
}

fn successor(key: &[u8]) -> Bytes {
    [key, &[0]].concat().into()
}

fn incomplete(what: &'static str) -> Status {
    Status::new(Code::DataLoss, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(keys: usize, count: i64, more: bool) -> RangeResponse {
        let kvs = vec![KeyValue::default(); keys];
        RangeResponse { header: None, kvs, more, count }
    }

    #[test]
    fn a_page_must_be_as_long_as_it_says() {
        assert_eq!(check(&page(3, 3, false), None).unwrap(), 0);
        assert_eq!(check(&page(3, 5, true), None).unwrap(), 2);
        assert_eq!(check(&page(0, 0, false), None).unwrap(), 0);
        for short in [page(2, 3, false), page(3, 3, true), page(4, 3, false), page(0, 2, true)] {
            assert!(check(&short, None).is_err(), "{short:?}");
        }
    }

    #[test]
    fn a_page_must_bring_what_the_one_before_announced() {
        assert_eq!(check(&page(2, 2, false), Some(2)).unwrap(), 0);
        assert!(check(&page(1, 1, false), Some(2)).is_err());
        assert!(check(&page(0, 0, false), Some(2)).is_err());
    }
}
