//! Counts pods that are over, each once, also across crashes.
//!
//! A pod keeps its finalizer until it has been counted. First the job notes the pod's UID; when
//! that is stored, the finalizer goes; when it is gone, the number grows and the UID is dropped,
//! in one write. An index that is noted as completed needs no UID.

use std::collections::BTreeSet;

use reconcile::plan::Target;
use reconcile::{Plan, act};

use super::census::{Census, Pod, Uncounted};
use super::indexes::Indexes;
use super::policies::Failure;
use super::spec::{TRACKING, is_tracked};
use super::verdict::{Outcome, Verdict};
use crate::kinds::POD;
use crate::pods;

/// UIDs that a job notes at most; the rest follows when those are counted.
const UNCOUNTED_MAX: usize = 500;

/// What the job says of pods that are over, after this reconcile.
#[derive(Debug, Default)]
pub struct Tracked {
    pub uncounted: Uncounted,
    pub completed: Indexes,
    /// What the numbers grow by.
    pub succeeded: usize,
    pub failed: usize,
    /// Pods that still wait to be counted.
    pub waiting: usize,
}

/// What has to be noted about a pod before its finalizer goes.
enum Note {
    Nothing,
    Succeeded,
    CompletedIndex(u32),
    Failed,
}

pub fn track(plan: &mut Plan, census: &Census<'_>, verdict: Option<&Verdict>) -> Tracked {
    let mut tracked = Tracked {
        uncounted: census.uncounted.clone(),
        completed: census.recorded.clone(),
        ..Tracked::default()
    };
    // Why the job ends has to be stored before the pods that show it may go.
    let may_free = verdict.is_none_or(|verdict| verdict.is_recorded);
    let mut kept: BTreeSet<&str> = BTreeSet::new();
    for pod in census.held.iter().filter(|pod| is_tracked(pod)) {
        if !may_go(census, verdict, pod) {
            kept.insert(&pod.uid);
            continue;
        }
        let is_noted = note(census, verdict, pod, &mut tracked);
        if !is_noted || !may_free {
            kept.insert(&pod.uid);
            tracked.waiting += 1;
        } else if let Some(patch) = act::finalizer_patch(pod, TRACKING, false) {
            plan.patch(Target::unchanged(POD, pod), patch);
        }
    }
    flush(census, &kept, &mut tracked);
    tracked
}

/// Notes finished pods without freeing any, for a report of a plan that was performed in part. It
/// counts only pods that had lost their finalizer before.
pub fn note_finished(census: &Census<'_>) -> Tracked {
    let mut tracked = Tracked {
        uncounted: census.uncounted.clone(),
        completed: census.recorded.clone(),
        ..Tracked::default()
    };
    let mut kept: BTreeSet<&str> = BTreeSet::new();
    for pod in census.held.iter().filter(|pod| is_tracked(pod)) {
        kept.insert(&pod.uid);
        if may_go(census, None, pod) {
            note(census, None, pod, &mut tracked);
        }
    }
    flush(census, &kept, &mut tracked);
    tracked
}

/// Whether nobody needs the pod any more, once it is counted.
fn may_go(census: &Census<'_>, verdict: Option<&Verdict>, pod: Pod<'_>) -> bool {
    let is_over = census.spec.job.is_terminating() || verdict.is_some();
    if is_over || pods::phase(pod) == "Succeeded" {
        return true;
    }
    let is_last = || {
        let index = census.spec.index(pod);
        let last = index.and_then(|index| census.last_failed.get(&index));
        last.is_some_and(|last| last.uid == pod.uid)
    };
    census.spec.is_failed(pod) && !is_last()
}

/// Notes a pod; returns whether the job said so already.
fn note(
    census: &Census<'_>,
    verdict: Option<&Verdict>,
    pod: Pod<'_>,
    tracked: &mut Tracked,
) -> bool {
    if census.uncounted.has(&pod.uid) {
        return true;
    }
    let has_room = tracked.uncounted.len() < UNCOUNTED_MAX;
    match due(census, verdict, pod) {
        Note::Nothing => true,
        Note::CompletedIndex(index) => {
            tracked.completed.insert(index);
            census.recorded.has(index)
        }
        Note::Succeeded if has_room => {
            tracked.uncounted.succeeded.insert(pod.uid.clone());
            false
        }
        Note::Failed if has_room => {
            tracked.uncounted.failed.insert(pod.uid.clone());
            false
        }
        Note::Succeeded | Note::Failed => false,
    }
}

fn due(census: &Census<'_>, verdict: Option<&Verdict>, pod: Pod<'_>) -> Note {
    let spec = &census.spec;
    if !spec.counts(pod) {
        return Note::Nothing;
    }
    if pods::phase(pod) == "Succeeded" {
        return spec.index(pod).map_or(Note::Succeeded, Note::CompletedIndex);
    }
    // Whoever still runs when the job has failed has failed too.
    let is_cut_off = verdict.is_some_and(|verdict| verdict.outcome == Outcome::Failure);
    if !spec.is_failed(pod) && !is_cut_off || census.failure(pod) == Failure::Ignore {
        return Note::Nothing;
    }
    Note::Failed
}

/// Counts those that were noted and have no finalizer any more, or lose it in this plan.
fn flush(census: &Census<'_>, kept: &BTreeSet<&str>, tracked: &mut Tracked) {
    let is_counted = |uid: &String| !kept.contains(uid.as_str());
    for uid in census.uncounted.succeeded.iter().filter(|uid| is_counted(uid)) {
        tracked.uncounted.succeeded.remove(uid);
        tracked.succeeded += 1;
    }
    for uid in census.uncounted.failed.iter().filter(|uid| is_counted(uid)) {
        tracked.uncounted.failed.remove(uid);
        tracked.failed += 1;
    }
}
