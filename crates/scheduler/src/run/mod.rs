//! The loop: take in what changed, decide, carry out, settle what came of it.

mod decide;
mod groups;
mod inbox;
mod reports;
mod reservation;
mod settle;
mod state;
mod tasks;
mod work;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use reconcile::Context;
use reconcile::health;
use reconcile::leader::Term;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::profile::Profile;
use crate::run::inbox::Inbox;
use crate::run::state::State;
use crate::run::work::{Done, Work};
use crate::verdict::Verdicts;

/// In metrics and health.
pub const NAME: &str = "scheduler";
/// Pods that are bound at the same time, beside the members of one gang.
const BINDINGS_MAX: usize = 256;
/// Pods that are told at the same time why they have no node.
const REPORTS_MAX: usize = 32;
/// Events that are written at the same time: bindings come first.
const NOTICES_MAX: usize = 4;

/// Choices of whoever runs it.
#[derive(Clone)]
pub struct Options {
    /// Pods of other schedulers are left alone.
    pub profiles: Vec<Profile>,
    /// Where refusals are kept for those who ask.
    pub verdicts: Arc<Verdicts>,
}

impl Default for Options {
    fn default() -> Options {
        let profiles = vec![Profile::named("default-scheduler")];
        Options { profiles, verdicts: Arc::default() }
    }
}

/// What is under way, by sort.
#[derive(Default)]
struct Running {
    tasks: JoinSet<Done>,
    bindings: usize,
    reports: usize,
    notices: usize,
}

/// Schedules until everything is to stop.
pub async fn run(context: Context, options: Options) {
    context.health.set(NAME, health::State::Starting);
    let inbox = Inbox::subscribe(&context);
    tokio::select! {
        () = inbox.fill(&context) => {}
        () = context.stopping() => return,
    }
    let managers = options.profiles.iter().map(|it| intern(&it.scheduler_name)).collect();
    let state = State::new(options.profiles, options.verdicts);
    let scheduler = Scheduler { context, inbox, managers, state, running: Running::default() };
    scheduler.serve().await;
}

struct Scheduler {
    context: Context,
    inbox: Arc<Inbox>,
    /// The names of the profiles.
    managers: Vec<&'static str>,
    state: State,
    running: Running,
}

impl Scheduler {
    async fn serve(mut self) {
        let mut term = self.context.term.clone();
        loop {
            self.step();
            // As long as there is something to decide, others only get their turn.
            let is_busy = self.state.queue.has_active()
                && self.running.bindings < BINDINGS_MAX
                && self.may_act();
            if is_busy {
                tokio::task::yield_now().await;
                continue;
            }
            let due = self.state.next_due(Instant::now());
            tokio::select! {
                biased;
                () = self.context.stopping() => break,
                Some(done) = self.running.tasks.join_next() => self.settle(done),
                Ok(()) = term.changed() => {}
                () = self.inbox.changed.notified() => {}
                () = sleep_until(due), if due.is_some() && self.may_act() => {}
            }
        }
        // What was decided is carried out; each step is whole.
        while self.running.tasks.join_next().await.is_some() {}
    }

    /// One turn, without waiting.
    fn step(&mut self) {
        while let Some(done) = self.running.tasks.try_join_next() {
            self.settle(done);
        }
        let now = Instant::now();
        let news = self.inbox.take();
        let has_news = !news.is_empty();
        self.state.take_in(news, now);
        if !self.may_act() {
            self.context.health.set(NAME, health::State::Standby);
            return;
        }
        self.state.queue.tick(now);
        let mut work = Vec::new();
        if !self.state.reservations.is_empty() {
            work.extend(self.state.check_reservations(now));
        }
        if self.running.bindings < BINDINGS_MAX {
            work.extend(self.state.decide(BINDINGS_MAX - self.running.bindings, now));
        }
        work.extend(self.state.take_reports(REPORTS_MAX.saturating_sub(self.running.reports), now));
        // What users wait for comes first; what they are told of it can wait.
        if self.running.bindings == 0 {
            let room = NOTICES_MAX.saturating_sub(self.running.notices);
            work.extend(self.state.take_notices(room));
        }
        let statuses = self.state.groups.statuses(self.context.environment.now(), now);
        for (key, group, status) in statuses {
            let failures = self.state.groups.failures(&key);
            work.push(Work::Group { key, group, status, failures });
        }
        for one in work {
            self.start(one);
        }
        if has_news {
            let (depth, all) = (self.state.queue.len(), self.state.snapshot.placed_count());
            self.context.metrics.queue(NAME, depth, depth + all);
            self.context.health.set(NAME, health::State::Running);
        }
    }

    fn may_act(&self) -> bool {
        !matches!(*self.context.term.borrow(), Term::Follower(_))
    }

    fn start(&mut self, work: Work) {
        let pod = match &work {
            Work::Bind { pod, .. } => {
                self.running.bindings += 1;
                Some(pod)
            }
            Work::Report { pod, .. } => {
                self.running.reports += 1;
                Some(pod)
            }
            Work::Notice { pod, .. } => {
                self.running.notices += 1;
                Some(pod)
            }
            Work::Preempt { pod, .. } => Some(pod),
            Work::Volumes { .. } | Work::Group { .. } => None,
        };
        let profile = pod.and_then(|pod| State::profile_of(&self.state.profiles, pod));
        let manager = self.managers[profile.unwrap_or(0)];
        self.running.tasks.spawn(tasks::perform(self.context.clone(), manager, work));
    }

    fn settle(&mut self, done: Result<Done, tokio::task::JoinError>) {
        let now = Instant::now();
        let done = match done {
            Ok(done) => done,
            // A task that panicked leaves its pod assumed for ever: start anew.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        match &done {
            Done::Bind { .. } => self.running.bindings -= 1,
            Done::Report { .. } => self.running.reports -= 1,
            Done::Notice => self.running.notices -= 1,
            _ => {}
        }
        if let Done::Bind { pod, ended, .. } = &done {
            let since = self.state.assumed.get(&pod.uid).map(|assumed| assumed.since);
            let took = since.map_or_else(Default::default, |since| now - since);
            let failure = (!matches!(ended, work::Bound::Done)).then_some("conflict");
            self.context.metrics.reconciled(NAME, took, failure);
        }
        for work in self.state.settle(done, now) {
            self.start(work);
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Names of schedulers are few and live as long as the process.
fn intern(name: &str) -> &'static str {
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known.get(name) {
        return found;
    }
    let kept: &'static str = Box::leak(name.to_owned().into_boxed_str());
    known.insert(kept);
    kept
}
