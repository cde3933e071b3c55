//! WATCH: what happened since a revision, then what happens, one line each.
//!
//! A watcher is a position in the store's history. What is sent is encoded by the first watcher
//! that needs it. A revision that is gone ends the stream with an ERROR event, never the request.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, stream};
use serde_json::json;
use store::{Batch, Change, Entry, Revision, Watch};
use tokio::time::{Instant, sleep_until};

use super::Request;
use super::list::revision_for;
use super::representations::EventEncoder;
use super::selection::Selection;
use crate::answer::Answer;
use crate::field_error::FieldError;
use crate::persist::{EventType, stored};
use crate::rbac::Standing;
use crate::request::options::{Freshness, Options};
use crate::server::Server;
use crate::status::Error;

/// A watch without a limit of its own ends after this long, so that clients reconnect in turn.
const TIMEOUT_MIN_SECONDS: u64 = 1_800;
const TIMEOUT_SPREAD_SECONDS: u64 = 1_800;
/// How often a quiet watch is told how far it is.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// The last word before the end, so that the next watch starts where this one was.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

pub async fn watch(server: &Arc<Server>, request: &Request) -> Result<Answer, Error> {
    let selection = Selection::parse(&request.options, &request.resource)?;
    let start = Start::of(&request.options)?;
    let mut watcher = Watcher {
        server: server.clone(),
        selection,
        encoder: EventEncoder::of(request, server.now())?,
        relative_to: request.resource.prefix.len(),
        pending: VecDeque::new(),
        watch: None,
        bookmarks: request.options.allow_watch_bookmarks,
        next_bookmark: Instant::now() + BOOKMARK_INTERVAL,
        end: Instant::now() + timeout(&request.options, server),
        is_over: false,
        standing: Standing::of(server, request, "watch"),
    };
    if let Err(error) = watcher.begin(request, start).await {
        // A watch that is refused for its revision is a stream with an error in it.
        if error.code != 410 {
            return Err(error);
        }
        watcher.fail(&error);
    }
    Ok(Answer::stream("application/json", watcher.lines()))
}

fn timeout(options: &Options, server: &Server) -> Duration {
    let seconds = match options.timeout_seconds {
        Some(seconds) if seconds > 0 => seconds,
        _ => TIMEOUT_MIN_SECONDS + server.environment.random() % TIMEOUT_SPREAD_SECONDS,
    };
    Duration::from_secs(seconds)
}

/// Where a watch begins.
enum Start {
    /// With what exists, not older than some revision; and whether its end is marked.
    Initial {
        freshness: Freshness,
    },
    After(u64),
    Now,
}

impl Start {
    fn of(options: &Options) -> Result<Start, Error> {
        let named = options.named_revision()?;
        let matching = options.resource_version_match.as_str();
        match options.send_initial_events {
            Some(_) if matching != "NotOlderThan" => {
                let detail = "sendInitialEvents requires setting resourceVersionMatch to \
                              NotOlderThan";
                let error = FieldError::forbidden("resourceVersionMatch", detail);
                return Err(Error::invalid("ListOptions", "meta.k8s.io", "", &[error]));
            }
            None if !matching.is_empty() => {
                let detail = "resourceVersionMatch is forbidden for watch unless \
                              sendInitialEvents is provided";
                let error = FieldError::forbidden("resourceVersionMatch", detail);
                return Err(Error::invalid("ListOptions", "meta.k8s.io", "", &[error]));
            }
            _ => {}
        }
        Ok(match (options.send_initial_events, named) {
            (Some(true) | None, Some(0)) => Start::Initial { freshness: Freshness::Any },
            (Some(true) | None, None) => Start::Initial { freshness: Freshness::Newest },
            (Some(true), Some(revision)) => {
                Start::Initial { freshness: Freshness::NotOlderThan(revision) }
            }
            (Some(false), None | Some(0)) => Start::Now,
            (_, Some(revision)) => Start::After(revision),
        })
    }
}

struct Watcher {
    server: Arc<Server>,
    selection: Selection,
    encoder: EventEncoder,
    /// The length of the resource's prefix in keys.
    relative_to: usize,
    pending: VecDeque<Bytes>,
    watch: Option<Watch>,
    bookmarks: bool,
    next_bookmark: Instant,
    end: Instant,
    is_over: bool,
    standing: Standing,
}

impl Watcher {
    async fn begin(&mut self, request: &Request, start: Start) -> Result<(), Error> {
        let range = request.resource.range(&request.target.namespace);
        let after = match start {
            Start::After(revision) => Revision(revision),
            Start::Now => self.server.store.revision(),
            Start::Initial { freshness } => {
                let at = revision_for(&self.server, freshness).await?;
                let page = store::PageRequest::all();
                let page = self.server.store.list(&range, page, at).await;
                let page = page.map_err(crate::server::store_failure)?;
                for entry in &page.entries {
                    if self.selection.matches(stored(entry), self.relative(entry)) {
                        let line = self.encoder.encode(EventType::Added, entry, entry.modified);
                        self.pending.push_back(line.await?);
                    }
                }
                if self.bookmarks && request.options.send_initial_events == Some(true) {
                    let line = self.encoder.bookmark(page.revision, true);
                    self.pending.push_back(line);
                }
                page.revision
            }
        };
        let watch = self.server.store.watch(range, after).await;
        self.watch = Some(watch.map_err(expired)?);
        Ok(())
    }

    fn relative<'a>(&self, entry: &'a Entry) -> &'a str {
        &entry.key.as_str()[self.relative_to..]
    }

    fn lines(self) -> impl Stream<Item = Bytes> {
        stream::unfold(self, |mut watcher| async move {
            let line = watcher.next().await?;
            Some((line, watcher))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(piece) = self.take_pending() {
                return Some(piece);
            }
            if self.is_over {
                return None;
            }
            self.advance().await;
        }
    }

    /// All that waits, as one piece: one write for many events.
    fn take_pending(&mut self) -> Option<Bytes> {
        if self.pending.len() <= 1 {
            return self.pending.pop_front();
        }
        let length = self.pending.iter().map(Bytes::len).sum();
        let mut piece = Vec::with_capacity(length);
        for line in self.pending.drain(..) {
            piece.extend_from_slice(&line);
        }
        Some(piece.into())
    }

    async fn advance(&mut self) {
        let Some(watch) = &mut self.watch else {
            self.is_over = true;
            return;
        };
        let last_bookmark = self.end - BOOKMARK_BEFORE_END;
        let bookmark_at = self.next_bookmark.min(last_bookmark.max(Instant::now()));
        tokio::select! {
            biased;
            // Before the changes: a busy watch must not outrun the loss of its right.
            () = self.standing.lost() => self.is_over = true,
            batch = watch.next() => match batch {
                Ok(batch) => self.take(&batch).await,
                Err(store::Error::Stopped { .. }) => self.is_over = true,
                Err(error) => {
                    let error = expired(error);
                    self.fail(&error);
                }
            },
            () = self.server.stopping() => self.is_over = true,
            () = sleep_until(self.end) => self.is_over = true,
            () = sleep_until(bookmark_at), if self.bookmarks && bookmark_at < self.end => {
                let position = watch.position();
                let line = self.encoder.bookmark(position, false);
                self.pending.push_back(line);
                self.next_bookmark = if bookmark_at >= last_bookmark {
                    self.end + BOOKMARK_INTERVAL
                } else {
                    Instant::now() + BOOKMARK_INTERVAL
                };
            }
        }
    }

    async fn take(&mut self, batch: &Batch) {
        for change in &batch.changes {
            let Some((kind, entry)) = self.judge(change) else { continue };
            match self.encoder.encode(kind, entry, batch.revision).await {
                Ok(line) => self.pending.push_back(line),
                Err(error) => return self.fail(&error),
            }
        }
    }

    /// What a change means to someone who only sees what is selected.
    fn judge<'a>(&self, change: &'a Change) -> Option<(EventType, &'a Arc<Entry>)> {
        let wanted = |entry: &Option<Arc<Entry>>| {
            entry
                .as_ref()
                .is_some_and(|entry| self.selection.matches(stored(entry), self.relative(entry)))
        };
        match (wanted(&change.previous), wanted(&change.entry)) {
            (false, true) => Some((EventType::Added, change.entry.as_ref()?)),
            (true, true) => Some((EventType::Modified, change.entry.as_ref()?)),
            (true, false) => Some((EventType::Deleted, change.previous.as_ref()?)),
            (false, false) => None,
        }
    }

    fn fail(&mut self, error: &Error) {
        let event = json!({"type": "ERROR", "object": error.to_status()});
        self.pending.push_back(format!("{event}\n").into());
        self.watch = None;
        self.is_over = true;
    }
}

fn expired(error: store::Error) -> Error {
    match error {
        store::Error::Compacted { requested, oldest } => {
            Error::expired(format!("too old resource version: {requested} ({oldest})"))
        }
        error => crate::server::store_failure(error),
    }
}
