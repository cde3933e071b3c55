//! What a Job wants, read once.

use k8s_openapi::jiff::Timestamp;
use reconcile::{Object, conditions};
use serde_json::Value;

use super::indexes::Indexes;
use crate::pods;

/// The finalizer that keeps a pod until it has been counted.
pub const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// On a pod, as annotation and label: which index it completes.
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// On a pod: how often its index has failed before it.
pub const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
pub const INDEX_IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
/// Who `managedBy` says when it is us.
pub const MANAGER: &str = "kubernetes.io/job-controller";

pub struct Spec<'a> {
    pub job: &'a Object,
    pub parallelism: usize,
    /// `None`: any success will do.
    pub completions: Option<u32>,
    pub is_indexed: bool,
    pub backoff_limit: usize,
    pub backoff_limit_per_index: Option<usize>,
    pub failed_indexes_max: Option<usize>,
    pub is_suspended: bool,
    /// A pod that is going is not replaced before it has failed.
    pub replaces_only_failed: bool,
    pub deadline_seconds: Option<i64>,
    pub failure_policy: &'a Value,
    pub success_policy: &'a Value,
}

impl<'a> Spec<'a> {
    pub fn of(job: &'a Object) -> Spec<'a> {
        let spec = &job.value["spec"];
        let number = |field: &str| spec[field].as_i64().map(|number| number.max(0).unsigned_abs());
        let size = |field: &str| number(field).and_then(|number| usize::try_from(number).ok());
        let failure_policy = &spec["podFailurePolicy"];
        Spec {
            job,
            parallelism: size("parallelism").unwrap_or(1),
            completions: number("completions").and_then(|number| u32::try_from(number).ok()),
            is_indexed: spec["completionMode"] == "Indexed",
            backoff_limit: size("backoffLimit").unwrap_or(6),
            backoff_limit_per_index: size("backoffLimitPerIndex"),
            failed_indexes_max: size("maxFailedIndexes"),
            is_suspended: spec["suspend"] == true,
            replaces_only_failed: spec["podReplacementPolicy"] == "Failed"
                || !failure_policy.is_null(),
            deadline_seconds: spec["activeDeadlineSeconds"].as_i64(),
            failure_policy,
            success_policy: &spec["successPolicy"],
        }
    }

    pub fn is_managed_elsewhere(&self) -> bool {
        let by = self.job.value["spec"]["managedBy"].as_str();
        by.is_some_and(|by| by != MANAGER)
    }

    pub fn is_finished(&self) -> bool {
        let status = &self.job.value["status"];
        conditions::is_true(status, "Complete") || conditions::is_true(status, "Failed")
    }

    /// The number of indexes; 0 for jobs without.
    pub fn index_count(&self) -> u32 {
        if self.is_indexed { self.completions.unwrap_or(0) } else { 0 }
    }

    /// Since when the job runs; one that is about to be resumed will begin anew.
    pub fn start(&self) -> Option<Timestamp> {
        if conditions::is_true(&self.job.value["status"], "Suspended") {
            return None;
        }
        self.job.value["status"]["startTime"].as_str()?.parse().ok()
    }

    pub fn recorded(&self, field: &str) -> Indexes {
        let text = self.job.value["status"][field].as_str().unwrap_or_default();
        Indexes::read(text, self.index_count())
    }

    /// Whether a pod failed. One that is going may never say so itself.
    pub fn is_failed(&self, pod: &Object) -> bool {
        match pods::phase(pod) {
            "Failed" => true,
            "Succeeded" => false,
            _ => pod.is_terminating() && !self.replaces_only_failed,
        }
    }

    /// The index of a pod, if the job has such an index.
    pub fn index(&self, pod: &Object) -> Option<u32> {
        let index: u32 = pod.annotation(INDEX)?.parse().ok()?;
        (index < self.index_count()).then_some(index)
    }

    /// Whether a pod counts at all: those of an indexed job need an index.
    pub fn counts(&self, pod: &Object) -> bool {
        !self.is_indexed || self.index(pod).is_some()
    }
}

pub fn is_tracked(pod: &Object) -> bool {
    pod.finalizers().any(|one| one == TRACKING)
}

/// A number that a pod carries in an annotation.
pub fn number(pod: &Object, annotation: &str) -> usize {
    pod.annotation(annotation).and_then(|text| text.parse().ok()).unwrap_or(0)
}
