//! What a StatefulSet asks for.

use amounts::share::{self, Round};
use reconcile::Object;

#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// The number of the first pod.
    pub start: i64,
    pub replicas: i64,
    pub management: Management,
    pub update: Update,
    pub min_ready_seconds: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Management {
    /// Each pod waits until those before it are available.
    Ordered,
    Parallel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Pods below the partition keep the template they have.
    Rolling {
        partition: i64,
        unavailable_max: i64,
    },
    OnDelete,
}

impl Spec {
    pub fn read(set: &Object) -> Spec {
        let spec = &set.value["spec"];
        // Old clients could write less than nothing.
        let replicas = spec["replicas"].as_i64().unwrap_or(1).max(0);
        let management = match spec["podManagementPolicy"].as_str() {
            Some("Parallel") => Management::Parallel,
            _ => Management::Ordered,
        };
        let rolling = &spec["updateStrategy"]["rollingUpdate"];
        let unavailable = share::of(&rolling["maxUnavailable"], replicas, Round::Down, 1);
        let update = match spec["updateStrategy"]["type"].as_str() {
            Some("OnDelete") => Update::OnDelete,
            _ => Update::Rolling {
                partition: rolling["partition"].as_i64().unwrap_or(0).max(0),
                unavailable_max: unavailable.max(1),
            },
        };
        Spec {
            start: spec["ordinals"]["start"].as_i64().unwrap_or(0).max(0),
            replicas,
            management,
            update,
            min_ready_seconds: spec["minReadySeconds"].as_i64().unwrap_or(0),
        }
    }

    pub fn has(&self, ordinal: i64) -> bool {
        (self.start..self.start + self.replicas).contains(&ordinal)
    }

    /// Whether a pod of this number keeps the template from before an update.
    pub fn is_held_back(&self, ordinal: i64) -> bool {
        match self.update {
            Update::Rolling { partition, .. } => ordinal < self.start + partition,
            Update::OnDelete => false,
        }
    }
}
