//! Runtimes: says of those that are deprecated that they are, and takes off a finalizer that older
//! versions of the trainer put on them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::{Notice, Target};
use reconcile::{Context, Error, Kind, Object, Plan, Reconciler, act};

use crate::kinds::{CLUSTER_TRAINING_RUNTIME, TRAINING_RUNTIME};

pub const NAMESPACED: &str = "trainingruntime_controller";
pub const CLUSTER: &str = "clustertrainingruntime_controller";
/// On runtimes: how much they are supported.
pub const SUPPORT: &str = "trainer.kubeflow.org/support";

const IN_USE: &str = "trainer.kubeflow.org/resource-in-use";
/// Runtimes whose last warning is remembered.
const WARNED_MAX: usize = 4_096;

/// Which generation of each runtime was warned of, by UID.
#[derive(Default)]
struct Warned(Mutex<BTreeMap<String, i64>>);

impl Warned {
    /// Whether a runtime is to be warned of; not twice for one generation.
    fn is_due(&self, runtime: &Object) -> bool {
        if runtime.label(SUPPORT).is_none() || runtime.is_terminating() {
            return false;
        }
        let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.len() >= WARNED_MAX {
            warned.clear();
        }
        let generation = runtime.generation();
        warned.insert(runtime.uid.clone(), generation) != Some(generation)
    }
}

fn plan(kind: Kind, runtime: &Object, is_warned: bool) -> Plan {
    let mut plan = Plan::nothing();
    if let Some(patch) = act::finalizer_patch(runtime, IN_USE, false) {
        plan.patch(Target::unchanged(kind, runtime), patch);
    }
    if is_warned {
        plan.notices.push(Notice::warning("Deprecated", "This runtime is deprecated"));
    }
    plan
}

/// TrainingRuntimes.
#[derive(Default)]
pub struct Namespaced(Warned);

impl Reconciler for Namespaced {
    type Observed = bool;
    const NAME: &'static str = NAMESPACED;
    const KIND: Kind = TRAINING_RUNTIME;

    async fn observe(&self, _: &Context, object: &Arc<Object>) -> Result<bool, Error> {
        Ok(self.0.is_due(object))
    }

    fn plan(&self, object: &Object, is_due: &bool, _: Timestamp) -> Result<Plan, Error> {
        Ok(plan(Self::KIND, object, *is_due))
    }
}

/// ClusterTrainingRuntimes.
#[derive(Default)]
pub struct Cluster(Warned);

impl Reconciler for Cluster {
    type Observed = bool;
    const NAME: &'static str = CLUSTER;
    const KIND: Kind = CLUSTER_TRAINING_RUNTIME;

    async fn observe(&self, _: &Context, object: &Arc<Object>) -> Result<bool, Error> {
        Ok(self.0.is_due(object))
    }

    fn plan(&self, object: &Object, is_due: &bool, _: Timestamp) -> Result<Plan, Error> {
        Ok(plan(Self::KIND, object, *is_due))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deprecated_runtime_is_warned_of_once_a_generation() {
        let runtime = |generation: i64, labels: serde_json::Value| {
            Object::new(json!({"metadata": {"name": "r", "uid": "u", "generation": generation,
                "labels": labels}}))
        };
        let old = |generation| runtime(generation, json!({SUPPORT: "deprecated"}));
        let warned = Warned::default();
        let due = [old(1), old(1), old(2), runtime(3, json!({}))].map(|one| warned.is_due(&one));
        assert_eq!(due, [true, false, true, false]);
        let plan = plan(TRAINING_RUNTIME, &old(1), true).to_string();
        assert_eq!(plan, "Warning Deprecated: This runtime is deprecated\nwake on change\n");
    }

    #[test]
    fn a_runtime_loses_the_finalizer_of_older_versions() {
        let runtime = Object::new(json!({"metadata": {"name": "r", "uid": "u",
            "finalizers": [IN_USE, "other"]}}));
        let plan = plan(CLUSTER_TRAINING_RUNTIME, &runtime, false).to_string();
        let expected = "patch trainer.kubeflow.org/v1alpha1 ClusterTrainingRuntime r \
                        {\"metadata\":{\"finalizers\":[\"other\"]}}\nwake on change\n";
        assert_eq!(plan, expected);
    }
}
