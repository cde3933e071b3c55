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

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// What came back in `traceparent`: the trace, and the span in it.
fn returned(answer: &str) -> Option<(String, String)> {
    let header = answer.lines().find_map(|line| line.strip_prefix("traceparent: "))?;
    let parts: Vec<&str> = header.split('-').collect();
    Some((parts[1].to_owned(), parts[2].to_owned()))
}

#[test]
fn a_request_goes_on_with_the_trace_of_its_caller() {
    let sandbox = Sandbox::new();
    let started = sandbox.start(&["--store", "memory", "-v"]);
    let caller = format!("traceparent: 00-{TRACE}-{CALLER}-01\r\n");
    let (code, answer) = started.get_anonymously_with_head("/version", &caller);
    assert_eq!(code, 200, "{answer}");
    let (trace, ours) = returned(&answer).expect("the answer must name the trace");
    assert_eq!(trace, TRACE);
    assert!(ours != CALLER && ours.len() == 16, "{ours}");
    for other in ["", "traceparent: nonsense\r\n"] {
        let (code, answer) = started.get_anonymously_with_head("/version", other);
        assert_eq!((code, returned(&answer)), (200, None), "{answer}");
    }
    let (_, stderr) = started.stop();
    let lines: Vec<serde_json::Value> = stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}")))
        .collect();
    let traced: Vec<_> = lines.iter().filter(|line| line["trace_id"] == TRACE).collect();
    assert!(traced.iter().any(|line| line["path"] == "/version"), "{stderr}");
    let of_version = lines.iter().filter(|line| line["path"] == "/version").count();
    assert!(of_version >= 3 && traced.len() < of_version, "{stderr}");
}

#[test]
fn exported_spans_are_children_of_the_callers() {
    let (endpoint, received) = collector();
    let mut sandbox = Sandbox::new();
    sandbox.set("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
    sandbox.set("OTEL_BSP_SCHEDULE_DELAY", "100");
    let started = sandbox.start(&["--store", "memory"]);
    let caller = format!("traceparent: 00-{TRACE}-{CALLER}-01\r\n");
    let (_, answer) = started.get_anonymously_with_head("/version", &caller);
    let (trace, ours) = returned(&answer).expect("the answer must name the trace");
    assert_eq!(trace, TRACE);
    let (_, answer) = started.get_anonymously_with_head("/version", "");
    assert!(returned(&answer).is_some_and(|(trace, _)| trace != TRACE), "{answer}");
    let bytes = |hex: &str| -> Vec<u8> {
        let pairs = hex.as_bytes().chunks(2).map(|pair| String::from_utf8_lossy(pair));
        pairs.map(|pair| u8::from_str_radix(&pair, 16).expect("hex")).collect()
    };
    let wanted = [bytes(TRACE), bytes(&ours), bytes(CALLER)];
    let mut sent = Vec::new();
    let has = |sent: &[u8], part: &[u8]| sent.windows(part.len()).any(|window| window == part);
    while !wanted.iter().all(|part| has(&sent, part)) {
        let more = received.recv_timeout(Duration::from_secs(20));
        sent.extend(more.expect("the span must be sent within 20 s"));
    }
    started.stop();
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
