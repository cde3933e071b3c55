//! When a finished Job goes.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::{Deletion, Propagation, Target};
use reconcile::{Object, Plan, Step, Wake, conditions};

use crate::kinds::JOB;

/// A Job is looked at this often at least: the clock may have been set.
const LOOK_MAX: Duration = Duration::from_secs(3_600);

pub fn plan(job: &Object, now: Timestamp) -> Plan {
    let mut plan = Plan::nothing();
    let seconds = job.value["spec"]["ttlSecondsAfterFinished"].as_i64();
    let (Some(seconds), Some(finished), false) = (seconds, finished(job), job.is_terminating())
    else {
        return plan;
    };
    let left = finished.as_millisecond() + seconds * 1_000 - now.as_millisecond();
    if left > 0 {
        plan.wake = Wake::After(Duration::from_millis(left.unsigned_abs()).min(LOOK_MAX));
        return plan;
    }
    // It goes as it was seen: somebody may just have given it more time.
    let options = Deletion { propagation: Some(Propagation::Foreground), grace_seconds: None };
    plan.steps.push(Step::Delete { target: Target::unchanged(JOB, job), options });
    plan
}

fn finished(job: &Object) -> Option<Timestamp> {
    let status = &job.value["status"];
    let is_over = |kind: &&str| conditions::is_true(status, kind);
    let kind = ["Complete", "Failed"].into_iter().find(is_over)?;
    conditions::find(status, kind)?["lastTransitionTime"].as_str()?.parse().ok()
}
