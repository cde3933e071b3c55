//! A server that asks who is there.

use std::sync::Arc;
use std::time::Duration;

use servers::Etcd;
use store::backends::etcd::{self, Settings};
use store::{Error, Retention, Revision, System};

use crate::world::*;

/// A server whose tokens last a second.
fn guarded() -> Etcd {
    let server = Etcd::start_with(&["--auth-token-ttl=1"]).unwrap();
    let endpoint = server.endpoint();
    etcdctl(&endpoint, &["user", "add", "root:right"]);
    etcdctl(&endpoint, &["user", "grant-role", "root", "root"]);
    etcdctl(&endpoint, &["auth", "enable"]);
    server
}

fn with_password(server: &Etcd, password: &str) -> Settings {
    let settings = settings(server.endpoint());
    Settings { username: "root".into(), password: password.into(), ..settings }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_is_renewed_when_the_token_or_the_server_is_gone() {
    let mut server = guarded();
    let store = open(&with_password(&server, "right")).await;
    let witness = Witness::after(&store, Revision::ZERO).await;
    let mut at = write(&*store, put("a", "0", None)).await.unwrap().revision;
    // Tokens are dropped some time after their second.
    for round in 0..2 {
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        at = write(&*store, put("a", format!("{round}"), Some(at))).await.unwrap().revision;
    }
    // Restarted, the server knows no token at all.
    server.kill().unwrap();
    server.start_again().unwrap();
    let load = Load::start(std::slice::from_ref(&store), 4);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let ledger = load.finish().await;
    assert!(!ledger.acknowledged.is_empty());
    assert!(store.get(&key("a"), None).await.unwrap().unwrap().modified == at);
    witness.through(store.revision()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_is_an_error_that_names_the_settings() {
    let server = guarded();
    let nobody = settings(server.endpoint());
    for settings in [with_password(&server, "wrong"), nobody] {
        let opened = etcd::open(&settings, Retention::default(), Arc::new(System)).await;
        let error = opened.err().expect("it must be refused");
        assert!(matches!(error, Error::Login { section: "etcd", .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("storage.etcd.username and storage.etcd.password"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_for_a_server_that_asks_for_none_does_no_harm() {
    let server = Etcd::start().unwrap();
    let store = open(&with_password(&server, "any")).await;
    write(&*store, put("a", "x", None)).await.unwrap();
}
