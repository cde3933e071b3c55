//! What a pod on a simulated node does, as its annotations `simulated.setpoint.dev/NAME` say:
//!
//! | name         | what it says                           | else                   |
//! |--------------|----------------------------------------|------------------------|
//! | `start`      | how long until its containers run      | at once                |
//! | `ready`      | how long after that until it is ready  | at once                |
//! | `exit-after` | how long its containers run            | for ever; 1 s in a Job |
//! | `exit-code`  | how they end                           | 0                      |
//! | `stop`       | how long it takes to end when deleted  | at once                |
//! | `waiting`    | never starts, for this reason          | it starts              |
//! | `unready`    | `true`: runs but never becomes ready   | it does                |
//!
//! Durations are numbers with `ms`, `s` or `m`. What cannot be read is as usual.

use std::time::Duration;

use reconcile::Object;

const PREFIX: &str = "simulated.setpoint.dev/";
/// How long the containers of a Job run when nobody says.
const JOB_RUNS: Duration = Duration::from_secs(1);

/// How one pod behaves.
#[derive(Clone, Debug, PartialEq)]
pub struct Behaviour {
    pub start: Duration,
    pub ready: Duration,
    /// `None` is for ever.
    pub exit_after: Option<Duration>,
    pub exit_code: i32,
    pub stop: Duration,
    /// Why it never starts.
    pub waiting: Option<String>,
    pub unready: bool,
}

impl Behaviour {
    pub fn of(pod: &Object) -> Behaviour {
        let text = |name: &str| pod.annotation(&format!("{PREFIX}{name}"));
        let time = |name: &str| text(name).and_then(duration);
        let is_job = pod.value["metadata"]["ownerReferences"]
            .as_array()
            .is_some_and(|owners| owners.iter().any(|owner| owner["kind"] == "Job"));
        Behaviour {
            start: time("start").unwrap_or_default(),
            ready: time("ready").unwrap_or_default(),
            exit_after: time("exit-after").or(is_job.then_some(JOB_RUNS)),
            exit_code: text("exit-code").and_then(|code| code.parse().ok()).unwrap_or(0),
            stop: time("stop").unwrap_or_default(),
            waiting: text("waiting").map(str::to_owned),
            unready: text("unready") == Some("true"),
        }
    }
}

fn duration(text: &str) -> Option<Duration> {
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let count: u64 = number.parse().ok()?;
    match &text[number.len()..] {
        "ms" => Some(Duration::from_millis(count)),
        "s" | "" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_secs(count.saturating_mul(60))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        let cases = [
            ("200ms", Some(200)),
            ("3s", Some(3_000)),
            ("2m", Some(120_000)),
            ("5", Some(5_000)),
            ("x", None),
            ("1h", None),
        ];
        for (text, milliseconds) in cases {
            assert_eq!(duration(text), milliseconds.map(Duration::from_millis), "{text}");
        }
    }
}
