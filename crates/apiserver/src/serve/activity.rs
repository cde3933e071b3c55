//! What goes on on one connection: whether it is idle, and whether it only makes work.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::Limits;
use crate::answer::Body;

/// How long cancelled requests are remembered.
const MINUTE: Duration = Duration::from_secs(60);

pub struct Activity {
    limits: Limits,
    /// Requests that were ever made, those under way, and those given up in this minute.
    begun: AtomicUsize,
    open: AtomicUsize,
    cancelled: AtomicUsize,
    abused: Notify,
}

/// A request under way, until its answer is sent or nobody wants it any more.
pub struct Open {
    activity: Arc<Activity>,
    is_sent: bool,
}

impl Activity {
    pub fn new(limits: Limits) -> Activity {
        Activity {
            limits,
            begun: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            cancelled: AtomicUsize::new(0),
            abused: Notify::new(),
        }
    }

    pub fn open(self: &Arc<Self>) -> Open {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        Open { activity: self.clone(), is_sent: false }
    }

    /// Returns when the first request has not come soon.
    pub async fn is_silent(&self) {
        sleep(self.limits.head_max).await;
        if self.begun.load(Ordering::Relaxed) > 0 {
            std::future::pending().await
        }
    }

    /// Returns when nothing was asked for too long.
    pub async fn is_idle(&self) {
        loop {
            let seen = self.begun.load(Ordering::Relaxed);
            sleep(self.limits.idle_max).await;
            let begun = self.begun.load(Ordering::Relaxed);
            if begun == seen && self.open.load(Ordering::Relaxed) == 0 {
                return;
            }
        }
    }

    /// Returns when too many requests were given up within a minute.
    pub async fn is_abused(&self) {
        loop {
            tokio::select! {
                () = self.abused.notified() => return,
                () = sleep(MINUTE) => self.cancelled.store(0, Ordering::Relaxed),
            }
        }
    }
}

impl Open {
    /// Counts the request as open until its answer is sent.
    pub fn until_sent(mut self, response: Response<Body>) -> Response<Body> {
        // Nobody asks an empty body for a frame.
        self.is_sent = response.body().is_end_stream();
        response.map(|body| Watched { body, open: self }.boxed_unsync())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let activity = &self.activity;
        activity.open.fetch_sub(1, Ordering::Relaxed);
        if self.is_sent {
            return;
        }
        let cancelled = activity.cancelled.fetch_add(1, Ordering::Relaxed) + 1;
        if cancelled > activity.limits.cancelled_per_minute_max {
            activity.abused.notify_one();
        }
    }
}

/// A body that knows whether it was sent to its end.
struct Watched {
    body: Body,
    open: Open,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        // A body of known length is not asked again after its last frame.
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.open.is_sent = true;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
