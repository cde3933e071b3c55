//! The transaction of a commit, made to fit etcd's limits.
//!
//! What does not fit beside the new values is put aside first, under the name of the log entry:
//! without the commit nobody ever looks at it.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;
use tokio::time::Instant;

use crate::{Commit, Entry, Error, Mutation};

use super::Shared;
use super::commit::REQUEST_BYTES_MAX;
use super::failure;
use super::layout::{Id, Layout};
use super::messages::*;
use super::mirror::{number_bytes, signed};
use super::undo::{self, Logged, Undo};

/// The size of a part that is put aside.
const PART_BYTES: usize = 1 << 20;

/// What a change costs the server besides its key and value, roughly.
pub const CHANGE_OVERHEAD_BYTES: usize = 256;

/// A commit, ready to be sent.
pub struct Draft {
    pub id: Id,
    pub request: TxnRequest,
    /// What must be written first.
    pub aside: Vec<Bytes>,
}

/// What a draft is made of.
struct Material<'a> {
    layout: &'a Layout,
    commit: &'a Commit,
    /// The epoch as it is thought to be.
    epoch: Option<u64>,
    id: Id,
}

/// Drafts a commit whose keys hold `previous`.
pub fn draft(
    shared: &Shared,
    commit: &Commit,
    epoch: Option<u64>,
    previous: Vec<Option<Arc<Entry>>>,
) -> Result<Draft, Error> {
    let written = undo::written(commit, previous);
    let overhead = CHANGE_OVERHEAD_BYTES * written.len();
    let written = undo::encode_written(&written);
    let bytes = written.len() + overhead;
    let id = Id::new(commit.provenance.time, bytes, shared.environment.random());
    fit(Material { layout: &shared.layout, commit, epoch, id }, written)
}

/// The most convenient form that etcd takes.
fn fit(material: Material<'_>, written: Bytes) -> Result<Draft, Error> {
    let id = material.id;
    let inline = material.request(Undo::Inline(written.clone()));
    if inline.encoded_len() <= REQUEST_BYTES_MAX {
        return Ok(Draft { id, request: inline, aside: Vec::new() });
    }
    let aside: Vec<Bytes> =
        (0..written.len()).step_by(PART_BYTES).map(|from| part(&written, from)).collect();
    let mut request = material.request(Undo::Aside { parts: aside.len(), bytes: written.len() });
    if request.encoded_len() > REQUEST_BYTES_MAX {
        // The current revisions can be asked for when they are needed.
        request.failure.clear();
    }
    let bytes = request.encoded_len();
    if bytes > REQUEST_BYTES_MAX {
        let what = "commit as a request to etcd";
        return Err(Error::TooLarge { what, bytes, max: REQUEST_BYTES_MAX });
    }
    Ok(Draft { id, request, aside })
}

fn part(written: &Bytes, from: usize) -> Bytes {
    written.slice(from..(from + PART_BYTES).min(written.len()))
}

impl Material<'_> {
    fn request(&self, undo: Undo) -> TxnRequest {
        let Material { layout, commit, epoch, id } = *self;
        let mut compare = vec![created_at(layout.log(id), 0)];
        let mut success = Vec::new();
        for operation in &commit.operations {
            let key = layout.entry(&operation.key);
            let expected = operation.when.expected().map_or(0, signed);
            compare.push(modified_at(key.clone(), expected));
            match &operation.mutation {
                Mutation::Put(value) => success.push(put(key, value.clone())),
                Mutation::Delete => success.push(delete(key)),
                Mutation::Keep => {}
            }
        }
        if let Some(own) = &commit.epoch {
            let key = layout.epoch(&own.group);
            let number = number_bytes(own.number);
            // A comparison of values fails for a missing key, so its absence is a case of its own.
            let (expected, raise) = match epoch {
                None => (created_at(key.clone(), 0), true),
                Some(epoch) if epoch == own.number => {
                    (value_is(CompareResult::Equal, key.clone(), number.clone()), false)
                }
                Some(_) => {
                    // All numbers up to ours sort before ours with a byte more.
                    let above = [&number[..], &[0]].concat().into();
                    (value_is(CompareResult::Less, key.clone(), above), true)
                }
            };
            compare.push(expected);
            if raise {
                success.push(put(key, number));
            }
        }
        let provenance = Arc::new(commit.provenance.clone());
        let logged = Logged { provenance, epoch: commit.epoch.clone(), undo };
        success.push(put(layout.head(), Bytes::new()));
        success.push(put(layout.log(id), logged.encode()));
        let failure = reads(layout, commit, Some(id)).into_iter().map(range).collect();
        TxnRequest { compare, success, failure }
    }
}

/// Reads of all that a commit names: its keys in their order, its epoch if it has one, its log
/// entry if that is asked for. Only the epoch with its value.
pub fn reads(layout: &Layout, commit: &Commit, id: Option<Id>) -> Vec<RangeRequest> {
    let key_only = |key| RangeRequest { keys_only: true, ..RangeRequest::one(key) };
    let keys = commit.operations.iter().map(|operation| layout.entry(&operation.key));
    let mut reads: Vec<_> = keys.map(key_only).collect();
    reads.extend(commit.epoch.iter().map(|own| RangeRequest::one(layout.epoch(&own.group))));
    reads.extend(id.map(|id| key_only(layout.log(id))));
    reads
}

/// Writes what the draft needs to be there.
pub async fn put_aside(shared: &Shared, draft: &Draft, deadline: Instant) -> Result<(), Error> {
    for (index, value) in draft.aside.iter().enumerate() {
        let key = shared.layout.previous(draft.id, index);
        let request = PutRequest { key, value: value.clone() };
        let put = shared.client.until(deadline, || shared.client.put(request.clone()));
        if let Err(status) = put.await {
            clean_up(shared, draft).await;
            return Err(failure::unavailable(&shared.client, "write to", status));
        }
    }
    Ok(())
}

/// Deletes what was put aside for a draft that will not happen. What cannot be deleted here is
/// found later (`upkeep.rs`).
pub async fn clean_up(shared: &Shared, draft: &Draft) {
    if draft.aside.is_empty() {
        return;
    }
    let span = shared.layout.previous_of(draft.id);
    let success = vec![delete_range(span.start, span.end)];
    let request = TxnRequest { success, ..TxnRequest::default() };
    if let Err(status) = shared.client.txn(request).await {
        tracing::debug!(error = %status, "parts of a log entry are left");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        COMMIT_OPERATIONS_MAX, Epoch, KEY_BYTES_MAX, Key, Operation, Precondition, Provenance,
        Revision, Timestamp, VALUE_BYTES_MAX,
    };

    fn commit(keys: usize, key_bytes: usize, value_bytes: usize) -> Commit {
        let operations = (0..keys).map(|number| Operation {
            key: Key::new(format!("{number:0key_bytes$}")).unwrap(),
            mutation: Mutation::Put(vec![0; value_bytes].into()),
            when: Precondition::At(Revision(u64::MAX >> 1)),
        });
        let text: Arc<str> = "x".repeat(1_024).into();
        let provenance = Provenance {
            time: Timestamp(i64::MAX),
            actor: text.clone(),
            manager: text.clone(),
            request: text.clone(),
            cause: Some(Revision(u64::MAX)),
            reconcile: text,
        };
        let epoch = Some(Epoch { group: "g".repeat(255).into(), number: u64::MAX });
        Commit { operations: operations.collect(), epoch, provenance }
    }

    fn fit_with(commit: &Commit, written: usize) -> Result<Draft, Error> {
        let layout = Layout::new(&"p".repeat(64)).unwrap();
        let id = Id { time: 1, bytes: 2, random: 3, of: None };
        let material = Material { layout: &layout, commit, epoch: Some(1), id };
        fit(material, vec![0; written].into())
    }

    #[test]
    fn the_largest_value_under_the_longest_key_fits_and_so_does_replacing_it() {
        let largest = commit(1, KEY_BYTES_MAX, VALUE_BYTES_MAX);
        let made = fit_with(&largest, KEY_BYTES_MAX + 30).unwrap();
        assert!(made.aside.is_empty());
        let replaced = fit_with(&largest, KEY_BYTES_MAX + 30 + VALUE_BYTES_MAX).unwrap();
        assert_eq!(replaced.aside.len(), 2);
        assert!(!replaced.request.failure.is_empty());
    }

    #[test]
    fn the_most_operations_fit_with_long_keys_and_large_values() {
        let many = commit(COMMIT_OPERATIONS_MAX, KEY_BYTES_MAX, 20_000);
        let draft = fit_with(&many, 60 << 20).unwrap();
        assert_eq!(draft.aside.len(), 60);
        assert!(draft.request.compare.len() <= 128);
        assert!(draft.request.success.len() <= 128);
        assert!(draft.request.failure.len() <= 128);
    }

    #[test]
    fn what_can_never_fit_is_too_large() {
        let many = commit(COMMIT_OPERATIONS_MAX, KEY_BYTES_MAX, 25_900);
        assert!(matches!(fit_with(&many, 10), Err(Error::TooLarge { .. })));
    }
}
