//! The largest commits really fit.

use servers::Etcd;
use store::{
    COMMIT_OPERATIONS_MAX, Epoch, Error, KEY_BYTES_MAX, KeyRange, Revision, VALUE_BYTES_MAX,
};

use crate::world::*;

fn large(byte: u8) -> Vec<u8> {
    vec![byte; VALUE_BYTES_MAX]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_value_is_made_replaced_deleted_and_remembered() {
    let server = Etcd::start().unwrap();
    let settings = settings(server.endpoint());
    let store = open(&settings).await;
    let name = "k".repeat(KEY_BYTES_MAX);
    let first = write(&*store, put(&name, large(1), None)).await.unwrap().revision;
    let second = write(&*store, put(&name, large(2), Some(first))).await.unwrap().revision;
    let third = write(&*store, delete(&name, second)).await.unwrap().revision;
    let fresh = open(&settings).await;
    for store in [&store, &fresh] {
        for (at, expected) in [(first, Some(large(1))), (second, Some(large(2))), (third, None)] {
            let entry = store.get(&key(&name), Some(at)).await.unwrap();
            assert!(entry.map(|entry| entry.value.to_vec()) == expected, "at {at}");
        }
    }
    let changes = fresh.changes(&KeyRange::all(), Revision::ZERO, third).await.unwrap();
    check_chain(&changes.batches);
    assert_eq!(changes.batches.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_of_large_values_is_told_and_leaves_nothing_behind() {
    let server = Etcd::start().unwrap();
    let store = open(&settings(server.endpoint())).await;
    let other = open(&settings(server.endpoint())).await;
    let first = write(&*store, put("a", large(1), None)).await.unwrap().revision;
    let (one, two) = tokio::join!(
        write(&*store, put("a", large(2), Some(first))),
        write(&*other, put("a", large(3), Some(first))),
    );
    let (won, lost) = match (one, two) {
        (Ok(won), Err(lost)) | (Err(lost), Ok(won)) => (won, lost),
        other => panic!("{other:?}"),
    };
    match lost {
        Error::Conflict { current, .. } => assert_eq!(current, Some(won.revision)),
        other => panic!("{other}"),
    }
    let aside =
        etcdctl(&server.endpoint(), &["get", "--prefix", "/setpoint/previous/", "--keys-only"]);
    assert_eq!(aside.lines().filter(|line| !line.is_empty()).count(), 2, "{aside}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_most_operations_are_made_and_deleted_in_one_commit_each() {
    let server = Etcd::start().unwrap();
    let store = open(&settings(server.endpoint())).await;
    let names: Vec<_> = (0..COMMIT_OPERATIONS_MAX).map(|number| format!("{number:0500}")).collect();
    let mut commit = all(names.iter().map(|name| put(name, vec![7; 20_000], None)).collect());
    commit.epoch = Some(Epoch { group: "leaders".into(), number: 3 });
    let made = store.commit(commit).await.unwrap().revision;
    let page = store.list(&KeyRange::all(), Default::default(), None).await.unwrap();
    assert_eq!(page.entries.len(), COMMIT_OPERATIONS_MAX);
    assert!(page.entries.iter().all(|entry| entry.modified == made));
    let commit = all(names.iter().map(|name| delete(name, made)).collect());
    let deleted = store.commit(commit).await.unwrap().revision;
    assert!(list(&*store, None).await.is_empty());
    assert_eq!(list(&*store, Some(made)).await.len(), COMMIT_OPERATIONS_MAX);
    let fresh = open(&settings(server.endpoint())).await;
    assert_eq!(list(&*fresh, Some(made)).await.len(), COMMIT_OPERATIONS_MAX);
    let changes = fresh.changes(&KeyRange::all(), Revision::ZERO, deleted).await.unwrap();
    check_chain(&changes.batches);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_epoch_is_refused_in_every_process() {
    let server = Etcd::start().unwrap();
    let one = open(&settings(server.endpoint())).await;
    let two = open(&settings(server.endpoint())).await;
    let with = |name: &str, number| {
        let mut commit = all(vec![put(name, "x", None)]);
        commit.epoch = Some(Epoch { group: "leaders".into(), number });
        commit
    };
    one.commit(with("a", 5)).await.unwrap();
    // At once: the other process may not have seen the epoch yet.
    match two.commit(with("b", 4)).await {
        Err(Error::Fenced { offered: 4, current: 5, .. }) => {}
        other => panic!("{other:?}"),
    }
    two.commit(with("b", 5)).await.unwrap();
    two.commit(with("c", 9)).await.unwrap();
    match one.commit(with("d", 5)).await {
        Err(Error::Fenced { offered: 5, current: 9, .. }) => {}
        other => panic!("{other:?}"),
    }
    one.commit(with("d", 9)).await.unwrap();
    // A refused commit with a conflict too is told as fenced.
    match one.commit(with("a", 1)).await {
        Err(Error::Fenced { current: 9, .. }) => {}
        other => panic!("{other:?}"),
    }
}
