//! What cannot work is said in one line, with what to do.

use std::sync::Arc;
use std::time::Duration;

use servers::{Cutter, Etcd};
use store::backends::etcd::{self, Settings, Tls};
use store::{Error, Retention, System};

use crate::world::*;

async fn refused(settings: &Settings) -> Error {
    let opened = etcd::open(settings, Retention::default(), Arc::new(System)).await;
    let error = opened.err().expect("it must be refused");
    assert!(!error.to_string().contains('\n'), "{error}");
    error
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_server_is_named_in_time() {
    let server = Etcd::start().unwrap();
    let cutter = Cutter::start(server.port()).unwrap();
    cutter.stall();
    let free = Cutter::start(1).unwrap();
    free.admit(servers::Admit::None);
    for port in [cutter.port(), free.port()] {
        let dial_timeout = Duration::from_secs(1);
        let settings = Settings { dial_timeout, ..settings(local(port)) };
        let begin = tokio::time::Instant::now();
        let error = refused(&settings).await;
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
        assert!(matches!(error, Error::Connect { section: "etcd", .. }), "{error:?}");
        assert!(error.to_string().contains(&format!("127.0.0.1:{port}")), "{error}");
        assert!(error.to_string().contains("storage.etcd"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_format_is_refused_and_nothing_is_changed() {
    let server = Etcd::start().unwrap();
    let endpoint = server.endpoint();
    etcdctl(&endpoint, &["put", "/x/setpoint/format", "7"]);
    let before = server_revision(&endpoint);
    let settings = Settings { prefix: "/x".into(), ..settings(&endpoint) };
    match refused(&settings).await {
        Error::NewerFormat { file, found: 7, .. } => assert_eq!(file, "etcd prefix \"/x\""),
        other => panic!("{other}"),
    }
    assert_eq!(server_revision(&endpoint), before);
    etcdctl(&endpoint, &["put", "/x/setpoint/format", "what"]);
    assert!(matches!(refused(&settings).await, Error::Foreign { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_taken_over_by_a_newer_program_takes_no_more_writes() {
    let server = Etcd::start().unwrap();
    let store = open(&settings(server.endpoint())).await;
    etcdctl(&server.endpoint(), &["put", "/setpoint/format", "2"]);
    within("the store to notice", async {
        while store.health().is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    let written = write(&*store, put("a", "x", None)).await;
    assert!(matches!(written, Err(Error::NewerFormat { .. })), "{written:?}");
}

#[tokio::test]
async fn wrong_settings_are_named() {
    let cases = [
        (Settings { endpoints: vec![], ..Settings::default() }, "storage.etcd.endpoints"),
        (settings("ftp://127.0.0.1:1"), "storage.etcd.endpoints"),
        (settings("http://"), "storage.etcd.endpoints"),
        (Settings { prefix: "x".repeat(65), ..Settings::default() }, "prefix"),
    ];
    for (settings, word) in cases {
        let error = refused(&settings).await;
        assert!(error.to_string().contains(word), "{error}");
    }
    let ca_file = Some("/nowhere/ca.pem".into());
    let tls = Tls { ca_file, ..Tls::default() };
    let error = refused(&Settings { tls, ..settings("https://127.0.0.1:1") }).await;
    assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
}

#[test]
fn the_password_is_not_shown() {
    let settings = Settings { password: "secret".into(), ..Settings::default() };
    assert!(!format!("{settings:?}").contains("secret"));
}
