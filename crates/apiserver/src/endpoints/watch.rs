//! WATCH: what happened since a revision, then what happens, one line each.
//!
//! A watcher is a position in the store's history. What is sent are stored bytes, with their
//! revision put in. A revision that is gone ends the stream with an ERROR event, never the request.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, Stream, stream};
use serde_json::json;
use store::{Batch, Change, Entry, Revision, Watch};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};

use super::Request;
use super::list::revision_for;
use super::reach::{self, Refused};
use super::representations::{EventEncoder, write_event_head};
use super::selection::Selection;
use crate::answer::Answer;
use crate::field_error::FieldError;
use crate::handover::{Follower, HATCH_OBJECTS_MAX, Hatch, Offers, lock};
use crate::persist::{EventType, stored};
use crate::rbac::Standing;
use crate::request::options::{Freshness, Options};
use crate::serve::stopped;
use crate::server::Server;
use crate::status::Error;
use crate::traffic::Permit;

/// A watch without a limit of its own ends after this long, so that clients reconnect in turn.
const TIMEOUT_MIN_SECONDS: u64 = 1_800;
const TIMEOUT_SPREAD_SECONDS: u64 = 1_800;
/// How often a quiet watch is told how far it is.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// The last word before the end, so that the next watch starts where this one was.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Events that are ready are sent together, in pieces of about this size.
const PIECE_BYTES: usize = 64 << 10;

pub async fn watch(server: &Arc<Server>, request: &Request) -> Result<Answer, Error> {
    let permit = server.traffic.watches.enter(&request.user)?;
    let selection = Selection::parse(&request.options, &request.resource)?;
    let start = Start::of(&request.options)?;
    let end = Instant::now() + timeout(&request.options, server);
    let mut watcher = Watcher {
        selection,
        encoder: EventEncoder::of(request, server.now())?,
        relative_to: request.resource.prefix.len(),
        initial: Vec::new().into_iter(),
        pending: Vec::new(),
        watch: None,
        bookmarks: Bookmarks::of(&request.options, end),
        end,
        timer: Box::pin(sleep_until(end)),
        stop: server.stop.clone(),
        is_over: false,
        standing: Standing::of(server, request, "watch"),
        handing: Handing::of(server, request),
        ended: request.resource.custom().map(|version| version.life.ended()),
        _permit: permit,
    };
    if let Err(error) = watcher.begin(server, request, start).await {
        // A watch that is refused for its revision is a stream with an error in it.
        if error.code != 410 {
            return Err(error);
        }
        watcher.fail(&error);
    }
    watcher.set_timer();
    Ok(Answer::watch(watcher.pieces()))
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
    /// With what exists, not older than some revision.
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

/// When a watch is told how far it is.
struct Bookmarks {
    /// `None` when there will be no more.
    next: Option<Instant>,
    last: Instant,
}

impl Bookmarks {
    fn of(options: &Options, end: Instant) -> Bookmarks {
        let now = Instant::now();
        let last = end.checked_sub(BOOKMARK_BEFORE_END).unwrap_or(now).max(now);
        let next = (now + BOOKMARK_INTERVAL).min(last);
        Bookmarks { next: options.allow_watch_bookmarks.then_some(next), last }
    }

    /// Whether one is due; if so, the next one is set.
    fn take_due(&mut self, now: Instant) -> bool {
        let Some(due) = self.next.filter(|due| *due <= now) else { return false };
        self.next = (due < self.last).then(|| (now + BOOKMARK_INTERVAL).min(self.last));
        true
    }
}

struct Watcher {
    selection: Selection,
    encoder: EventEncoder,
    /// The length of the resource's prefix in keys.
    relative_to: usize,
    /// What existed at the beginning and is not sent yet.
    initial: std::vec::IntoIter<Arc<Entry>>,
    /// What is to be sent next, as one piece.
    pending: Vec<u8>,
    watch: Option<Watch>,
    bookmarks: Bookmarks,
    end: Instant,
    /// Goes off at the end, or when a bookmark is due.
    timer: Pin<Box<Sleep>>,
    stop: watch::Receiver<bool>,
    is_over: bool,
    standing: Standing,
    /// For a part of this program.
    handing: Option<Handing>,
    /// For custom resources: true when their definition is another or gone.
    ended: Option<watch::Receiver<bool>>,
    _permit: Permit,
}

impl Watcher {
    async fn begin(
        &mut self,
        server: &Server,
        request: &Request,
        start: Start,
    ) -> Result<(), Error> {
        let range = self.selection.range(&request.resource, &request.target.namespace);
        let after = match start {
            Start::After(revision) => {
                let after = Revision(revision);
                check(server, request, after).await?;
                after
            }
            Start::Now => server.store.revision(),
            Start::Initial { freshness } => {
                let at = revision_for(server, freshness).await?;
                let page = server.store.list(&range, store::PageRequest::all(), at).await;
                let page = page.map_err(crate::server::store_failure)?;
                self.initial = page.entries.into_iter();
                if request.options.allow_watch_bookmarks
                    && request.options.send_initial_events == Some(true)
                {
                    self.encoder.initial_events_end = Some(page.revision);
                }
                page.revision
            }
        };
        let watch = server.store.watch(range, after).await;
        let watch = watch.map_err(|error| expired(error, after))?;
        self.watch = Some(match self.selection.interest(&request.resource) {
            Some(interest) => watch.narrowed(interest),
            None => watch,
        });
        Ok(())
    }

    fn relative<'a>(&self, entry: &'a Entry) -> &'a str {
        &entry.key.as_str()[self.relative_to..]
    }

    fn is_wanted(&self, entry: &Entry) -> bool {
        self.selection.matches(stored(entry), self.relative(entry))
    }

    fn pieces(self) -> impl Stream<Item = Bytes> {
        stream::unfold(self, |mut watcher| async move {
            let piece = watcher.next().await?;
            Some((piece, watcher))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Err(error) = self.take_initial().await {
                self.fail(&error);
            }
            if !self.pending.is_empty() {
                return Some(std::mem::take(&mut self.pending).into());
            }
            if self.is_over {
                return None;
            }
            self.advance().await;
        }
    }

    /// A piece of what existed; its end is marked for those who asked.
    async fn take_initial(&mut self) -> Result<(), Error> {
        while self.pending.len() < PIECE_BYTES {
            let Some(entry) = self.initial.next() else {
                if let Some(revision) = self.encoder.initial_events_end.take() {
                    self.encoder.bookmark(revision, true, &mut self.pending);
                }
                return Ok(());
            };
            if self.is_wanted(&entry) {
                let entry = self.encoder.served(&entry).await?;
                self.encoder.initial(&entry, &mut self.pending);
            }
        }
        Ok(())
    }

    /// Waits for something to say, and takes all that is ready to be said with it.
    async fn advance(&mut self) {
        let Some(watch) = &mut self.watch else {
            self.is_over = true;
            return;
        };
        let happened = tokio::select! {
            biased;
            // Before the changes: a busy watch must not outrun the loss of its right.
            () = self.standing.lost() => return self.is_over = true,
            batch = watch.next() => Some(batch),
            // After them: the last objects go before their kind does.
            () = ended(&mut self.ended) => return self.is_over = true,
            () = stopped(&mut self.stop) => return self.is_over = true,
            () = self.timer.as_mut() => None,
        };
        match happened {
            Some(batch) => self.take_ready(batch).await,
            None => self.take_time(),
        }
    }

    async fn take_ready(&mut self, first: Result<Arc<Batch>, store::Error>) {
        let mut batch = Some(first);
        while let Some(ready) = batch.take() {
            self.take(ready).await;
            let is_full = self.handing.as_ref().is_some_and(Handing::is_full);
            if self.pending.len() < PIECE_BYTES && !is_full {
                batch = self.watch.as_mut().and_then(|watch| watch.next().now_or_never());
            }
        }
    }

    /// A bookmark is due, or the end.
    fn take_time(&mut self) {
        let now = Instant::now();
        if let Some(watch) = &self.watch
            && self.bookmarks.take_due(now)
        {
            self.encoder.bookmark(watch.position(), false, &mut self.pending);
        }
        self.is_over = now >= self.end;
        self.set_timer();
    }

    fn set_timer(&mut self) {
        let next = self.bookmarks.next.unwrap_or(self.end).min(self.end);
        self.timer.as_mut().reset(next);
    }

    async fn take(&mut self, batch: Result<Arc<Batch>, store::Error>) {
        let batch = match batch {
            Ok(batch) => batch,
            Err(store::Error::Stopped { .. }) => return self.close(),
            Err(error) => {
                let position = self.watch.as_ref().map_or(Revision::ZERO, Watch::position);
                let error = expired(error, position);
                return self.fail(&error);
            }
        };
        for change in &batch.changes {
            let Some((kind, entry)) = self.judge(change) else { continue };
            match self.encoder.served(entry).await {
                Ok(entry) => self.tell(kind, &entry, batch.revision),
                Err(error) => return self.fail(&error),
            }
        }
    }

    fn tell(&mut self, kind: EventType, entry: &Entry, revision: Revision) {
        let is_handed = match &mut self.handing {
            Some(handing) => handing.tell(kind, entry, revision, &mut self.pending),
            None => false,
        };
        if !is_handed {
            self.encoder.encode(kind, entry, revision, &mut self.pending);
        }
    }

    fn close(&mut self) {
        self.watch = None;
        self.initial = Vec::new().into_iter();
        self.is_over = true;
    }

    /// What a change means to someone who only sees what is selected.
    fn judge<'a>(&self, change: &'a Change) -> Option<(EventType, &'a Arc<Entry>)> {
        let wanted = |entry: &Option<Arc<Entry>>| {
            entry.as_deref().is_some_and(|entry| self.is_wanted(entry))
        };
        match (wanted(&change.previous), wanted(&change.entry)) {
            (false, true) => Some((EventType::Added, change.entry.as_ref()?)),
            (true, true) => Some((EventType::Modified, change.entry.as_ref()?)),
            (true, false) => Some((EventType::Deleted, change.previous.as_ref()?)),
            (false, false) => None,
        }
    }

    /// The last line, whatever else is still to be said: the client starts over.
    fn fail(&mut self, error: &Error) {
        let event = json!({"type": "ERROR", "object": error.to_status()});
        self.pending.extend_from_slice(format!("{event}\n").as_bytes());
        self.close();
    }
}

/// What a watch puts through a hatch rather than into lines.
struct Handing {
    hatch: Hatch,
    offers: Arc<Offers>,
    _follower: Follower,
}

impl Handing {
    fn of(server: &Server, request: &Request) -> Option<Handing> {
        let hatch = request.carried.hatch.clone()?;
        let follower = server.offers.follow(&request.resource.prefix);
        Some(Handing { hatch, offers: server.offers.clone(), _follower: follower })
    }

    /// Whether the one behind the hatch is to be waited for.
    fn is_full(&self) -> bool {
        lock(&self.hatch).len() >= HATCH_OBJECTS_MAX
    }

    /// Whether it could be told without the object's text, or with little of it.
    fn tell(
        &mut self,
        kind: EventType,
        entry: &Entry,
        revision: Revision,
        out: &mut Vec<u8>,
    ) -> bool {
        if kind == EventType::Deleted {
            // Of what is gone only the name and the uid matter.
            write_event_head(kind, out);
            out.extend_from_slice(b"{\"metadata\":");
            stored(entry).write_metadata(revision, out);
            out.extend_from_slice(b"}}\n");
            return true;
        }
        let Some(object) = self.offers.take(&entry.value) else { return false };
        lock(&self.hatch).push_back((object, revision.0));
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(kind.name().as_bytes());
        out.extend_from_slice(b"\"}\n");
        true
    }
}

async fn ended(ended: &mut Option<watch::Receiver<bool>>) {
    match ended {
        Some(ended) => stopped(ended).await,
        None => std::future::pending().await,
    }
}

async fn check(server: &Server, request: &Request, after: Revision) -> Result<(), Error> {
    match reach::check(server, request, "watch", after).await {
        Ok(()) => Ok(()),
        Err(Refused::Failed(error)) => Err(error),
        Err(Refused::TooOld { requested, oldest }) => {
            Err(expired(store::Error::Compacted { requested, oldest }, after))
        }
    }
}

fn expired(error: store::Error, after: Revision) -> Error {
    match error {
        store::Error::Compacted { oldest, .. } => {
            Error::expired(format!("too old resource version: {after} ({oldest})"))
        }
        error => crate::server::store_failure(error),
    }
}
