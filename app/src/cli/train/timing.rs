//! Start, end and duration of training jobs.

use apiserver::timestamp::parse_micro;
use reconcile::Environment;
use reconcile::conditions;
use reconcile::environment::System;
use serde_json::Value;
use std::time::Duration;

use crate::time;

/// Start and end of a job, as RFC 3339.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    pub started: Option<String>,
    pub ended: Option<String>,
}

impl Timing {
    /// Reads the times of a TrainJob from the Jobs that run it, else from its pods.
    pub fn new(job: &Value, jobs: &[Value], pods: &[Value]) -> Timing {
        let starts = |objects: &[Value]| {
            let starts = objects.iter().filter_map(|one| one["status"]["startTime"].as_str());
            starts.min().map(str::to_owned)
        };
        let ends = ["Complete", "Failed"].iter().filter_map(|kind| {
            let condition = conditions::find(&job["status"], kind)?;
            let is_true = condition["status"] == "True";
            is_true.then(|| condition["lastTransitionTime"].as_str()).flatten()
        });
        Timing {
            started: starts(jobs).or_else(|| starts(pods)),
            ended: ends.map(str::to_owned).next(),
        }
    }

    /// Seconds from the start to the end, or until now.
    pub fn seconds(&self) -> Option<u64> {
        let started = seconds(self.started.as_deref()?)?;
        let ended = match &self.ended {
            Some(ended) => seconds(ended)?,
            None => now(),
        };
        u64::try_from(ended - started).ok()
    }
}

/// Seconds since a time, for an age.
pub fn age(time: &str) -> Option<u64> {
    u64::try_from(now() - seconds(time)?).ok()
}

/// `3m20s`, or `-` if it is not known.
pub fn shown(seconds: Option<u64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), |it| time::elapsed(Duration::from_secs(it)))
}

fn seconds(time: &str) -> Option<i64> {
    parse_micro(time).map(|(seconds, _)| seconds)
}

fn now() -> i64 {
    System.now().as_second()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_lasts_from_its_first_start_to_its_end() {
        let start = |time: &str| json!({"status": {"startTime": time}});
        let jobs = [start("2026-01-02T10:00:05Z"), start("2026-01-02T10:00:00Z")];
        let ended = json!({"status": {"conditions": [{"type": "Failed", "status": "True",
            "lastTransitionTime": "2026-01-02T10:03:20Z"}]}});
        let timing = Timing::new(&ended, &jobs, &[]);
        assert_eq!(timing.started.as_deref(), Some("2026-01-02T10:00:00Z"));
        assert_eq!(shown(timing.seconds()), "3m20s");
        assert_eq!(shown(Timing::new(&ended, &[], &[]).seconds()), "-");
        let runs = Timing::new(&json!({}), &[], &jobs);
        assert!(runs.ended.is_none() && runs.seconds() > Some(0));
    }
}
