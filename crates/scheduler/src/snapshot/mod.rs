//! What the scheduler knows of the cluster: nodes in slots that stay the same, resources in
//! columns, and counts that are kept up with every change. Nothing is copied for a decision.
//!
//! The caches feed it; decisions are assumed in it until the server shows them. It reads no clock
//! and asks nobody.

pub mod changes;
pub mod counts;
pub mod holders;
pub mod node;
pub mod nominations;
pub mod topology;
mod update;

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use reconcile::{Name, Object};
use serde_json::Value;

use crate::labels::Labels;
use crate::pod::PodInfo;
use crate::pod::template::Template;
use crate::preempt::budget::Budget;
use crate::resources::{Catalogue, Columns};
use crate::snapshot::changes::Changes;
use crate::snapshot::counts::Counts;
use crate::snapshot::holders::Holders;
use crate::snapshot::node::Node;
use crate::snapshot::topology::Topologies;

/// A map whose order follows from nothing but its keys.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// The place of a node in every column.
pub type Slot = usize;

/// Templates that are kept although no pod may use them any more.
const TEMPLATES_SLACK_MAX: usize = 1_024;

#[derive(Default)]
pub struct Snapshot {
    pub catalogue: Catalogue,
    pub columns: Columns,
    pub nodes: Vec<Option<Node>>,
    pub changes: Changes,
    pub counts: Counts,
    pub holders: Holders,
    pub topologies: Topologies,
    pub namespaces: BTreeMap<Arc<str>, Labels>,
    pub claims: BTreeMap<Name, Arc<Object>>,
    pub volumes: BTreeMap<Arc<str>, Arc<Object>>,
    /// Volumes that were decided to be given to a claim, until the server shows it.
    pub volumes_kept: BTreeMap<Arc<str>, Name>,
    pub classes: BTreeMap<Arc<str>, Arc<Object>>,
    pub budgets: BTreeMap<Name, Budget>,
    /// On how many nodes each image is.
    pub images: Map<Arc<str>, usize>,
    /// Nodes with taints that pods may prefer to avoid.
    pub soft_taints: usize,
    /// How many pods on nodes use each claim.
    pub claims_used: Map<Name, usize>,
    /// Changes with everything that can change the score of every node at once.
    pub epoch: u64,
    /// Whether a node is there, is not cordoned and keeps nobody away.
    open: Vec<bool>,
    open_count: usize,
    slots_free: Vec<Slot>,
    slot_of: BTreeMap<Arc<str>, Slot>,
    placed: Map<Arc<str>, (Slot, Arc<PodInfo>)>,
    /// Pods on nodes that are not there, by the name of the node.
    homeless: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Arc<PodInfo>>>,
    nominated: BTreeMap<Arc<str>, (Arc<str>, Arc<PodInfo>)>,
    templates: Map<Arc<Template>, ()>,
    templates_kept: usize,
}

impl Snapshot {
    pub fn node(&self, slot: Slot) -> Option<&Node> {
        self.nodes.get(slot)?.as_ref()
    }

    pub fn slot_of(&self, name: &str) -> Option<Slot> {
        self.slot_of.get(name).copied()
    }

    pub fn node_count(&self) -> usize {
        self.slot_of.len()
    }

    /// Every node, in the order of slots.
    pub fn live(&self) -> impl Iterator<Item = (Slot, &Node)> {
        self.nodes.iter().enumerate().filter_map(|(slot, node)| Some((slot, node.as_ref()?)))
    }

    pub fn live_slots(&self) -> Vec<Slot> {
        if self.slots_free.is_empty() {
            return (0..self.nodes.len()).collect();
        }
        self.live().map(|(slot, _)| slot).collect()
    }

    /// Whether a node takes any pod, as far as cordons and taints are concerned.
    pub fn is_open(&self, slot: Slot) -> bool {
        self.open.get(slot).copied().unwrap_or(false)
    }

    /// Whether every node takes any pod, as far as cordons and taints are concerned.
    pub fn is_all_open(&self) -> bool {
        self.open_count == self.node_count()
    }

    /// Every node, in the order of names.
    pub fn by_name(&self) -> impl Iterator<Item = (Slot, &Node)> {
        self.slot_of.values().filter_map(|slot| Some((*slot, self.node(*slot)?)))
    }

    /// Where a pod is, also one that is only assumed to be there.
    pub fn place_of(&self, uid: &str) -> Option<&(Slot, Arc<PodInfo>)> {
        self.placed.get(uid)
    }

    pub fn placed_count(&self) -> usize {
        self.placed.len()
    }

    /// A pod in the form that decisions are made from.
    pub fn read_pod(&mut self, object: Arc<Object>) -> Arc<PodInfo> {
        let template = Template::read(&object, &mut self.catalogue);
        let template = self.intern(template);
        Arc::new(PodInfo::new(object, template))
    }

    /// The same of a pod that was read before: what did not change is not read again.
    pub fn read_again(&mut self, old: &PodInfo, object: Arc<Object>) -> Arc<PodInfo> {
        let (before, after) = (&old.object.value, &object.value);
        let is_same = is_same_but_placed(&before["spec"], &after["spec"])
            && before["metadata"]["labels"] == after["metadata"]["labels"];
        if !is_same {
            return self.read_pod(object);
        }
        let template = old.template.clone();
        Arc::new(PodInfo::new(object, template))
    }

    fn intern(&mut self, template: Template) -> Arc<Template> {
        if let Some((known, ())) = self.templates.get_key_value(&template) {
            return known.clone();
        }
        if self.templates.len() >= 2 * self.templates_kept + TEMPLATES_SLACK_MAX {
            self.templates.retain(|template, ()| Arc::strong_count(template) > 1);
            self.templates_kept = self.templates.len();
        }
        let template = Arc::new(template);
        self.templates.insert(template.clone(), ());
        template
    }

    pub fn labels_of(&self, namespace: &str) -> Option<&Labels> {
        self.namespaces.get(namespace)
    }

    /// Makes the columns that decisions about a pod look at, so that they are kept up from here.
    pub fn prepare(&mut self, pod: &PodInfo) {
        let relations = &pod.template.relations;
        for spread in &relations.spread {
            self.topologies.ensure(&spread.topology, &self.nodes);
            self.count(&spread.matcher);
        }
        let preferred = relations.preferred.iter().map(|(_, term)| term);
        for term in relations.near.iter().chain(&relations.far).chain(preferred) {
            self.topologies.ensure(&term.topology, &self.nodes);
            self.count(&term.matcher);
        }
        for key in self.holders.topologies_for(pod, &self.namespaces) {
            self.topologies.ensure(&key, &self.nodes);
        }
    }

    fn count(&mut self, matcher: &crate::pod::affinity::Matcher) {
        let (nodes, namespaces) = (&self.nodes, &self.namespaces);
        self.counts.ensure(matcher, || counts::count(matcher, nodes, namespaces));
    }
}

/// Whether two specs say the same, but for the node.
fn is_same_but_placed(before: &Value, after: &Value) -> bool {
    let (Some(before), Some(after)) = (before.as_object(), after.as_object()) else { return false };
    let fields = |spec: &'_ serde_json::Map<String, Value>| {
        spec.len() - usize::from(spec.contains_key("nodeName"))
    };
    let is_same =
        |(name, value): (&String, &Value)| name == "nodeName" || before.get(name) == Some(value);
    fields(before) == fields(after) && after.iter().all(is_same)
}
