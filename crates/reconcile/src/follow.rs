//! Keeps a cache filled: list, then watch from there; again after every break.
//!
//! Who needs only part of what there is brings a sink of his own and asks for metadata.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use futures::AsyncBufReadExt;
use http::Request;
use kube::core::Status;
use serde::Deserialize;
use serde_json::Value;

use crate::backoff::Backoff;
use crate::cache::Cache;
use crate::defects::{Defect, is_planted};
use crate::environment::Environment;
use crate::handover::{Hatch, Place, lock};
use crate::kept::Kept;
use crate::kind::Kind;
use crate::object::{Name, Object};
use crate::requests::escape;
use crate::value::text;

/// Objects a page of a list.
const PAGE_OBJECTS_MAX: usize = 500;
/// How long the server keeps a watch open.
const WATCH_SECONDS: u64 = 290;
/// How long after that a silent stream counts as dead.
const SILENCE_SECONDS_MAX: u64 = WATCH_SECONDS + 5;

/// Why a cache could not be filled.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Request(#[from] kube::Error),
    #[error("the server is at revision {revision}, and {newest} was seen before")]
    Old { revision: u64, newest: u64 },
}

/// What asks for metadata in place of objects, of one object, a list or a watch.
pub const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
     application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Why a watch ended.
enum Ended {
    /// The stream is over; go on from the last revision.
    Stream,
    /// What was asked for is no longer there; list again.
    Gone,
}

/// What is filled.
pub trait Sink: Send + Sync + 'static {
    fn kind(&self) -> Kind;

    fn form(&self) -> Form {
        Form::Whole
    }

    /// The one object that is followed, if it is not all of the kind.
    fn only(&self) -> Option<&Name> {
        None
    }

    /// The namespace whose objects are followed, if it is one.
    fn within(&self) -> Option<&str> {
        None
    }

    /// Everything there is, as of a revision.
    fn reset(&self, objects: Vec<Object>, revision: u64);

    /// An object was added or changed.
    fn put(&self, object: Object);

    /// An object went; `last` is how the server last saw it.
    fn remove(&self, last: &Object);

    /// The server has nothing older than this to tell.
    fn advance(&self, revision: u64);
}

/// How much of each object is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Whole,
    Metadata,
}

impl Form {
    fn accept(self) -> &'static str {
        match self {
            Form::Whole => "application/json",
            Form::Metadata => METADATA_ONLY,
        }
    }
}

impl Sink for Cache {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn within(&self) -> Option<&str> {
        self.within.as_deref()
    }

    fn reset(&self, objects: Vec<Object>, revision: u64) {
        Cache::reset(self, objects, revision);
    }

    fn put(&self, object: Object) {
        Cache::put(self, object);
    }

    fn remove(&self, last: &Object) {
        Cache::remove(self, last);
    }

    fn advance(&self, revision: u64) {
        Cache::advance(self, revision);
    }
}

/// Never returns; the caller drops it.
pub async fn follow<S: Sink>(
    cache: Arc<S>,
    (client, place): (kube::Client, Place),
    environment: Arc<dyn Environment>,
) {
    let backoff = Backoff { first: Duration::from_millis(100), max: Duration::from_secs(30) };
    let mut failures = 0;
    let mut position = None;
    // The newest revision that was ever told.
    let mut newest = 0;
    loop {
        let step = match position {
            None => list(&*cache, &client, newest).await.map(Some),
            Some(revision) => match watch(&*cache, (&client, place), revision).await {
                Ok((Ended::Stream, at)) => {
                    // One that told nothing may end as soon as it begins.
                    if at == revision {
                        tokio::time::sleep(backoff.first).await;
                    }
                    Ok(Some(at))
                }
                Ok((Ended::Gone, at)) if is_planted(Defect::NoRelist) => Ok(Some(at)),
                Ok((Ended::Gone, at)) => {
                    newest = newest.max(at);
                    Ok(None)
                }
                Err(error) => Err(error),
            },
        };
        match step {
            Ok(next) => {
                failures = 0;
                newest = newest.max(next.unwrap_or(0));
                position = next;
            }
            Err(error) => {
                failures += 1;
                let delay = backoff.delay(failures, environment.random());
                tracing::warn!(kind = %cache.kind(), %error, ?delay, "watch broke; trying again");
                tokio::time::sleep(delay).await;
            }
        }
    }
}

/// Replaces what the cache holds; returns the revision to watch from.
async fn list(cache: &impl Sink, client: &kube::Client, newest: u64) -> Result<u64, Broken> {
    let mut objects = Vec::new();
    let mut next = String::new();
    loop {
        let (collection, fields) = scope(cache);
        let path = format!(
            "{collection}?limit={PAGE_OBJECTS_MAX}{fields}{}",
            if next.is_empty() { String::new() } else { format!("&continue={next}") }
        );
        let request = get(cache, path).body(Vec::new()).map_err(kube::Error::HttpError)?;
        let page: Page = match client.request(request).await {
            // The token is too old: what was read does not fit together any more.
            Err(kube::Error::Api(status)) if status.code == 410 && !next.is_empty() => {
                objects.clear();
                next.clear();
                continue;
            }
            page => page?,
        };
        let revision = text(&page.metadata["resourceVersion"]).parse().unwrap_or(0);
        next = escape(text(&page.metadata["continue"]));
        if let Some(items) = page.items {
            let (api_version, kind) = (cache.kind().api_version(), cache.kind().kind);
            objects.extend(items.into_iter().map(|Kept(mut item)| {
                // Items of a list may leave out what the list says once.
                item["apiVersion"] = Value::from(api_version.clone());
                item["kind"] = Value::from(kind);
                Object::new(item)
            }));
        }
        if next.is_empty() {
            // A server that lags must not take us back: what we wrote would be undone in our eyes.
            if revision < newest && !is_planted(Defect::TravelBack) {
                return Err(Broken::Old { revision, newest });
            }
            cache.reset(objects, revision);
            return Ok(revision);
        }
    }
}

/// Puts every event into the cache until the stream ends; returns how far it came.
async fn watch(
    cache: &impl Sink,
    (client, place): (&kube::Client, Place),
    from: u64,
) -> Result<(Ended, u64), Broken> {
    let (collection, fields) = scope(cache);
    let path = format!(
        "{collection}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}\
         &resourceVersion={from}{fields}"
    );
    // Each event would be a compressed piece of its own, which few readers understand.
    let request = get(cache, path).header("accept-encoding", "identity");
    let mut request = request.body(Vec::new()).map_err(kube::Error::HttpError)?;
    let hatch = Hatch::default();
    if place == Place::InProcess {
        request.extensions_mut().insert(hatch.clone());
    }
    let mut lines = std::pin::pin!(client.request_stream(request).await?);
    let (mut at, mut line) = (from, Vec::new());
    loop {
        line.clear();
        let silence = Duration::from_secs(SILENCE_SECONDS_MAX);
        let read = tokio::time::timeout(silence, lines.read_until(b'\n', &mut line)).await;
        // A line that was cut is sent again to whoever asks from the last whole one.
        if !matches!(read, Ok(Ok(1..))) || line.last() != Some(&b'\n') {
            return Ok((Ended::Stream, at));
        }
        let event: Event = serde_json::from_slice(&line).map_err(kube::Error::SerdeError)?;
        if event.kind == "ERROR" {
            let status = event.object.unwrap_or_default();
            let status = Status::deserialize(status.0).map_err(kube::Error::SerdeError)?;
            return match status.code {
                410 => Ok((Ended::Gone, at)),
                _ => Err(kube::Error::Api(status.boxed()).into()),
            };
        }
        let object = match event.object {
            Some(Kept(value)) => Object::new(value),
            // Lines without an object and objects in the hatch come in the same order.
            None => match lock(&hatch).pop_front() {
                Some((value, revision)) => Object::shared(value, revision),
                None => return Ok((Ended::Stream, at)),
            },
        };
        at = at.max(object.revision);
        match event.kind.as_ref() {
            "DELETED" => cache.remove(&object),
            "BOOKMARK" => cache.advance(at),
            _ => cache.put(object),
        }
    }
}

/// A page of a list.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: Value,
    items: Option<Vec<Kept>>,
}

/// A line of a watch. Read as it is: the general form of such events is read twice.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    /// None if it came through the hatch.
    object: Option<Kept>,
}

/// What is listed and watched: the path, and what else is asked for.
fn scope(cache: &impl Sink) -> (String, String) {
    match cache.only() {
        Some(name) => {
            let fields = format!("&fieldSelector=metadata.name%3D{}", name.name);
            (cache.kind().collection(&name.namespace), fields)
        }
        None => {
            let namespace = cache.within().unwrap_or_default();
            (cache.kind().collection(namespace), cache.kind().field_query())
        }
    }
}

fn get(cache: &impl Sink, path: String) -> http::request::Builder {
    Request::get(path).header("accept", cache.form().accept())
}
