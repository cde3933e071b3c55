//! The server is killed under load, stalls, and fills up.

use std::time::Duration;

use servers::{Cutter, Etcd};
use store::{Error, Revision};

use crate::world::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_under_load_loses_no_acknowledged_write() {
    let mut server = Etcd::start().unwrap();
    let store = open(&settings(server.endpoint())).await;
    let other = open(&settings(server.endpoint())).await;
    let witness = Witness::after(&store, Revision::ZERO).await;
    let second = Witness::after(&other, Revision::ZERO).await;
    let load = Load::start(&[store.clone(), other.clone()], 8);
    for _ in 0..rounds(3, 30) {
        tokio::time::sleep(Duration::from_millis(400)).await;
        server = blocking(server, |server| {
            server.kill().unwrap();
            server.start_again().unwrap();
        })
        .await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let ledger = load.finish().await;
    let last = ledger.acknowledged.iter().map(|(_, _, revision)| *revision).max().unwrap();
    let batches = witness.through(last).await;
    ledger.check(&batches);
    let same = second.through(last).await;
    assert_eq!(batches[..same.len().min(batches.len())], same[..same.len().min(batches.len())]);
    assert_eq!(list(&*store, None).await, list(&*other, None).await);
    eprintln!(
        "{} writes, {} conflicts, {} refused, {} unknown",
        ledger.acknowledged.len(),
        ledger.conflicts.len(),
        ledger.refused.len(),
        ledger.unknown.len()
    );
    // What a new process reads is the same.
    let fresh = open(&settings(server.endpoint())).await;
    assert_eq!(list(&*fresh, None).await, list(&*store, None).await);
    let replay = Witness::after(&fresh, Revision::ZERO).await;
    assert_eq!(replay.through(last).await, batches);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_server_is_an_error_in_time_and_goes_on_afterwards() {
    let server = Etcd::start().unwrap();
    let cutter = Cutter::start(server.port()).unwrap();
    let store = open(&settings(local(cutter.port()))).await;
    let first = write(&*store, put("a", "1", None)).await.unwrap();
    cutter.stall();
    let name = key("a");
    let (read, written) = tokio::join!(
        within("the read to give up", store.get(&name, None)),
        within("the write to give up", write(&*store, put("a", "2", Some(first.revision)))),
    );
    assert!(matches!(read, Err(Error::Unavailable { .. })), "{read:?}");
    let unknown = matches!(written, Err(Error::OutcomeUnknown { .. } | Error::Unavailable { .. }));
    assert!(unknown, "{written:?}");
    cutter.resume();
    let entry = within("the store to answer again", async {
        loop {
            match store.get(&key("a"), None).await {
                Ok(entry) => return entry.unwrap(),
                Err(Error::Unavailable { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await;
    if matches!(written, Err(Error::Unavailable { .. })) {
        assert_eq!(entry.value, "1");
    }
    write(&*store, put("a", "3", Some(entry.modified))).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_refuses_writes_truly_and_recovers() {
    let server = Etcd::start_with(&["--quota-backend-bytes=4194304"]).unwrap();
    let endpoint = server.endpoint();
    let store = open(&settings(&endpoint)).await;
    let witness = Witness::after(&store, Revision::ZERO).await;
    let (mut acknowledged, mut refused) = (Vec::new(), Vec::new());
    for number in 0..200 {
        let name = format!("{number:03}");
        match write(&*store, put(&name, vec![b'x'; 100_000], None)).await {
            Ok(_) => acknowledged.push(name),
            Err(Error::Unavailable { .. }) => refused.push(name),
            Err(error) => panic!("{error}"),
        }
        if refused.len() == 3 {
            break;
        }
    }
    assert_eq!(refused.len(), 3);
    let names: Vec<_> = list(&*store, None).await.into_iter().map(|(name, _, _)| name).collect();
    assert_eq!(names, acknowledged);
    // Deleting is possible, and makes room after a compaction.
    etcdctl(&endpoint, &["del", "--prefix", "/registry/0"]);
    etcdctl(&endpoint, &["compact", &server_revision(&endpoint).to_string()]);
    etcdctl(&endpoint, &["defrag"]);
    etcdctl(&endpoint, &["alarm", "disarm"]);
    write(&*store, put("small", "x", None)).await.unwrap();
    witness.through(store.revision()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_went_back_is_noticed() {
    let mut server = Etcd::start().unwrap();
    let store = open(&settings(server.endpoint())).await;
    let mut at = write(&*store, put("a", "0", None)).await.unwrap().revision;
    server.stop().unwrap();
    let (data, backup) =
        (server.data_directory().to_owned(), server.data_directory().with_extension("old"));
    copy(&data, &backup);
    server.start_again().unwrap();
    for number in 1..10 {
        at = write(&*store, put("a", format!("{number}"), Some(at))).await.unwrap().revision;
    }
    server.stop().unwrap();
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(&backup, &data).unwrap();
    server.start_again().unwrap();
    let read = store.get(&key("a"), None).await;
    assert!(matches!(read, Err(Error::Stopped { .. })), "{read:?}");
    let written = write(&*store, put("b", "x", None)).await;
    assert!(matches!(written, Err(Error::Stopped { .. })), "{written:?}");
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

async fn blocking<T: Send + 'static>(
    mut value: T,
    work: impl FnOnce(&mut T) + Send + 'static,
) -> T {
    tokio::task::spawn_blocking(move || {
        work(&mut value);
        value
    })
    .await
    .unwrap()
}
