//! What was decided about a pod, and why not otherwise.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use reconcile::Name;

use crate::events::Events;
use crate::plugin::Unfit;
use crate::snapshot::Slot;

/// Nodes that are named for one reason.
const NODES_NAMED_MAX: usize = 100;
/// Pods whose last refusal is kept.
const VERDICTS_MAX: usize = 1_000;

#[derive(Clone, Debug)]
pub enum Verdict {
    /// It goes to the node in a slot.
    Place(Slot),
    Refuse(Arc<Diagnosis>),
}

/// Why no node fits.
#[derive(Clone, Debug, Default)]
pub struct Diagnosis {
    /// How many nodes there are.
    pub nodes: usize,
    /// The one reason for all nodes, where there is one.
    pub reason: Option<String>,
    /// Nodes by why they do not fit.
    pub refused: BTreeMap<Unfit, Refused>,
    /// What can help.
    pub wakes: Events,
    /// Nodes where other pods going could help.
    pub resolvable: Vec<Slot>,
    /// What came of looking for pods that could go.
    pub preemption: String,
}

/// Nodes that do not fit for one reason.
#[derive(Clone, Debug, Default)]
pub struct Refused {
    pub count: usize,
    /// The first of them.
    pub names: Vec<Arc<str>>,
}

impl Diagnosis {
    pub fn because(nodes: usize, reason: impl Into<String>, wakes: Events) -> Diagnosis {
        Diagnosis { nodes, reason: Some(reason.into()), wakes, ..Diagnosis::default() }
    }

    pub fn add(&mut self, unfit: Unfit, slot: Slot, name: &Arc<str>) {
        if unfit.is_resolvable {
            self.resolvable.push(slot);
        }
        let refused = self.refused.entry(unfit).or_default();
        refused.count += 1;
        if refused.names.len() < NODES_NAMED_MAX {
            refused.names.push(name.clone());
        }
    }

    /// Upstream: FitError.Error() of pkg/scheduler/framework/types.go
    pub fn message(&self) -> String {
        if self.nodes == 0 && self.reason.is_none() {
            return "no nodes available to schedule pods".to_owned();
        }
        let mut message = format!("0/{} nodes are available:", self.nodes);
        match &self.reason {
            Some(reason) => message.push_str(&format!(" {reason}.")),
            None => message.push_str(&histogram(&self.refused)),
        }
        if !self.preemption.is_empty() {
            message.push_str(&format!(" preemption: {}", self.preemption));
        }
        message
    }
}

/// ` 2 Insufficient cpu, 1 node(s) were unschedulable.`; empty if there is nothing.
pub fn histogram(refused: &BTreeMap<Unfit, Refused>) -> String {
    let mut counts: BTreeMap<&Cow<'static, str>, usize> = BTreeMap::new();
    for (unfit, refused) in refused {
        for reason in &unfit.reasons {
            *counts.entry(reason).or_default() += refused.count;
        }
    }
    let mut lines: Vec<String> =
        counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    // By text, as upstream sorts: ten comes before two.
    lines.sort_unstable();
    if lines.is_empty() { String::new() } else { format!(" {}.", lines.join(", ")) }
}

/// The last refusal of each pod that waits, for whoever asks why.
#[derive(Debug, Default)]
pub struct Verdicts(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    of: BTreeMap<Name, Arc<Diagnosis>>,
    order: VecDeque<Name>,
}

impl Verdicts {
    /// Why a pod has no node; `None` if it was not refused lately.
    pub fn why(&self, pod: &Name) -> Option<Arc<Diagnosis>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).of.get(pod).cloned()
    }

    pub(crate) fn keep(&self, pod: &Name, diagnosis: &Arc<Diagnosis>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.of.insert(pod.clone(), diagnosis.clone()).is_none() {
            kept.order.push_back(pod.clone());
        }
        while kept.order.len() > VERDICTS_MAX {
            let Some(oldest) = kept.order.pop_front() else { break };
            kept.of.remove(&oldest);
        }
    }

    pub(crate) fn forget(&self, pod: &Name) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Almost no pod was refused.
        if kept.of.remove(pod).is_some() {
            kept.order.retain(|one| one != pod);
        }
    }
}
