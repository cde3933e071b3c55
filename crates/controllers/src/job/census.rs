//! The pods of a Job and what they come to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reconcile::Object;
use serde_json::Value;

use super::indexes::Indexes;
use super::policies::{self, Failure};
use super::spec::{INDEX_FAILURES, INDEX_IGNORED_FAILURES, Spec, is_tracked, number};
use crate::pods;

pub type Pod<'a> = &'a Arc<Object>;

/// Everything that the decisions rest on.
pub struct Census<'a> {
    pub spec: Spec<'a>,
    /// Every pod of the job, whatever has become of it.
    pub held: Vec<Pod<'a>>,
    pub active: Vec<Pod<'a>>,
    pub ready: usize,
    /// Going and not finished.
    pub terminating: usize,
    pub uncounted: Uncounted,
    pub succeeded: usize,
    pub failed: usize,
    /// The indexes that the job says are completed, and those that are.
    pub recorded: Indexes,
    pub completed: Indexes,
    pub failed_indexes: Indexes,
    /// The last failed pod of each index that has no successor yet: it knows how often the index
    /// has failed, so it is kept.
    pub last_failed: BTreeMap<u32, Pod<'a>>,
}

/// The UIDs that the job has noted and not yet counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Uncounted {
    pub succeeded: BTreeSet<String>,
    pub failed: BTreeSet<String>,
}

impl Uncounted {
    fn read(status: &Value) -> Uncounted {
        let uids = |field: &str| {
            let list = status["uncountedTerminatedPods"][field].as_array();
            list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Uncounted { succeeded: uids("succeeded"), failed: uids("failed") }
    }

    pub fn has(&self, uid: &str) -> bool {
        self.succeeded.contains(uid) || self.failed.contains(uid)
    }

    pub fn len(&self) -> usize {
        self.succeeded.len() + self.failed.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> Census<'a> {
    pub fn take(job: &'a Object, held: Vec<Pod<'a>>) -> Census<'a> {
        let spec = Spec::of(job);
        let status = &job.value["status"];
        let active: Vec<Pod<'a>> =
            held.iter().copied().filter(|pod| pods::is_active(pod)).collect();
        let is_going = |pod: &&Pod<'a>| pod.is_terminating() && !pods::is_finished(pod);
        let mut census = Census {
            ready: active.iter().filter(|pod| pods::is_ready(pod)).count(),
            terminating: held.iter().filter(is_going).count(),
            uncounted: Uncounted::read(status),
            succeeded: 0,
            failed: 0,
            recorded: spec.recorded("completedIndexes"),
            completed: spec.recorded("completedIndexes"),
            failed_indexes: spec.recorded("failedIndexes"),
            last_failed: BTreeMap::new(),
            active,
            held,
            spec,
        };
        census.count(status);
        census
    }

    fn count(&mut self, status: &Value) {
        let counter = |field: &str| {
            status[field].as_u64().and_then(|it| usize::try_from(it).ok()).unwrap_or(0)
        };
        let fresh = |pod: &&Pod<'a>| {
            is_tracked(pod) && !self.uncounted.has(&pod.uid) && self.spec.counts(pod)
        };
        let fresh: Vec<Pod<'a>> = self.held.iter().filter(fresh).copied().collect();
        let failed = fresh
            .iter()
            .filter(|pod| self.spec.is_failed(pod) && self.failure(pod) != Failure::Ignore);
        self.failed = counter("failed") + self.uncounted.failed.len() + failed.count();
        if !self.spec.is_indexed {
            let succeeded = fresh.iter().filter(|pod| pods::phase(pod) == "Succeeded").count();
            self.succeeded = counter("succeeded") + self.uncounted.succeeded.len() + succeeded;
            return;
        }
        let tracked: Vec<(u32, Pod<'a>)> = self.tracked_by_index().collect();
        for (index, pod) in &tracked {
            if pods::phase(pod) == "Succeeded" {
                self.completed.insert(*index);
            } else if self.is_index_failed(pod) {
                self.failed_indexes.insert(*index);
            }
        }
        self.succeeded = self.completed.len();
        if self.spec.backoff_limit_per_index.is_some() {
            self.last_failed = self.last_failures(&tracked);
        }
    }

    fn tracked_by_index(&self) -> impl Iterator<Item = (u32, Pod<'a>)> {
        let tracked = self.held.iter().filter(|pod| is_tracked(pod));
        tracked.filter_map(|pod| Some((self.spec.index(pod)?, *pod)))
    }

    fn is_index_failed(&self, pod: &Object) -> bool {
        let Some(limit) = self.spec.backoff_limit_per_index else { return false };
        self.spec.is_failed(pod)
            && match self.failure(pod) {
                Failure::FailIndex => true,
                Failure::Ignore => false,
                Failure::Count | Failure::FailJob(_) => number(pod, INDEX_FAILURES) >= limit,
            }
    }

    fn last_failures(&self, tracked: &[(u32, Pod<'a>)]) -> BTreeMap<u32, Pod<'a>> {
        let active = self.active_indexes();
        let mut last: BTreeMap<u32, Pod<'a>> = BTreeMap::new();
        for (index, pod) in tracked {
            let is_over = self.completed.has(*index) || self.failed_indexes.has(*index);
            if is_over || active.contains(index) || !self.spec.is_failed(pod) {
                continue;
            }
            match last.get(index) {
                Some(held) if failures(held) > failures(pod) => {}
                _ => {
                    last.insert(*index, pod);
                }
            }
        }
        last
    }

    pub fn active_indexes(&self) -> BTreeSet<u32> {
        self.active.iter().filter_map(|pod| self.spec.index(pod)).collect()
    }

    /// What the job's rules say of a failed pod.
    pub fn failure(&self, pod: &Object) -> Failure {
        policies::failure(self.spec.failure_policy, pod)
    }
}

/// How often the index of a pod had failed before it, whether it mattered or not.
pub fn failures(pod: &Object) -> usize {
    number(pod, INDEX_FAILURES) + number(pod, INDEX_IGNORED_FAILURES)
}
