//! Spans reach a collector that the environment names.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::sandbox::Sandbox;

const SET: &str = r#"{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
    "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template":
    {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}}}"#;

/// A receiver of OTLP over HTTP: answers every request well and hands out what was sent.
fn collector() -> (String, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port must exist");
    let address = listener.local_addr().expect("it must be bound");
    let (sender, received) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let sender = sender.clone();
            thread::spawn(move || {
                let mut buffer = vec![0; 1 << 20];
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    let _ = sender.send(buffer[..count].to_vec());
                    let is_end = whole(&buffer[..count]);
                    if is_end
                        && stream
                            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                            .is_err()
                    {
                        return;
                    }
                }
            });
        }
    });
    (format!("http://{address}"), received)
}

/// Whether a read holds the whole request. Batches of this test are small and come in one piece.
fn whole(bytes: &[u8]) -> bool {
    bytes.windows(4).any(|window| window == b"\r\n\r\n")
}

#[test]
fn spans_of_requests_and_reconciles_are_sent_to_the_collector_that_is_named() {
    let (endpoint, received) = collector();
    let mut sandbox = Sandbox::new();
    sandbox.set("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
    sandbox.set("OTEL_BSP_SCHEDULE_DELAY", "100");
    let started = sandbox.start(&["--store", "memory"]);
    let kubeconfig = sandbox.data().join("kubeconfig").display().to_string();
    let made = sandbox.kubectl(&["--kubeconfig", &kubeconfig, "create", "-f", "-"], SET);
    assert_eq!(made.code, Some(0), "{made:?}");
    let mut sent = Vec::new();
    let wanted = ["POST", "/apis/apps/v1/namespaces/default/replicasets", "replicaset-controller"];
    let has =
        |sent: &[u8], text: &str| sent.windows(text.len()).any(|window| window == text.as_bytes());
    while !wanted.iter().all(|text| has(&sent, text)) {
        let more = received.recv_timeout(Duration::from_secs(20));
        sent.extend(more.expect("every span must be sent within 20 s"));
    }
    assert!(has(&sent, "/v1/traces"));
    assert!(has(&sent, "setpoint"));
    started.stop();
}
