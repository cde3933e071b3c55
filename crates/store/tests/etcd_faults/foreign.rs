//! Other programs on the same server: they read our entries, write among them and compact.

use servers::{Admit, Cutter, Etcd};
use store::{Error, KeyRange, Revision};

use crate::world::*;

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_sees_the_entries_and_their_revisions() {
    let server = Etcd::start().unwrap();
    let store = open(&settings(server.endpoint())).await;
    let made = write(&*store, put("pods/default/a", "hello", None)).await.unwrap();
    let shown = etcdctl(&server.endpoint(), &["get", "--prefix", "/registry/"]);
    assert_eq!(shown, "/registry/pods/default/a\nhello\n");
    let json = etcdctl(&server.endpoint(), &["get", "--prefix", "/registry/", "-w", "json"]);
    assert!(json.contains(&format!("\"mod_revision\":{}", made.revision)), "{json}");
    assert!(json.contains(&format!("\"create_revision\":{}", made.revision)), "{json}");
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_writes_and_deletions_are_seen_once() {
    let server = Etcd::start().unwrap();
    let endpoint = server.endpoint();
    let store = open(&settings(&endpoint)).await;
    let witness = Witness::after(&store, Revision::ZERO).await;
    let ours = write(&*store, put("a", "ours", None)).await.unwrap().revision;
    etcdctl(&endpoint, &["put", "/registry/a", "theirs"]);
    etcdctl(&endpoint, &["put", "/registry/b", "theirs"]);
    etcdctl(&endpoint, &["del", "/registry/b"]);
    let deleted = Revision(server_revision(&endpoint));
    let batches = witness.through(deleted).await;
    let values: Vec<_> = batches
        .iter()
        .flat_map(|batch| batch.changes.iter().map(|change| change.entry.as_ref()))
        .map(|entry| entry.map(|entry| line(entry).1))
        .collect();
    let expected = [Some("ours"), Some("theirs"), Some("theirs"), None];
    assert_eq!(values, expected.map(|value| value.map(str::to_owned)));
    assert_eq!(&*batches[1].provenance.actor, "etcd");
    assert_eq!(&*batches[0].provenance.actor, "test");

    // A writer that has not seen theirs is refused, with the revision that is there.
    let current = store.get(&key("a"), None).await.unwrap().unwrap().modified;
    match write(&*store, put("a", "lost", Some(ours))).await {
        Err(Error::Conflict { current: found, .. }) => assert_eq!(found, Some(current)),
        other => panic!("{other:?}"),
    }
    // Whoever starts later cannot know what they replaced.
    let later = open(&settings(&endpoint)).await;
    let lost = later.changes(&KeyRange::all(), Revision::ZERO, later.revision()).await;
    assert!(matches!(lost, Err(Error::Compacted { .. })), "{lost:?}");
    let known = later.changes(&KeyRange::all(), current, later.revision()).await.unwrap();
    assert!(known.batches.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_while_the_watch_is_away_ends_watchers_and_lists_are_right() {
    let server = Etcd::start().unwrap();
    let endpoint = server.endpoint();
    let cutter = Cutter::start(server.port()).unwrap();
    let store = open(&settings(local(cutter.port()))).await;
    let direct = open(&settings(&endpoint)).await;
    let first = write(&*store, put("a", "1", None)).await.unwrap().revision;
    let witness = Witness::after(&store, Revision::ZERO).await;
    witness.through(first).await;

    cutter.admit(Admit::None);
    cutter.cut_all();
    let mut at = first;
    for number in 0..20 {
        at = write(&*direct, put("a", format!("{number}"), Some(at))).await.unwrap().revision;
    }
    let other = write(&*direct, put("b", "x", None)).await.unwrap().revision;
    let last = write(&*direct, delete("b", other)).await.unwrap().revision;
    etcdctl(&endpoint, &["compact", &server_revision(&endpoint).to_string()]);
    cutter.admit(Admit::All);

    assert!(matches!(witness.ended().await, Error::Compacted { .. }));
    assert_eq!(list(&*store, None).await, list(&*direct, None).await);
    assert_eq!(store.revision(), last);
    let again = Witness::after(&store, last).await;
    let next = write(&*direct, put("a", "after", Some(at))).await.unwrap().revision;
    within("the next write", async {
        while again.seen().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(again.seen()[0].revision, next);
    let old = store.list(&KeyRange::all(), Default::default(), Some(first)).await;
    assert!(matches!(old, Err(Error::Compacted { .. })), "{old:?}");
    // The other store missed nothing and still knows everything.
    let changes = direct.changes(&KeyRange::all(), Revision::ZERO, next).await.unwrap();
    check_chain(&changes.batches);
}

#[tokio::test(flavor = "multi_thread")]
async fn stores_with_different_prefixes_do_not_see_each_other() {
    let server = Etcd::start().unwrap();
    let settings = settings(server.endpoint());
    let prefixed = |prefix: &str| store::backends::etcd::Settings {
        prefix: prefix.into(),
        ..settings.clone()
    };
    let one = open(&prefixed("/s")).await;
    let two = open(&prefixed("")).await;
    let in_one = write(&*one, put("a", "one", None)).await.unwrap().revision;
    let in_two = write(&*two, put("a", "two", None)).await.unwrap().revision;
    assert_eq!(list(&*one, None).await, [("a".into(), "one".into(), in_one.0)]);
    assert_eq!(list(&*two, None).await, [("a".into(), "two".into(), in_two.0)]);
}
