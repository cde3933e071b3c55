//! Until when a job may run.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::conditions;

use super::job::{COMPLETE, FAILED, SUSPENDED, TrainJob};
use crate::timers::Timers;
use crate::value::text;

/// On a TrainJob: how many seconds after its end it is deleted.
pub const TTL: &str = "trainer.kubeflow.org/ttl-seconds-after-finished";

/// What is left of a job's time; `None` if nothing limits it. Each resume begins it anew.
pub fn left(job: &TrainJob<'_>, timers: &Timers, now: Timestamp) -> Option<Duration> {
    let seconds = job.spec()["activeDeadlineSeconds"].as_u64().filter(|seconds| *seconds > 0)?;
    if job.is_finished() || job.is_suspended() {
        return None;
    }
    let resumed = conditions::find(job.status(), SUSPENDED);
    let since = match resumed {
        // It is about to be resumed, and its time begins here: by the time that it is written down
        // the clock may be another.
        Some(one) if one["status"] == "True" => {
            for written in [now.as_second(), now.as_second() + 1] {
                let since = Timestamp::from_second(written).unwrap_or(now);
                timers.left(job.uid(), since, seconds, now);
            }
            return None;
        }
        Some(one) => text(&one["lastTransitionTime"]).parse().ok()?,
        None => job.object.created()?,
    };
    Some(timers.left(job.uid(), since, seconds, now))
}

/// What is left until a job that has ended is deleted; `None` if it is kept.
pub fn until_deletion(job: &TrainJob<'_>, timers: &Timers, now: Timestamp) -> Option<Duration> {
    let seconds = job.object.annotation(TTL)?.parse().ok()?;
    if !job.is_finished() {
        return None;
    }
    let ended = [COMPLETE, FAILED].into_iter().find_map(|kind| {
        conditions::find(job.status(), kind).filter(|one| one["status"] == "True")
    })?;
    let since = text(&ended["lastTransitionTime"]).parse().ok()?;
    Some(timers.left(job.uid(), since, seconds, now))
}
