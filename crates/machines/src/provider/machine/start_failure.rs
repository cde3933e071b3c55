//! Machines that do not come up are started again later each time. Pure.
//!
//! Upstream: kubevirt/kubevirt, pkg/virt-controller/watch/vm/vm.go (calculateStartBackoffTime)

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::Object;
use serde_json::{Value, json};

use super::strategy::Strategy;
use crate::value::{list, text};

const FIRST_SECONDS: u64 = 10;
const SECONDS_MAX: u64 = 300;

/// Notes an instance that ended before it ran. One that runs wipes the slate, and so does whoever
/// starts the machine by hand, or does not want it to run.
pub fn count(failure: &mut Value, strategy: Strategy, instance: Option<&Object>, now: Timestamp) {
    if matches!(strategy, Strategy::Manual | Strategy::Halted) {
        *failure = Value::Null;
        return;
    }
    let Some(instance) = instance else { return };
    let status = &instance.value["status"];
    let ran =
        list(&status["phaseTransitionTimestamps"]).iter().any(|one| one["phase"] == "Running");
    if ran || status["phase"] == "Running" {
        *failure = Value::Null;
        return;
    }
    let is_counted = failure["lastFailedVMIUID"] == *instance.uid;
    if text(&status["phase"]) != "Failed" || is_counted {
        return;
    }
    let times = failure["consecutiveFailCount"].as_u64().unwrap_or(0).saturating_add(1);
    let delay = delay(times, &instance.uid);
    let seconds = now.as_second().saturating_add(i64::try_from(delay).unwrap_or(i64::MAX));
    let after = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
    *failure = json!({"consecutiveFailCount": times, "lastFailedVMIUID": instance.uid,
        "retryAfterTimestamp": reconcile::conditions::time(after)});
}

/// Ten seconds times the square of the times, and up to half of that more: which, the UID says, so
/// that many machines do not come back together.
fn delay(times: u64, uid: &str) -> u64 {
    let delay = FIRST_SECONDS.saturating_mul(times.saturating_mul(times)).min(SECONDS_MAX);
    let sum: u64 = uid.bytes().map(u64::from).sum();
    (delay + sum % (delay / 2)).min(SECONDS_MAX)
}

/// How long a start has to wait still.
pub fn left(failure: &Value, now: Timestamp) -> Option<Duration> {
    let after: Timestamp = text(&failure["retryAfterTimestamp"]).parse().ok()?;
    let left = after.as_second().saturating_sub(now.as_second());
    u64::try_from(left).ok().filter(|left| *left > 0).map(Duration::from_secs)
}
