//! How changes of the cluster come into the snapshot. Each costs a few cells.

use std::sync::Arc;

use reconcile::{Name, Object};

use crate::events::Events;
use crate::labels;
use crate::pod::PodInfo;
use crate::preempt::budget::Budget;
use crate::snapshot::node::Node;
use crate::snapshot::{Slot, Snapshot};

impl Snapshot {
    /// A node came or changed.
    pub fn put_node(&mut self, object: &Object) -> Events {
        let mut node = Node::read(object, &mut self.catalogue);
        let Some(slot) = self.slot_of(&node.name) else {
            self.add_node(node);
            return Events::NODE_ADDED;
        };
        let Some(old) = self.nodes[slot].take() else { return Events::NONE };
        let events = old.differences(&node);
        let images_differ = old.images != node.images;
        if events.is_none() && !images_differ {
            // A heartbeat.
            self.nodes[slot] = Some(old);
            return Events::NONE;
        }
        self.soft_taints -= usize::from(old.has_soft_taints());
        self.soft_taints += usize::from(node.has_soft_taints());
        if images_differ {
            self.forget_images(&old);
            self.note_images(&node);
        }
        node.pods = old.pods;
        node.ports = old.ports;
        node.nominated = old.nominated;
        self.columns.set_allocatable(slot, &node.allocatable);
        self.topologies.update(slot, Some(&node));
        self.set_open(slot, node.is_open());
        self.nodes[slot] = Some(node);
        self.changes.touch_node(slot);
        events
    }

    fn add_node(&mut self, mut node: Node) {
        let slot = self.slots_free.pop().unwrap_or(self.nodes.len());
        if slot == self.nodes.len() {
            self.nodes.push(None);
            self.columns.grow(self.nodes.len());
            self.open.push(false);
        }
        self.set_open(slot, node.is_open());
        self.slot_of.insert(node.name.clone(), slot);
        self.columns.set_allocatable(slot, &node.allocatable);
        self.topologies.update(slot, Some(&node));
        self.soft_taints += usize::from(node.has_soft_taints());
        self.note_images(&node);
        self.epoch += 1;
        node.nominated = self.nominated_to(&node.name);
        let homeless = self.homeless.remove(&node.name).unwrap_or_default();
        self.nodes[slot] = Some(node);
        for pod in homeless.into_values() {
            self.settle(slot, pod);
        }
        self.changes.touch_node(slot);
    }

    /// A node went. Its pods stay bound to a name that nobody has.
    pub fn remove_node(&mut self, name: &str) {
        let Some(slot) = self.slot_of.remove(name) else { return };
        let Some(node) = self.nodes[slot].take() else { return };
        self.soft_taints -= usize::from(node.has_soft_taints());
        self.forget_images(&node);
        self.epoch += 1;
        for pod in &node.pods {
            self.unsettle(slot, pod);
            let homeless = self.homeless.entry(node.name.clone()).or_default();
            homeless.insert(pod.uid.clone(), pod.clone());
        }
        self.columns.clear(slot);
        self.set_open(slot, false);
        self.topologies.update(slot, None);
        self.slots_free.push(slot);
        self.changes.touch_node(slot);
    }

    fn set_open(&mut self, slot: Slot, is_open: bool) {
        let was_open = std::mem::replace(&mut self.open[slot], is_open);
        self.open_count += usize::from(is_open);
        self.open_count -= usize::from(was_open);
    }

    fn note_images(&mut self, node: &Node) {
        for (name, _) in &node.images {
            *self.images.entry(name.clone()).or_default() += 1;
        }
        self.epoch += u64::from(!node.images.is_empty());
    }

    fn forget_images(&mut self, node: &Node) {
        for (name, _) in &node.images {
            if let Some(count) = self.images.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    self.images.remove(name);
                }
            }
        }
        self.epoch += u64::from(!node.images.is_empty());
    }

    /// A pod takes room on a node, seen or assumed. It may have been there before.
    pub fn place(&mut self, pod: &Arc<PodInfo>, node: &str) {
        self.displace(&pod.uid);
        match self.slot_of(node) {
            Some(slot) => self.settle(slot, pod.clone()),
            None => {
                let homeless = self.homeless.entry(node.into()).or_default();
                homeless.insert(pod.uid.clone(), pod.clone());
            }
        }
    }

    /// A pod takes no room any more. True if it did.
    pub fn displace(&mut self, uid: &str) -> bool {
        if let Some((slot, pod)) = self.placed.get(uid).cloned() {
            self.unsettle(slot, &pod);
            if let Some(node) = self.nodes[slot].as_mut() {
                node.remove(uid);
            }
            return true;
        }
        let mut was_there = false;
        self.homeless.retain(|_, pods| {
            was_there |= pods.remove(uid).is_some();
            !pods.is_empty()
        });
        was_there
    }

    /// What is known of a pod is newer, and nothing that a decision looks at changed.
    pub fn refresh(&mut self, pod: &Arc<PodInfo>) {
        let Some((slot, held)) = self.placed.get_mut(&pod.uid) else { return };
        *held = pod.clone();
        let pods = self.nodes[*slot].as_mut().map(|node| &mut node.pods);
        let own = pods.and_then(|pods| pods.iter_mut().find(|one| one.uid == pod.uid));
        if let Some(own) = own {
            *own = pod.clone();
        }
    }

    fn settle(&mut self, slot: Slot, pod: Arc<PodInfo>) {
        self.columns.take(slot, &pod.template);
        self.counts.add(slot, &pod, &self.namespaces);
        if !pod.template.relations.has_no_terms() {
            self.holders.add(slot, &pod);
        }
        for claim in &pod.template.claims {
            let name = Name::new(pod.name().namespace.clone(), claim.name.clone());
            *self.claims_used.entry(name).or_default() += 1;
        }
        if let Some(node) = self.nodes[slot].as_mut() {
            node.add(pod.clone());
        }
        self.placed.insert(pod.uid.clone(), (slot, pod));
        self.changes.touch(slot);
    }

    fn unsettle(&mut self, slot: Slot, pod: &PodInfo) {
        self.columns.give_back(slot, &pod.template);
        self.counts.remove(slot, pod, &self.namespaces);
        if !pod.template.relations.has_no_terms() {
            self.holders.remove(slot, pod);
        }
        for claim in &pod.template.claims {
            let name = Name::new(pod.name().namespace.clone(), claim.name.clone());
            if let Some(count) = self.claims_used.get_mut(&name) {
                *count -= 1;
                if *count == 0 {
                    self.claims_used.remove(&name);
                }
            }
        }
        self.placed.remove(&pod.uid);
        self.changes.touch(slot);
    }

    /// The labels of a namespace; `None` when it went.
    pub fn put_namespace(&mut self, name: &Name, object: Option<&Object>) -> Events {
        let labels = object.map(|object| labels::read(&object.value["metadata"]["labels"]));
        if self.namespaces.get(&name.name) == labels.as_ref() {
            return Events::NONE;
        }
        match labels {
            Some(labels) => self.namespaces.insert(name.name.clone(), labels),
            None => self.namespaces.remove(&name.name),
        };
        self.counts.forget_namespaces();
        self.epoch += 1;
        Events::NAMESPACES
    }

    pub fn put_budget(&mut self, name: &Name, object: Option<&Object>) {
        match object {
            Some(object) => self.budgets.insert(name.clone(), Budget::read(object)),
            None => self.budgets.remove(name),
        };
    }

    pub fn put_claim(&mut self, name: &Name, object: Option<Arc<Object>>) -> Events {
        match object {
            Some(object) => self.claims.insert(name.clone(), object),
            None => self.claims.remove(name),
        };
        Events::VOLUMES
    }

    pub fn put_volume(&mut self, name: &Name, object: Option<Arc<Object>>) -> Events {
        match object {
            Some(object) => self.volumes.insert(name.name.clone(), object),
            None => self.volumes.remove(&name.name),
        };
        Events::VOLUMES
    }

    pub fn put_class(&mut self, name: &Name, object: Option<Arc<Object>>) -> Events {
        match object {
            Some(object) => self.classes.insert(name.name.clone(), object),
            None => self.classes.remove(&name.name),
        };
        Events::VOLUMES
    }
}
