//! How long a Job waits before it replaces failed pods: ten seconds, doubled with every failure.
//!
//! It follows from the pods alone, so that a restart forgets nothing.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::Object;
use serde_json::Value;

use super::census::{Census, failures};
use super::spec::is_tracked;
use crate::pods;

const FIRST: Duration = Duration::from_secs(10);
const MAX: Duration = Duration::from_secs(600);

/// What is left of the wait of a job.
pub fn remaining(census: &Census<'_>, now: Timestamp) -> Duration {
    let succeeded = census.held.iter().filter(|pod| pods::phase(pod) == "Succeeded");
    let last_success = succeeded.filter_map(|pod| finished(pod)).max();
    // One that goes without being tracked was not wanted any more.
    let failed = census
        .held
        .iter()
        .filter(|pod| census.spec.is_failed(pod) && (is_tracked(pod) || !pod.is_terminating()));
    let times = failed.filter_map(|pod| finished(pod));
    let times: Vec<Timestamp> = times.filter(|at| last_success.is_none_or(|it| *at > it)).collect();
    let last = times.iter().copied().filter(|at| is_plausible(*at, now)).max();
    left(times.len(), last, now)
}

/// Whether a pod can have finished then: a time further ahead than any wait is that of a clock
/// which has been set back since, and nobody should wait for it.
fn is_plausible(at: Timestamp, now: Timestamp) -> bool {
    let ahead = at.as_second().saturating_sub(now.as_second());
    u64::try_from(ahead).unwrap_or(0) <= MAX.as_secs()
}

/// What is left of the wait of an index whose last pod failed.
pub fn remaining_of_index(pod: &Object, now: Timestamp) -> Duration {
    left(failures(pod) + 1, finished(pod).filter(|at| is_plausible(*at, now)), now)
}

fn left(failures: usize, last: Option<Timestamp>, now: Timestamp) -> Duration {
    let (Some(last), Some(doublings)) = (last, failures.checked_sub(1)) else {
        return Duration::ZERO;
    };
    let doubled = u32::try_from(doublings).ok().and_then(|it| 1u32.checked_shl(it));
    let delay = FIRST.saturating_mul(doubled.unwrap_or(u32::MAX)).min(MAX);
    let waited = now.as_millisecond() - last.as_millisecond();
    delay.saturating_sub(Duration::from_millis(waited.max(0).unsigned_abs()))
}

/// When a pod finished: when its last container did, or else as near to it as it says.
pub fn finished(pod: &Object) -> Option<Timestamp> {
    let parse = |value: &Value| value.as_str().and_then(|text| text.parse::<Timestamp>().ok());
    let status = &pod.value["status"];
    let containers = status["containerStatuses"].as_array();
    let ended = containers.into_iter().flatten();
    let ended = ended.filter_map(|it| parse(&it["state"]["terminated"]["finishedAt"]));
    let ready = reconcile::conditions::find(status, "Ready");
    ended
        .max()
        .or_else(|| ready.and_then(|ready| parse(&ready["lastTransitionTime"])))
        .or_else(|| parse(&pod.value["metadata"]["deletionTimestamp"]))
        .or_else(|| pod.created())
}
