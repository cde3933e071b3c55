//! When a JobSet has succeeded.

use super::build::REPLICATED_JOB;
use super::children::Children;
use super::spec::Spec;
use crate::value::{list, text};

pub fn is_met(spec: &Spec<'_>, children: &Children<'_>) -> bool {
    let policy = &spec.value()["successPolicy"];
    let targets: Vec<&str> = list(&policy["targetReplicatedJobs"]).iter().map(text).collect();
    let counts = |name: &str| targets.is_empty() || targets.contains(&name);
    let succeeded = children.succeeded.iter();
    let succeeded = succeeded.filter(|job| counts(job.label(REPLICATED_JOB).unwrap_or_default()));
    let wanted = match text(&policy["operator"]) {
        "Any" => 1,
        _ => spec.jobs.iter().filter(|job| counts(job.name)).map(|job| job.replicas).sum(),
    };
    i64::try_from(succeeded.count()).unwrap_or(i64::MAX) >= wanted
}
