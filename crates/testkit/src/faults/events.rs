//! The events of a watch, on their way to a component.

use std::sync::Arc;
use std::time::Duration;

use apiserver::answer::Body;
use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use http_body_util::{BodyExt, StreamBody};
use serde::Deserialize;

use super::way::{Faults, Life};
use super::{Fault, Sort};

/// How long what is read stays old.
const STALE: Duration = Duration::from_secs(60);
const GONE: &str = concat!(
    r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"#,
    r#""status":"Failure","message":"too old resource version","reason":"Expired","code":410}}"#,
    "\n"
);

/// What an event is about; the rest of the line is passed on unread.
#[derive(Deserialize)]
pub(super) struct Line {
    #[serde(rename = "type")]
    pub kind: String,
    pub object: Head,
}

#[derive(Deserialize)]
pub(super) struct Head {
    pub metadata: Metadata,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    pub namespace: String,
    pub name: String,
    pub resource_version: String,
}

/// A stream that says at once that it cannot be had.
pub(super) fn gone() -> Body {
    http_body_util::Full::new(Bytes::from_static(GONE.as_bytes())).boxed_unsync()
}

/// The events of a watch with what happens to them.
pub(super) fn through(faults: Arc<Faults>, life: Arc<Life>, sort: Sort, body: Body) -> Body {
    let lines = Lines { body, rest: BytesMut::new() };
    let feed = Feed { faults, life, sort, lines, is_over: false };
    let stream = futures::stream::unfold(feed, |mut feed| async move {
        let line = feed.next().await?;
        Some((Ok(http_body::Frame::data(line)), feed))
    });
    StreamBody::new(stream).boxed_unsync()
}

struct Feed {
    faults: Arc<Faults>,
    life: Arc<Life>,
    sort: Sort,
    lines: Lines,
    is_over: bool,
}

impl Feed {
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        let line = match self.faults.lag() {
            None => self.lines.next().await?,
            Some(lag) => match self.lines.next().now_or_never() {
                Some(line) => line?,
                None => {
                    let line = self.lines.next().await?;
                    tokio::time::sleep(lag).await;
                    line
                }
            },
        };
        let Ok(event) = serde_json::from_slice::<Line>(&line) else { return Some(line) };
        let revision = event.object.metadata.resource_version.parse().unwrap_or(0);
        self.faults.reaches(revision).await;
        self.faults.runs().await;
        match self.faults.event(&self.sort, self.life.number, &event, revision) {
            None => {}
            Some(Fault::Cut) => return None,
            Some(Fault::CutMidway) => {
                self.is_over = true;
                return Some(line.slice(..line.len() / 2));
            }
            Some(Fault::Hold(seconds)) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            Some(Fault::Skip(seconds)) => {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                return self.gone();
            }
            Some(Fault::Bounce(revision)) => {
                self.faults.freeze(revision, STALE);
                return self.life.die().await;
            }
            Some(Fault::Travel(revision)) => {
                self.faults.freeze(revision, STALE);
                return self.gone();
            }
            Some(_) => return self.gone(),
        }
        Some(line)
    }

    fn gone(&mut self) -> Option<Bytes> {
        self.is_over = true;
        self.faults.forget(&self.sort);
        Some(Bytes::from_static(GONE.as_bytes()))
    }
}

/// A body cut into lines.
struct Lines {
    body: Body,
    rest: BytesMut,
}

impl Lines {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                return Some(self.rest.split_to(end + 1).freeze());
            }
            let frame = self.body.frame().await?;
            if let Ok(data) = frame.unwrap_or_else(|never| match never {}).into_data() {
                self.rest.extend_from_slice(&data);
            }
        }
    }
}
