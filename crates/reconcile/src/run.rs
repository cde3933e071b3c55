//! The loop that runs one controller: take what is due, reconcile, put it back.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::jiff::Timestamp;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::Instrument;

use crate::Error;
use crate::act::{self, Written};
use crate::cache::{Cache, Change};
use crate::caches::ShownWrite;
use crate::context::Context;
use crate::defects::{Defect, is_planted};
use crate::handover::Place;
use crate::health::State;
use crate::kind::Kind;
use crate::leader::Term;
use crate::lines::{Look, Subject};
use crate::object::{Name, Object};
use crate::plan::{Notice, Plan, Repeat, Wake};
use crate::reconciler::{Feed, Reconciler, Settings, Waker, Watches};
use crate::requests::{Origin, Requests};
use crate::resource_metrics::Ended;
use crate::tuning::Pace;

/// How long a reconcile waits for the caches to show what it wrote before.
const CATCH_UP_SECONDS_MAX: u64 = 30;
/// How long an object rests at most after a look that did nothing but report.
const REST_MAX: Duration = Duration::from_millis(250);

/// Notices about other objects that are recorded together at most.
const NOTICES_TOGETHER_MAX: usize = 16;

/// Spans for a collector of traces; no lines of a log.
const SPANS: &str = "setpoint::spans";

/// When an object that something was written for is looked at again, whether a change says so or
/// not.
const RELOOK: Duration = Duration::from_secs(CATCH_UP_SECONDS_MAX);

/// One running controller.
struct Runner<R> {
    reconciler: R,
    context: Context,
    settings: Settings,
    pace: Mutex<Pace>,
    cache: Arc<Cache>,
    shared: Arc<Shared>,
    /// What was last written for each object.
    written: Mutex<BTreeMap<Name, Written>>,
}

/// What wakers and the loop share.
#[derive(Default)]
struct Shared {
    queue: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Default)]
struct Waiting {
    queue: crate::queue::Queue,
    /// The revision of the change that woke each object.
    causes: BTreeMap<Name, u64>,
}

/// Whether an object that rests is woken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Urgency {
    AtOnce,
    AfterRest,
}

/// What users ask of an object does not wait; what its children do may.
fn urgency(kind: Kind, of: Kind, change: &Change) -> Urgency {
    let asks = |object: &Arc<Object>| (object.generation(), object.is_terminating());
    let is_asked = change.old.as_ref().map(asks) != change.new.as_ref().map(asks);
    if kind == of && is_asked { Urgency::AtOnce } else { Urgency::AfterRest }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, names: Vec<Name>, cause: u64, urgency: Urgency) {
        let mut waiting = self.lock();
        for name in names {
            if urgency == Urgency::AtOnce {
                waiting.queue.end_rest(&name);
            }
            if cause > 0 {
                let newest = waiting.causes.entry(name.clone()).or_default();
                *newest = (*newest).max(cause);
            }
            waiting.queue.add(name, Instant::now());
        }
        drop(waiting);
        self.changed.notify_one();
    }
}

/// Runs a controller until everything is to stop.
pub async fn run<R: Reconciler>(context: Context, reconciler: R) {
    context.health.set(R::NAME, State::Starting);
    let shared = Arc::new(Shared::default());
    let caches = subscribe(&context, &reconciler, &shared);
    for cache in &caches {
        tokio::select! {
            () = cache.reaches(1) => {}
            () = context.stopping() => return,
        }
    }
    let runner = Arc::new(Runner {
        settings: context.tuning.apply(reconciler.settings()),
        pace: Mutex::new(Pace::new(context.tuning.per_second_max)),
        cache: context.cache(R::KIND),
        reconciler,
        context,
        shared,
        written: Mutex::default(),
    });
    runner.serve().await;
}

/// Connects the caches to the queue; returns those that must be whole first.
fn subscribe<R: Reconciler>(
    context: &Context,
    reconciler: &R,
    shared: &Arc<Shared>,
) -> Vec<Arc<Cache>> {
    let mut watches = Watches::new(context.caches.clone());
    watches.by(R::KIND, |change| {
        let mut sides = [&change.old, &change.new].into_iter().flatten();
        let concerns = sides.any(|object| R::concerns(object));
        concerns.then(|| change.object().name.clone()).into_iter().collect()
    });
    reconciler.watches(&mut watches);
    let mut caches = Vec::new();
    for feed in watches.feeds {
        // A controller that ended is not told any more.
        let shared = Arc::downgrade(shared);
        match feed {
            Feed::Full(kind, waker) => {
                let cache = context.cache(kind);
                cache.subscribe(move |change| wake_by::<R>(&shared, (kind, &waker), change));
                caches.push(cache);
            }
            Feed::Owned(kind, waker) => {
                let cache = context.owned_cache(kind).full_objects().clone();
                cache.subscribe(move |change| wake_by::<R>(&shared, (kind, &waker), change));
                caches.push(cache);
            }
            Feed::Removals(kind, waker) => {
                let cache = context.owned_cache(kind);
                caches.push(cache.full_objects().clone());
                cache.subscribe_to_removals(move |name| {
                    let Some(shared) = shared.upgrade() else { return };
                    let names = call_waker::<R>(kind, || waker(name));
                    if !names.is_empty() {
                        shared.wake(names, 0, Urgency::AfterRest);
                    }
                });
            }
        }
    }
    caches
}

/// Puts the objects that a change concerns into the queue.
fn wake_by<R: Reconciler>(shared: &Weak<Shared>, (kind, waker): (Kind, &Waker), change: &Change) {
    let Some(shared) = shared.upgrade() else { return };
    let names = call_waker::<R>(kind, || waker(change));
    if !names.is_empty() {
        shared.wake(names, change.object().revision, urgency(kind, R::KIND, change));
    }
}

/// A waker that panics must not end the feed of other controllers.
fn call_waker<R: Reconciler>(kind: Kind, waker: impl FnOnce() -> Vec<Name>) -> Vec<Name> {
    catch_unwind(AssertUnwindSafe(waker)).unwrap_or_else(|_| {
        tracing::error!(controller = R::NAME, %kind, "a waker panicked");
        Vec::new()
    })
}

impl<R: Reconciler> Runner<R> {
    async fn serve(self: &Arc<Self>) {
        let mut running: JoinSet<(Name, Outcome)> = JoinSet::new();
        let mut term = self.context.term.clone();
        let mut elsewhere = self.context.elsewhere.clone();
        self.wake_all();
        loop {
            if self.may_act() {
                self.start_due(&mut running);
            }
            let next = self.next_due();
            let is_full = running.len() >= self.settings.workers_max;
            tokio::select! {
                biased;
                () = self.context.stopping() => break,
                Some(Ok((name, outcome))) = running.join_next() => self.settle(name, outcome),
                Ok(()) = term.changed() => self.wake_all(),
                () = elsewhere.changed() => self.wake_all(),
                () = self.shared.changed.notified(), if !is_full => {}
                () = sleep_until(next), if !is_full && next.is_some() && self.may_act() => {}
            }
        }
        // What has begun may end; steps are whole, so cutting it short would be safe too.
        while running.join_next().await.is_some() {}
    }

    fn may_act(&self) -> bool {
        let may = !matches!(*self.context.term.borrow(), Term::Follower(_));
        if !may {
            self.context.health.set(R::NAME, State::Standby);
        }
        may
    }

    /// Every object is looked at: at the start, and when this process begins to lead.
    fn wake_all(&self) {
        // Who has nothing to do works as well.
        if self.may_act() {
            self.context.health.set(R::NAME, State::Running);
        }
        for object in self.cache.all().into_iter().filter(|object| R::concerns(object)) {
            self.shared.wake(vec![object.name.clone()], object.revision, Urgency::AtOnce);
        }
    }

    /// When to look again if nothing changes.
    fn next_due(&self) -> Option<Instant> {
        let due = self.shared.lock().queue.next_due()?;
        let pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        Some(due.max(pace.next(Instant::now())))
    }

    fn start_due(self: &Arc<Self>, running: &mut JoinSet<(Name, Outcome)>) {
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        while running.len() < self.settings.workers_max {
            let now = Instant::now();
            if pace.next(now) > now {
                break;
            }
            let (name, cause) = {
                let mut waiting = self.shared.lock();
                let Some(name) = waiting.queue.take(now) else { break };
                pace.begin(now);
                let cause = waiting.causes.remove(&name);
                (name, cause)
            };
            let runner = self.clone();
            running.spawn(async move {
                let outcome = runner.reconcile(&name, cause).await;
                (name, outcome)
            });
        }
    }

    fn settle(&self, name: Name, outcome: Outcome) {
        self.reconciler.finished(&name, outcome.result.as_ref().map(|_| ()));
        let mut waiting = self.shared.lock();
        waiting.queue.finish(&name);
        let now = Instant::now();
        let class = outcome.result.as_ref().err().map(Error::class);
        if let Some(prefix) = R::COUNTED_AS {
            let ended = match &outcome.result {
                Ok(Looked { wake: Wake::After(_), .. }) => Ended::Requeue,
                Ok(_) => Ended::Success,
                Err(error) => Ended::Error(error.type_name()),
            };
            let counts = self.context.metrics.by_resource(prefix);
            counts.reconciled(R::KIND.kind, &name.namespace, outcome.took, ended);
        }
        match outcome.result {
            Ok(looked) => {
                waiting.queue.forget_failures(&name);
                if let Some(thought) = looked.reported.filter(|_| self.settings.rest > 0) {
                    let rest = thought.saturating_mul(self.settings.rest).min(REST_MAX);
                    waiting.queue.rest(&name, now + rest, now);
                }
                match looked.wake {
                    Wake::After(after) => waiting.queue.add(name, now + after),
                    Wake::OnChange => {
                        if let Some(after) = self.settings.resync {
                            waiting.queue.add(name, now + after);
                        }
                    }
                }
                self.context.health.set(R::NAME, State::Running);
            }
            Err(error) => {
                let failures = waiting.queue.fail(&name);
                self.report(&name, &error);
                if !error.is_terminal() && !is_planted(Defect::ForgetFailures) {
                    let random = self.context.environment.random();
                    let delay = self.settings.backoff.delay(failures, random);
                    let asked = error.retry_after().unwrap_or(Duration::ZERO);
                    let delay = match is_planted(Defect::IgnoreRetryAfter) {
                        true => delay,
                        false => delay.max(asked),
                    };
                    let pause = self.reconciler.pause_after(&error);
                    waiting.queue.add(name, now + delay.max(pause));
                }
            }
        }
        let (depth, resources) = (waiting.queue.depth(), self.cache.len());
        drop(waiting);
        self.context.metrics.reconciled(R::NAME, outcome.took, class);
        self.context.metrics.queue(R::NAME, depth, resources);
    }

    fn report(&self, name: &Name, error: &Error) {
        // A server that is stopping refuses, which is nobody's failure.
        let is_stopping = *self.context.stop.borrow();
        if is_stopping || error.is_conflict() || matches!(error, Error::Stale { .. }) {
            subject::<R>(name).tries_again(error);
        } else {
            subject::<R>(name).failed(error);
            let why = format!("{name}: {}", error.chain());
            self.context.health.set(R::NAME, State::Failing(why));
        }
    }

    async fn reconcile(&self, name: &Name, cause: Option<u64>) -> Outcome {
        let began = Instant::now();
        let timeout = self.settings.timeout;
        let span = tracing::info_span!(
            target: SPANS,
            "reconcile",
            otel.name = R::NAME,
            controller = R::NAME,
            object = %name,
            cause,
            error = tracing::field::Empty,
        );
        let attempt = self.attempt(name, cause).instrument(span.clone());
        let attempt = AssertUnwindSafe(attempt).catch_unwind();
        let result = match tokio::time::timeout(timeout, attempt).await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => {
                let reason = last_words(panic.as_ref());
                self.tell_of_panic(name, &reason).await;
                Err(Error::Panic { reason })
            }
            Err(_) => {
                Err(Error::Other { reason: format!("the reconcile took longer than {timeout:?}") })
            }
        };
        if let Err(error) = &result {
            span.record("error", error.chain());
        }
        Outcome { took: began.elapsed(), result }
    }

    /// What is wrong with an object that nobody can look at is said where its owner looks.
    async fn tell_of_panic(&self, name: &Name, reason: &str) {
        let Some(object) = self.cache.get(name) else { return };
        let id = format!("{:016x}", self.context.environment.random());
        let origin = Origin { cause: Some(object.revision), reconcile: id, epoch: None };
        let requests = self.context.requests(R::MANAGER, origin);
        let message = format!("{} failed on this object and tries again: {reason}", R::NAME);
        let notice = Notice::warning("ReconcilePanicked", message);
        let now = self.context.environment.now();
        self.context.recorder.record(&requests, (R::KIND, &object), &notice, now).await;
    }

    async fn attempt(&self, name: &Name, cause: Option<u64>) -> Result<Looked, Error> {
        self.catch_up(name).await?;
        let is_ours = !self.context.elsewhere.has(&name.namespace);
        let Some(object) = self.cache.get(name).filter(|_| is_ours) else {
            return Ok(Looked { wake: Wake::OnChange, reported: None });
        };
        let id = format!("{:016x}", self.context.environment.random());
        let cause = Some(cause.unwrap_or(object.revision));
        let origin = Origin { cause, reconcile: id.clone(), epoch: None };
        let requests = self.context.requests(R::MANAGER, origin);
        let began = Instant::now();
        let observed = self.reconciler.observe(&self.context, &object).await?;
        let now = self.context.environment.now();
        let decided = self.reconciler.plan(&object, &observed, now);
        let thought = began.elapsed();
        let refused;
        let mut written = Written::default();
        let (plan, mut result) = match decided {
            Ok(plan) => {
                let way = (&requests, &*self.context.caches);
                let result = act::perform(way, &plan.steps, &mut written).await;
                (plan, result)
            }
            Err(error) => (Plan::nothing(), Err(error)),
        };
        let report = match &result {
            Ok(()) => Some(&plan),
            Err(error) if !self.is_told(name, error) => None,
            Err(error) => {
                refused = self.reconciler.refused(&object, &observed, error, now);
                refused.as_ref()
            }
        };
        // A status belongs to the object that it was decided for.
        let is_own = written.revisions.contains_key(&R::KIND);
        if let (Some(status), false) = (report.and_then(|report| report.status.as_ref()), is_own) {
            let told = act::write_status(&requests, R::KIND, &object, status, &mut written).await;
            result = result.and(told);
        }
        let has_written = written.writes > 0;
        if R::IS_LOGGED && has_written && requests.place == Place::Elsewhere {
            let milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            let has_status = !is_own && report.is_some_and(|report| report.status.is_some());
            let (reconcile, steps) = (id.as_str(), &plan.steps[..]);
            let look = Look { cause, reconcile, steps, has_status, milliseconds };
            subject::<R>(name).wrote(&look);
        }
        self.context.metrics.wrote(R::NAME, written.writes);
        subject::<R>(name).looked(written.writes);
        let reported = (plan.steps.is_empty() && has_written).then_some(thought);
        let made = std::mem::take(&mut written.made);
        self.remember(name, written);
        if let Some(report) = report {
            self.tell(&requests, (&object, report), &made, now).await;
        }
        // What was made may go again before a cache that had to list saw it; then no change tells.
        let relook = if has_written { Wake::After(RELOOK) } else { Wake::OnChange };
        let wake = plan.wake.or_earlier(relook);
        result.map(|()| Looked { wake, reported })
    }

    /// Records what a look has to say, some of it together: whoever makes many objects has much to
    /// say, and should not wait for each word to be kept.
    async fn tell(
        &self,
        requests: &Requests,
        (object, report): (&Object, &Plan),
        made: &BTreeMap<(Kind, Name), String>,
        now: Timestamp,
    ) {
        let recorder = &self.context.recorder;
        for notice in &report.notices {
            if R::IS_LOGGED {
                subject::<R>(&object.name).noticed(notice);
            }
            recorder.record(requests, (R::KIND, object), notice, now).await;
        }
        for some in report.about.chunks(NOTICES_TOGETHER_MAX) {
            let mut running = Vec::with_capacity(some.len());
            for about in some {
                // What is said of every look is said to whoever wonders, not to the log.
                if R::IS_LOGGED && about.repeat == Repeat::Always {
                    subject::<R>(&object.name).noticed(&about.notice);
                }
                running.push(recorder.record_about(requests, about, made, now));
            }
            futures::future::join_all(running).await;
        }
    }

    /// Whether users are told of a failure. Where the connection broke, or another was faster, the
    /// next try tells; what we found wrong ourselves may have been a race as well, and is believed
    /// when it is found again.
    fn is_told(&self, name: &Name, error: &Error) -> bool {
        // What is not found, such as a namespace, may have been deleted a moment ago as well.
        let may_be_race = matches!(error, Error::Other { .. }) || error.is_not_found();
        let is_again = || self.shared.lock().queue.failures(name) > 0;
        error.is_refusal() || error.is_terminal() || (may_be_race && is_again())
    }

    fn remember(&self, name: &Name, written: Written) {
        let mut all = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if written.writes > 0 {
            all.insert(name.clone(), written);
        }
    }

    /// Waits until the caches show what the last reconcile of the object wrote.
    async fn catch_up(&self, name: &Name) -> Result<(), Error> {
        let written = {
            let mut all = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            all.remove(name)
        };
        let Some(written) = written else { return Ok(()) };
        if is_planted(Defect::NoReadYourWrites) {
            return Ok(());
        }
        let caches = &self.context.caches;
        let wait = async {
            for (kind, revision) in &written.revisions {
                caches.show(*kind, &ShownWrite::Revision(*revision)).await;
            }
            for (kind, name, uid) in &written.lost {
                caches.show(*kind, &ShownWrite::Deletion { name, uid }).await;
            }
        };
        let limit = Duration::from_secs(CATCH_UP_SECONDS_MAX);
        if tokio::time::timeout(limit, wait).await.is_ok() {
            return Ok(());
        }
        let kind = written.revisions.keys().next().map(ToString::to_string).unwrap_or_default();
        self.remember(name, written);
        Err(Error::Stale { kind, name: name.clone() })
    }
}

/// What lines of the log are about.
fn subject<R: Reconciler>(name: &Name) -> Subject<'_> {
    Subject { controller: R::NAME, kind: R::KIND, name }
}

/// How a reconcile ended.
struct Outcome {
    took: Duration,
    result: Result<Looked, Error>,
}

/// What a reconcile that went well came to.
struct Looked {
    wake: Wake,
    /// How long it thought, if it changed nothing but the object's own status.
    reported: Option<Duration>,
}

/// What a panic said.
fn last_words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
