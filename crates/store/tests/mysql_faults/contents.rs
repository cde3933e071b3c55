//! What goes in comes out, and what is old enough goes.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use servers::MariaDb;
use store::backends::mysql::{self, Settings};
use store::{
    COMMIT_BYTES_MAX, COMMIT_OPERATIONS_MAX, Environment, KEY_BYTES_MAX, KeyRange, Mutation,
    Operation, Precondition, Retention, Revision, System, VALUE_BYTES_MAX,
};
use tokio::task::JoinSet;

use crate::support::{commit, connect, eventually, key, open, put, settings_of, shared, try_open};

#[tokio::test]
async fn any_bytes_come_back_from_the_server() {
    let settings = shared();
    let store = open(&settings).await;
    let every_byte: Vec<u8> = (0..=255).collect();
    let twice: Vec<u8> =
        every_byte.iter().flat_map(|first| [*first, b'\'', *first, b'\\']).collect();
    let values = [vec![], b"'; DROP TABLE x; --".to_vec(), every_byte, twice, vec![0; 100]];
    let keys = ["a", "A", "a ", "a  ", "ä", "a'b", "a\\", "a\0", "a\0b", "\u{10ffff}", "%_`\"?"];
    let mut expected = Vec::new();
    for (number, name) in keys.iter().enumerate() {
        let value = &values[number % values.len()];
        store.commit(put(name, value.clone(), None)).await.unwrap();
        expected.push(((*name).to_owned(), value.clone()));
    }
    let long = "\u{10ffff}".repeat(KEY_BYTES_MAX / 4);
    store.commit(put(&long, "long", None)).await.unwrap();
    expected.push((long, b"long".to_vec()));
    expected.sort();
    let fresh = open(&settings).await;
    let page = fresh.list(&KeyRange::all(), Default::default(), None).await.unwrap();
    let found: Vec<_> =
        page.entries.iter().map(|entry| (entry.key.to_string(), entry.value.to_vec())).collect();
    assert_eq!(found, expected);
    // The history too, with ranges that end in the middle of such keys.
    let range = KeyRange::single(&key("a\0"));
    let changes = fresh.changes(&range, Revision::ZERO, fresh.revision()).await.unwrap();
    assert_eq!(changes.batches.len(), 1);
    let range = KeyRange::between("a'", "a\\\\");
    let changes = fresh.changes(&range, Revision::ZERO, fresh.revision()).await.unwrap();
    assert_eq!(changes.batches.len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_commits_fit_in_the_smallest_packets() {
    let server = MariaDb::start_with(&["--max-allowed-packet=4M"]).unwrap();
    let settings = settings_of(&server);
    let store = open(&settings).await;
    // Every byte of it is escaped. Together they are more than one packet and one batch.
    let mut writers = JoinSet::new();
    for number in 0..8 {
        let store = store.clone();
        writers.spawn(async move {
            let value = vec![b'\''; VALUE_BYTES_MAX];
            store.commit(put(&format!("large/{number}"), value, None)).await.unwrap()
        });
    }
    while let Some(written) = writers.join_next().await {
        written.unwrap();
    }
    let operations = (0..COMMIT_OPERATIONS_MAX).map(|number| Operation {
        key: key(&format!("{number:02}{}", "'".repeat(KEY_BYTES_MAX - 2))),
        mutation: Mutation::Put(
            vec![b'\\'; COMMIT_BYTES_MAX / COMMIT_OPERATIONS_MAX - 2 * KEY_BYTES_MAX].into(),
        ),
        when: Precondition::Absent,
    });
    store.commit(commit(operations.collect())).await.unwrap();
    let fresh = open(&settings).await;
    let page = fresh.list(&KeyRange::prefix("large/"), Default::default(), None).await.unwrap();
    assert_eq!(page.entries.len(), 8);
    assert!(page.entries.iter().all(|entry| entry.value.len() == VALUE_BYTES_MAX));
    let changes = fresh.changes(&KeyRange::all(), Revision::ZERO, Revision(9)).await.unwrap();
    assert_eq!(changes.through, Revision(9));
    assert_eq!(changes.batches[8].changes.len(), COMMIT_OPERATIONS_MAX);

    connect(&settings).await.query_drop("SET GLOBAL max_allowed_packet = 1048576").await.unwrap();
    let error = try_open(&settings).await.err().unwrap().to_string();
    assert!(error.contains("set max_allowed_packet to at least 4194304"), "{error}");
}

#[tokio::test]
async fn the_window_of_history_moves_by_size() {
    let settings = shared();
    let retention = Retention {
        bytes_max: 40_000,
        interval: Duration::from_millis(20),
        ..Retention::default()
    };
    let store = mysql::open(&settings, retention, Arc::new(System)).await.unwrap();
    let mut at = None;
    for _ in 0..100 {
        let mut put = put("a", vec![b'x'; 743], at);
        put.provenance.time = System.now();
        at = Some(store.commit(put).await.unwrap().revision);
    }
    // A commit counts 1,000 bytes: a key of one, its value, and the rest.
    eventually("forty are kept", async || store.compacted() == Revision(61)).await;
    let changes = store.changes(&KeyRange::all(), Revision(60), Revision(100)).await.unwrap();
    assert_eq!(changes.batches.len(), 40);
    assert!(changes.batches[0].changes[0].previous.is_some());
}

#[tokio::test]
async fn the_window_of_history_moves_by_age() {
    let settings = Settings { max_idle_conns: 0, max_open_conns: 0, ..shared() };
    let retention = Retention {
        age_max: Duration::from_secs(3_600),
        interval: Duration::from_millis(20),
        ..Retention::default()
    };
    let store = mysql::open(&settings, retention, Arc::new(System)).await.unwrap();
    let now = System.now();
    let mut at = None;
    for number in 0..10 {
        let mut put = put("a", "1", at);
        put.provenance.time = now.minus(Duration::from_secs(if number < 6 { 7_200 } else { 0 }));
        at = Some(store.commit(put).await.unwrap().revision);
    }
    eventually("the young are kept", async || store.compacted() == Revision(7)).await;
    let mut conn = connect(&settings).await;
    eventually("the old are deleted", async || {
        let oldest = "SELECT MIN(revision) FROM setpoint_commit";
        conn.query_first::<u64, _>(oldest).await.unwrap() == Some(7)
    })
    .await;
}
