//! Asks a running instance, over the socket in its data directory.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use crate::socket;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// The answer to a GET, of what runs on a data directory.
pub async fn get(data: &Path, path: &str) -> Result<(StatusCode, Bytes)> {
    let asking = || format!("the program on {} does not answer {path}", data.display());
    match timeout(ANSWER_TIMEOUT, ask(data, path)).await {
        Ok(answer) => answer.with_context(asking),
        Err(_) => Err(anyhow!("it took longer than {ANSWER_TIMEOUT:?}")).with_context(asking),
    }
}

async fn ask(data: &Path, path: &str) -> Result<(StatusCode, Bytes)> {
    let stream = socket::connect(data).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get(path).header(HOST, "localhost").body(Empty::<Bytes>::new())?;
    let answer = async {
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| anyhow!(error))?.to_bytes();
        Ok((head.status, body))
    };
    // The connection must be driven while the answer is read; it is not needed afterwards.
    tokio::pin!(answer);
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        ended = connection => {
            ended?;
            answer.await
        }
    }
}
