//! Waits for events of a watch without reading them: the selector says what counts, so that the
//! driver costs little beside the server.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use http_body_util::BodyExt;
use memchr::memmem;
use tokio::task::JoinHandle;

use super::PATIENCE;
use crate::api::client::{Connection, Http};
use crate::api::target::Target;
use crate::statistics::now;

/// When the first and the last of the expected events came.
#[derive(Clone, Copy)]
pub struct Arrived {
    pub first: Instant,
    pub last: Instant,
}

/// Begins to wait for so many events of a type. It is watching when this returns.
pub async fn expect(
    target: &Arc<Target>,
    path: &str,
    kind: &str,
    count: usize,
) -> Result<JoinHandle<Result<Arrived>>> {
    let mut connection = Connection::open(target, Http::One).await?;
    let separator = if path.contains('?') { '&' } else { '?' };
    let path = format!("{path}{separator}watch=true");
    let body = connection.begin(target.request("GET", &path, String::new())).await?.into_body();
    let needle = format!("{{\"type\":\"{kind}\"");
    #[expect(clippy::disallowed_methods, reason = "the caller waits for it")]
    let waiting = tokio::spawn(async move {
        // Dropped with the task: the connection lives as long as somebody waits.
        let _connection = connection;
        let wait = read(body, &needle, count);
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(arrived) => arrived,
            Err(_) => bail!("not all of {count} events came"),
        }
    });
    Ok(waiting)
}

async fn read(mut body: hyper::body::Incoming, needle: &str, count: usize) -> Result<Arrived> {
    let finder = memmem::Finder::new(needle);
    let (mut seen, mut first, mut rest) = (0, None, Vec::new());
    loop {
        let frame = body.frame().await.context("the watch ended")??;
        let Ok(data) = frame.into_data() else { continue };
        rest.extend_from_slice(&data);
        seen += finder.find_iter(&rest).count();
        // The needle may be cut by the end of a frame.
        let keep = rest.len().saturating_sub(needle.len() - 1);
        rest.drain(..keep);
        if seen > 0 && first.is_none() {
            first = Some(now());
        }
        if seen >= count {
            let last = now();
            return Ok(Arrived { first: first.unwrap_or(last), last });
        }
    }
}
