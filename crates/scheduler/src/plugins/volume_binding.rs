//! The claims of a pod can be met on a node: bound volumes are reachable from it, and for claims
//! that wait for their first consumer there is a volume or somebody who makes one there.
//!
//! Upstream: pkg/scheduler/framework/plugins/volumebinding

use std::collections::BTreeSet;
use std::sync::Arc;

use reconcile::{Name, Object};

use crate::events::Events;
use crate::labels::{self, NodeTerm, Selector, list, node_terms, text};
use crate::plugin::{Filter, Filtering, Plugin, Scope, Unfit, View};
use crate::quantity;
use crate::snapshot::node::Node;
use crate::snapshot::{Slot, Snapshot};

const NODE_CONFLICT: &str = "node(s) didn't match PersistentVolume's node affinity";
const BIND_CONFLICT: &str = "node(s) didn't find available persistent volumes to bind";
const UNBOUND: &str = "pod has unbound immediate PersistentVolumeClaims";
const NO_VOLUME: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// Where the maker of a volume is told for which node.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

pub struct VolumeBinding;

impl Plugin for VolumeBinding {
    fn name(&self) -> &'static str {
        "VolumeBinding"
    }

    fn scope(&self) -> Scope {
        Scope::Cluster
    }

    fn woken_by(&self) -> Events {
        Events::VOLUMES | Events::NODE_LABELS
    }

    fn concerns(&self, view: View<'_>) -> bool {
        !view.pod.template.claims.is_empty()
    }

    fn filter<'a>(&self, view: View<'a>) -> Filtering<'a> {
        if view.pod.template.claims.is_empty() {
            return Filtering::Skip;
        }
        match sort(view) {
            Ok(sorted) => Filtering::Check(Box::new(sorted)),
            Err(reason) => Filtering::Refuse(Unfit::unresolvable(reason)),
        }
    }
}

/// What must happen to a claim before its pod can start on a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A volume that exists is given to the claim.
    Bind { claim: Name, volume: Arc<str> },
    /// Somebody makes a volume for the node.
    Provision { claim: Name },
}

/// What must happen to the claims of a pod for a node; nothing if all are bound.
pub fn steps(view: View<'_>, slot: Slot) -> Vec<Step> {
    let (Ok(sorted), Some(node)) = (sort(view), view.snapshot.node(slot)) else {
        return Vec::new();
    };
    sorted.waiting_steps(node).unwrap_or_default()
}

/// Whether a claim has its volume for good.
pub fn is_bound(claim: &Object) -> bool {
    !text(&claim.value["spec"]["volumeName"]).is_empty()
        && (claim.annotation("pv.kubernetes.io/bind-completed").is_some()
            || text(&claim.value["status"]["phase"]) == "Bound")
}

/// The claims of a pod, sorted.
struct Sorted<'a> {
    view: View<'a>,
    /// Where each bound volume can be reached from, where it says.
    bound: Vec<Vec<NodeTerm>>,
    has_lost: bool,
    waiting: Vec<&'a Arc<Object>>,
}

fn sort<'a>(view: View<'a>) -> Result<Sorted<'a>, String> {
    let mut sorted = Sorted { view, bound: Vec::new(), has_lost: false, waiting: Vec::new() };
    let mut has_immediate = false;
    for used in &view.pod.template.claims {
        let name = Name::new(view.pod.name().namespace.clone(), used.name.clone());
        let Some(claim) = view.snapshot.claims.get(&name) else {
            return Err(match used.is_ephemeral {
                true => format!(
                    "waiting for ephemeral volume controller to create the \
                     persistentvolumeclaim {:?}",
                    used.name
                ),
                false => format!("persistentvolumeclaim {:?} not found", used.name),
            });
        };
        if claim.is_terminating() {
            return Err(format!("persistentvolumeclaim {:?} is being deleted", used.name));
        }
        let volume = text(&claim.value["spec"]["volumeName"]);
        if text(&claim.value["status"]["phase"]) == "Lost" {
            return Err(format!(
                "persistentvolumeclaim {:?} bound to non-existent persistentvolume {volume:?}",
                used.name
            ));
        }
        if is_bound(claim) {
            match view.snapshot.volumes.get(volume) {
                None => sorted.has_lost = true,
                Some(volume) => sorted.bound.extend(reach(volume)),
            }
        } else if waits(view.snapshot, claim) && volume.is_empty() {
            sorted.waiting.push(claim);
        } else {
            has_immediate = true;
        }
    }
    if has_immediate { Err(UNBOUND.to_owned()) } else { Ok(sorted) }
}

/// Whether a claim waits for its first consumer.
fn waits(snapshot: &Snapshot, claim: &Object) -> bool {
    class_of(snapshot, claim)
        .is_some_and(|class| text(&class.value["volumeBindingMode"]) == "WaitForFirstConsumer")
}

fn class_of<'a>(snapshot: &'a Snapshot, claim: &Object) -> Option<&'a Arc<Object>> {
    snapshot.classes.get(text(&claim.value["spec"]["storageClassName"]))
}

/// From which nodes a volume can be reached, if it says.
fn reach(volume: &Object) -> Option<Vec<NodeTerm>> {
    node_terms(&volume.value["spec"]["nodeAffinity"]["required"])
}

fn is_reached(terms: &[NodeTerm], node: &Node) -> bool {
    terms.iter().any(|term| term.matches(&node.name, &node.labels))
}

impl Sorted<'_> {
    fn is_bound_reached(&self, node: &Node) -> bool {
        self.bound.iter().all(|terms| is_reached(terms, node))
    }

    /// What must happen to the waiting claims; `None` if it cannot.
    fn waiting_steps(&self, node: &Node) -> Option<Vec<Step>> {
        let mut taken = BTreeSet::new();
        let mut steps = Vec::new();
        for claim in &self.waiting {
            let selected = claim.annotation(SELECTED_NODE);
            if selected.is_some_and(|selected| selected != &*node.name) {
                return None;
            }
            if selected.is_none()
                && let Some(volume) = self.find(claim, node, &taken)
            {
                taken.insert(volume.clone());
                steps.push(Step::Bind { claim: claim.name.clone(), volume });
                continue;
            }
            if !self.is_provisioned(claim, node) {
                return None;
            }
            steps.push(Step::Provision { claim: claim.name.clone() });
        }
        Some(steps)
    }

    /// The smallest free volume that meets a claim on a node.
    fn find(&self, claim: &Object, node: &Node, taken: &BTreeSet<Arc<str>>) -> Option<Arc<str>> {
        let spec = &claim.value["spec"];
        let size = quantity::units(&spec["resources"]["requests"]["storage"]);
        let selector = (!spec["selector"].is_null()).then(|| Selector::read(&spec["selector"]));
        let mode = |spec: &serde_json::Value| match text(&spec["volumeMode"]) {
            "" => "Filesystem".to_owned(),
            mode => mode.to_owned(),
        };
        let fits = |volume: &&Arc<Object>| {
            let own = &volume.value["spec"];
            let modes = &own["accessModes"];
            let has = |wanted: &serde_json::Value| list(modes).any(|mode| mode == wanted);
            let labels = labels::read(&volume.value["metadata"]["labels"]);
            text(&own["storageClassName"]) == text(&spec["storageClassName"])
                && is_free(volume, claim)
                && !taken.contains(&volume.name.name)
                && self.is_not_kept(volume, claim)
                && quantity::units(&own["capacity"]["storage"]) >= size
                && list(&spec["accessModes"]).all(has)
                && mode(own) == mode(spec)
                && selector.as_ref().is_none_or(|selector| selector.matches(&labels))
                && reach(volume).is_none_or(|terms| is_reached(&terms, node))
        };
        let found = self
            .view
            .snapshot
            .volumes
            .values()
            .filter(fits)
            .min_by_key(|volume| quantity::units(&volume.value["spec"]["capacity"]["storage"]));
        found.map(|volume| volume.name.name.clone())
    }

    /// Whether no other pod that was just decided has the volume.
    fn is_not_kept(&self, volume: &Object, claim: &Object) -> bool {
        let keeper = self.view.snapshot.volumes_kept.get(&volume.name.name);
        keeper.is_none_or(|keeper| *keeper == claim.name)
    }

    /// Whether somebody would make a volume for a node.
    fn is_provisioned(&self, claim: &Object, node: &Node) -> bool {
        let Some(class) = class_of(self.view.snapshot, claim) else { return false };
        if ["", NO_PROVISIONER].contains(&text(&class.value["provisioner"])) {
            return false;
        }
        let allowed = &class.value["allowedTopologies"];
        let is_in = |term: &serde_json::Value| {
            list(&term["matchLabelExpressions"]).all(|one| {
                let value = node.labels.get(text(&one["key"]));
                value.is_some_and(|value| list(&one["values"]).any(|it| text(it) == &**value))
            })
        };
        list(allowed).next().is_none() || list(allowed).any(is_in)
    }
}

/// Whether a volume is nobody's, or already kept for the claim.
fn is_free(volume: &Object, claim: &Object) -> bool {
    let owner = &volume.value["spec"]["claimRef"];
    let phase = text(&volume.value["status"]["phase"]);
    let is_own = text(&owner["namespace"]) == &*claim.name.namespace
        && text(&owner["name"]) == &*claim.name.name
        && ["", claim.uid.as_str()].contains(&text(&owner["uid"]));
    !volume.is_terminating()
        && (is_own || (owner.is_null() && ["", "Available", "Pending"].contains(&phase)))
}

impl Filter for Sorted<'_> {
    fn fits(&self, slot: Slot) -> bool {
        let Some(node) = self.view.snapshot.node(slot) else { return false };
        !self.has_lost && self.is_bound_reached(node) && self.waiting_steps(node).is_some()
    }

    fn why(&self, slot: Slot) -> Unfit {
        if self.has_lost {
            return Unfit::unresolvable(NO_VOLUME);
        }
        let mut reasons = Vec::new();
        if let Some(node) = self.view.snapshot.node(slot) {
            if !self.is_bound_reached(node) {
                reasons.push(NODE_CONFLICT.into());
            }
            if self.waiting_steps(node).is_none() {
                reasons.push(BIND_CONFLICT.into());
            }
        }
        Unfit { reasons, is_resolvable: false }
    }
}
