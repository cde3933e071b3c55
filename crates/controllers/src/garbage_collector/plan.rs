//! What becomes of one object, given who owns it and whom it owns.

use reconcile::plan::{Deletion, Propagation, Target};
use reconcile::{Kind, Object, Step, act};
use serde_json::{Value, json};

use super::graph::{FOREGROUND, Going, Node, ORPHAN, Reference, Uid};

/// Whether an owner is there, as the server said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Solid,
    /// It goes after those it owns.
    Waiting,
    Absent,
    /// Its kind is not served, or it cannot own what is outside its namespace: nobody can tell.
    Unknown,
}

/// An object and those around it.
pub struct Item {
    pub kind: Kind,
    /// The metadata as the server has it now.
    pub live: Object,
    pub owners: Vec<(Reference, Standing)>,
    pub dependents: Vec<Node>,
}

/// What is done: first some steps, when they succeeded others. Then other objects are looked at.
#[derive(Debug, Default)]
pub struct Decision {
    pub first: Vec<Step>,
    pub then: Vec<Step>,
    pub look_at: Vec<Uid>,
}

pub fn decide(item: &Item) -> Decision {
    match Going::of(&item.live) {
        Going::Orphan => let_go(item),
        Going::Foreground => wait_for_dependents(item),
        Going::Plainly => Decision::default(),
        Going::No => collect(item),
    }
}

/// Those it owns lose the reference; then it may go.
fn let_go(item: &Item) -> Decision {
    let owner = Uid::of(&item.live.uid);
    let mut first = Vec::new();
    for dependent in &item.dependents {
        let left: Vec<Value> = dependent
            .owners
            .iter()
            .filter(|one| Uid::of(&one.uid) != owner)
            .map(Reference::value)
            .collect();
        let target = Target {
            kind: dependent.kind,
            name: dependent.name.clone(),
            uid: dependent.uid.to_string(),
            revision: Some(dependent.revision),
            subresource: "",
        };
        first.push(Step::Patch { target, patch: json!({"metadata": {"ownerReferences": left}}) });
    }
    Decision { first, then: without_finalizer(item, ORPHAN), look_at: Vec::new() }
}

fn wait_for_dependents(item: &Item) -> Decision {
    let owner = Uid::of(&item.live.uid);
    let blocking: Vec<_> = item.dependents.iter().filter(|one| one.blocks(owner)).collect();
    if blocking.is_empty() {
        return Decision { first: without_finalizer(item, FOREGROUND), ..Decision::default() };
    }
    let waiting = blocking.iter().filter(|one| one.going == Going::No);
    let look_at = waiting.map(|one| Uid::of(&one.uid)).collect();
    Decision { look_at, ..Decision::default() }
}

fn without_finalizer(item: &Item, name: &str) -> Vec<Step> {
    let target = Target::unchanged(item.kind, &item.live);
    let patch = act::finalizer_patch(&item.live, name, false);
    patch.map(|patch| Step::Patch { target, patch }).into_iter().collect()
}

/// An object without owners that stay goes; one that has some loses the references to the others.
fn collect(item: &Item) -> Decision {
    let of = |standing: Standing| item.owners.iter().filter(move |(_, one)| *one == standing);
    let is_any = |standing: Standing| of(standing).next().is_some();
    if item.owners.is_empty() {
        return Decision::default();
    }
    if is_any(Standing::Solid) {
        return drop_others(item);
    }
    if is_any(Standing::Unknown) {
        return Decision::default();
    }
    let mut first = Vec::new();
    let mut target = Target::unchanged(item.kind, &item.live);
    let has = |name: &str| item.live.finalizers().any(|one| one == name);
    let propagation = if is_any(Standing::Waiting) && !item.dependents.is_empty() {
        let is_circle = item.dependents.iter().any(|one| one.going == Going::Foreground);
        if is_circle {
            first.extend(unblock(item));
            // The unblocking is a change of its own.
            target.revision = None;
        }
        Propagation::Foreground
    } else if has(ORPHAN) {
        Propagation::Orphan
    } else if has(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    let options = Deletion { propagation: Some(propagation), grace_seconds: None };
    Decision { first, then: vec![Step::Delete { target, options }], look_at: Vec::new() }
}

fn drop_others(item: &Item) -> Decision {
    let stays = |standing: Standing| matches!(standing, Standing::Solid | Standing::Unknown);
    if item.owners.iter().all(|(_, standing)| stays(*standing)) {
        return Decision::default();
    }
    let left = item.owners.iter().filter(|(_, standing)| stays(*standing));
    let left: Vec<Value> = left.map(|(reference, _)| reference.value()).collect();
    Decision { first: vec![set_references(item, left)], ..Decision::default() }
}

/// Owners that wait for each other would wait for ever.
fn unblock(item: &Item) -> Option<Step> {
    if item.owners.iter().all(|(reference, _)| reference.blocks != Some(true)) {
        return None;
    }
    let free = |reference: &Reference| Reference { blocks: Some(false), ..reference.clone() };
    let all = item.owners.iter().map(|(reference, _)| free(reference).value()).collect();
    Some(set_references(item, all))
}

fn set_references(item: &Item, references: Vec<Value>) -> Step {
    Step::Patch {
        target: Target::unchanged(item.kind, &item.live),
        patch: json!({"metadata": {"ownerReferences": references}}),
    }
}
