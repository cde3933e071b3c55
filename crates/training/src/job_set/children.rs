//! The Jobs of a JobSet, sorted by what has become of them, and counted.

use std::collections::BTreeMap;
use std::sync::Arc;

use reconcile::{Object, conditions};
use serde_json::{Value, json};

use super::build::{REPLICATED_JOB, RESTART_ATTEMPT};
use super::spec::{ReplicatedJob, Spec, Until};

#[derive(Default)]
pub struct Children<'a> {
    /// Of an attempt before the current one.
    pub previous: Vec<&'a Arc<Object>>,
    pub active: Vec<&'a Arc<Object>>,
    pub succeeded: Vec<&'a Arc<Object>>,
    pub failed: Vec<&'a Arc<Object>>,
}

/// How many Jobs of one replicated job are how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub ready: i64,
    pub succeeded: i64,
    pub failed: i64,
    pub active: i64,
    pub suspended: i64,
}

pub type Tallies<'a> = BTreeMap<&'a str, Tally>;

impl<'a> Children<'a> {
    pub fn sort(jobs: &'a [Arc<Object>], restarts: i64) -> Children<'a> {
        let mut children = Children::default();
        for job in jobs {
            let attempt = job.label(RESTART_ATTEMPT).and_then(|text| text.parse().ok());
            let status = &job.value["status"];
            let place = if attempt.unwrap_or(0) < restarts {
                &mut children.previous
            } else if conditions::is_true(status, "Complete") {
                &mut children.succeeded
            } else if conditions::is_true(status, "Failed") {
                &mut children.failed
            } else {
                &mut children.active
            };
            place.push(job);
        }
        children
    }

    /// Of the current attempt.
    pub fn current(&self) -> impl Iterator<Item = &'a Arc<Object>> {
        let all = self.active.iter().chain(&self.succeeded).chain(&self.failed);
        all.copied()
    }

    pub fn tallies(&self, spec: &Spec<'a>) -> Tallies<'a> {
        let mut tallies: Tallies<'a> =
            spec.jobs.iter().map(|job| (job.name, Tally::default())).collect();
        for (jobs, count) in [
            (&self.active, Tally::of_active as fn(&Object) -> Tally),
            (&self.succeeded, |_| Tally { succeeded: 1, ..Tally::default() }),
            (&self.failed, |_| Tally { failed: 1, ..Tally::default() }),
        ] {
            for job in jobs {
                let of = job.label(REPLICATED_JOB).unwrap_or_default();
                if let Some(tally) = tallies.get_mut(of) {
                    tally.add(count(job));
                }
            }
        }
        tallies
    }
}

impl Tally {
    fn of_active(job: &Object) -> Tally {
        let (spec, status) = (&job.value["spec"], &job.value["status"]);
        let number = |value: &Value| value.as_i64().unwrap_or(0);
        let parallelism = spec["parallelism"].as_i64().unwrap_or(1);
        let wanted = spec["completions"].as_i64().unwrap_or(parallelism).min(parallelism);
        let here = number(&status["succeeded"]) + number(&status["ready"]);
        Tally {
            ready: i64::from(here >= wanted && spec["suspend"] != true),
            active: i64::from(number(&status["active"]) > 0),
            suspended: i64::from(spec["suspend"] == true),
            ..Tally::default()
        }
    }

    fn add(&mut self, more: Tally) {
        self.ready += more.ready;
        self.succeeded += more.succeeded;
        self.failed += more.failed;
        self.active += more.active;
        self.suspended += more.suspended;
    }

    pub fn value(&self, name: &str) -> Value {
        json!({"name": name, "ready": self.ready, "succeeded": self.succeeded,
            "failed": self.failed, "active": self.active, "suspended": self.suspended})
    }

    /// Whether all replicas have come as far as somebody waits for.
    pub fn reached(&self, until: Until, replicas: i64) -> bool {
        match until {
            Until::Complete => self.succeeded == replicas,
            Until::Ready => self.ready + self.succeeded + self.failed == replicas,
        }
    }
}

/// Whether everything that a replicated job depends on has come far enough.
pub fn may_start(spec: &Spec<'_>, job: &ReplicatedJob<'_>, tallies: &Tallies<'_>) -> bool {
    job.depends_on.iter().all(|on| {
        let other = spec.jobs.iter().find(|other| other.name == on.name);
        let tally = tallies.get(on.name).copied().unwrap_or_default();
        other.is_some_and(|other| tally.reached(on.until, other.replicas))
    })
}
