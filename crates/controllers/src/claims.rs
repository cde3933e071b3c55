//! Which children an owner holds: those it controls and selects, and those without a controller
//! that it may adopt. The same rules for pods, ReplicaSets and ControllerRevisions.

use std::collections::BTreeSet;
use std::sync::Arc;

use reconcile::plan::Target;
use reconcile::{Change, Context, Error, Kind, Name, Object, Plan, Selector, cache::Cache, owners};
use serde_json::{Value, json};

/// The children that concern an owner.
#[derive(Default)]
pub struct Claimed {
    /// Controlled by the owner, whether they still match or not.
    pub owned: Vec<Arc<Object>>,
    /// Matching children without a controller; only when the owner may adopt.
    pub orphans: Vec<Arc<Object>>,
}

/// Reads the children of an owner. `may_be_adopted` says which orphans are worth adopting.
pub async fn claimed(
    context: &Context,
    (owner_kind, owner): (Kind, &Object),
    child_kind: Kind,
    selector: &Selector,
    may_be_adopted: impl Fn(&Object) -> bool,
) -> Result<Claimed, Error> {
    let cache = context.cache(child_kind);
    let owned = cache.owned_by(&owner.uid);
    let is_orphan = |child: &Arc<Object>| may_be_adopted(child) && selector.matches(child);
    let orphans = cache.loose(&owner.name.namespace);
    let mut orphans: Vec<_> = orphans.into_iter().filter(is_orphan).collect();
    if !orphans.is_empty() && !may_adopt(context, owner_kind, owner).await? {
        orphans.clear();
    }
    Ok(Claimed { owned, orphans })
}

/// Names that children of the owner cannot get, because objects that are not its own have them: a
/// child that was released keeps its name.
pub fn foreign_names(context: &Context, owner: &Object, child_kind: Kind) -> BTreeSet<String> {
    // Long names of owners are cut in those of their children.
    let begin: String = owner.name.name.chars().take(NAME_BEGIN).collect();
    let is_foreign = |child: &Arc<Object>| child.controller() != Some(owner.uid.as_str());
    let all = context.cache(child_kind).beginning_with(&owner.name.namespace, &begin);
    let foreign = all.into_iter().filter(is_foreign);
    foreign.map(|child| child.name.name.to_string()).collect()
}

/// As much of an owner's name as its children surely begin with.
const NAME_BEGIN: usize = 40;

/// Plans the adoptions and releases, each of the child as it was seen: of two owners that reach for
/// one child, one is refused. Returns the children that the owner holds after them.
pub fn settle<'a>(
    plan: &mut Plan,
    (owner_kind, owner): (Kind, &Object),
    child_kind: Kind,
    selector: &Selector,
    claimed: &'a Claimed,
) -> Vec<&'a Arc<Object>> {
    let mut held = Vec::new();
    for child in &claimed.owned {
        if selector.matches(child) {
            held.push(child);
        } else if !child.is_terminating() {
            plan.patch(Target::unchanged(child_kind, child), release(owner, child));
        }
    }
    for orphan in &claimed.orphans {
        plan.patch(Target::unchanged(child_kind, orphan), adopt(owner_kind, owner, orphan));
        held.push(orphan);
    }
    held
}

/// A child without a controller concerns every owner in its namespace that selects it.
pub fn owners_that_may_adopt(owners: &Cache, change: &Change) -> Vec<Name> {
    let Some(child) = change.new.as_ref().filter(|child| child.controller().is_none()) else {
        return Vec::new();
    };
    let selects = |owner: &Arc<Object>| {
        let selector = Selector::read(&owner.value["spec"]["selector"]);
        selector.is_ok_and(|selector| selector.matches(child))
    };
    let owners = owners.in_namespace(&child.name.namespace);
    owners.into_iter().filter(selects).map(|owner| owner.name.clone()).collect()
}

/// Adopting cannot be undone by looking again, so the server is asked whether the owner is still
/// the one and stays.
async fn may_adopt(context: &Context, kind: Kind, owner: &Object) -> Result<bool, Error> {
    let live = context.get_live(kind, &owner.name).await?;
    Ok(live.is_some_and(|live| live.uid == owner.uid && !live.is_terminating()))
}

fn adopt(owner_kind: Kind, owner: &Object, child: &Object) -> Value {
    let mut references = references(child);
    references.push(owners::controller_reference(owner_kind, owner));
    json!({"metadata": {"ownerReferences": references}})
}

fn release(owner: &Object, child: &Object) -> Value {
    let mut references = references(child);
    references.retain(|reference| reference["uid"] != owner.uid.as_str());
    json!({"metadata": {"ownerReferences": references}})
}

fn references(child: &Object) -> Vec<Value> {
    child.value["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default()
}
