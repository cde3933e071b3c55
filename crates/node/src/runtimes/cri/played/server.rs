//! gRPC, as far as it is needed: one message in, one out, and a stream of nothing.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixListener;

use super::{Failure, State, UNIMPLEMENTED};

/// A flag and a length come before a message.
const PREFIX: usize = 5;

#[expect(clippy::disallowed_methods, reason = "it ends with the server")]
pub async fn serve(listener: UnixListener, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        let state = state.clone();
        let service = service_fn(move |request| {
            let state = state.clone();
            async move { Ok::<_, Infallible>(respond(state, request).await) }
        });
        let serve = http2::Builder::new(TokioExecutor::new());
        tokio::spawn(serve.serve_connection(TokioIo::new(stream), service));
    }
}

async fn respond(
    state: Arc<State>,
    request: http::Request<Incoming>,
) -> http::Response<impl Body<Data = Bytes, Error = Infallible>> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let method = path.rsplit('/').next().unwrap_or_default().to_owned();
    let said = match method.as_str() {
        _ if !path.starts_with("/runtime.v1.") => {
            Err((UNIMPLEMENTED, format!("unknown service {path}")))
        }
        // Without events of pods in its settings it ends the stream, and says nothing.
        "GetContainerEvents" => Ok(None),
        _ => {
            let message = body.slice(PREFIX.min(body.len())..);
            let answer = move || state.answer(&method, &message);
            let answered = tokio::task::spawn_blocking(answer).await;
            answered.unwrap_or_else(|error| Err((13, error.to_string()))).map(Some)
        }
    };
    let frames: Vec<Result<Frame<Bytes>, Infallible>> = frames(said).into_iter().map(Ok).collect();
    let answer = http::Response::builder().header("content-type", "application/grpc");
    answer
        .body(StreamBody::new(futures::stream::iter(frames)))
        .expect("what a test plays must work")
}

fn frames(said: Result<Option<Vec<u8>>, Failure>) -> Vec<Frame<Bytes>> {
    let (message, (code, why)) = match said {
        Ok(message) => (message, (0, String::new())),
        Err(failure) => (None, failure),
    };
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", code.into());
    trailers.insert("grpc-message", encoded(&why).parse().expect("what a test plays must work"));
    let data = message.map(|message| {
        let length =
            u32::try_from(message.len()).expect("what a test plays must work").to_be_bytes();
        Frame::data(Bytes::from([&[0][..], &length, &message].concat()))
    });
    data.into_iter().chain([Frame::trailers(trailers)]).collect()
}

/// What a header cannot hold stands there as numbers.
fn encoded(text: &str) -> String {
    let one = |byte: u8| match byte {
        b' '..=b'~' if byte != b'%' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}
