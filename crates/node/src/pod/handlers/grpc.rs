//! Asks a pod how it is, over gRPC: `grpc.health.v1.Health/Check`.
//!
//! One message with one field each way does not need more than a few bytes.
//!
//! Upstream: pkg/probe/grpc

use std::time::Duration;

use ::http::{Request, header};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use super::http::Connection;
use super::{Answer, USER_AGENT, why};
use crate::network::dial;

const ANSWER_BYTES_MAX: usize = 10 << 10;
/// Before every message: whether it is compressed, and how long it is.
const HEAD_BYTES: usize = 5;
const SERVING: u64 = 1;
/// What a service may be, by its number.
const STATES: [&str; 4] = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];
/// Codes of gRPC.
const DEADLINE_EXCEEDED: &str = "4";
const UNIMPLEMENTED: &str = "12";

pub async fn probe((host, port): (&str, u16), service: &str, timeout: Duration) -> Answer {
    let address = format!("{host}:{port}");
    let stream = match tokio::time::timeout(timeout, dial::connect_host(host, port)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            let why = format!("dial tcp {address}: {}", why(&error));
            let what = format!("error: failed to connect service {address:?}: {why}");
            return Answer::Bad(what);
        }
        Err(_) => {
            return Answer::Bad(format!(
                "timeout: failed to connect service {address:?} within {timeout:?}: context \
                 deadline exceeded"
            ));
        }
    };
    match tokio::time::timeout(timeout, check(stream, &address, service)).await {
        Ok(answer) => answer,
        Err(_) => Answer::Bad(format!("timeout: health rpc did not complete within {timeout:?}")),
    }
}

async fn check(stream: TcpStream, address: &str, service: &str) -> Answer {
    let failed =
        |why: &dyn std::fmt::Display| Answer::Bad(format!("error: health rpc probe failed: {why}"));
    let (executor, stream) = (TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) =
        match hyper::client::conn::http2::handshake(executor, stream).await {
            Ok(made) => made,
            Err(error) => return failed(&error),
        };
    let _connection = Connection::carry(connection);
    let request = Request::post(format!("http://{address}/grpc.health.v1.Health/Check"))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .header(header::USER_AGENT, USER_AGENT)
        .body(Full::new(Bytes::from(question(service))));
    let request = match request {
        Ok(request) => request,
        Err(error) => return failed(&error),
    };
    let answer = match sender.send_request(request).await {
        Ok(answer) => answer,
        Err(error) => return failed(&error),
    };
    let head = answer.headers().clone();
    let body = match Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await {
        Ok(body) => body,
        Err(error) => return failed(&error),
    };
    // An answer without a message has its code in front.
    let trailers = body.trailers().unwrap_or(&head);
    let text = |name: &str| trailers.get(name).and_then(|it| it.to_str().ok()).unwrap_or("");
    let (code, message) = (text("grpc-status").to_owned(), text("grpc-message").to_owned());
    match code.as_str() {
        "0" | "" => read(&body.to_bytes()),
        UNIMPLEMENTED => Answer::Bad(format!(
            "error: this server does not implement the grpc health protocol \
             (grpc.health.v1.Health): {message}"
        )),
        DEADLINE_EXCEEDED => Answer::Bad("timeout: health rpc did not complete".to_owned()),
        code => failed(&format!("rpc error: code = {code} desc = {message}")),
    }
}

/// `HealthCheckRequest { service }`, as a message is sent.
fn question(service: &str) -> Vec<u8> {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(0x0a);
        number(service.len() as u64, &mut message);
        message.extend_from_slice(service.as_bytes());
    }
    let size = u32::try_from(message.len()).unwrap_or(0).to_be_bytes();
    [&[0][..], &size, &message].concat()
}

/// A number as protobuf writes it: seven bits a byte, the least first.
fn number(mut number: u64, into: &mut Vec<u8>) {
    while number > 0x7f {
        into.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
        number >>= 7;
    }
    into.push(u8::try_from(number).unwrap_or(0));
}

/// `HealthCheckResponse { status }`.
fn read(bytes: &[u8]) -> Answer {
    let message = bytes.get(HEAD_BYTES..).unwrap_or_default();
    let state = match message {
        [] => 0,
        [0x08, state, ..] => u64::from(*state),
        _ => return Answer::Bad("error: health rpc probe failed: unreadable answer".to_owned()),
    };
    if state == SERVING {
        return Answer::Good;
    }
    let name = usize::try_from(state).ok().and_then(|state| STATES.get(state)).unwrap_or(&"?");
    Answer::Bad(format!("service unhealthy (responded with {name:?})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_as_the_protocol_has_them() {
        assert_eq!(question(""), [0, 0, 0, 0, 0]);
        assert_eq!(question("ab"), [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b']);
        assert_eq!(&question(&"x".repeat(200))[5..8], [0x0a, 0xc8, 1]);
        assert_eq!(read(&[0, 0, 0, 0, 2, 8, 1]), Answer::Good);
        let unwell = "service unhealthy (responded with \"NOT_SERVING\")";
        assert_eq!(read(&[0, 0, 0, 0, 2, 8, 2]), Answer::Bad(unwell.to_owned()));
        let unknown = "service unhealthy (responded with \"UNKNOWN\")";
        assert_eq!(read(&[]), Answer::Bad(unknown.to_owned()));
        assert!(matches!(read(&[0, 0, 0, 0, 1, 9]), Answer::Bad(_)));
    }
}
