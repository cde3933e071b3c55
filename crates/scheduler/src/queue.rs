//! The pods that wait for a node: those to be tried, those that wait out a failure, and those that
//! nothing but a change of the cluster can help.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::events::Events;
use crate::pod::PodInfo;
use crate::snapshot::Map;

const BACKOFF_FIRST: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(10);
/// The longest wait after writes that failed in a row.
const FAILED_MAX: Duration = Duration::from_secs(60);
/// How long a pod waits for a change at most.
const UNSCHEDULABLE_MAX: Duration = Duration::from_secs(300);

#[derive(Default)]
pub struct Queue {
    entries: Map<Arc<str>, Entry>,
    /// By priority, then in the order in which they came.
    active: BTreeSet<(Reverse<i32>, u64, Arc<str>)>,
    backoff: BTreeSet<(Instant, Arc<str>)>,
    /// By when they were last tried.
    unschedulable: BTreeSet<(Instant, Arc<str>)>,
    arrivals: u64,
}

struct Entry {
    pod: Arc<PodInfo>,
    arrival: u64,
    attempts: u32,
    /// Writes about it that failed in a row.
    failures: u32,
    tried: Option<Instant>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Active,
    Backoff(Instant),
    Unschedulable {
        since: Instant,
        wakes: Events,
    },
    /// Its own gates hold it back.
    Gated,
    /// It was taken out and something is being done about it.
    Taken,
}

/// How many pods are in which part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depths {
    pub active: usize,
    pub backoff: usize,
    pub unschedulable: usize,
    pub gated: usize,
}

impl Queue {
    /// A pod without a node came or changed.
    pub fn put(&mut self, pod: &Arc<PodInfo>, now: Instant) {
        let Some(entry) = self.entries.get_mut(&pod.uid) else {
            self.arrivals += 1;
            let state = State::Taken;
            let (pod, arrival) = (pod.clone(), self.arrivals);
            let uid = pod.uid.clone();
            let is_gated = pod.is_gated;
            self.entries.insert(
                uid.clone(),
                Entry { pod, arrival, attempts: 0, failures: 0, tried: None, state },
            );
            self.enter(&uid, if is_gated { State::Gated } else { State::Active });
            return;
        };
        let is_changed = !Arc::ptr_eq(&entry.pod.template, &pod.template)
            || entry.pod.labels != pod.labels
            || entry.pod.priority != pod.priority
            || entry.pod.group != pod.group
            || entry.pod.is_gated != pod.is_gated;
        let state = entry.state;
        let uid = pod.uid.clone();
        // The place in the order follows from what the pod was.
        self.leave(&uid);
        if let Some(entry) = self.entries.get_mut(&uid) {
            entry.pod = pod.clone();
        }
        let state = match state {
            State::Taken => State::Taken,
            _ if pod.is_gated => State::Gated,
            State::Gated => State::Active,
            State::Unschedulable { .. } | State::Backoff(_) if is_changed => self.awake(&uid, now),
            state => state,
        };
        self.enter(&uid, state);
    }

    /// A pod went, or has its node.
    pub fn remove(&mut self, uid: &str) {
        self.leave(uid);
        self.entries.remove(uid);
    }

    /// Takes out the pod to be tried next.
    pub fn pop(&mut self) -> Option<Arc<PodInfo>> {
        let (_, _, uid) = self.active.pop_first()?;
        let entry = self.entries.get_mut(&uid)?;
        entry.state = State::Taken;
        Some(entry.pod.clone())
    }

    /// Takes out a pod that is decided together with others, wherever it waits.
    pub fn take(&mut self, uid: &str) {
        self.leave(uid);
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.state = State::Taken;
        }
    }

    /// Puts back a pod that was taken and not tried.
    pub fn put_back(&mut self, uid: &str) {
        self.move_to(uid, State::Active);
    }

    /// No node fits; these things can help.
    pub fn refuse(&mut self, uid: &str, wakes: Events, now: Instant) {
        self.count_attempt(uid, now);
        self.move_to(uid, State::Unschedulable { since: now, wakes });
    }

    /// It was decided, but the decision could not be carried out.
    pub fn fail(&mut self, uid: &str, now: Instant) {
        self.count_attempt(uid, now);
        let delay = self.count_failure(uid);
        let until = self.entries.get(uid).map_or(now, |entry| entry.until(now));
        self.move_to(uid, State::Backoff(until.max(now + delay)));
    }

    /// A write failed; returns how long to wait before the next.
    pub fn count_failure(&mut self, uid: &str) -> Duration {
        let Some(entry) = self.entries.get_mut(uid) else { return Duration::ZERO };
        entry.failures += 1;
        doubled(entry.failures, FAILED_MAX)
    }

    /// A write about a pod did not fail.
    pub fn forget_failures(&mut self, uid: &str) {
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.failures = 0;
        }
    }

    /// Something happened: pods that it can help are tried again.
    pub fn wake(&mut self, events: Events, now: Instant) {
        if events.is_none() {
            return;
        }
        let helped = self.unschedulable.iter().filter(|(_, uid)| {
            matches!(self.entries.get(uid).map(|entry| entry.state),
                Some(State::Unschedulable { wakes, .. }) if wakes.overlaps(events))
        });
        let helped: Vec<Arc<str>> = helped.map(|(_, uid)| uid.clone()).collect();
        for uid in helped {
            let state = self.awake(&uid, now);
            self.move_to(&uid, state);
        }
    }

    /// One pod is tried again because of what happened to it.
    pub fn wake_one(&mut self, uid: &str, now: Instant) {
        let Some(entry) = self.entries.get(uid) else { return };
        if matches!(entry.state, State::Unschedulable { .. }) {
            let state = self.awake(uid, now);
            self.move_to(uid, state);
        }
    }

    /// Moves what has waited long enough.
    pub fn tick(&mut self, now: Instant) {
        while let Some((until, uid)) = self.backoff.first().cloned() {
            if until > now {
                break;
            }
            self.move_to(&uid, State::Active);
        }
        while let Some((since, uid)) = self.unschedulable.first().cloned() {
            if since + UNSCHEDULABLE_MAX > now {
                break;
            }
            self.move_to(&uid, State::Active);
        }
    }

    /// When something will have waited long enough.
    pub fn next_due(&self) -> Option<Instant> {
        let backoff = self.backoff.first().map(|(until, _)| *until);
        let flush = self.unschedulable.first().map(|(since, _)| *since + UNSCHEDULABLE_MAX);
        backoff.into_iter().chain(flush).min()
    }

    pub fn has_active(&self) -> bool {
        !self.active.is_empty()
    }

    pub fn holds(&self, uid: &str) -> bool {
        self.entries.contains_key(uid)
    }

    pub fn get(&self, uid: &str) -> Option<&Arc<PodInfo>> {
        self.entries.get(uid).map(|entry| &entry.pod)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn depths(&self) -> Depths {
        let gated = self.entries.values().filter(|entry| entry.state == State::Gated).count();
        Depths {
            active: self.active.len(),
            backoff: self.backoff.len(),
            unschedulable: self.unschedulable.len(),
            gated,
        }
    }

    fn count_attempt(&mut self, uid: &str, now: Instant) {
        if let Some(entry) = self.entries.get_mut(uid) {
            entry.attempts += 1;
            entry.tried = Some(now);
        }
    }

    /// Where a pod goes that is to be tried again.
    fn awake(&self, uid: &str, now: Instant) -> State {
        let until = self.entries.get(uid).map_or(now, |entry| entry.until(now));
        if until > now { State::Backoff(until) } else { State::Active }
    }

    fn move_to(&mut self, uid: &str, state: State) {
        self.leave(uid);
        self.enter(uid, state);
    }

    fn leave(&mut self, uid: &str) {
        let Some(entry) = self.entries.get(uid) else { return };
        let uid = entry.pod.uid.clone();
        match entry.state {
            State::Active => {
                self.active.remove(&(Reverse(entry.pod.priority), entry.arrival, uid));
            }
            State::Backoff(until) => {
                self.backoff.remove(&(until, uid));
            }
            State::Unschedulable { since, .. } => {
                self.unschedulable.remove(&(since, uid));
            }
            State::Gated | State::Taken => {}
        }
    }

    fn enter(&mut self, uid: &str, state: State) {
        let Some(entry) = self.entries.get_mut(uid) else { return };
        entry.state = state;
        let uid = entry.pod.uid.clone();
        match state {
            State::Active => {
                self.active.insert((Reverse(entry.pod.priority), entry.arrival, uid));
            }
            State::Backoff(until) => {
                self.backoff.insert((until, uid));
            }
            State::Unschedulable { since, .. } => {
                self.unschedulable.insert((since, uid));
            }
            State::Gated | State::Taken => {}
        }
    }
}

impl Entry {
    /// Until when it waits after its last attempt.
    fn until(&self, now: Instant) -> Instant {
        let delay = doubled(self.attempts, BACKOFF_MAX);
        self.tried.map_or(now, |tried| tried + delay)
    }
}

/// Doubles from the first delay with every time.
pub fn doubled(times: u32, most: Duration) -> Duration {
    let factor = 1u32.checked_shl(times.saturating_sub(1)).unwrap_or(u32::MAX);
    BACKOFF_FIRST.saturating_mul(factor).min(most)
}

#[cfg(test)]
mod tests {
    use reconcile::Object;
    use serde_json::json;

    use super::*;
    use crate::snapshot::Snapshot;

    fn pod(name: &str, priority: i32, gates: &[&str]) -> Arc<PodInfo> {
        let gates: Vec<_> = gates.iter().map(|gate| json!({"name": gate})).collect();
        let object = json!({"metadata": {"namespace": "a", "name": name, "uid": name},
            "spec": {"priority": priority, "schedulingGates": gates}});
        Snapshot::default().read_pod(Arc::new(Object::new(object)))
    }

    fn drain(queue: &mut Queue) -> Vec<String> {
        std::iter::from_fn(|| queue.pop()).map(|pod| pod.uid.to_string()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_greater_priority_goes_first_and_then_who_came_first() {
        let mut queue = Queue::default();
        let now = Instant::now();
        for (name, priority) in [("a", 0), ("b", 9), ("c", 0), ("d", 9)] {
            queue.put(&pod(name, priority, &[]), now);
        }
        assert_eq!(drain(&mut queue), ["b", "d", "a", "c"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_pod_is_woken_by_what_can_help_and_after_its_back_off() {
        let mut queue = Queue::default();
        let now = Instant::now();
        queue.put(&pod("a", 0, &[]), now);
        queue.pop();
        queue.refuse("a", Events::POD_REMOVED, now);
        queue.wake(Events::NODE_TAINTS, now);
        assert_eq!(queue.depths().unschedulable, 1);
        queue.wake(Events::POD_REMOVED, now);
        assert_eq!(queue.depths().backoff, 1);
        assert_eq!(queue.next_due(), Some(now + BACKOFF_FIRST));
        queue.tick(now + BACKOFF_FIRST);
        assert_eq!(drain(&mut queue), ["a"]);
        let later = now + Duration::from_secs(60);
        queue.refuse("a", Events::NONE, later);
        queue.tick(later + UNSCHEDULABLE_MAX);
        assert_eq!(drain(&mut queue), ["a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_back_off_doubles_further_where_writes_fail() {
        let mut queue = Queue::default();
        let now = Instant::now();
        queue.put(&pod("a", 0, &[]), now);
        let mut delays = Vec::new();
        for _ in 0..6 {
            queue.pop();
            queue.fail("a", now);
            delays.push(queue.next_due().expect("it waits").duration_since(now).as_secs());
            queue.tick(now + FAILED_MAX);
        }
        assert_eq!(delays, [1, 2, 4, 8, 16, 32]);
        queue.forget_failures("a");
        queue.tick(now + FAILED_MAX);
        queue.pop();
        queue.refuse("a", Events::ALL, now);
        queue.wake(Events::ALL, now);
        let delay = queue.next_due().expect("it waits").duration_since(now);
        assert_eq!(delay, BACKOFF_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_gated_pod_waits_until_its_gates_are_gone() {
        let mut queue = Queue::default();
        let now = Instant::now();
        queue.put(&pod("a", 0, &["wait"]), now);
        assert_eq!(drain(&mut queue), Vec::<String>::new());
        queue.put(&pod("a", 0, &[]), now);
        assert_eq!(drain(&mut queue), ["a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_of_its_status_does_not_wake_a_pod() {
        let mut queue = Queue::default();
        let now = Instant::now();
        let first = pod("a", 0, &[]);
        queue.put(&first, now);
        queue.pop();
        queue.refuse("a", Events::NONE, now);
        queue.put(&first, now + BACKOFF_MAX);
        assert_eq!(queue.depths().unschedulable, 1);
        queue.put(&pod("a", 5, &[]), now + BACKOFF_MAX);
        assert_eq!(queue.depths().active, 1);
    }
}
