//! Deletes what nobody owns any more, and lets owners go in the order they were asked to: after
//! those they own (foreground), or after letting those go (orphan).
//!
//! It follows the metadata of every kind that is served. What the watches say only tells where to
//! look; before anything is deleted, the server is asked for the object and for its owners.
//!
//! An owner that is deleted with `orphan` lets go those that the watches have shown by then, as
//! upstream's collector does: who makes a child of an owner that is going takes that chance.
//!
//! Upstream: pkg/controller/garbagecollector

mod follow;
mod graph;
mod observe;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reconcile::act::{self, Written};
use reconcile::backoff::Backoff;
use reconcile::health::State;
use reconcile::leader::Term;
use reconcile::queue::Queue;
use reconcile::requests::Origin;
use reconcile::{Context, Error, Kind, Name};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use follow::Followers;
use graph::{Graph, Node, Reference, Uid};
use observe::{Absent, Kinds};

pub const NAME: &str = "generic-garbage-collector";
/// Objects looked at at once.
const WORKERS_MAX: usize = 32;

/// What watches and workers share.
#[derive(Default)]
pub struct Shared {
    graph: Mutex<Graph>,
    absent: Mutex<Absent>,
    kinds: Mutex<Kinds>,
    queue: Mutex<Waiting>,
    changed: Notify,
    kinds_changed: Notify,
    unknown_came: Notify,
}

#[derive(Default)]
struct Waiting {
    queue: Queue,
    /// Those whose owner is of a kind that is not served.
    unknown: BTreeSet<Name>,
}

impl Shared {
    fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn absent(&self) -> MutexGuard<'_, Absent> {
        self.absent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, uids: Vec<Uid>) {
        if uids.is_empty() {
            return;
        }
        let graph = self.graph();
        let names = uids.iter().filter_map(|uid| graph.node(*uid)).map(|node| queued(&node.uid));
        let names: Vec<Name> = names.collect();
        drop(graph);
        let mut waiting = self.waiting();
        for name in names {
            waiting.queue.add(name, Instant::now());
        }
        drop(waiting);
        self.changed.notify_one();
    }

    /// The kind that a reference means, whatever its version.
    fn kind(&self, reference: &Reference) -> Option<Kind> {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        kinds.get(&(reference.group().to_owned(), reference.kind.to_string())).copied()
    }

    fn set_kinds(&self, all: &[Kind]) {
        let named = |kind: &Kind| ((kind.group.to_owned(), kind.kind.to_owned()), *kind);
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        *kinds = all.iter().map(named).collect::<BTreeMap<_, _>>();
    }

    /// Its objects went with the kind, so those they owned have no owner, though nobody can ask.
    fn kind_went(&self, kind: Kind) {
        let went = self.graph().forget(kind);
        let mut concerned = Vec::new();
        for (owner, dependents) in went {
            let graph = self.graph();
            for node in dependents.iter().filter_map(|uid| graph.node(*uid)) {
                let mut owners = node.owners.iter();
                if let Some(reference) = owners.find(|one| Uid::of(&one.uid) == owner) {
                    self.absent().insert(&node.name.namespace, reference);
                }
            }
            concerned.extend(dependents);
        }
        self.add(concerned);
    }

    /// Its owner is of a kind that is not served.
    fn is_unknown(&self, name: &Name) {
        self.waiting().unknown.insert(name.clone());
        self.unknown_came.notify_one();
    }

    fn look_again_at_unknown(&self) {
        let mut waiting = self.waiting();
        for name in std::mem::take(&mut waiting.unknown) {
            waiting.queue.add(name, Instant::now());
        }
        drop(waiting);
        self.changed.notify_one();
    }
}

fn queued(uid: &str) -> Name {
    Name::new("", uid)
}

/// Runs the collector until everything is to stop.
pub async fn run(context: Context) {
    context.health.set(NAME, State::Starting);
    let shared = Arc::new(Shared::default());
    let mut followers = Followers::new(context.clone(), shared.clone());
    tokio::select! {
        () = followers.start() => {}
        () = context.stopping() => return,
    }
    context.health.set(NAME, State::Running);
    tokio::select! {
        () = followers.keep() => {}
        () = serve(&context, &shared) => {}
    }
}

async fn serve(context: &Context, shared: &Arc<Shared>) {
    let mut running: JoinSet<()> = JoinSet::new();
    let mut term = context.term.clone();
    loop {
        // Who may not act does not wait for what is due either: it would be due at once, for ever.
        let may_act = !matches!(*term.borrow(), Term::Follower(_));
        while running.len() < WORKERS_MAX && may_act {
            let Some(name) = shared.waiting().queue.take(Instant::now()) else { break };
            let (context, shared) = (context.clone(), shared.clone());
            running.spawn(async move { work(&context, &shared, name).await });
        }
        let next = shared.waiting().queue.next_due();
        let is_full = running.len() >= WORKERS_MAX;
        tokio::select! {
            biased;
            () = context.stopping() => break,
            Some(_) = running.join_next() => {}
            Ok(()) = term.changed() => {}
            () = shared.changed.notified(), if !is_full => {}
            () = sleep_until(next), if !is_full && next.is_some() && may_act => {}
        }
    }
    while running.join_next().await.is_some() {}
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Looks at one object and puts it back if that failed.
async fn work(context: &Context, shared: &Shared, name: Name) {
    let began = Instant::now();
    let result = look_at(context, shared, &name).await;
    let class = result.as_ref().err().map(Error::class);
    let mut waiting = shared.waiting();
    waiting.queue.finish(&name);
    match result {
        Ok(()) => waiting.queue.forget_failures(&name),
        Err(error) => {
            let failures = waiting.queue.fail(&name);
            let delay = Backoff::default().delay(failures, context.environment.random());
            let delay = delay.max(error.retry_after().unwrap_or_default());
            tracing::debug!(controller = NAME, error = %error.chain(), ?delay, "trying again");
            waiting.queue.add(name, Instant::now() + delay);
        }
    }
    let depth = waiting.queue.depth();
    drop(waiting);
    shared.changed.notify_one();
    context.metrics.reconciled(NAME, began.elapsed(), class);
    context.metrics.queue(NAME, depth, shared.graph().len());
}

async fn look_at(context: &Context, shared: &Shared, name: &Name) -> Result<(), Error> {
    let uid = Uid::of(&name.name);
    let node: Option<Node> = {
        let graph = shared.graph();
        graph.node(uid).filter(|_| graph.concerns(uid)).cloned()
    };
    let Some(node) = node else { return Ok(()) };
    let reconcile = format!("{:016x}", context.environment.random());
    let origin = Origin { cause: Some(node.revision), reconcile, epoch: None };
    let requests = context.requests(NAME, origin);
    let Some(observed) = observe::observe(shared, &requests, &node).await? else { return Ok(()) };
    if observed.is_unknown {
        shared.is_unknown(name);
    }
    let item = &observed.item;
    for notice in &observed.notices {
        let now = context.environment.now();
        context.recorder.record(&requests, (item.kind, &item.live), notice, now).await;
    }
    let decision = plan::decide(item);
    let mut written = Written::default();
    let mut result =
        act::perform((&requests, &context.caches), &decision.first, &mut written).await;
    if result.is_ok() {
        result = act::perform((&requests, &context.caches), &decision.then, &mut written).await;
    }
    context.metrics.wrote(NAME, written.writes);
    shared.add(decision.look_at);
    match result {
        // It went meanwhile, and the watch tells.
        Err(error) if error.is_not_found() => Ok(()),
        result => result,
    }
}
