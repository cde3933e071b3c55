//! What pods are to be told, and when. The latest word about a pod counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;

use crate::pod::PodInfo;
use crate::run::work::Report;

/// What a pod is to be told, and when.
#[derive(Debug)]
pub struct Told {
    pub pod: Arc<PodInfo>,
    pub report: Report,
    pub not_before: Instant,
}

#[derive(Default)]
pub struct Reports {
    held: BTreeMap<Arc<str>, Told>,
    /// The same by time, so that those who wait cost nothing.
    order: BTreeSet<(Instant, Arc<str>)>,
}

impl Reports {
    pub fn put(&mut self, told: Told) {
        let uid = told.pod.uid.clone();
        self.remove(&uid);
        self.order.insert((told.not_before, uid.clone()));
        self.held.insert(uid, told);
    }

    pub fn remove(&mut self, uid: &str) -> Option<Told> {
        let (uid, told) = self.held.remove_entry(uid)?;
        self.order.remove(&(told.not_before, uid));
        Some(told)
    }

    /// Those whose time has come, the longest due first.
    pub fn due(&self, now: Instant) -> impl Iterator<Item = &Arc<str>> {
        self.order.iter().take_while(move |(at, _)| *at <= now).map(|(_, uid)| uid)
    }

    /// When the next is due that is not yet.
    pub fn next_after(&self, now: Instant) -> Option<Instant> {
        let later = (now + std::time::Duration::from_nanos(1), Arc::<str>::default());
        self.order.range(later..).next().map(|(at, _)| *at)
    }
}
