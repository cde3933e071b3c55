//! Keeps the number of managers that update within bounds, by joining the oldest.

use std::collections::BTreeMap;

use crate::{
    error::Error,
    managed::{Entry, Fields, Identity, Managed, Operation},
};

/// Who owns what was owned by managers that were joined.
pub const ANCIENT: &str = "ancient-changes";

/// Joins the oldest updates, version by version, until at most so many are left. Appliers are
/// never joined. A manager that is the only one of its version stays as it is.
pub fn cap(managed: &mut Managed, managers_max: usize) -> Result<(), Error> {
    let is_update = |entry: &Entry| entry.identity.operation == Operation::Update;
    let count = managed.entries.iter().filter(|entry| is_update(entry)).count();
    if count <= managers_max {
        return Ok(());
    }
    let (mut updates, others): (Vec<Entry>, Vec<Entry>) =
        std::mem::take(&mut managed.entries).into_iter().partition(is_update);
    // What was joined before is joined with first, however late its last part was written.
    let age = |entry: &Entry| (entry.identity.manager != ANCIENT, entry.time.clone());
    updates.sort_by(|left, right| {
        age(left).cmp(&age(right)).then_with(|| left.identity.cmp(&right.identity))
    });

    let mut excess = count - managers_max;
    // By version, the place of the oldest entry, which the following are joined with.
    let mut oldest: BTreeMap<String, usize> = BTreeMap::new();
    let mut kept: Vec<Entry> = Vec::with_capacity(updates.len());
    for entry in updates {
        let version = entry.identity.api_version.clone();
        match oldest.get(&version) {
            Some(at) if excess > 0 => {
                join(&mut kept[*at], entry)?;
                excess -= 1;
            }
            Some(_) => kept.push(entry),
            None => {
                oldest.insert(version, kept.len());
                kept.push(entry);
            }
        }
    }
    managed.entries = others;
    managed.entries.extend(kept);
    Ok(())
}

fn join(bucket: &mut Entry, entry: Entry) -> Result<(), Error> {
    bucket.identity = Identity {
        manager: ANCIENT.to_owned(),
        operation: Operation::Update,
        api_version: entry.identity.api_version,
        subresource: String::new(),
    };
    bucket.time = bucket.time.take().max(entry.time);
    let fields = bucket.fields.set()?.union(&entry.fields.take()?);
    bucket.fields = Fields::Decoded(fields);
    Ok(())
}
