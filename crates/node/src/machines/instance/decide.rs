//! What is to be done for an instance of this node. Pure.

use std::time::Duration;

use hypervisor::{End, Pause, State};
use k8s_openapi::jiff::Timestamp;
use reconcile::Object;

/// How often the power button is pressed: a guest that boots does not notice.
const PRESS: Duration = Duration::from_secs(5);
/// What a guest gets to end, unless its instance says otherwise.
const GRACE_SECONDS: i64 = 30;

#[derive(Debug, PartialEq, Eq)]
pub enum Deed {
    /// It is not for us.
    Nothing,
    Launch,
    /// It runs: tell so, and make what changed while it runs.
    Keep(Option<Pause>),
    /// Asks the guest to end, and looks again then.
    Press(Duration),
    /// Pulls the plug, tells how it ended, and forgets it.
    Finish {
        phase: &'static str,
        reason: String,
    },
    /// Nothing is left of it: whoever waits for that may go on.
    Release,
}

pub fn decide(instance: &Object, state: &State, now: Timestamp) -> Deed {
    let phase = instance.value["status"]["phase"].as_str().unwrap_or_default();
    let is_final = ["Succeeded", "Failed"].contains(&phase);
    match state {
        State::Ended(end) if is_final => {
            finish(end, if phase == "Succeeded" { "Succeeded" } else { "Failed" })
        }
        State::Ended(end) => finish(end, if end.is_success() { "Succeeded" } else { "Failed" }),
        State::Running | State::Paused(_) if is_final => Deed::Finish {
            phase: if phase == "Succeeded" { "Succeeded" } else { "Failed" },
            reason: String::new(),
        },
        State::Running | State::Paused(_) if instance.is_terminating() => end(instance, now),
        State::Running => Deed::Keep(None),
        State::Paused(pause) => Deed::Keep(Some(*pause)),
        State::Absent if instance.is_terminating() && is_final => Deed::Release,
        State::Absent if is_final => Deed::Nothing,
        State::Absent if instance.is_terminating() => gone("the machine was deleted"),
        State::Absent if phase == "Scheduled" => Deed::Launch,
        State::Absent if phase == "Running" => gone("the machine is gone"),
        State::Absent => Deed::Nothing,
    }
}

fn gone(reason: &str) -> Deed {
    Deed::Finish { phase: "Failed", reason: reason.to_owned() }
}

fn finish(end: &End, phase: &'static str) -> Deed {
    let reason = match end {
        End::Shutdown | End::Killed => String::new(),
        End::GraceExceeded => "the guest did not end within its grace".to_owned(),
        End::Panicked => "the guest panicked".to_owned(),
        End::Crashed(said) => format!("the machine crashed: {said}"),
    };
    Deed::Finish { phase, reason }
}

/// An instance that is being deleted and runs.
fn end(instance: &Object, now: Timestamp) -> Deed {
    let grace = instance.value["spec"]["terminationGracePeriodSeconds"].as_i64();
    let grace = grace.unwrap_or(GRACE_SECONDS).max(0);
    if grace == 0 {
        return Deed::Finish { phase: "Succeeded", reason: String::new() };
    }
    let asked: Option<Timestamp> = instance.meta("deletionTimestamp").parse().ok();
    let asked = asked.map_or(now.as_second(), Timestamp::as_second);
    let left = asked.saturating_add(grace).saturating_sub(now.as_second());
    match u64::try_from(left) {
        Ok(left @ 1..) => Deed::Press(PRESS.min(Duration::from_secs(left))),
        _ => finish(&End::GraceExceeded, "Failed"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decided(phase: &str, deleted: Option<&str>, grace: Option<i64>, state: &State) -> Deed {
        let instance = Object::new(json!({
            "metadata": {"name": "a", "deletionTimestamp": deleted},
            "spec": {"terminationGracePeriodSeconds": grace},
            "status": {"phase": phase}}));
        decide(&instance, state, "2026-01-01T00:00:20Z".parse().unwrap())
    }

    #[test]
    fn what_is_done_follows_from_phase_and_state() {
        let ended = |end| State::Ended(end);
        let done = |phase| Deed::Finish { phase, reason: String::new() };
        for (phase, state, expected) in [
            ("Scheduled", State::Absent, Deed::Launch),
            ("Pending", State::Absent, Deed::Nothing),
            ("", State::Absent, Deed::Nothing),
            ("Scheduled", State::Running, Deed::Keep(None)),
            ("Running", State::Paused(Pause::Asked), Deed::Keep(Some(Pause::Asked))),
            ("Running", State::Absent, gone("the machine is gone")),
            ("Running", ended(End::Shutdown), done("Succeeded")),
            ("Scheduled", ended(End::Shutdown), done("Succeeded")),
            ("Running", ended(End::Panicked), finish(&End::Panicked, "Failed")),
            ("Succeeded", State::Absent, Deed::Nothing),
            ("Failed", State::Running, done("Failed")),
        ] {
            assert_eq!(decided(phase, None, None, &state), expected, "{phase} {state:?}");
        }
    }

    #[test]
    fn a_guest_gets_its_grace_and_no_more() {
        let (running, now) = (State::Running, "2026-01-01T00:00:20Z");
        let asked = |at, grace| decided("Running", Some(at), grace, &running);
        assert_eq!(asked(now, None), Deed::Press(PRESS));
        assert_eq!(asked("2026-01-01T00:00:00Z", Some(22)), Deed::Press(Duration::from_secs(2)));
        let over = finish(&End::GraceExceeded, "Failed");
        assert_eq!(asked("2026-01-01T00:00:00Z", Some(20)), over);
        let at_once = Deed::Finish { phase: "Succeeded", reason: String::new() };
        assert_eq!(asked(now, Some(0)), at_once);
        let never = decided("Scheduled", Some(now), None, &State::Absent);
        assert_eq!(never, gone("the machine was deleted"));
        assert_eq!(decided("Failed", Some(now), None, &State::Absent), Deed::Release);
    }
}
