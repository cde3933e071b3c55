//! Thins out churn that is old: its rows go, and what follows replaces what they had replaced.
//!
//! First the word, then the rows, as with compaction: a mark says up to where history may lack
//! churn, and whoever moved it has the stretch for itself. A process that stops half-way leaves
//! churn there until it is forgotten by age, and nothing else.

use std::time::Duration;

use bytes::Bytes;
use mysql_async::Row;

use super::connect::{Result, Session, next_row, single, take};
use super::mirror::{Mirror, take_key};
use super::plan::CHANGE_OVERHEAD;
use super::statement::put_bytes;
use crate::{Key, Revision, Thinning, Timestamp};

/// How much of the log is looked at under one mark.
const STRETCH_REVISIONS_MAX: u64 = 4_000;
/// How many rows go in one transaction.
const BATCH_ROWS_MAX: usize = 200;
/// Between stretches, so that commits get their turn.
const STRETCH_PAUSE: Duration = Duration::from_millis(1);

/// A row that may go.
struct Churn {
    revision: Revision,
    position: u32,
    /// The revision that replaced it.
    superseded: Revision,
    key: Key,
    bytes: u64,
}

/// Takes churn out of the history that was made before a time. Answers how many rows went.
pub async fn thin(mirror: &Mirror, thinning: &Thinning, before: Timestamp) -> Result<usize> {
    let mut session = mirror.sessions.take().await?;
    let mut rows = 0;
    while let Some((after, through)) = claim(&mut session, before).await? {
        mirror.state.forget_thinned(through);
        let churn = find(&mut session, thinning, after, through).await?;
        rows += churn.len();
        for batch in churn.chunks(BATCH_ROWS_MAX) {
            session.run(removal(batch)).await?;
        }
        tokio::time::sleep(STRETCH_PAUSE).await;
    }
    session.give_back();
    Ok(rows)
}

/// Moves the mark over the next stretch that is old enough, if this process is the one to do so.
async fn claim(session: &mut Session, before: Timestamp) -> Result<Option<(Revision, Revision)>> {
    let tip =
        session.rows("SELECT head, compacted, thinned FROM setpoint_revision WHERE id = 1").await?;
    let mut tip = single(tip)?;
    let (head, compacted): (u64, u64) = (take(&mut tip, 0)?, take(&mut tip, 1)?);
    let thinned: u64 = take(&mut tip, 2)?;
    let after = thinned.max(compacted);
    let last = head.min(after + STRETCH_REVISIONS_MAX);
    let young = format!(
        "SELECT revision FROM setpoint_commit \
         WHERE revision > {after} AND revision <= {last} AND time >= {} \
         ORDER BY revision LIMIT 1",
        before.0
    );
    let through = match session.rows(young).await?.into_iter().next() {
        Some(mut row) => take::<u64>(&mut row, 0)? - 1,
        None => last,
    };
    if through <= after {
        return Ok(None);
    }
    let mark = format!(
        "UPDATE setpoint_revision SET thinned = {through} WHERE id = 1 AND thinned = {thinned}"
    );
    let is_ours = session.run(mark).await? == 1;
    Ok(is_ours.then_some((Revision(after), Revision(through))))
}

/// The churn of a stretch: each row was replaced in the same interval and the same stretch.
async fn find(
    session: &mut Session,
    thinning: &Thinning,
    after: Revision,
    through: Revision,
) -> Result<Vec<Churn>> {
    let interval = thinning.interval_micros();
    let statement = format!(
        "SELECT w.revision, w.position, w.superseded, w.name, w.value, p.value \
         FROM setpoint_log w FORCE INDEX (PRIMARY) \
         STRAIGHT_JOIN setpoint_commit c ON c.revision = w.revision \
         STRAIGHT_JOIN setpoint_commit n ON n.revision = w.superseded \
         STRAIGHT_JOIN setpoint_log p FORCE INDEX (by_superseded) \
         ON p.superseded = w.revision AND p.name = w.name \
         AND p.revision < w.revision AND p.value IS NOT NULL \
         WHERE w.revision > {after} AND w.revision <= {through} \
         AND w.superseded <= {through} AND w.value IS NOT NULL \
         AND FLOOR(c.time / {interval}) = FLOOR(n.time / {interval}) \
         ORDER BY w.revision, w.position"
    );
    let mut churn = Vec::new();
    let mut result = session.stream(statement).await?;
    while let Some(row) = next_row(&mut result).await? {
        churn.extend(judge(row, thinning)?);
    }
    Ok(churn)
}

fn judge(mut row: Row, thinning: &Thinning) -> Result<Option<Churn>> {
    let key = take_key(&mut row, 3)?;
    let value = Bytes::from(take::<Vec<u8>>(&mut row, 4)?);
    let before = Bytes::from(take::<Vec<u8>>(&mut row, 5)?);
    if !(thinning.is_churn)(&key, &before, &value) {
        return Ok(None);
    }
    Ok(Some(Churn {
        revision: Revision(take(&mut row, 0)?),
        position: take(&mut row, 1)?,
        superseded: Revision(take(&mut row, 2)?),
        bytes: CHANGE_OVERHEAD + key.as_bytes().len() as u64 + value.len() as u64,
        key,
    }))
}

/// One transaction that takes rows out, the oldest first: what one had replaced is replaced by the
/// next, which may go after it.
fn removal(churn: &[Churn]) -> Vec<u8> {
    let mut script = b"START TRANSACTION".to_vec();
    for Churn { revision, position, superseded, key, bytes } in churn {
        let relink = format!(
            "; UPDATE setpoint_log SET superseded = {superseded} WHERE superseded = {revision} \
             AND revision < {revision} AND value IS NOT NULL AND name = "
        );
        script.extend_from_slice(relink.as_bytes());
        put_bytes(&mut script, key.as_bytes());
        let remove = format!(
            "; DELETE FROM setpoint_log WHERE revision = {revision} AND position = {position}\
             ; UPDATE setpoint_commit SET changes = changes - 1, bytes = bytes - {bytes} \
             WHERE revision = {revision}"
        );
        script.extend_from_slice(remove.as_bytes());
    }
    script.extend_from_slice(b"; COMMIT");
    script
}
