//! Probes against real servers, small ones.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;

use super::super::handlers::{Answer, ask_grpc, ask_http, ask_tcp};

const SOON: Duration = Duration::from_secs(5);

/// Answers every request with what it is given, and tells what it was asked.
async fn server(answer: String) -> (u16, UnboundedReceiver<String>, JoinSet<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (told, asked) = tokio::sync::mpsc::unbounded_channel();
    let mut task = JoinSet::new();
    task.spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).await.unwrap_or(0) > 0 {
                head.push(byte[0]);
            }
            let _ = told.send(String::from_utf8_lossy(&head).into_owned());
            let _ = stream.write_all(answer.replace("PORT", &port.to_string()).as_bytes()).await;
        }
    });
    (port, asked, task)
}

fn answer(status: &str, more: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n{more}\r\n")
}

async fn ask(action: Value) -> Answer {
    ask_http(&action, &json!({"ports": [{"name": "web", "containerPort": 1}]}), "127.0.0.1", SOON)
        .await
}

#[tokio::test]
async fn codes_from_200_to_399_are_good() {
    for (status, more, expected) in [
        ("200 OK", "", Answer::Good),
        ("204 No Content", "", Answer::Good),
        ("399 What", "", Answer::Good),
        ("404 No", "", Answer::Bad("HTTP probe failed with statuscode: 404".into())),
        ("500 Oh", "", Answer::Bad("HTTP probe failed with statuscode: 500".into())),
        (
            "302 Found",
            "Location: http://example.com/\r\n",
            Answer::Warning("Probe terminated redirects, Response body: ".into()),
        ),
    ] {
        let (port, _asked, _server) = server(answer(status, more)).await;
        assert_eq!(ask(json!({"port": port, "path": "/x"})).await, expected, "{status}");
    }
    let (port, mut asked, _server) = server(answer("302 Found", "Location: /again\r\n")).await;
    let Answer::Bad(why) = ask(json!({"port": port})).await else { panic!("it must give up") };
    assert!(why.ends_with("stopped after 10 redirects"), "{why}");
    assert!(asked.recv().await.unwrap().starts_with("GET / HTTP/1.1\r\n"));
    assert!(asked.recv().await.unwrap().starts_with("GET /again HTTP/1.1\r\n"));
}

#[tokio::test]
async fn headers_are_as_the_probe_says() {
    let (port, mut asked, _server) = server(answer("200 OK", "")).await;
    ask(json!({"port": port, "path": "/a?b=c"})).await;
    let head = asked.recv().await.unwrap().to_lowercase();
    assert!(head.starts_with("get /a?b=c http/1.1\r\n"), "{head}");
    for line in ["user-agent: kube-probe/1.36", "accept: */*", "connection: close"] {
        assert!(head.contains(line), "{head}");
    }
    assert!(head.contains(&format!("host: 127.0.0.1:{port}")), "{head}");
    ask(json!({"port": port, "httpHeaders": [{"name": "Host", "value": "web.local"},
        {"name": "Accept", "value": ""}, {"name": "User-Agent", "value": "me"},
        {"name": "X-A", "value": "1"}, {"name": "X-A", "value": "2"}]}))
    .await;
    let head = asked.recv().await.unwrap().to_lowercase();
    assert!(head.contains("host: web.local") && head.contains("user-agent: me"), "{head}");
    assert!(head.contains("x-a: 1") && head.contains("x-a: 2"), "{head}");
    assert!(!head.contains("accept:"), "{head}");
}

#[tokio::test]
async fn what_does_not_answer_is_told_in_known_words() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let refused = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
    let expected = format!("Get \"http://127.0.0.1:{port}/\": {refused}");
    assert_eq!(ask(json!({"port": port})).await, Answer::Bad(expected));
    let socket = json!({"port": port});
    assert_eq!(ask_tcp(&socket, &json!({}), "127.0.0.1", SOON).await, Answer::Bad(refused));
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let action = json!({"port": port});
    let late = ask_http(&action, &json!({}), "127.0.0.1", Duration::from_millis(50)).await;
    let expected = format!(
        "Get \"http://127.0.0.1:{port}/\": context deadline exceeded \
        (Client.Timeout exceeded while awaiting headers)"
    );
    assert_eq!(late, Answer::Bad(expected));
    let (port, _asked, _server) = server(String::new()).await;
    let cut = Answer::Bad(format!("Get \"http://127.0.0.1:{port}/\": EOF"));
    assert_eq!(ask(json!({"port": port})).await, cut);
    let nobody = Answer::Unknown("couldn't find port: \"none\" in container".into());
    assert_eq!(ask(json!({"port": "none"})).await, nobody);
    let named = ask(json!({"port": "web"})).await;
    assert!(matches!(named, Answer::Bad(why) if why.contains("127.0.0.1:1:")));
}

/// Says what state every service is in, with a code of gRPC.
async fn health_server(state: u8, code: &'static str) -> (u16, JoinSet<()>) {
    use bytes::Bytes;
    use http_body_util::{BodyExt, Full};
    use hyper_util::rt::{TokioExecutor, TokioIo};
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut task = JoinSet::new();
    task.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = hyper::service::service_fn(move |request: http::Request<_>| async move {
                assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
                let asked = hyper::body::Incoming::collect(request.into_body()).await;
                assert_eq!(&asked.unwrap().to_bytes()[5..], b"\x0a\x02db");
                let body = Full::new(Bytes::copy_from_slice(&[0, 0, 0, 0, 2, 8, state]));
                let trailers = async move {
                    let code = http::HeaderValue::from_static(code);
                    Some(Ok([("grpc-status", code)]
                        .into_iter()
                        .map(|(name, value)| (http::HeaderName::from_static(name), value))
                        .collect()))
                };
                let answer = http::Response::new(body.with_trailers(trailers));
                Ok::<_, std::convert::Infallible>(answer)
            });
            let stream = TokioIo::new(stream);
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = server.serve_connection(stream, answer).await;
        }
    });
    (port, task)
}

#[tokio::test]
async fn services_are_asked_over_grpc() {
    for (state, code, expected) in [
        (1, "0", Answer::Good),
        (2, "0", Answer::Bad("service unhealthy (responded with \"NOT_SERVING\")".into())),
        (
            1,
            "12",
            Answer::Bad(
                "error: this server does not implement the grpc health protocol \
            (grpc.health.v1.Health): "
                    .into(),
            ),
        ),
        (1, "5", Answer::Bad("error: health rpc probe failed: rpc error: code = 5 desc = ".into())),
    ] {
        let (port, _server) = health_server(state, code).await;
        let probe = json!({"port": port, "service": "db"});
        assert_eq!(ask_grpc(&probe, "127.0.0.1", SOON).await, expected, "{state} {code}");
    }
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let probe = json!({"port": silent.local_addr().unwrap().port()});
    let late = ask_grpc(&probe, "127.0.0.1", Duration::from_millis(50)).await;
    let expected = "timeout: health rpc did not complete within 50ms";
    assert_eq!(late, Answer::Bad(expected.into()));
}
