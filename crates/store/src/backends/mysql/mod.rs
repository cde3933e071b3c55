//! The store in a MySQL or MariaDB database, shared by any number of processes.
//!
//! The log table is the store; the current table says where in it each live value is. One row holds
//! the newest revision, and whoever commits locks it first: revisions have no gaps, in any process.
//! Each process mirrors the live state in memory and follows the log.
//!
//! | file | what |
//! |---|---|
//! | `schema` | the tables, and the checks when a database is opened |
//! | `connect` | the pool, one connection of it, TLS, what errors mean |
//! | `statement` | SQL as text: literals, scripts of statements |
//! | `plan` | decides a batch of commits, purely |
//! | `commit` | the sequencer: performs batches, resolves lost replies |
//! | `mirror` | the state in memory: loading it, advancing it |
//! | `follow` | learns of other processes' commits; the read barrier |
//! | `history` | changes that are no longer in memory |
//! | `compaction` | forgets: on demand, by age, by size |
//! | `thin` | takes churn out of old history |

mod commit;
mod compaction;
mod connect;
mod follow;
mod history;
mod mirror;
mod plan;
mod schema;
mod statement;
mod thin;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

use crate::replica::{Backend, Replica};
use crate::state::State;
use crate::tasks::Tasks;
use crate::{Changes, Commit, Committed, Environment, Error, KeyRange, Retention, Revision, Store};

use mirror::Mirror;

/// How long closing waits for a batch under way.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(5);

/// How to open it.
#[derive(Clone)]
pub struct Settings {
    pub host: String,
    pub port: u16,
    pub user: String,
    pub password: String,
    /// Made when missing.
    pub database: String,
    pub max_open_conns: usize,
    pub max_idle_conns: usize,
    pub tls: Tls,
}

/// How the connection is protected. Versions below TLS 1.2 are never spoken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Tls {
    #[default]
    Off,
    /// With the machine's root certificates, or with those of a file.
    On { ca_file: Option<std::path::PathBuf> },
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            host: "localhost".into(),
            port: 3306,
            user: "root".into(),
            password: "password".into(),
            database: "k3".into(),
            max_open_conns: 10,
            max_idle_conns: 5,
            tls: Tls::Off,
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Settings")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("user", &self.user)
            .field("password", &"(hidden)")
            .field("database", &self.database)
            .field("max_open_conns", &self.max_open_conns)
            .field("max_idle_conns", &self.max_idle_conns)
            .field("tls", &self.tls)
            .finish()
    }
}

/// Opens the store in a database; makes what is missing.
pub async fn open(
    settings: &Settings,
    retention: Retention,
    environment: Arc<dyn Environment>,
) -> Result<Arc<dyn Store>, Error> {
    let (sessions, start) = connect::open(settings).await?;
    let mirror = Arc::new(Mirror::new(sessions, start, retention.recent_bytes_max));
    let (queue, waiting) = mpsc::channel(commit::QUEUE_COMMITS_MAX);
    let (ended, sequencer_ended) = oneshot::channel();
    let tasks = Tasks::default();
    tasks.spawn("follow", follow::follow(mirror.clone()));
    tasks.spawn("clean", compaction::clean(mirror.clone()));
    tasks
        .spawn("retention", compaction::forget_old(mirror.clone(), retention, environment.clone()));
    let sequencer = commit::Sequencer::new(mirror.clone(), environment);
    tasks.spawn("sequencer", async move {
        sequencer.run(waiting).await;
        // Nobody may be waiting for the end.
        let _ = ended.send(());
    });
    let sequencer_ended = tokio::sync::Mutex::new(Some(sequencer_ended));
    Ok(Arc::new(Replica::new(Arc::new(Mysql { mirror, queue, tasks, sequencer_ended }))))
}

struct Mysql {
    mirror: Arc<Mirror>,
    queue: mpsc::Sender<commit::Pending>,
    tasks: Tasks,
    sequencer_ended: tokio::sync::Mutex<Option<oneshot::Receiver<()>>>,
}

#[async_trait]
impl Backend for Mysql {
    fn state(&self) -> &State {
        &self.mirror.state
    }

    async fn catch_up(&self) -> Result<(), Error> {
        follow::catch_up(&self.mirror).await
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, Error> {
        let (reply, answer) = oneshot::channel();
        let pending = commit::Pending { commit, reply };
        self.queue.send(pending).await.map_err(|_| mirror::closed())?;
        // The sequencer answers everything it took; it ends without doing so only when the store
        // is dropped under it, or when closing it took too long.
        let lost = |_| {
            let what = "the store was closed before the server answered".into();
            Error::OutcomeUnknown { what, source: None }
        };
        answer.await.map_err(lost)?
    }

    async fn compact(&self, before: Revision) -> Result<(), Error> {
        compaction::compact(&self.mirror, before).await
    }

    async fn older(
        &self,
        range: &KeyRange,
        after: Revision,
        to: Revision,
    ) -> Result<Changes, Error> {
        history::older(&self.mirror, range, after, to).await
    }

    fn health(&self) -> Result<(), Error> {
        self.mirror.health()
    }

    async fn close(&self) {
        self.mirror.stop();
        if let Some(ended) = self.sequencer_ended.lock().await.take() {
            // The batch under way gets its answer; what waits behind it is refused.
            let _ = tokio::time::timeout(CLOSE_TIME_MAX, ended).await;
        }
        self.tasks.stop().await;
        self.mirror.sessions.close().await;
    }
}
