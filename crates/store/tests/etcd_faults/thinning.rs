//! Thinning out that is cut off, or whose server dies: what is left is whole, and the next goes on.

use std::sync::Arc;
use std::time::Duration;

use servers::{Cutter, Etcd};
use store::backends::etcd::{self, Settings};
use store::{Store, System};

use crate::thinned::{self, Past};
use crate::world::*;

const COMMITS: usize = 90;

async fn thinning(settings: &Settings) -> Arc<dyn Store> {
    etcd::open(settings, thinned::retention(), Arc::new(System)).await.unwrap()
}

/// Reads from the server alone, and changes nothing.
async fn check(settings: &Settings, past: &Past) -> usize {
    let store = open(settings).await;
    past.check(&*store).await;
    let left = past.churn_left(&*store).await;
    store.close().await;
    left
}

async fn thinned_out(store: &dyn Store, past: &Past) {
    within("it to be thinned out", async {
        while past.churn_left(store).await > past.churn_least() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thinning_that_is_cut_goes_on_later() {
    let server = Etcd::start().unwrap();
    let direct_settings = settings(server.endpoint());
    let cutter = Cutter::start(server.port()).unwrap();
    let through = settings(local(cutter.port()));
    let direct = open(&direct_settings).await;
    let mut past = Past::new();
    for offset in (0..20_000).step_by(2_000 / rounds(1, 10)) {
        past.grow(&*direct, COMMITS).await;
        let store = thinning(&through).await;
        let cuts = cutter.cuts();
        cutter.cut_after(offset);
        within("a cut", async {
            while cutter.cuts() == cuts {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        store.close().await;
        check(&direct_settings, &past).await;
    }
    let store = thinning(&direct_settings).await;
    thinned_out(&*store, &past).await;
    store.close().await;
    check(&direct_settings, &past).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_while_it_thins_out_loses_nothing_else() {
    let mut server = Etcd::start().unwrap();
    let settings = settings(server.endpoint());
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
    let store = thinning(&settings).await;
    thinned_out(&*store, &past).await;
    store.close().await;
    check(&settings, &past).await;
}
