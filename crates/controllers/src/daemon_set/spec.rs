//! What a DaemonSet asks for.

use amounts::share::{self, Round};
use reconcile::Object;

#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub update: Update,
    pub min_ready_seconds: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// An old pod goes before the new one comes.
    Replace {
        unavailable_max: i64,
    },
    /// The new pod comes before the old one goes.
    Surge {
        surge_max: i64,
    },
    OnDelete,
}

impl Spec {
    /// Percentages are of the nodes that the set is meant for.
    pub fn read(set: &Object, nodes: i64) -> Spec {
        let spec = &set.value["spec"];
        let rolling = &spec["updateStrategy"]["rollingUpdate"];
        let surge = share::of(&rolling["maxSurge"], nodes, Round::Up, 0);
        // Whether there is a surge at all must not depend on whether there are nodes.
        let has_surge = share::of(&rolling["maxSurge"], 1, Round::Up, 0) > 0;
        let unavailable = share::of(&rolling["maxUnavailable"], nodes, Round::Up, 1);
        let update = match spec["updateStrategy"]["type"].as_str() {
            Some("OnDelete") => Update::OnDelete,
            _ if has_surge => Update::Surge { surge_max: surge.max(1) },
            _ => Update::Replace { unavailable_max: unavailable.max(1) },
        };
        let min_ready_seconds = spec["minReadySeconds"].as_i64().unwrap_or(0);
        Spec { update, min_ready_seconds }
    }
}
