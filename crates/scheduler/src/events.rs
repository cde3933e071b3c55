//! What happened in the cluster, as far as it can make room for a pod that found none.

use std::ops::BitOr;

/// A set of things that happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events(u32);

impl Events {
    pub const NONE: Events = Events(0);
    pub const NODE_ADDED: Events = Events(1);
    pub const NODE_LABELS: Events = Events(1 << 1);
    pub const NODE_TAINTS: Events = Events(1 << 2);
    pub const NODE_RESOURCES: Events = Events(1 << 3);
    /// A pod went from its node, or ended there.
    pub const POD_REMOVED: Events = Events(1 << 4);
    /// A pod came to a node, or its labels changed.
    pub const POD_ADDED: Events = Events(1 << 5);
    pub const VOLUMES: Events = Events(1 << 6);
    pub const NAMESPACES: Events = Events(1 << 7);
    pub const ALL: Events = Events(u32::MAX);

    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    pub fn overlaps(self, other: Events) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Events {
    type Output = Events;

    fn bitor(self, other: Events) -> Events {
        Events(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for Events {
    fn bitor_assign(&mut self, other: Events) {
        self.0 |= other.0;
    }
}
