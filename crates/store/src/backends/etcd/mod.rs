//! The store on an etcd server or cluster, shared by any number of processes.
//!
//! Every process holds all entries in memory, fed by one watch; a commit is one transaction. Our
//! own history is kept beside the entries, because etcd's is compacted by whoever uses it.
//! Read `layout.rs` first, then `commit.rs` and `follow.rs`.

mod client;
mod commit;
mod connect;
mod draft;
mod failure;
mod follow;
mod freshness;
mod history;
mod journal;
mod layout;
mod load;
mod messages;
mod mirror;
mod outcome;
mod thin;
mod undo;
mod upkeep;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::time::timeout;

use crate::replica::{Backend, Replica};
use crate::sequence::Epochs;
use crate::state::{Start, State};
use crate::tasks::Tasks;
use crate::{Changes, Commit, Committed, Environment, Error, KeyRange, Retention, Revision, Store};

use client::Client;
use freshness::Freshness;
use journal::Journal;
use layout::{FORMAT, Layout};

/// Commits under way at once.
const COMMITS_MAX: u32 = 256;
/// How long closing waits for them.
const CLOSE_DEADLINE: Duration = Duration::from_secs(5);

/// How to open it.
#[derive(Clone)]
pub struct Settings {
    pub endpoints: Vec<String>,
    pub dial_timeout: Duration,
    /// Empty when the server asks for none.
    pub username: String,
    pub password: String,
    pub tls: Tls,
    /// Before every key, so that several stores can share a server. Empty by default.
    pub prefix: String,
    /// Whether etcd's own history is compacted too. Off where others use the same server's.
    pub compact_server: bool,
}

/// Certificates for `https` endpoints; the machine's roots when nothing is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    pub ca_file: Option<PathBuf>,
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            endpoints: vec!["http://127.0.0.1:2379".to_owned()],
            dial_timeout: Duration::from_secs(5),
            username: String::new(),
            password: String::new(),
            tls: Tls::default(),
            prefix: String::new(),
            compact_server: true,
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let password = if self.password.is_empty() { "" } else { "..." };
        formatter
            .debug_struct("Settings")
            .field("endpoints", &self.endpoints)
            .field("dial_timeout", &self.dial_timeout)
            .field("username", &self.username)
            .field("password", &password)
            .field("tls", &self.tls)
            .field("prefix", &self.prefix)
            .field("compact_server", &self.compact_server)
            .finish()
    }
}

/// Connects, reads everything and begins to follow.
pub async fn open(
    settings: &Settings,
    retention: Retention,
    environment: Arc<dyn Environment>,
) -> Result<Arc<dyn Store>, Error> {
    let layout = Layout::new(&settings.prefix)?;
    let client = Client::new(settings, environment.random())?;
    let greeting = timeout(settings.dial_timeout, connect::greet(&client, &layout)).await;
    let greeting = greeting.unwrap_or_else(|_| {
        let limit = settings.dial_timeout;
        let late = tonic::Status::deadline_exceeded(format!("no answer within {limit:?}"));
        Err(failure::opening(&client, late))
    });
    greeting?;
    let loaded = load::load(&client, &layout).await;
    let loaded = loaded.map_err(|status| failure::opening(&client, status))?;
    let start = Start {
        tree: loaded.mirror.tree.clone(),
        head: loaded.head,
        compacted: loaded.compacted.min(loaded.head),
        recent: Vec::new(),
        base: loaded.head,
    };
    let known = Known {
        epochs: loaded.epochs,
        journal: loaded.journal,
        applied: loaded.mirror.position,
        compacted: loaded.compacted,
        complete_from: Revision::ZERO,
        newer_format: None,
        went_back_to: None,
    };
    let shared = Arc::new(Shared {
        client,
        layout,
        state: State::new(start, retention.recent_bytes_max),
        retention,
        environment,
        known: Mutex::new(known),
        freshness: Freshness::default(),
        behind: Notify::new(),
        forget: Notify::new(),
    });
    let tasks = Tasks::default();
    tasks.spawn("follow", follow::follow(shared.clone(), loaded.mirror));
    tasks.spawn("window", upkeep::keep_window(shared.clone()));
    if settings.compact_server {
        tasks.spawn("server history", upkeep::keep_server_small(shared.clone()));
    }
    let permits = Arc::new(Semaphore::new(COMMITS_MAX as usize));
    Ok(Arc::new(Replica::new(Arc::new(Etcd { shared, permits, tasks }))))
}

/// An open store. Its tasks end with it.
struct Etcd {
    shared: Arc<Shared>,
    permits: Arc<Semaphore>,
    tasks: Tasks,
}

/// What the tasks of an open store share.
struct Shared {
    client: Client,
    layout: Layout,
    state: State,
    retention: Retention,
    environment: Arc<dyn Environment>,
    known: Mutex<Known>,
    freshness: Freshness,
    /// The watch does not show what is known to be there.
    behind: Notify,
    /// There is history to delete.
    forget: Notify,
}

/// What the watch tells besides entries.
struct Known {
    epochs: Epochs,
    journal: Journal,
    /// Every event up to here has been seen.
    applied: Revision,
    /// The compaction that is written down, for all processes.
    compacted: Revision,
    /// Events may have been missed before this.
    complete_from: Revision,
    /// A newer program has taken the store over.
    newer_format: Option<u32>,
    /// The server has lost revisions that it had told, as after the restore of a backup.
    went_back_to: Option<Revision>,
}

impl Shared {
    // A panic while the lock is held leaves whole values: every change is a plain store.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Backend for Etcd {
    fn state(&self) -> &State {
        &self.shared.state
    }

    async fn catch_up(&self) -> Result<(), Error> {
        freshness::catch_up(&self.shared).await
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, Error> {
        let stopped = || Error::Stopped { reason: "it was closed".into() };
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| stopped())?;
        let (answer, result) = oneshot::channel();
        let shared = self.shared.clone();
        // Runs to its end also when the caller has gone: what it put aside must be cleaned up.
        self.tasks.spawn("commit", async move {
            let committed = commit::commit(&shared, commit).await;
            drop(permit);
            // The caller may have gone.
            let _ = answer.send(committed);
        });
        result.await.unwrap_or_else(|_| {
            let what = "the store was closed while it was under way".to_owned();
            Err(Error::OutcomeUnknown { what, source: None })
        })
    }

    async fn compact(&self, before: Revision) -> Result<(), Error> {
        upkeep::compact(&self.shared, before).await
    }

    async fn older(
        &self,
        range: &KeyRange,
        after: Revision,
        to: Revision,
    ) -> Result<Changes, Error> {
        history::older(&self.shared, range, after, to).await
    }

    fn health(&self) -> Result<(), Error> {
        let known = self.shared.known();
        match (known.newer_format, known.went_back_to) {
            (Some(found), _) => Err(newer_format(&self.shared.layout, found)),
            (None, Some(revision)) => Err(went_back(known.applied, revision)),
            (None, None) => Ok(()),
        }
    }

    async fn close(&self) {
        // All permits: no commit is under way, and none begins.
        if let Ok(Ok(all)) = timeout(CLOSE_DEADLINE, self.permits.acquire_many(COMMITS_MAX)).await {
            all.forget();
        }
        self.permits.close();
        self.tasks.stop().await;
    }
}

fn went_back(applied: Revision, revision: Revision) -> Error {
    let reason = format!(
        "etcd went back from revision {applied} to {revision}, as after the restore of a backup; \
         restart setpoint"
    );
    Error::Stopped { reason }
}

fn newer_format(layout: &Layout, found: u32) -> Error {
    let file = format!("etcd prefix {:?}", layout.prefix());
    Error::NewerFormat { file, found, supported: FORMAT }
}
