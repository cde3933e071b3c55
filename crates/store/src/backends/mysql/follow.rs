//! Learns of commits, also of other processes, by asking the server how far it is.
//!
//! MySQL cannot notify. The question is one row from memory, so it is asked often while something
//! happens and rarely otherwise. Read barriers are answered by the same questions: a reader waits
//! for one that was asked after it came, and all who wait share it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::commit::went_back;
use super::connect::{Link, Result};
use super::mirror::{self, Mirror, read_tip};
use crate::Error;

/// How often the server is asked for a while after a change, and how often when nothing happens.
const POLL_BUSY: Duration = Duration::from_millis(1);
const POLL_IDLE: Duration = Duration::from_millis(20);
/// How long it is asked often.
const BUSY_TIME: Duration = Duration::from_millis(100);
/// How long to wait after an error, at first and at most.
const RETRY_MIN: Duration = Duration::from_millis(10);
const RETRY_MAX: Duration = Duration::from_millis(500);
/// How long a read waits for the server.
const BARRIER_TIME_MAX: Duration = Duration::from_secs(5);

/// Follows the log until the task is stopped.
pub async fn follow(mirror: Arc<Mirror>) {
    let mut link = mirror.sessions.link();
    let mut pace = Pace::new();
    let mut retry = RETRY_MIN;
    loop {
        // Read before the server is asked: whoever asks for a barrier later gets a later answer.
        let ticket = mirror.asked.load(Ordering::SeqCst);
        let looked = look(&mirror, &mut link).await;
        let news = mirror.note(looked.as_ref().map(|_| ()));
        match looked {
            Ok(moved) => {
                if news {
                    tracing::info!(server = mirror.sessions.server.name, "the database is back");
                }
                link.rest();
                mirror.answered.send_replace(ticket);
                retry = RETRY_MIN;
                let pause = pace.next(moved);
                tokio::select! {
                    () = mirror.poke.notified() => pace.hurry(),
                    () = tokio::time::sleep(pause) => {}
                }
            }
            Err(error) => {
                if news {
                    let server = &mirror.sessions.server.name;
                    tracing::warn!(%error, server, "lost the database");
                }
                link.lose();
                tokio::time::sleep(retry).await;
                retry = (retry * 2).min(RETRY_MAX);
            }
        }
    }
}

/// Waits until the state holds every commit that was acknowledged before the call.
pub async fn catch_up(mirror: &Mirror) -> std::result::Result<(), Error> {
    let ticket = mirror.asked.fetch_add(1, Ordering::SeqCst) + 1;
    let mut answers = mirror.answered.subscribe();
    mirror.poke.notify_one();
    let answered = answers.wait_for(|answered| *answered >= ticket);
    tokio::select! {
        () = mirror.stopped() => Err(mirror::closed()),
        answered = tokio::time::timeout(BARRIER_TIME_MAX, answered) => match answered {
            Ok(_) => Ok(()),
            Err(_) => Err(mirror.health().err().unwrap_or_else(|| Error::Unavailable {
                what: format!("{} does not answer", mirror.sessions.server.name),
                source: None,
            })),
        },
    }
}

/// Asks once and catches up. Says whether anything had happened.
async fn look(mirror: &Mirror, link: &mut Link<'_>) -> Result<bool> {
    let known = mirror.state.head();
    let session = link.session().await?;
    let tip = read_tip(session).await?;
    if tip.head < known {
        return Err(went_back(known, tip.head));
    }
    mirror.reach(session, tip).await?;
    Ok(tip.head > known)
}

/// How long to wait between questions.
struct Pace {
    busy_until: Instant,
    pause: Duration,
}

impl Pace {
    fn new() -> Pace {
        Pace { busy_until: Instant::now(), pause: POLL_IDLE }
    }

    fn hurry(&mut self) {
        self.busy_until = Instant::now() + BUSY_TIME;
        self.pause = POLL_BUSY;
    }

    fn next(&mut self, moved: bool) -> Duration {
        if moved {
            self.hurry();
        } else if Instant::now() >= self.busy_until {
            self.pause = (self.pause * 2).min(POLL_IDLE);
        }
        self.pause
    }
}
