//! How many pods on each node a matcher means, for the matchers that are in use.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::labels::Labels;
use crate::pod::PodInfo;
use crate::pod::affinity::Matcher;
use crate::snapshot::node::Node;
use crate::snapshot::{Map, Slot};

/// Matchers whose counts are kept up. The longest unused goes first.
const MATCHERS_MAX: usize = 256;

#[derive(Clone, Debug, Default)]
pub struct Counts {
    columns: Map<Matcher, Column>,
    uses: u64,
}

#[derive(Clone, Debug)]
struct Column {
    counts: Vec<u32>,
    used: u64,
}

impl Counts {
    /// The counts of a matcher, if they are kept.
    pub fn of(&self, matcher: &Matcher) -> Option<&[u32]> {
        self.columns.get(matcher).map(|column| column.counts.as_slice())
    }

    pub fn ensure(&mut self, matcher: &Matcher, count: impl FnOnce() -> Vec<u32>) {
        self.uses += 1;
        if let Some(column) = self.columns.get_mut(matcher) {
            column.used = self.uses;
            return;
        }
        if self.columns.len() >= MATCHERS_MAX {
            let oldest = self.columns.iter().min_by_key(|(_, column)| column.used);
            if let Some(oldest) = oldest.map(|(matcher, _)| matcher.clone()) {
                self.columns.remove(&oldest);
            }
        }
        self.columns.insert(matcher.clone(), Column { counts: count(), used: self.uses });
    }

    pub fn add(&mut self, slot: Slot, pod: &PodInfo, namespaces: &BTreeMap<Arc<str>, Labels>) {
        self.change(slot, pod, namespaces, |count| *count += 1);
    }

    pub fn remove(&mut self, slot: Slot, pod: &PodInfo, namespaces: &BTreeMap<Arc<str>, Labels>) {
        self.change(slot, pod, namespaces, |count| *count = count.saturating_sub(1));
    }

    fn change(
        &mut self,
        slot: Slot,
        pod: &PodInfo,
        namespaces: &BTreeMap<Arc<str>, Labels>,
        change: impl Fn(&mut u32),
    ) {
        for (matcher, column) in &mut self.columns {
            if means(matcher, pod, namespaces) {
                if column.counts.len() <= slot {
                    column.counts.resize(slot + 1, 0);
                }
                change(&mut column.counts[slot]);
            }
        }
    }

    /// The labels of a namespace changed.
    pub fn forget_namespaces(&mut self) {
        self.columns.retain(|matcher, _| matcher.namespace_selector.is_none());
    }
}

/// Whether a matcher means a pod on a node.
pub fn means(matcher: &Matcher, pod: &PodInfo, namespaces: &BTreeMap<Arc<str>, Labels>) -> bool {
    if matcher.ignores_terminating && pod.is_terminating {
        return false;
    }
    matcher.matches(&pod.name().namespace, &pod.labels, |name| namespaces.get(name))
}

/// Counts from nothing.
pub fn count(
    matcher: &Matcher,
    nodes: &[Option<Node>],
    namespaces: &BTreeMap<Arc<str>, Labels>,
) -> Vec<u32> {
    let on = |node: &Option<Node>| {
        let pods = node.iter().flat_map(|node| &node.pods);
        let count = pods.filter(|pod| means(matcher, pod, namespaces)).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    };
    nodes.iter().map(on).collect()
}
