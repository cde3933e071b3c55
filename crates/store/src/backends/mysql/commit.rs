//! The sequencer: takes what waits and performs it in one transaction, one revision a commit.
//!
//! An error says one of three things. Not committed: the server rolled back, and the batch is tried
//! again for a while. Conflict: the commit's own, found under the lock. Unknown: the connection
//! broke at the end; then the row every transaction locks is locked again, which waits for the old
//! transaction to be over, and the batch is looked for by its token.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::Row;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::connect::{Link, Session, is_deadlock, is_lost, server_code, single, take, unexpected};
use super::mirror::{self, Mirror, Tip};
use super::plan::{Ground, Place, Plan, plan};
use super::statement::{Form, Script, Values, put_list};
use crate::{Commit, Committed, Environment, Epoch, Error, Mutation, Revision};

/// How many commits may wait.
pub const QUEUE_COMMITS_MAX: usize = 1_024;
/// How much is performed in one transaction.
const BATCH_COMMITS_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 2 << 20;
/// How long a batch is tried again that was rolled back.
const RETRY_TIME_MAX: Duration = Duration::from_secs(5);
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(10);
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(500);
/// How long the outcome of a lost reply is looked for.
const RESOLVE_TIME_MAX: Duration = Duration::from_secs(10);
/// How long a commit that happened waits to be visible here, when the server is lost after it.
const SHOW_TIME_MAX: Duration = Duration::from_secs(5);

/// A commit and who waits for it.
pub struct Pending {
    pub commit: Commit,
    pub reply: oneshot::Sender<Result<Committed, Error>>,
}

/// Performs commits in the order they come.
pub struct Sequencer {
    mirror: Arc<Mirror>,
    environment: Arc<dyn Environment>,
}

/// Why a batch did not go through.
enum Failure {
    NotCommitted(mysql_async::Error),
    Unknown { plan: Box<Plan>, token: [u8; 16], error: mysql_async::Error },
}

/// What became of a batch whose reply was lost.
enum Outcome {
    Committed,
    NotCommitted,
    Unknown,
}

impl Sequencer {
    pub fn new(mirror: Arc<Mirror>, environment: Arc<dyn Environment>) -> Sequencer {
        Sequencer { mirror, environment }
    }

    /// Works until the store is closed; answers everything that it takes.
    pub async fn run(&self, mut waiting: mpsc::Receiver<Pending>) {
        let mut link = self.mirror.sessions.link();
        let batch_bytes_max = BATCH_BYTES_MAX.min(self.mirror.sessions.max_allowed_packet / 4);
        loop {
            let first = tokio::select! {
                () = self.mirror.stopped() => break,
                first = waiting.recv() => first,
            };
            let Some(first) = first else { break };
            self.settle(&mut link, gather(first, &mut waiting, batch_bytes_max)).await;
        }
        waiting.close();
        while let Some(pending) = waiting.recv().await {
            answer(pending.reply, Err(mirror::closed()));
        }
    }

    /// Performs a batch and answers it.
    async fn settle(&self, link: &mut Link<'_>, batch: Vec<Pending>) {
        let begun = Instant::now();
        let mut pause = RETRY_PAUSE_MIN;
        let error = loop {
            let error = match self.attempt(link, &batch).await {
                Ok(plan) => return self.finish(link, batch, plan).await,
                Err(Failure::NotCommitted(error)) => error,
                Err(Failure::Unknown { plan, token, error }) => {
                    link.lose();
                    tracing::warn!(%error, "the reply to a commit was lost");
                    match self.resolve(link, plan.base.next(), token).await {
                        Outcome::Committed => return self.finish(link, batch, *plan).await,
                        Outcome::NotCommitted => error,
                        Outcome::Unknown => return self.give_up(batch, *plan, &error),
                    }
                }
            };
            link.lose();
            let again = is_lost(&error) || is_deadlock(&error);
            if !again || self.mirror.is_stopping() || begun.elapsed() + pause > RETRY_TIME_MAX {
                break error;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_PAUSE_MAX);
        };
        for pending in batch {
            answer(pending.reply, Err(self.not_written(&error)));
        }
    }

    /// One transaction from begin to commit.
    async fn attempt(&self, link: &mut Link<'_>, batch: &[Pending]) -> Result<Plan, Failure> {
        let not_committed = Failure::NotCommitted;
        let session = link.session().await.map_err(not_committed)?;
        let ground = read_ground(session, batch).await.map_err(not_committed)?;
        if ground.head < self.mirror.state.head() {
            return Err(not_committed(went_back(self.mirror.state.head(), ground.head)));
        }
        let plan = plan(batch.iter().map(|pending| &pending.commit), &ground);
        if plan.records.is_empty() {
            // Nothing to write; what was decided is true whether this arrives or not.
            if session.run("ROLLBACK").await.is_err() {
                link.lose();
            }
            return Ok(plan);
        }
        let token = self.token();
        let mut packets = script(&plan, &token, self.mirror.sessions.max_allowed_packet);
        let last = packets.pop().expect("a script must end with its commit");
        for packet in packets {
            session.run(packet).await.map_err(not_committed)?;
        }
        match session.run(last).await {
            Ok(_) => Ok(plan),
            Err(error) if is_refused(&error) => Err(not_committed(error)),
            Err(error) => Err(Failure::Unknown { plan: Box::new(plan), token, error }),
        }
    }

    /// Makes a batch that happened visible, and answers it.
    async fn finish(&self, link: &mut Link<'_>, batch: Vec<Pending>, mut plan: Plan) {
        let records = std::mem::take(&mut plan.records);
        if !records.is_empty() {
            let mut sequence = self.mirror.sequence.lock().await;
            let (head, compacted) = (plan.base, plan.compacted);
            let tip = Tip { head, compacted, thinned: Revision::ZERO };
            let reached = match link.session().await {
                Ok(session) => self.mirror.advance(&mut sequence, session, tip).await,
                Err(error) => Err(error),
            };
            match reached {
                Ok(()) => self.mirror.show(&mut sequence, records),
                Err(_) => {
                    link.lose();
                    drop(sequence);
                    // The follower goes on trying. Whoever reads waits for it, so answering is
                    // right even when it takes too long.
                    self.mirror.poke.notify_one();
                    let reached = self.mirror.state.reached(plan.head);
                    let _ = tokio::time::timeout(SHOW_TIME_MAX, reached).await;
                }
            }
            self.mirror.poke.notify_one();
        }
        link.rest();
        for (pending, verdict) in batch.into_iter().zip(plan.verdicts) {
            answer(pending.reply, verdict.map(|revision| Committed { revision }));
        }
    }

    /// Finds out whether the batch that begins at a revision happened.
    async fn resolve(&self, link: &mut Link<'_>, first: Revision, token: [u8; 16]) -> Outcome {
        let begun = Instant::now();
        let mut pause = RETRY_PAUSE_MIN;
        loop {
            let found = match link.session().await {
                Ok(session) => find(session, first, &token).await,
                Err(error) => Err(error),
            };
            match found {
                Ok(outcome) => return outcome,
                Err(_) => link.lose(),
            }
            if begun.elapsed() + pause > RESOLVE_TIME_MAX {
                return Outcome::Unknown;
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_PAUSE_MAX);
        }
    }

    /// Answers a batch of which nobody knows whether it happened.
    fn give_up(&self, batch: Vec<Pending>, plan: Plan, error: &mysql_async::Error) {
        for (pending, verdict) in batch.into_iter().zip(plan.verdicts) {
            let error = match verdict {
                Ok(_) => Error::OutcomeUnknown {
                    what: format!("{} was lost: {error}", self.mirror.sessions.server.name),
                    source: None,
                },
                // It wrote nothing, but the conflict may be with a commit that did not happen.
                Err(_) => self.not_written(error),
            };
            answer(pending.reply, Err(error));
        }
    }

    fn not_written(&self, error: &mysql_async::Error) -> Error {
        let what = format!("{} did not commit: {error}", self.mirror.sessions.server.name);
        Error::Unavailable { what, source: None }
    }

    fn token(&self) -> [u8; 16] {
        let numbers = [self.environment.random(), self.environment.random()];
        (u128::from(numbers[0]) << 64 | u128::from(numbers[1])).to_be_bytes()
    }
}

fn answer(reply: oneshot::Sender<Result<Committed, Error>>, result: Result<Committed, Error>) {
    // The caller may have gone; the commit stands as it is.
    let _ = reply.send(result);
}

/// Whatever waits now, up to the limits. Nobody waits for more to come.
fn gather(
    first: Pending,
    waiting: &mut mpsc::Receiver<Pending>,
    batch_bytes_max: usize,
) -> Vec<Pending> {
    let mut bytes = size(&first.commit);
    let mut batch = vec![first];
    while batch.len() < BATCH_COMMITS_MAX && bytes < batch_bytes_max {
        let Ok(pending) = waiting.try_recv() else { break };
        bytes += size(&pending.commit);
        batch.push(pending);
    }
    batch
}

fn size(commit: &Commit) -> usize {
    let operation = |operation: &crate::Operation| {
        let value = match &operation.mutation {
            Mutation::Put(value) => value.len(),
            Mutation::Delete | Mutation::Keep => 0,
        };
        operation.key.as_bytes().len() + value
    };
    commit.operations.iter().map(operation).sum()
}

/// Begins the transaction: locks the revision, then reads what the batch depends on.
async fn read_ground(
    session: &mut Session,
    batch: &[Pending],
) -> Result<Ground, mysql_async::Error> {
    let commits = || batch.iter().map(|pending| &pending.commit);
    let mut text = b"START TRANSACTION; \
        SELECT head, total, compacted FROM setpoint_revision WHERE id = 1 FOR UPDATE; \
        SELECT name, created, modified, position FROM setpoint_current WHERE name IN "
        .to_vec();
    let operations = commits().flat_map(|commit| &commit.operations);
    put_list(&mut text, operations.map(|operation| operation.key.as_bytes()));
    let groups: Vec<&[u8]> =
        commits().filter_map(|commit| Some(commit.epoch.as_ref()?.group.as_bytes())).collect();
    let mut count = 3;
    if !groups.is_empty() {
        text.extend_from_slice(b"; SELECT name, number FROM setpoint_epoch WHERE name IN ");
        put_list(&mut text, groups);
        count += 1;
    }
    let mut sets = session.sets(text, count).await?.into_iter().skip(1);
    let mut next = || sets.next().unwrap_or_default();
    let mut row = single(next())?;
    let mut ground = Ground {
        head: Revision(take(&mut row, 0)?),
        total: take(&mut row, 1)?,
        compacted: Revision(take(&mut row, 2)?),
        ..Ground::default()
    };
    for mut row in next() {
        ground.places.insert(mirror::take_key(&mut row, 0)?, place(&mut row)?);
    }
    for mut row in next() {
        let epoch = Epoch { group: mirror::take_text(&mut row, 0)?, number: take(&mut row, 1)? };
        ground.epochs.raise(&epoch);
    }
    Ok(ground)
}

fn place(row: &mut Row) -> Result<Place, mysql_async::Error> {
    Ok(Place {
        created: Revision(take(row, 1)?),
        modified: Revision(take(row, 2)?),
        position: take(row, 3)?,
    })
}

/// Looks for a batch after whoever wrote it is done.
async fn find(
    session: &mut Session,
    first: Revision,
    token: &[u8; 16],
) -> Result<Outcome, mysql_async::Error> {
    let text = format!(
        "START TRANSACTION; \
         SELECT compacted FROM setpoint_revision WHERE id = 1 FOR UPDATE; \
         SELECT token FROM setpoint_commit WHERE revision = {first}; \
         ROLLBACK"
    );
    let mut sets = session.sets(text.into(), 4).await?.into_iter().skip(1);
    let mut next = || sets.next().unwrap_or_default();
    let compacted = Revision(take(&mut single(next())?, 0)?);
    let found: Option<Vec<u8>> = match next().pop() {
        Some(mut row) => take(&mut row, 0)?,
        None => None,
    };
    Ok(match found {
        Some(found) if found == token => Outcome::Committed,
        // The row may have been there and be forgotten.
        None if first < compacted => Outcome::Unknown,
        _ => Outcome::NotCommitted,
    })
}

/// The statements that perform a plan, the commit among the last packet.
fn script(plan: &Plan, token: &[u8; 16], max_allowed_packet: usize) -> Vec<Vec<u8>> {
    let mut script = Script::new(max_allowed_packet);
    let insert = |before| Form { before, between: ",", after: "" };
    let rows = plan.rows.iter().map(|row| {
        Values::new()
            .number(row.revision.0)
            .number(row.position.into())
            .bytes(row.key.as_bytes())
            .number(row.created.0)
            .optional_number(row.superseded.map(|revision| revision.0))
            .optional_bytes(row.value.as_deref())
            .end()
    });
    script.listing(
        rows,
        insert(
            "INSERT INTO setpoint_log \
             (revision, position, name, created, superseded, value) VALUES ",
        ),
    );
    let commits = plan.records.iter().zip(&plan.sizes);
    let commits = commits.map(|(record, (bytes, total))| {
        let provenance = &record.provenance;
        Values::new()
            .number(record.revision.0)
            .signed(provenance.time.0)
            .bytes(provenance.actor.as_bytes())
            .bytes(provenance.manager.as_bytes())
            .bytes(provenance.request.as_bytes())
            .optional_number(provenance.cause.map(|cause| cause.0))
            .bytes(provenance.reconcile.as_bytes())
            .number(record.writes.len() as u64)
            .number(*bytes)
            .number(*total)
            .bytes(token)
            .end()
    });
    script.listing(
        commits,
        insert(
            "INSERT INTO setpoint_commit (revision, time, actor, manager, request, cause, \
             reconcile, changes, bytes, total, token) VALUES ",
        ),
    );
    put_current(&mut script, plan);
    let (head, total) = (plan.head, plan.total);
    let advance =
        format!("UPDATE setpoint_revision SET head = {head}, total = {total} WHERE id = 1; COMMIT");
    script.statement(advance.as_bytes());
    script.packets()
}

/// The part of a script that says where live values are.
fn put_current(script: &mut Script, plan: &Plan) {
    let superseded = plan
        .superseded
        .iter()
        .map(|(place, by)| format!("{}, {}, {by}", place.modified, place.position).into_bytes());
    // The first row gives the columns their names; there is no revision 0.
    script.listing(
        superseded,
        Form {
            before: "UPDATE (SELECT 0 r, 0 p, 0 s UNION ALL SELECT ",
            between: " UNION ALL SELECT ",
            after: ") n STRAIGHT_JOIN setpoint_log l ON l.revision = n.r AND l.position = n.p \
                    SET l.superseded = n.s",
        },
    );
    let live = plan.places.iter().filter_map(|(key, place)| {
        let place = place.as_ref()?;
        let values = Values::new().bytes(key.as_bytes()).number(place.created.0);
        Some(values.number(place.modified.0).number(place.position.into()).end())
    });
    script.listing(
        live,
        Form {
            before: "REPLACE INTO setpoint_current (name, created, modified, position) VALUES ",
            between: ",",
            after: "",
        },
    );
    let gone = plan.places.iter().filter(|(_, place)| place.is_none());
    script.listing(
        gone.map(|(key, _)| Values::new().bytes(key.as_bytes()).end()),
        Form { before: "DELETE FROM setpoint_current WHERE name IN (", between: ",", after: ")" },
    );
    let epochs = plan.epochs.0.iter();
    script.listing(
        epochs.map(|(group, number)| Values::new().bytes(group.as_bytes()).number(*number).end()),
        Form {
            before: "REPLACE INTO setpoint_epoch (name, number) VALUES ",
            between: ",",
            after: "",
        },
    );
}

/// Whether the server says that it did not commit: deadlock, lock wait, read-only.
fn is_refused(error: &mysql_async::Error) -> bool {
    const REFUSED: [u16; 4] = [1205, 1213, 1290, 1836];
    server_code(error).is_some_and(|code| REFUSED.contains(&code))
}

/// The database is older than what we have seen of it.
pub fn went_back(known: Revision, found: Revision) -> mysql_async::Error {
    unexpected(format!(
        "the database went back from revision {known} to {found}; restart to use it as it is"
    ))
}
