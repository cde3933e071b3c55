//! Changes that are no longer in memory, read from the log with what was there before each.

use std::sync::Arc;

use bytes::Bytes;
use mysql_async::Row;

use super::connect::{Result, Session, next_row, take};
use super::mirror::{Mirror, PROVENANCE, provenance, read_tip, take_key};
use super::statement::put_bytes;
use crate::{Batch, Change, Changes, Entry, Error, Key, KeyRange, Revision};

/// How much is read at once.
const PAGE_REVISIONS_MAX: u64 = 1_000;
const PAGE_BYTES_MAX: usize = 16 << 20;

/// Reads changes after a revision, up to another or to the end of a page.
pub async fn older(
    mirror: &Mirror,
    range: &KeyRange,
    after: Revision,
    to: Revision,
) -> std::result::Result<Changes, Error> {
    let unavailable = |error| mirror.sessions.server.unavailable(error);
    let mut session = mirror.sessions.take().await.map_err(unavailable)?;
    let page = Page::of(range, after, to);
    let changes = match read(&mut session, page).await.map_err(unavailable)? {
        Read::All(changes) => changes,
        Read::Part(changes) => {
            // The rest of the answer is not wanted; the next page asks for it again.
            session = mirror.sessions.take().await.map_err(unavailable)?;
            changes
        }
    };
    // Rows are deleted only after this has moved, so what was read before it is complete.
    let tip = read_tip(&mut session).await.map_err(unavailable)?;
    if tip.thinned > mirror.state.thinned() {
        // What is in memory may have churn that is missing here: the reader must begin again.
        mirror.reach(&mut session, tip).await.map_err(unavailable)?;
    }
    session.give_back();
    let compacted = tip.compacted;
    if after.next() < compacted {
        return Err(Error::Compacted { requested: after.next(), oldest: compacted });
    }
    Ok(changes)
}

/// A statement that reads a part of the log.
struct Page {
    statement: Vec<u8>,
    through: Revision,
    /// So many rows mean that there may be more.
    rows_max: Option<u64>,
}

/// What was read of a page.
enum Read {
    All(Changes),
    Part(Changes),
}

impl Page {
    fn of(range: &KeyRange, after: Revision, to: Revision) -> Page {
        let single = single_key(range);
        // A range is read along the log, a single key along its own rows, however far apart.
        let (index, through, rows_max) = match single {
            Some(_) => ("by_name", to, Some(PAGE_REVISIONS_MAX)),
            None => ("PRIMARY", to.min(Revision(after.0 + PAGE_REVISIONS_MAX)), None),
        };
        let mut statement = format!(
            "SELECT l.revision, l.name, l.created, l.value, p.revision, p.created, p.value, \
             {PROVENANCE} \
             FROM setpoint_log l FORCE INDEX ({index}) \
             STRAIGHT_JOIN setpoint_commit c ON c.revision = l.revision \
             LEFT JOIN setpoint_log p FORCE INDEX (by_superseded) \
             ON p.superseded = l.revision AND p.name = l.name \
             AND p.revision < l.revision AND p.value IS NOT NULL \
             WHERE l.revision > {after} AND l.revision <= {through}"
        )
        .into_bytes();
        match single {
            Some(name) => {
                statement.extend_from_slice(b" AND l.name = ");
                put_bytes(&mut statement, name);
                let rest = format!(" ORDER BY l.revision LIMIT {PAGE_REVISIONS_MAX}");
                statement.extend_from_slice(rest.as_bytes());
            }
            None => {
                statement.extend_from_slice(b" AND l.name >= ");
                put_bytes(&mut statement, &range.start);
                if let Some(end) = &range.end {
                    statement.extend_from_slice(b" AND l.name < ");
                    put_bytes(&mut statement, end);
                }
                statement.extend_from_slice(b" ORDER BY l.revision, l.position");
            }
        }
        Page { statement, through, rows_max }
    }
}

/// The key, when the range is that of a single one.
fn single_key(range: &KeyRange) -> Option<&[u8]> {
    let end = range.end.as_ref()?;
    let (0, name) = end.split_last()? else { return None };
    (*name == *range.start).then_some(name)
}

async fn read(session: &mut Session, page: Page) -> Result<Read> {
    let mut batches: Vec<Arc<Batch>> = Vec::new();
    let mut open: Option<Batch> = None;
    let mut bytes = 0;
    let mut rows = 0;
    let mut result = session.stream(page.statement).await?;
    while let Some(mut row) = next_row(&mut result).await? {
        let revision = Revision(take(&mut row, 0)?);
        if open.as_ref().is_some_and(|batch| batch.revision != revision) {
            batches.extend(open.take().map(Arc::new));
            if bytes > PAGE_BYTES_MAX {
                return Ok(Read::Part(Changes { batches, through: revision.before() }));
            }
        }
        let change = change(&mut row, revision)?;
        bytes += [&change.entry, &change.previous]
            .into_iter()
            .flatten()
            .map(|entry| entry.value.len())
            .sum::<usize>();
        rows += 1;
        match &mut open {
            Some(batch) => batch.changes.push(change),
            None => {
                let provenance = provenance(&mut row, 7)?;
                open = Some(Batch { revision, provenance, changes: vec![change] });
            }
        }
    }
    let last = open.as_ref().map(|batch| batch.revision);
    batches.extend(open.map(Arc::new));
    let through = match (page.rows_max, last) {
        (Some(rows_max), Some(last)) if rows >= rows_max => last,
        _ => page.through,
    };
    Ok(Read::All(Changes { batches, through }))
}

fn change(row: &mut Row, revision: Revision) -> Result<Change> {
    let key = take_key(row, 1)?;
    let entry = take_entry(row, [2, 3], &key, revision)?;
    let previous = match take::<Option<u64>>(row, 4)? {
        Some(modified) => take_entry(row, [5, 6], &key, Revision(modified))?,
        None => None,
    };
    Ok(Change { key, entry, previous })
}

/// An entry from the columns of its creation and its value; none when there is no value.
fn take_entry(
    row: &mut Row,
    [created, value]: [usize; 2],
    key: &Key,
    modified: Revision,
) -> Result<Option<Arc<Entry>>> {
    let Some(value) = take::<Option<Vec<u8>>>(row, value)? else { return Ok(None) };
    let created = Revision(take(row, created)?);
    let entry = Entry::new(key.clone(), Bytes::from(value), created, modified);
    Ok(Some(Arc::new(entry)))
}
