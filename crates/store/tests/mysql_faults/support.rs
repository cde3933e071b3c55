//! What the tests share: opening stores, plain commits, SQL of our own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use servers::{MariaDb, shared_mariadb};
use store::backends::mysql::{self, Settings};
use store::{
    Commit, Environment, Error, Key, KeyRange, Mutation, Operation, PageRequest, Precondition,
    Provenance, Retention, Revision, Store, System,
};

/// How often a test repeats what it does: once is enough for every day.
pub fn rounds(every_day: usize, full: usize) -> usize {
    if std::env::var_os("SETPOINT_TEST_FULL").is_some() { full } else { every_day }
}

/// Settings for a database of its own on a server.
pub fn settings_at(port: u16) -> Settings {
    static DATABASES: AtomicU32 = AtomicU32::new(0);
    let number = DATABASES.fetch_add(1, Ordering::Relaxed);
    Settings {
        host: "127.0.0.1".into(),
        port,
        user: "setpoint".into(),
        password: "setpoint".into(),
        database: format!("test_{}_{number}", std::process::id()),
        ..Settings::default()
    }
}

pub fn settings_of(server: &MariaDb) -> Settings {
    settings_at(server.port())
}

/// Settings for a database of its own on the server that is never disturbed.
pub fn shared() -> Settings {
    let server = shared_mariadb().expect("MariaDB must be installed");
    Settings { host: server.host.clone(), ..settings_at(server.port) }
}

pub async fn open(settings: &Settings) -> Arc<dyn Store> {
    try_open(settings).await.unwrap()
}

pub async fn try_open(settings: &Settings) -> Result<Arc<dyn Store>, Error> {
    mysql::open(settings, Retention::default(), Arc::new(System)).await
}

/// A connection of our own, beside the store's.
pub async fn connect(settings: &Settings) -> Conn {
    let options = OptsBuilder::default()
        .ip_or_hostname(settings.host.clone())
        .tcp_port(settings.port)
        .prefer_socket(false)
        .user(Some(settings.user.clone()))
        .pass(Some(settings.password.clone()));
    let mut conn = Conn::new(options).await.unwrap();
    let database = &settings.database;
    conn.query_drop(format!("CREATE DATABASE IF NOT EXISTS {database}; USE {database}"))
        .await
        .unwrap();
    conn
}

pub fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

pub fn put(text: &str, value: impl Into<Vec<u8>>, at: Option<Revision>) -> Commit {
    let when = at.map_or(Precondition::Absent, Precondition::At);
    let mutation = Mutation::Put(value.into().into());
    commit(vec![Operation { key: key(text), mutation, when }])
}

pub fn delete(text: &str, at: Revision) -> Commit {
    let when = Precondition::At(at);
    commit(vec![Operation { key: key(text), mutation: Mutation::Delete, when }])
}

pub fn commit(operations: Vec<Operation>) -> Commit {
    Commit { operations, epoch: None, provenance: Provenance::of(System.now(), "test") }
}

/// All keys and values, as text.
pub async fn contents(store: &dyn Store) -> Vec<(String, String)> {
    let page = store.list(&KeyRange::all(), PageRequest::all(), None).await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    page.entries.iter().map(|entry| (entry.key.to_string(), text(&entry.value))).collect()
}

/// Polls until something is so.
pub async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waited = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(30), waited).await.is_ok(), "never: {what}");
}
