//! A server that plays a model: it answers every question with the question. It speaks as much of
//! the API of OpenAI as clients need, so that a graph can be tried where Dynamo is not installed.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use clap::Args;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::cli::{Context, small_runtime};

/// What the played model is called.
pub const MODEL: &str = "echo";
/// Where a pod is told its address.
pub const ADDRESS_VARIABLE: &str = "POD_IP";
const QUESTION_BYTES_MAX: usize = 1 << 20;
/// Connections that are answered at once.
const CONNECTIONS_MAX: usize = 64;

/// Answer questions with themselves, as a server of models.
#[derive(Args)]
#[command(hide = true)]
pub struct EchoServer {
    /// The port, at the address that POD_IP says, else at all.
    #[arg(long, default_value_t = 8_000)]
    port: u16,
}

impl EchoServer {
    pub fn run(&self, _: &Context) -> Result<ExitCode> {
        let told = std::env::var(ADDRESS_VARIABLE).ok().and_then(|text| text.parse().ok());
        let host: IpAddr = told.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        small_runtime()?.block_on(serve(SocketAddr::new(host, self.port)))
    }
}

async fn serve(address: SocketAddr) -> Result<ExitCode> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("could not listen on {address}"))?;
    println!("answers at http://{address}/v1");
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.context("could not take a connection")?;
        while connections.len() >= CONNECTIONS_MAX {
            connections.join_next().await;
        }
        connections.spawn(async move {
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service_fn(answer))
                .await;
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let body = Limited::new(request.into_body(), QUESTION_BYTES_MAX).collect().await;
    let asked = body.ok().and_then(|body| serde_json::from_slice(&body.to_bytes()).ok());
    let (status, value) = reply(&method, &path, &asked.unwrap_or(Value::Null));
    let mut response = Response::new(Full::new(Bytes::from(value.to_string())));
    *response.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    Ok(response)
}

/// What is answered. Pure.
fn reply(method: &Method, path: &str, asked: &Value) -> (StatusCode, Value) {
    let words = |text: &str| text.split_whitespace().count();
    match (method, path) {
        (&Method::GET, "/health" | "/live") => (StatusCode::OK, json!({"status": "healthy"})),
        (&Method::GET, "/v1/models") => {
            let model = json!({"id": MODEL, "object": "model", "owned_by": "setpoint"});
            (StatusCode::OK, json!({"object": "list", "data": [model]}))
        }
        (&Method::POST, "/v1/chat/completions") => {
            let messages = asked["messages"].as_array().and_then(|all| all.last());
            let Some(text) = messages.and_then(|one| one["content"].as_str()) else {
                let message = "messages[].content must be text";
                return (StatusCode::BAD_REQUEST, json!({"error": {"message": message}}));
            };
            let answer = json!({"role": "assistant", "content": text});
            let choice = json!({"index": 0, "message": answer, "finish_reason": "stop"});
            let usage = json!({"prompt_tokens": words(text), "completion_tokens": words(text),
                "total_tokens": 2 * words(text)});
            let answer = json!({"id": "echo", "object": "chat.completion", "model": MODEL,
                "choices": [choice], "usage": usage});
            (StatusCode::OK, answer)
        }
        _ => (StatusCode::NOT_FOUND, json!({"error": {"message": "there is nothing here"}})),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_its_answer_and_nonsense_is_refused() {
        let chat = |asked: Value| reply(&Method::POST, "/v1/chat/completions", &asked);
        let (status, answer) = chat(json!({"messages": [{"role": "user", "content": "hi all"}]}));
        assert_eq!(status, StatusCode::OK);
        assert_eq!(answer["choices"][0]["message"]["content"], "hi all");
        assert_eq!(answer["usage"]["total_tokens"], 4);
        assert_eq!(chat(Value::Null).0, StatusCode::BAD_REQUEST);
        let (_, models) = reply(&Method::GET, "/v1/models", &Value::Null);
        assert_eq!(models["data"][0]["id"], MODEL);
        assert_eq!(reply(&Method::GET, "/", &Value::Null).0, StatusCode::NOT_FOUND);
    }
}
