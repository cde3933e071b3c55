//! How a framework wants to be launched: what a plugin may do, and when it is asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use reconcile::{CachedObject, Kind, Object, Watches};
use serde_json::{Value, json};

use crate::blueprint::Blueprint;
use crate::field_error::FieldError;
use crate::train_job::TrainJob;

/// What an installation says to plugins.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Which kinds of PodGroup the cluster has.
    pub groups: Groups,
    /// Where trainers report their progress, if anybody listens.
    pub status_server: Option<StatusServer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    pub coscheduling: bool,
    pub volcano: bool,
}

impl Default for Groups {
    fn default() -> Groups {
        Groups { coscheduling: true, volcano: true }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusServer {
    /// `https://host:port`.
    pub url: String,
    /// The certificates that its own is to be believed by.
    pub authority_pem: Arc<str>,
}

/// What there is of the names that plugins make.
pub type Found = BTreeMap<(Kind, String), CachedObject>;

/// What becomes part of pods when they are made, though no template says it.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// Of the namespace of the job.
    pub limit_ranges: Vec<Arc<Object>>,
    pub runtime_classes: Vec<Arc<Object>>,
}

/// An object that a plugin wants, and when it is left as it is.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub kind: Kind,
    pub object: Value,
    pub unless: Unless,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unless {
    /// It says so already.
    Same,
    /// It is there.
    There,
    /// It is there and the job is not suspended; or it says so already.
    Running,
}

/// A TrainJob that is to be judged.
pub struct Review<'a> {
    pub job: &'a TrainJob<'a>,
    pub old: Option<&'a TrainJob<'a>>,
    /// The specification of its runtime.
    pub runtime: &'a Value,
    /// What would be built of it, as far as it can be.
    pub blueprint: &'a Blueprint,
    /// The JobSet that it has, if it has one.
    pub job_set: Option<&'a Object>,
    /// The names of the priority classes that there are.
    pub priority_classes: &'a [String],
}

/// One plugin. They are asked in the order of the table in `plugins`, point after point.
///
/// # Guarantees
/// - What a plugin changes of the blueprint is seen by those that are asked after it.
///
/// # Assumptions
/// - Everything but `fresh` is a pure function.
pub trait Plugin: Send + Sync {
    fn name(&self) -> &'static str;

    /// The objects that it may make for a job of this name.
    fn makes(&self, _job: &str) -> Vec<(Kind, String)> {
        Vec::new()
    }

    /// Wakes jobs for what else concerns them, beside the objects that it makes.
    fn watches(&self, _settings: &Settings, _watches: &mut Watches) {}

    /// What is wrong with a job.
    fn validate(&self, _review: &Review<'_>) -> Vec<FieldError> {
        Vec::new()
    }

    /// Nodes, processes, environment: what the policy for the framework says.
    fn enforce_policy(
        &self,
        _job: &TrainJob<'_>,
        _blueprint: &mut Blueprint,
    ) -> Result<(), String> {
        Ok(())
    }

    /// What makes pods start together.
    fn enforce_pod_group(&self, _job: &TrainJob<'_>, _blueprint: &mut Blueprint) {}

    /// What all pods get, whatever the framework.
    fn enforce_pods(&self, _settings: &Settings, _job: &TrainJob<'_>, _blueprint: &mut Blueprint) {}

    /// What cannot be decided by a pure function, for objects that are not there.
    fn fresh(
        &self,
        _job: &TrainJob<'_>,
        _blueprint: &Blueprint,
        _found: &Found,
    ) -> Result<Value, String> {
        Ok(Value::Null)
    }

    /// The objects that the job needs. Secrets and maps come before what mounts them.
    fn objects(&self, _make: &Make<'_>) -> Result<Vec<Wanted>, String> {
        Ok(Vec::new())
    }
}

/// What objects are made from.
pub struct Make<'a> {
    pub settings: &'a Settings,
    pub job: &'a TrainJob<'a>,
    pub blueprint: &'a Blueprint,
    pub found: &'a Found,
    pub surroundings: &'a Surroundings,
    /// What each plugin made up, by its name.
    pub fresh: &'a BTreeMap<&'static str, Value>,
}

/// The name of the annotation with the index of a pod, as an environment variable's source.
pub fn completion_index() -> Value {
    json!({"fieldRef": {"fieldPath":
        "metadata.annotations['batch.kubernetes.io/job-completion-index']"}})
}

/// The port on which ranks meet.
pub const PORT: u16 = 29_500;
