//! Forgetting: first the word, then the rows.
//!
//! That history before a revision is gone is one update, durable and seen by all processes. The
//! rows follow in small batches on a connection of their own. An error there delays and never ends
//! it.

use std::sync::Arc;
use std::time::Duration;

use super::connect::{Link, Result, Session, is_deadlock, is_lost, single, take};
use super::mirror::{Mirror, read_tip};
use super::thin;
use crate::{Environment, Error, Retention, Revision, Timestamp};

/// How many rows are deleted in one transaction.
const BATCH_ROWS_MAX: u64 = 1_000;
/// Between batches, so that commits get their turn.
const BATCH_PAUSE: Duration = Duration::from_millis(1);
/// How often it is looked for rows that another process left.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How often a word that was not heard is repeated.
const ATTEMPTS_MAX: u32 = 5;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(100);

/// Forgets the history before a revision, which must exist.
pub async fn compact(mirror: &Mirror, before: Revision) -> std::result::Result<(), Error> {
    let mut link = mirror.sessions.link();
    let mut attempts = 1;
    // Saying it twice does no harm, so a lost reply needs no other care.
    while let Err(error) = raise(&mut link, before).await {
        link.lose();
        let again = is_lost(&error) || is_deadlock(&error);
        if !again || attempts == ATTEMPTS_MAX {
            return Err(mirror.sessions.server.unavailable(error));
        }
        attempts += 1;
        tokio::time::sleep(ATTEMPT_PAUSE).await;
    }
    link.give_back();
    mirror.state.compact(before);
    mirror.clean.notify_one();
    Ok(())
}

async fn raise(link: &mut Link<'_>, before: Revision) -> Result<()> {
    let statement = format!(
        "UPDATE setpoint_revision SET compacted = GREATEST(compacted, {before}) WHERE id = 1"
    );
    link.session().await?.run(statement).await?;
    Ok(())
}

/// Deletes what is forgotten, whenever there is something, for ever.
pub async fn clean(mirror: Arc<Mirror>) {
    let mut link = mirror.sessions.link();
    let mut retry = RETRY_MIN;
    loop {
        match clean_once(&mirror, &mut link).await {
            Ok(()) => {
                link.give_back();
                retry = RETRY_MIN;
                // Another process may have stopped before it was done.
                let _ = tokio::time::timeout(LOOK_INTERVAL, mirror.clean.notified()).await;
            }
            Err(error) => {
                link.lose();
                let lag = mirror.compaction_lag();
                tracing::warn!(%error, lag, "compaction is delayed");
                tokio::time::sleep(retry).await;
                retry = (retry * 2).min(RETRY_MAX);
            }
        }
    }
}

async fn clean_once(mirror: &Mirror, link: &mut Link<'_>) -> Result<()> {
    let session = link.session().await?;
    let compacted = read_tip(session).await?.compacted;
    let oldest = session.rows("SELECT MIN(revision) FROM setpoint_commit").await?;
    let oldest: Option<u64> = take(&mut single(oldest)?, 0)?;
    let oldest = oldest.map_or(compacted, Revision);
    mirror.set_compaction_lag(compacted.0.saturating_sub(oldest.0));
    // The row that the change at `compacted` replaced stays: that change still tells of it.
    let statements = [
        format!(
            "DELETE FROM setpoint_log WHERE superseded < {compacted} \
             ORDER BY superseded LIMIT {BATCH_ROWS_MAX}"
        ),
        format!(
            "DELETE FROM setpoint_commit WHERE revision < {compacted} \
             ORDER BY revision LIMIT {BATCH_ROWS_MAX}"
        ),
    ];
    for statement in statements {
        while session.run(statement.as_str()).await? == BATCH_ROWS_MAX {
            tokio::time::sleep(BATCH_PAUSE).await;
        }
    }
    mirror.set_compaction_lag(0);
    Ok(())
}

/// Moves the window of history, for ever.
pub async fn forget_old(
    mirror: Arc<Mirror>,
    retention: Retention,
    environment: Arc<dyn Environment>,
) {
    loop {
        tokio::time::sleep(retention.interval).await;
        if let Some(thinning) = &retention.thinning {
            let before = thinning.until(environment.now());
            match thin::thin(&mirror, thinning, before).await {
                Ok(0) => {}
                Ok(rows) => tracing::debug!(rows, "thinned out old history"),
                Err(error) => tracing::warn!(%error, "old history could not be thinned out"),
            }
        }
        let oldest = environment.now().minus(retention.age_max);
        let done = match window(&mirror, oldest, retention.bytes_max).await {
            Ok(before) if before > mirror.state.compacted() => compact(&mirror, before).await,
            Ok(_) => Ok(()),
            Err(error) => Err(mirror.sessions.server.unavailable(error)),
        };
        if let Err(error) = done {
            tracing::warn!(%error, "the window of history was not moved");
        }
    }
}

/// The first revision that is neither too old nor beyond the size; the newest at most.
async fn window(mirror: &Mirror, oldest: Timestamp, bytes_max: u64) -> Result<Revision> {
    let mut session = mirror.sessions.take().await?;
    let rows =
        session.rows("SELECT head, compacted, total, thinned FROM setpoint_revision WHERE id = 1");
    let mut row = single(rows.await?)?;
    let (head, compacted): (u64, u64) = (take(&mut row, 0)?, take(&mut row, 1)?);
    let (total, thinned): (u64, u64) = (take(&mut row, 2)?, take(&mut row, 3)?);
    // Both walk from the oldest on and stop at the first that is to stay.
    let first = |condition: String| {
        format!(
            "SELECT revision FROM setpoint_commit \
             WHERE revision >= {compacted} AND revision <= {head} AND {condition} \
             ORDER BY revision LIMIT 1"
        )
    };
    let by_age = session.rows(first(format!("time >= {}", oldest.0))).await?;
    // Without a row all history is too old, or the newest commit alone is beyond the size.
    let revision = |rows: Vec<mysql_async::Row>| match rows.into_iter().next() {
        Some(mut row) => take(&mut row, 0),
        None => Ok(head),
    };
    let by_age = revision(by_age)?;
    let by_size = match total.checked_sub(bytes_max) {
        None | Some(0) => 0,
        // The totals know nothing of churn that has gone.
        Some(_) if thinned > 0 => by_sum(&mut session, compacted, head, bytes_max).await?,
        Some(excess) => revision(session.rows(first(format!("total - bytes >= {excess}"))).await?)?,
    };
    session.give_back();
    Ok(Revision(by_age.max(by_size)))
}

/// The first revision from which on history is no larger than it may be, by what is there.
async fn by_sum(session: &mut Session, compacted: u64, head: u64, bytes_max: u64) -> Result<u64> {
    let sum = format!(
        "SELECT CAST(COALESCE(SUM(bytes), 0) AS UNSIGNED) FROM setpoint_commit \
         WHERE revision >= {compacted} AND revision <= {head}"
    );
    let mut bytes: u64 = take(&mut single(session.rows(sum).await?)?, 0)?;
    let mut next = compacted;
    while bytes > bytes_max {
        let page = format!(
            "SELECT revision, bytes FROM setpoint_commit \
             WHERE revision >= {next} AND revision <= {head} \
             ORDER BY revision LIMIT {BATCH_ROWS_MAX}"
        );
        let rows = session.rows(page).await?;
        if rows.is_empty() {
            return Ok(head);
        }
        for mut row in rows {
            next = take::<u64>(&mut row, 0)? + 1;
            bytes = bytes.saturating_sub(take(&mut row, 1)?);
            if bytes <= bytes_max {
                break;
            }
        }
    }
    Ok(next.min(head))
}
