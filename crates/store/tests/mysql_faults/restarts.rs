//! A server that is killed and comes back.

use std::sync::atomic::Ordering;

use servers::MariaDb;
use tokio::task::JoinSet;

use crate::oracle::{self, Load, Told, check, check_watch, count, watch_to};
use crate::support::{eventually, open, rounds, settings_of};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_loses_no_acknowledged_write_and_no_event() {
    let mut server = MariaDb::start().unwrap();
    let settings = settings_of(&server);
    let store = open(&settings).await;
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let mut watcher = JoinSet::new();
    watcher.spawn(watch_to(store.clone(), async { stopped.await.unwrap() }));
    let load = Load::start(std::slice::from_ref(&store), 8, "w");
    for round in 1..=rounds(2, 20) {
        let before = load.acknowledged.load(Ordering::SeqCst);
        let more = || load.acknowledged.load(Ordering::SeqCst) >= before + 100 * round;
        eventually("writes go on", async || more()).await;
        server = tokio::task::spawn_blocking(move || {
            server.kill().unwrap();
            server.start_again().unwrap();
            server
        })
        .await
        .unwrap();
    }
    let before = load.acknowledged.load(Ordering::SeqCst);
    eventually("writes come back", async || {
        load.acknowledged.load(Ordering::SeqCst) > before + 100
    })
    .await;
    let attempts = load.finish().await;

    let again = open(&settings).await;
    let log = oracle::log(&*again).await;
    check(&log, &attempts);
    stop.send(again.revision()).unwrap();
    check_watch(&watcher.join_next().await.unwrap().unwrap(), &log);
    let unknown = count(&attempts, |told| matches!(told, Told::Unknown));
    println!("{} attempts, {} revisions, {unknown} unknown", attempts.len(), log.len());
    store.close().await;
    again.close().await;
}
