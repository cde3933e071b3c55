//! Servers that say no, and databases that are not for us.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use servers::MariaDb;
use store::backends::mysql::Settings;
use store::{Error, KeyRange, Revision};
use tokio::task::JoinSet;

use crate::oracle::{self, Load, check};
use crate::support::{
    connect, contents, eventually, key, open, put, settings_of, shared, try_open,
};

fn message(error: &Error) -> String {
    let message = error.to_string();
    assert!(!message.contains('\n'), "{message}");
    message
}

#[tokio::test]
async fn a_lock_that_is_not_released_is_an_error_and_later_works() {
    let server = MariaDb::start_with(&["--innodb-lock-wait-timeout=1"]).unwrap();
    let settings = settings_of(&server);
    let store = open(&settings).await;
    let mut other = connect(&settings).await;
    other
        .query_drop("BEGIN; SELECT head FROM setpoint_revision WHERE id = 1 FOR UPDATE")
        .await
        .unwrap();
    let begun = tokio::time::Instant::now();
    let refused = store.commit(put("a", "1", None)).await;
    assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    // Reading needs no lock.
    assert_eq!(store.get(&key("a"), None).await.unwrap(), None);
    other.query_drop("ROLLBACK").await.unwrap();
    assert_eq!(store.commit(put("a", "1", None)).await.unwrap().revision, Revision(1));
    store.close().await;
}

#[tokio::test]
async fn a_read_only_server_is_an_error_and_later_works() {
    let server = MariaDb::start().unwrap();
    let settings = settings_of(&server);
    let mut root = connect(&settings).await;
    let database = &settings.database;
    // An account that may do everything may also write to a read-only server.
    root.query_drop(format!(
        "CREATE USER 'plain'@'%' IDENTIFIED BY 'plain'; \
         GRANT ALL PRIVILEGES ON {database}.* TO 'plain'@'%'"
    ))
    .await
    .unwrap();
    let plain = Settings { user: "plain".into(), password: "plain".into(), ..settings.clone() };
    let store = open(&plain).await;
    store.commit(put("a", "1", None)).await.unwrap();
    root.query_drop("SET GLOBAL read_only = 1").await.unwrap();
    let refused = store.commit(put("b", "1", None)).await;
    assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
    assert_eq!(contents(&*store).await.len(), 1);
    // A database that has its tables can be opened for reading.
    let reader = open(&plain).await;
    assert_eq!(contents(&*reader).await.len(), 1);
    root.query_drop("SET GLOBAL read_only = 0").await.unwrap();
    store.commit(put("b", "1", None)).await.unwrap();
    assert_eq!(contents(&*reader).await.len(), 2);
    store.close().await;
    reader.close().await;
}

#[tokio::test]
async fn a_wrong_password_is_named() {
    let settings = Settings { password: "guess".into(), ..shared() };
    let error = try_open(&settings).await.err().unwrap();
    let expected = format!(
        "MySQL at {}:{} refused the user \"setpoint\"; \
         check storage.mysql.user and storage.mysql.password",
        settings.host, settings.port
    );
    assert_eq!(message(&error), expected);
    assert!(!format!("{error:?} {settings:?}").contains("guess"));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = nobody.local_addr().unwrap().port();
    drop(nobody);
    let settings = Settings { host: "127.0.0.1".into(), port, ..Settings::default() };
    let begun = tokio::time::Instant::now();
    let error = try_open(&settings).await.err().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(7), "{:?}", begun.elapsed());
    let expected = format!(
        "could not connect to MySQL at 127.0.0.1:{port}; \
         check that it runs and that storage.mysql is right"
    );
    assert_eq!(message(&error), expected);
}

#[tokio::test]
async fn a_newer_format_is_refused_and_left_alone() {
    let settings = shared();
    let store = open(&settings).await;
    store.commit(put("a", "1", None)).await.unwrap();
    store.close().await;
    let mut conn = connect(&settings).await;
    conn.query_drop("UPDATE setpoint_revision SET format = 7").await.unwrap();
    let error = try_open(&settings).await.err().unwrap();
    let expected = format!(
        "mysql database {} has format 7, this program reads up to 2; use a newer setpoint",
        settings.database
    );
    assert_eq!(message(&error), expected);
    let row: Option<(u64, u64, u32)> =
        conn.query_first("SELECT head, compacted, format FROM setpoint_revision").await.unwrap();
    assert_eq!(row, Some((1, 0, 7)));
}

#[tokio::test]
async fn an_older_format_is_brought_up_to_date() {
    let settings = shared();
    let store = open(&settings).await;
    let first = store.commit(put("a", "1", None)).await.unwrap().revision;
    store.close().await;
    let mut conn = connect(&settings).await;
    let old = "ALTER TABLE setpoint_revision DROP COLUMN thinned; \
               UPDATE setpoint_revision SET format = 1";
    conn.query_drop(old).await.unwrap();
    // Two at once, as when several processes are replaced.
    let (one, other) = tokio::join!(try_open(&settings), try_open(&settings));
    let (one, other) = (one.unwrap(), other.unwrap());
    let second = one.commit(put("a", "2", Some(first))).await.unwrap().revision;
    assert_eq!(other.get(&key("a"), None).await.unwrap().unwrap().modified, second);
    let row: Option<(u32, u64)> =
        conn.query_first("SELECT format, thinned FROM setpoint_revision").await.unwrap();
    assert_eq!(row, Some((2, 0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_pool_is_as_large_as_the_settings_say() {
    for (open_max, idle_max) in [(1, 1), (2, 1), (10, 5)] {
        let settings = Settings { max_open_conns: open_max, max_idle_conns: idle_max, ..shared() };
        let first = open(&settings).await;
        first.commit(put("a", "1", None)).await.unwrap();
        first.close().await;
        let store = open(&settings).await;
        let (mut locker, mut observer) = (connect(&settings).await, connect(&settings).await);
        let locker_id = locker.id();
        let mut connections = async || -> usize {
            let count = format!(
                "SELECT COUNT(*) FROM information_schema.processlist \
                 WHERE db = '{}' AND id NOT IN ({}, CONNECTION_ID())",
                settings.database, locker_id
            );
            observer.query_first(count).await.unwrap().unwrap()
        };
        // History is read from the log, where all readers have to wait.
        locker.query_drop("LOCK TABLES setpoint_log WRITE").await.unwrap();
        let mut readers = JoinSet::new();
        for _ in 0..20 {
            let store = store.clone();
            readers.spawn(async move {
                store.changes(&KeyRange::all(), Revision::ZERO, Revision(1)).await.unwrap()
            });
        }
        eventually("all connections are used", async || connections().await == open_max).await;
        assert_eq!(connections().await, open_max);
        locker.query_drop("UNLOCK TABLES").await.unwrap();
        while let Some(changes) = readers.join_next().await {
            assert_eq!(changes.unwrap().batches.len(), 1);
        }
        // Those that the background keeps count as used.
        let rest = idle_max.max(2).min(open_max) + 2;
        eventually("the others are closed", async || connections().await <= rest).await;
        store.close().await;
        eventually("all are closed", async || connections().await == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_sessions_and_snapshot_isolation_change_nothing() {
    let server = MariaDb::start().unwrap();
    let settings = settings_of(&server);
    let mut root = connect(&settings).await;
    let variable: Option<(String, String)> =
        root.query_first("SHOW VARIABLES LIKE 'innodb_snapshot_isolation'").await.unwrap();
    let values: &[&str] = if variable.is_some() { &["OFF", "ON"] } else { &["as it is"] };
    for value in values {
        if variable.is_some() {
            let set = format!("SET GLOBAL innodb_snapshot_isolation = {value}");
            root.query_drop(set).await.unwrap();
        }
        let settings = settings_of(&server);
        let stores = [open(&settings).await, open(&settings).await];
        let load = Load::start(&stores, 8, "w");
        for _ in 0..10 {
            let list = format!(
                "SELECT id FROM information_schema.processlist WHERE db = '{}'",
                settings.database
            );
            let ids: Vec<u64> = root.query(list).await.unwrap();
            for id in ids.into_iter().step_by(2) {
                // It may be gone already.
                let _ = root.query_drop(format!("KILL {id}")).await;
            }
            let before = load.acknowledged.load(std::sync::atomic::Ordering::SeqCst);
            eventually("writes go on", async || {
                load.acknowledged.load(std::sync::atomic::Ordering::SeqCst) > before + 20
            })
            .await;
        }
        let attempts = load.finish().await;
        let again = open(&settings).await;
        check(&oracle::log(&*again).await, &attempts);
        println!("snapshot isolation {value}: {} attempts", attempts.len());
        for store in stores {
            store.close().await;
        }
    }
}
