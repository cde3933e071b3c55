//! A TrainJob, read.

use reconcile::{Kind, Object, conditions, owners};
use serde_json::Value;

use crate::kinds::{CLUSTER_TRAINING_RUNTIME, TRAIN_JOB, TRAINING_RUNTIME};
use crate::value::{list, text};

pub const COMPLETE: &str = "Complete";
pub const FAILED: &str = "Failed";
pub const SUSPENDED: &str = "Suspended";
pub const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
pub const NOT_SUPPORTED: &str = "TrainingRuntimeNotSupported";

/// The kinds of runtime that there are, by `Kind.group`.
pub const RUNTIMES: [(&str, Kind); 2] = [
    ("TrainingRuntime.trainer.kubeflow.org", TRAINING_RUNTIME),
    ("ClusterTrainingRuntime.trainer.kubeflow.org", CLUSTER_TRAINING_RUNTIME),
];

/// The kind of a runtime by its key.
pub fn runtime_kind(key: &str) -> Option<Kind> {
    RUNTIMES.iter().find(|(known, _)| *known == key).map(|(_, kind)| *kind)
}

#[derive(Clone, Copy)]
pub struct TrainJob<'a> {
    pub object: &'a Object,
}

impl<'a> TrainJob<'a> {
    pub fn of(object: &'a Object) -> TrainJob<'a> {
        TrainJob { object }
    }

    pub fn name(&self) -> &'a str {
        &self.object.name.name
    }

    pub fn namespace(&self) -> &'a str {
        &self.object.name.namespace
    }

    pub fn uid(&self) -> &'a str {
        &self.object.uid
    }

    pub fn spec(&self) -> &'a Value {
        &self.object.value["spec"]
    }

    pub fn status(&self) -> &'a Value {
        &self.object.value["status"]
    }

    pub fn trainer(&self) -> &'a Value {
        &self.spec()["trainer"]
    }

    pub fn env(&self) -> &'a [Value] {
        list(&self.trainer()["env"])
    }

    pub fn patches(&self) -> &'a [Value] {
        list(&self.spec()["runtimePatches"])
    }

    pub fn num_nodes(&self) -> Option<i64> {
        self.trainer()["numNodes"].as_i64()
    }

    pub fn processes_per_node(&self) -> Option<i64> {
        self.trainer()["numProcPerNode"].as_i64()
    }

    pub fn is_suspended(&self) -> bool {
        self.spec()["suspend"] == true
    }

    pub fn runtime_ref(&self) -> &'a Value {
        &self.spec()["runtimeRef"]
    }

    pub fn runtime_name(&self) -> &'a str {
        text(&self.runtime_ref()["name"])
    }

    /// `Kind.group`, or the kind alone.
    pub fn runtime_key(&self) -> String {
        let reference = self.runtime_ref();
        let kind = reference["kind"].as_str().unwrap_or(CLUSTER_TRAINING_RUNTIME.kind);
        match reference["apiGroup"].as_str().unwrap_or(api::training::GROUP) {
            "" => kind.to_owned(),
            group => format!("{kind}.{group}"),
        }
    }

    pub fn is_managed_elsewhere(&self) -> bool {
        let by = self.spec()["managedBy"].as_str();
        by.is_some_and(|by| by != api::training::CONTROLLER)
    }

    /// Whether it has ended for good. That nobody supports its runtime may change.
    pub fn is_finished(&self) -> bool {
        let failed = conditions::find(self.status(), FAILED);
        let has_failed =
            failed.is_some_and(|one| one["status"] == "True" && one["reason"] != NOT_SUPPORTED);
        has_failed || conditions::is_true(self.status(), COMPLETE)
    }

    pub fn has_exceeded_deadline(&self) -> bool {
        let failed = conditions::find(self.status(), FAILED);
        failed.is_some_and(|one| one["status"] == "True" && one["reason"] == DEADLINE_EXCEEDED)
    }

    /// An object of this job's own.
    pub fn child(&self, kind: Kind, name: &str) -> Value {
        owners::child(kind, name, TRAIN_JOB, self.object)
    }
}
