//! Which nodes changed, in order: whoever keeps something per node reads on from where it was.

use std::collections::VecDeque;

use crate::snapshot::Slot;

/// Changes that are remembered; who is further behind starts anew.
const CHANGES_MAX: usize = 65_536;

#[derive(Clone, Debug, Default)]
pub struct Changes {
    first: u64,
    slots: VecDeque<Slot>,
    /// When the node itself, not only what runs on it, last changed.
    nodes: Vec<u64>,
}

impl Changes {
    /// What runs on a node changed.
    pub fn touch(&mut self, slot: Slot) {
        if self.slots.len() >= CHANGES_MAX {
            self.slots.pop_front();
            self.first += 1;
        }
        self.slots.push_back(slot);
    }

    /// The node itself changed.
    pub fn touch_node(&mut self, slot: Slot) {
        self.touch(slot);
        if self.nodes.len() <= slot {
            self.nodes.resize(slot + 1, 0);
        }
        self.nodes[slot] = self.position();
    }

    /// How many changes there were.
    pub fn position(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    /// The slots that changed since a position, with repeats; `None` if that is forgotten.
    pub fn since(&self, position: u64) -> Option<impl Iterator<Item = Slot> + '_> {
        let skipped = usize::try_from(position.checked_sub(self.first)?).ok()?;
        Some(self.slots.range(skipped.min(self.slots.len())..).copied())
    }

    pub fn is_node_newer(&self, slot: Slot, position: u64) -> bool {
        self.nodes.get(slot).is_some_and(|at| *at > position)
    }
}
