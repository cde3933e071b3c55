//! Which objects are due, in what order. Plain data: time is an argument.
//!
//! An object is in the queue at most once, so the queue is bounded by the number of objects. One
//! that is being reconciled is not given out again before it is done.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use crate::object::Name;

/// Objects and when they are due.
#[derive(Debug, Default)]
pub struct Queue {
    /// When each waiting object is due.
    due: BTreeMap<Name, (Instant, u64)>,
    /// The same, by time; equal times in the order they were added.
    order: BTreeMap<(Instant, u64), Name>,
    running: BTreeSet<Name>,
    /// Before when each object that rests is not due, whoever adds it; and the same by time.
    resting: BTreeMap<Name, Instant>,
    rested: BTreeSet<(Instant, Name)>,
    /// How often each object has failed in a row.
    failures: BTreeMap<Name, u32>,
    added: u64,
}

impl Queue {
    /// The object is due at a time, or earlier if it was already.
    pub fn add(&mut self, name: Name, at: Instant) {
        let at = self.resting.get(&name).map_or(at, |until| at.max(*until));
        match self.due.get(&name) {
            Some((earlier, _)) if *earlier <= at => return,
            Some(later) => {
                self.order.remove(later);
            }
            None => {}
        }
        self.added += 1;
        let place = (at, self.added);
        self.due.insert(name.clone(), place);
        self.order.insert(place, name);
    }

    /// The next object that is due and not being reconciled; it is, from now on.
    pub fn take(&mut self, now: Instant) -> Option<Name> {
        let due = self.order.range(..=(now, u64::MAX));
        let found = due.map(|(place, name)| (*place, name.clone()));
        let (place, name) = found.into_iter().find(|(_, name)| !self.running.contains(name))?;
        self.order.remove(&place);
        self.due.remove(&name);
        self.running.insert(name.clone());
        Some(name)
    }

    /// The object is no longer being reconciled.
    pub fn finish(&mut self, name: &Name) {
        self.running.remove(name);
    }

    /// The object is not due before a time, whatever was added for it.
    pub fn rest(&mut self, name: &Name, until: Instant, now: Instant) {
        while self.rested.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, over)) = self.rested.pop_first() {
                self.resting.remove(&over);
            }
        }
        if let Some(former) = self.resting.insert(name.clone(), until) {
            self.rested.remove(&(former, name.clone()));
        }
        self.rested.insert((until, name.clone()));
        if let Some(place) = self.due.get(name).copied()
            && place.0 < until
        {
            self.order.remove(&place);
            self.due.remove(name);
            self.add(name.clone(), until);
        }
    }

    /// The object may be due at any time again.
    pub fn end_rest(&mut self, name: &Name) {
        if let Some(until) = self.resting.remove(name) {
            self.rested.remove(&(until, name.clone()));
        }
    }

    /// The reconcile of an object failed; returns how often in a row.
    pub fn fail(&mut self, name: &Name) -> u32 {
        let failures = self.failures.entry(name.clone()).or_default();
        *failures = failures.saturating_add(1);
        *failures
    }

    /// How often it failed since it last went well.
    pub fn failures(&self, name: &Name) -> u32 {
        self.failures.get(name).copied().unwrap_or(0)
    }

    /// The reconcile of an object succeeded, or the object is gone.
    pub fn forget_failures(&mut self, name: &Name) {
        self.failures.remove(name);
    }

    /// When something that is not being reconciled is due next.
    pub fn next_due(&self) -> Option<Instant> {
        let mut waiting = self.order.iter().filter(|(_, name)| !self.running.contains(*name));
        waiting.next().map(|((at, _), _)| *at)
    }

    /// How many objects wait.
    pub fn depth(&self) -> usize {
        self.due.len()
    }

    pub fn running(&self) -> usize {
        self.running.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn name(text: &str) -> Name {
        Name::new("", text)
    }

    #[tokio::test]
    async fn an_object_is_queued_once_and_runs_once_at_a_time() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.add(name("a"), now);
        queue.add(name("a"), now);
        assert_eq!(queue.depth(), 1);
        assert_eq!(queue.take(now), Some(name("a")));
        queue.add(name("a"), now);
        assert_eq!(queue.take(now), None);
        assert_eq!(queue.next_due(), None);
        queue.finish(&name("a"));
        assert_eq!(queue.take(now), Some(name("a")));
    }

    #[tokio::test]
    async fn the_earlier_time_counts() {
        let now = Instant::now();
        let later = now + Duration::from_secs(5);
        let mut queue = Queue::default();
        queue.add(name("a"), later);
        assert_eq!(queue.take(now), None);
        queue.add(name("b"), now);
        queue.add(name("a"), now);
        queue.add(name("a"), later);
        assert_eq!(queue.take(now), Some(name("b")));
        assert_eq!(queue.take(now), Some(name("a")));
        assert_eq!(queue.depth(), 0);
    }

    #[tokio::test]
    async fn an_object_that_rests_is_due_after_its_rest() {
        let now = Instant::now();
        let (soon, later) = (now + Duration::from_secs(5), now + Duration::from_secs(9));
        let mut queue = Queue::default();
        queue.add(name("a"), now);
        queue.rest(&name("a"), soon, now);
        queue.add(name("a"), now);
        assert_eq!((queue.take(now), queue.depth()), (None, 1));
        assert_eq!(queue.take(soon), Some(name("a")));
        queue.finish(&name("a"));
        queue.rest(&name("a"), later, soon);
        queue.end_rest(&name("a"));
        queue.rest(&name("b"), later, soon);
        queue.add(name("a"), soon);
        assert_eq!(queue.take(soon), Some(name("a")));
        assert_eq!((queue.resting.len(), queue.rested.len()), (1, 1));
    }
}
