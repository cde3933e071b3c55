//! How much of a zone is lost, and how fast its nodes may be emptied then.
//!
//! Upstream: pkg/controller/nodelifecycle (ComputeZoneState, handleDisruption)

use std::time::Duration;

use reconcile::Object;

/// Nodes emptied while most are well.
const INTERVAL: Duration = Duration::from_secs(10);
/// Nodes emptied in a large zone most of which is lost.
const SLOW_INTERVAL: Duration = Duration::from_secs(100);
/// A zone with more nodes is large.
const LARGE_NODES_MIN: usize = 50;
/// The share of lost nodes, in hundredths, from which a zone counts as disrupted.
const DISRUPTED_PERCENT: usize = 55;
/// So few nodes may be lost in any zone.
const LOST_NODES_MIN: usize = 3;
/// Who carries this does not count.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    pub ready: usize,
    pub lost: usize,
}

/// What a zone suffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disruption {
    None,
    Partial,
    Full,
}

impl Count {
    pub fn disruption(self) -> Disruption {
        let all = self.ready + self.lost;
        if self.ready == 0 && self.lost > 0 {
            Disruption::Full
        } else if self.lost >= LOST_NODES_MIN && self.lost * 100 >= all * DISRUPTED_PERCENT {
            Disruption::Partial
        } else {
            Disruption::None
        }
    }

    /// How long to wait between two nodes; `None` if none may be emptied.
    pub fn interval(self) -> Option<Duration> {
        match self.disruption() {
            Disruption::None | Disruption::Full => Some(INTERVAL),
            Disruption::Partial if self.ready + self.lost > LARGE_NODES_MIN => Some(SLOW_INTERVAL),
            Disruption::Partial => None,
        }
    }
}

/// The zone of a node; `None` for a node that does not count.
pub fn zone(node: &Object) -> Option<String> {
    if node.label(EXCLUDED).is_some() {
        return None;
    }
    let label = |name: &str| node.label(name).unwrap_or_default();
    let (region, zone) = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone");
    Some(format!("{}/{}", label(region), label(zone)))
}
