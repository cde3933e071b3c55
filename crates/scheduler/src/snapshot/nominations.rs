//! Room that is being made for pods: others of lesser priority must not take it.

use std::sync::Arc;

use crate::pod::PodInfo;
use crate::snapshot::{Slot, Snapshot};

impl Snapshot {
    /// Room is being made for a pod on a node; the empty name takes it back.
    pub fn nominate(&mut self, pod: &Arc<PodInfo>, node: &str) {
        let old = self.nominated.remove(&pod.uid);
        if let Some((name, _)) = &old
            && let Some(slot) = self.slot_of(name)
        {
            if let Some(node) = self.nodes[slot].as_mut() {
                node.nominated.retain(|held| held.uid != pod.uid);
            }
            self.changes.touch(slot);
        }
        if node.is_empty() {
            return;
        }
        self.nominated.insert(pod.uid.clone(), (node.into(), pod.clone()));
        if let Some(slot) = self.slot_of(node) {
            if let Some(node) = self.nodes[slot].as_mut() {
                node.nominated.push(pod.clone());
            }
            self.changes.touch(slot);
        }
    }

    /// Whether room is kept for anybody.
    pub fn has_nominations(&self) -> bool {
        !self.nominated.is_empty()
    }

    pub fn nomination_of(&self, uid: &str) -> Option<&Arc<str>> {
        self.nominated.get(uid).map(|(name, _)| name)
    }

    pub(super) fn nominated_to(&self, name: &str) -> Vec<Arc<PodInfo>> {
        let to = self.nominated.values().filter(|(node, _)| **node == *name);
        to.map(|(_, pod)| pod.clone()).collect()
    }

    /// The pods that have room kept on a node before another pod may have it.
    pub fn ahead_of<'a>(
        &'a self,
        pod: &'a PodInfo,
        slot: Slot,
    ) -> impl Iterator<Item = &'a Arc<PodInfo>> + 'a {
        let nominated = self.node(slot).map_or(&[][..], |node| &node.nominated);
        nominated.iter().filter(|one| one.priority >= pod.priority && one.uid != pod.uid)
    }
}
