//! Thinning out that is cut off, or whose server dies: what is left is whole, and the next goes on.

use std::sync::Arc;
use std::time::Duration;

use servers::{Cutter, MariaDb};
use store::backends::mysql::{self, Settings};
use store::{Store, System};

use crate::support::{eventually, open, rounds, settings_of, shared};
use crate::thinned::{self, Past};

const COMMITS: usize = 90;

async fn thinning(settings: &Settings) -> Arc<dyn Store> {
    mysql::open(settings, thinned::retention(), Arc::new(System)).await.unwrap()
}

/// Reads from the server alone, and changes nothing.
async fn check(settings: &Settings, past: &Past) -> usize {
    let store = open(settings).await;
    past.check(&*store).await;
    let left = past.churn_left(&*store).await;
    store.close().await;
    left
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thinning_that_is_cut_leaves_churn_and_nothing_else() {
    let settings = shared();
    let cutter = Cutter::start(settings.port).unwrap();
    let through = Settings { host: "127.0.0.1".into(), port: cutter.port(), ..settings.clone() };
    let direct = open(&settings).await;
    let (mut past, mut broken) = (Past::new(), 0);
    for offset in (0..9_000).step_by(1_000 / rounds(1, 10)) {
        past.grow(&*direct, COMMITS).await;
        let store = thinning(&through).await;
        let cuts = cutter.cuts();
        cutter.cut_after(offset);
        eventually("the cut", async || cutter.cuts() > cuts).await;
        store.close().await;
        let left = check(&settings, &past).await;
        broken += usize::from(left > past.churn_least());
    }
    assert!(broken > 0, "no cut came while history was thinned out");
    // What was left is left for good, and what follows is thinned out as ever.
    past.grow(&*direct, COMMITS).await;
    let store = thinning(&settings).await;
    let least = past.churn_least();
    eventually("it is thinned out", async || past.churn_left(&*store).await <= least).await;
    store.close().await;
    check(&settings, &past).await;
    direct.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_while_it_thins_out_loses_nothing_else() {
    let mut server = MariaDb::start().unwrap();
    let settings = settings_of(&server);
    let mut past = Past::new();
    for round in 0..rounds(2, 20) {
        let direct = open(&settings).await;
        past.grow(&*direct, 3 * COMMITS).await;
        direct.close().await;
        let store = thinning(&settings).await;
        tokio::time::sleep(Duration::from_millis(22 + 3 * round as u64)).await;
        server = tokio::task::spawn_blocking(move || {
            server.kill().unwrap();
            server.start_again().unwrap();
            server
        })
        .await
        .unwrap();
        store.close().await;
        check(&settings, &past).await;
    }
}
