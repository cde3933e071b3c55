//! Keeps the graph filled: one watch of metadata for every kind that is served, started and ended
//! as kinds come and go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use reconcile::follow::{Form, Sink};
use reconcile::{Context, Error, Kind, Object};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::Shared;
use super::graph::Uid;
use crate::discovery;
use crate::kinds::DEFINITION;

/// Kinds that come in one go are asked for once.
const SETTLE: Duration = Duration::from_millis(50);
const RETRY: Duration = Duration::from_secs(1);
/// Definitions are told of before what they define is served, by a moment or, where many come at
/// once, by several. What was too early then is asked for once more.
const SERVED_MAX: Duration = Duration::from_secs(5);
/// How often kinds are asked for while somebody is owned by one that nobody knows.
const UNKNOWN: Duration = Duration::from_secs(30);
/// How long the first lists are waited for. A kind that cannot be listed, for want of the webhook
/// that converts it perhaps, holds up the others no longer than this.
const LISTS_MAX: Duration = Duration::from_secs(30);
/// Kinds of which nobody is collected: there are many, and they end by themselves.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// The watches of this process.
pub struct Followers {
    context: Context,
    shared: Arc<Shared>,
    running: BTreeMap<Kind, Follower>,
    tasks: JoinSet<()>,
}

struct Follower {
    task: AbortHandle,
    ready: watch::Receiver<bool>,
}

/// Where the watch of one kind ends.
struct Into {
    kind: Kind,
    shared: Arc<Shared>,
    ready: watch::Sender<bool>,
}

impl Followers {
    pub fn new(context: Context, shared: Arc<Shared>) -> Followers {
        Followers { context, shared, running: BTreeMap::new(), tasks: JoinSet::new() }
    }

    /// Follows every kind there is; returns when each has been listed once, or has had its time:
    /// an owner that lets go those it owns has to know them.
    pub async fn start(&mut self) {
        self.follow_all().await;
        let waiting: Vec<_> = self.running.values().map(|one| one.ready.clone()).collect();
        let listed = async {
            for mut ready in waiting {
                // A follower that ended belongs to a kind that is gone.
                let _ = ready.wait_for(|ready| *ready).await;
            }
        };
        if tokio::time::timeout(LISTS_MAX, listed).await.is_err() {
            let late = self.running.iter().filter(|(_, one)| !*one.ready.borrow());
            let late: Vec<&str> = late.map(|(kind, _)| kind.kind).collect();
            tracing::warn!(kinds = ?late, "garbage is collected without what cannot be listed");
        }
    }

    /// Goes on following kinds as they come and go, and never waits for one of them: whoever is
    /// owned by what is not listed yet is asked for. Never returns.
    pub async fn keep(&mut self) {
        // The first definitions may have come while the kinds were read.
        let mut again = Some(SERVED_MAX);
        loop {
            tokio::select! {
                () = self.shared.kinds_changed.notified() => {
                    tokio::time::sleep(SETTLE).await;
                    again = Some(SERVED_MAX);
                }
                () = self.shared.unknown_came.notified() => {
                    again = again.or(Some(UNKNOWN));
                    continue;
                }
                () = pause(again) => again = None,
            }
            self.follow_all().await;
            self.shared.look_again_at_unknown();
        }
    }

    async fn follow_all(&mut self) {
        while let Err(error) = self.refresh().await {
            tracing::warn!(error = %error.chain(), "the kinds could not be read");
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn refresh(&mut self) -> Result<(), Error> {
        let requests = self.context.requests(super::NAME, Default::default());
        let served = discovery::served(&requests).await?.served;
        let wanted = served.iter().filter(|one| one.can_watch && one.can_delete);
        let wanted = wanted.map(|one| one.kind);
        let wanted: Vec<Kind> =
            wanted.filter(|kind| !IGNORED.contains(&(kind.group, kind.plural))).collect();
        self.shared.set_kinds(&wanted);
        let gone: Vec<Kind> =
            self.running.keys().filter(|kind| !wanted.contains(kind)).copied().collect();
        for kind in gone {
            if let Some(follower) = self.running.remove(&kind) {
                follower.task.abort();
            }
            self.shared.kind_went(kind);
        }
        for kind in wanted {
            if !self.running.contains_key(&kind) {
                let follower = self.follow(kind);
                self.running.insert(kind, follower);
            }
        }
        // What ended is only kept until it is looked at.
        while self.tasks.try_join_next().is_some() {}
        Ok(())
    }

    fn follow(&mut self, kind: Kind) -> Follower {
        let (ready, is_ready) = watch::channel(false);
        let sink = Arc::new(Into { kind, shared: self.shared.clone(), ready });
        let task = self.tasks.spawn(self.context.caches.fill(sink));
        Follower { task, ready: is_ready }
    }
}

/// Waits, or for ever.
async fn pause(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}

impl Into {
    fn tell(&self, concerned: Vec<Uid>) {
        self.shared.add(concerned);
        if self.kind == DEFINITION {
            self.shared.kinds_changed.notify_one();
        }
    }
}

impl Sink for Into {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn form(&self) -> Form {
        Form::Metadata
    }

    fn reset(&self, objects: Vec<Object>, _: u64) {
        let concerned = self.shared.graph().reset(self.kind, &objects);
        self.tell(concerned);
        self.ready.send_replace(true);
    }

    fn put(&self, object: Object) {
        let concerned = self.shared.graph().put(self.kind, &object);
        self.tell(concerned);
    }

    fn remove(&self, last: &Object) {
        let concerned = self.shared.graph().remove(Uid::of(&last.uid));
        self.tell(concerned);
    }

    fn advance(&self, _: u64) {}
}
