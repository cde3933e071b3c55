//! Which nodes are in one place, for the labels that say so and are in use.

use std::borrow::Cow;
use std::sync::Arc;

use crate::snapshot::node::Node;
use crate::snapshot::{Map, Slot};

/// No value: the node does not have the label.
pub const NOWHERE: u32 = 0;
/// Labels whose values are kept; more are read each time.
const TOPOLOGIES_MAX: usize = 64;
/// Values that may be forgotten ones, beside as many as there are nodes.
const VALUES_SLACK_MAX: usize = 256;

#[derive(Clone, Debug, Default)]
pub struct Topologies {
    columns: Map<Arc<str>, Topology>,
}

/// The value of one label on every node, as a number from 1.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    pub value_of: Vec<u32>,
    values: Map<Arc<str>, u32>,
}

impl Topology {
    fn new(key: &str, nodes: &[Option<Node>]) -> Topology {
        let mut topology = Topology::default();
        for (slot, node) in nodes.iter().enumerate() {
            topology.set(slot, node.as_ref().and_then(|node| node.labels.get(key)));
        }
        topology
    }

    fn set(&mut self, slot: Slot, value: Option<&Arc<str>>) {
        if self.value_of.len() <= slot {
            self.value_of.resize(slot + 1, NOWHERE);
        }
        self.value_of[slot] = match value {
            None => NOWHERE,
            Some(value) => {
                let next = u32::try_from(self.values.len()).unwrap_or(u32::MAX - 1) + 1;
                *self.values.entry(value.clone()).or_insert(next)
            }
        };
    }

    pub fn of(&self, slot: Slot) -> u32 {
        self.value_of.get(slot).copied().unwrap_or(NOWHERE)
    }

    /// One more than the greatest number of a value.
    pub fn bound(&self) -> usize {
        self.values.len() + 1
    }
}

impl Topologies {
    pub fn ensure(&mut self, key: &Arc<str>, nodes: &[Option<Node>]) {
        if !self.columns.contains_key(key) && self.columns.len() < TOPOLOGIES_MAX {
            self.columns.insert(key.clone(), Topology::new(key, nodes));
        }
    }

    pub fn of<'a>(&'a self, key: &str, nodes: &[Option<Node>]) -> Cow<'a, Topology> {
        match self.columns.get(key) {
            Some(topology) => Cow::Borrowed(topology),
            None => Cow::Owned(Topology::new(key, nodes)),
        }
    }

    /// A node came, changed or went.
    pub fn update(&mut self, slot: Slot, node: Option<&Node>) {
        self.columns.retain(|_, topology| {
            topology.values.len() <= 2 * topology.value_of.len() + VALUES_SLACK_MAX
        });
        for (key, topology) in &mut self.columns {
            topology.set(slot, node.and_then(|node| node.labels.get(key)));
        }
    }
}
