//! Resources by number, and how much of each every node has and has given: one column per
//! resource, one cell per node.

use std::sync::Arc;

use crate::pod::template::Template;

pub type ResourceId = usize;

pub const CPU: ResourceId = 0;
pub const MEMORY: ResourceId = 1;
pub const PODS: ResourceId = 3;
const FIRST: [&str; 4] = ["cpu", "memory", "ephemeral-storage", "pods"];

/// The numbers of resources. Names are few and never forgotten.
#[derive(Clone, Debug)]
pub struct Catalogue {
    names: Vec<Arc<str>>,
}

impl Default for Catalogue {
    fn default() -> Catalogue {
        Catalogue { names: FIRST.iter().map(|name| Arc::from(*name)).collect() }
    }
}

impl Catalogue {
    pub fn id(&mut self, name: &str) -> ResourceId {
        self.find(name).unwrap_or_else(|| {
            self.names.push(name.into());
            self.names.len() - 1
        })
    }

    pub fn find(&self, name: &str) -> Option<ResourceId> {
        self.names.iter().position(|known| **known == *name)
    }

    pub fn name(&self, id: ResourceId) -> &str {
        self.names.get(id).map_or("", |name| name)
    }
}

/// One column per resource.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    allocatable: Vec<Vec<i64>>,
    requested: Vec<Vec<i64>>,
    /// Cpu and memory as they are compared.
    compared: [Vec<i64>; 2],
    slots: usize,
}

impl Columns {
    pub fn grow(&mut self, slots: usize) {
        self.slots = self.slots.max(slots);
        let columns = self.allocatable.iter_mut().chain(&mut self.requested);
        columns.chain(&mut self.compared).for_each(|column| column.resize(self.slots, 0));
    }

    fn reach(&mut self, resource: ResourceId) {
        while self.allocatable.len() <= resource {
            self.allocatable.push(vec![0; self.slots]);
            self.requested.push(vec![0; self.slots]);
        }
    }

    pub fn allocatable(&self, resource: ResourceId, slot: usize) -> i64 {
        self.allocatable.get(resource).map_or(0, |column| column[slot])
    }

    pub fn requested(&self, resource: ResourceId, slot: usize) -> i64 {
        self.requested.get(resource).map_or(0, |column| column[slot])
    }

    /// What nodes have of a resource and what is taken; empty if no node has or takes any.
    pub fn column(&self, resource: ResourceId) -> (&[i64], &[i64]) {
        match (self.allocatable.get(resource), self.requested.get(resource)) {
            (Some(allocatable), Some(requested)) => (allocatable, requested),
            _ => (&[], &[]),
        }
    }

    /// Cpu (0) or memory (1) as they are compared, on every node.
    pub fn compared_column(&self, which: usize) -> &[i64] {
        &self.compared[which]
    }

    pub fn free(&self, resource: ResourceId, slot: usize) -> i64 {
        self.allocatable(resource, slot) - self.requested(resource, slot)
    }

    /// What a node has; resources that are not named it has none of.
    pub fn set_allocatable(&mut self, slot: usize, amounts: &[(ResourceId, i64)]) {
        self.allocatable.iter_mut().for_each(|column| column[slot] = 0);
        for (resource, amount) in amounts {
            self.reach(*resource);
            self.allocatable[*resource][slot] = *amount;
        }
    }

    pub fn take(&mut self, slot: usize, template: &Template) {
        self.change(slot, template, 1);
    }

    pub fn give_back(&mut self, slot: usize, template: &Template) {
        self.change(slot, template, -1);
    }

    fn change(&mut self, slot: usize, template: &Template, sign: i64) {
        self.reach(PODS);
        self.requested[PODS][slot] += sign;
        for (resource, amount) in &template.needed {
            self.reach(*resource);
            self.requested[*resource][slot] += sign * amount;
        }
        for (which, amount) in template.compared.iter().enumerate() {
            self.compared[which][slot] += sign * amount;
        }
    }

    pub fn clear(&mut self, slot: usize) {
        let columns = self.allocatable.iter_mut().chain(&mut self.requested);
        columns.chain(&mut self.compared).for_each(|column| column[slot] = 0);
    }
}
