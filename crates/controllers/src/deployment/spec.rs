//! What a Deployment asks for.

use amounts::share::{self, Round};
use reconcile::Object;

/// What the API takes for never.
const NEVER: i64 = i32::MAX as i64;

/// The parts of the specification that a plan counts with.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// How many pods its ReplicaSets are to have together.
    pub replicas: i64,
    pub strategy: Strategy,
    pub is_paused: bool,
    pub min_ready_seconds: i64,
    /// Seconds without progress after which a rollout counts as stuck.
    pub deadline_seconds: Option<i64>,
    /// Old ReplicaSets that are kept to go back to.
    pub history_max: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    Rolling { surge: i64, unavailable: i64 },
    Recreate,
}

impl Spec {
    /// Pods that others provide are not asked of the ReplicaSets.
    pub fn read(deployment: &Object, provided: i64) -> Spec {
        let spec = &deployment.value["spec"];
        // Old clients could write less than nothing.
        let replicas = (spec["replicas"].as_i64().unwrap_or(1) - provided).max(0);
        let limit = spec["revisionHistoryLimit"].as_i64().filter(|limit| *limit != NEVER);
        Spec {
            replicas,
            strategy: strategy(&spec["strategy"], replicas),
            is_paused: spec["paused"] == true,
            min_ready_seconds: spec["minReadySeconds"].as_i64().unwrap_or(0),
            deadline_seconds: spec["progressDeadlineSeconds"]
                .as_i64()
                .filter(|seconds| *seconds != NEVER),
            history_max: limit.map(|limit| usize::try_from(limit).unwrap_or(0)),
        }
    }

    /// Pods beyond the number asked for.
    pub fn surge(&self) -> i64 {
        match self.strategy {
            Strategy::Rolling { surge, .. } => surge,
            Strategy::Recreate => 0,
        }
    }

    /// Pods that may be missing.
    pub fn unavailable(&self) -> i64 {
        match self.strategy {
            Strategy::Rolling { unavailable, .. } => unavailable.min(self.replicas),
            Strategy::Recreate => 0,
        }
    }

    /// The most pods there may be.
    pub fn total_max(&self) -> i64 {
        self.replicas + self.surge()
    }
}

fn strategy(strategy: &serde_json::Value, replicas: i64) -> Strategy {
    if strategy["type"] == "Recreate" {
        return Strategy::Recreate;
    }
    let rolling = &strategy["rollingUpdate"];
    let quarter = |round| share::of(&"25%".into(), replicas, round, 0);
    let surge = share::of(&rolling["maxSurge"], replicas, Round::Up, quarter(Round::Up));
    let missing = &rolling["maxUnavailable"];
    let unavailable = share::of(missing, replicas, Round::Down, quarter(Round::Down));
    // With neither, nothing could ever move.
    let unavailable = if surge <= 0 && unavailable <= 0 { 1 } else { unavailable.max(0) };
    Strategy::Rolling { surge: surge.max(0), unavailable }
}
