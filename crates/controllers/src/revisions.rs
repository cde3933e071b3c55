//! ControllerRevisions: the templates that a StatefulSet or DaemonSet has had, numbered.
//!
//! The name of a revision follows from the template, so that a template that comes back finds its
//! revision again. `data` is a patch that brings the template back, as `kubectl rollout undo`
//! wants.
//!
//! Upstream: pkg/controller/history/controller_history.go

use std::sync::Arc;

use reconcile::plan::Target;
use reconcile::{Context, Kind, Name, Object, Plan, names, owners};
use serde_json::{Value, json};

use crate::kinds::CONTROLLER_REVISION;
use crate::templates;

/// On pods: the revision they were made from. On revisions of DaemonSets: their hash.
pub const POD_LABEL: &str = "controller-revision-hash";
/// On revisions of StatefulSets: their hash.
pub const HASH_LABEL: &str = "controller.kubernetes.io/hash";

/// The revision of the template that an owner has.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    pub name: String,
    pub hash: String,
}

/// Plans that the template of the owner is the newest of its revisions.
pub fn ensure(
    plan: &mut Plan,
    (owner_kind, owner): (Kind, &Object),
    held: &[&Arc<Object>],
    hash_label: &'static str,
) -> Revision {
    let sorted = sorted(held);
    let next = sorted.last().map_or(0, |last| number(last)).saturating_add(1);
    match sorted.iter().rposition(|one| is_of(one, owner)) {
        Some(at) => {
            let found = sorted[at];
            if at + 1 < sorted.len() {
                plan.patch(
                    Target::unchanged(CONTROLLER_REVISION, found),
                    json!({"revision": next}),
                );
            }
            let name = found.name.name.to_string();
            let hash = found.label(hash_label).map(ToOwned::to_owned);
            let hash = hash.unwrap_or_else(|| hash_of(owner));
            Revision { name, hash }
        }
        None => {
            let made = Revision { name: name_of(owner), hash: hash_of(owner) };
            let mut object = owners::child(CONTROLLER_REVISION, &made.name, owner_kind, owner);
            let labels = &owner.value["spec"]["template"]["metadata"]["labels"];
            object["metadata"]["labels"] =
                if labels.is_object() { labels.clone() } else { json!({}) };
            object["metadata"]["labels"][hash_label] = json!(made.hash);
            if let Some(annotations) = owner.value["metadata"]["annotations"].as_object() {
                let copied = annotations.iter().filter(|(key, _)| *key != LAST_APPLIED);
                object["metadata"]["annotations"] =
                    copied.map(|(k, v)| (k.clone(), v.clone())).collect();
            }
            object["data"] = data(owner);
            object["revision"] = json!(next);
            plan.create(CONTROLLER_REVISION, object);
            made
        }
    }
}

/// What kubectl keeps on an object; it would only make its revisions large.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Plans that the oldest revisions go that nothing is made from any more.
pub fn truncate(
    plan: &mut Plan,
    owner: &Object,
    held: &[&Arc<Object>],
    is_live: impl Fn(&Object) -> bool,
) {
    let limit = owner.value["spec"]["revisionHistoryLimit"].as_u64().unwrap_or(10);
    let kept = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut dead = sorted(held);
    dead.retain(|revision| !is_live(revision) && !is_of(revision, owner));
    let surplus = dead.len().saturating_sub(kept);
    for revision in dead.into_iter().take(surplus) {
        plan.delete(Target::of(CONTROLLER_REVISION, revision));
    }
}

/// Whether another object has the name that the revision of the owner's template would get.
pub fn is_name_taken(context: &Context, owner: &Object) -> bool {
    let name = Name::new(owner.name.namespace.clone(), name_of(owner));
    let found = context.cache(CONTROLLER_REVISION).get(&name);
    found.is_some_and(|found| {
        let is_own = found.controller().is_none_or(|uid| uid == owner.uid);
        !is_own || !is_of(&found, owner)
    })
}

/// The template that a revision brings back.
pub fn template(revision: &Object) -> Value {
    let mut template = revision.value["data"]["spec"]["template"].clone();
    if let Some(fields) = template.as_object_mut() {
        fields.remove("$patch");
    }
    template
}

/// Whether a revision is of the template that the owner has.
pub fn is_of(revision: &Object, owner: &Object) -> bool {
    templates::normal(&template(revision)) == templates::normal(&owner.value["spec"]["template"])
}

pub fn collisions(owner: &Object) -> i64 {
    owner.value["status"]["collisionCount"].as_i64().unwrap_or(0)
}

fn data(owner: &Object) -> Value {
    let mut template = templates::normal(&owner.value["spec"]["template"]);
    template["$patch"] = json!("replace");
    json!({"spec": {"template": template}})
}

fn hash_of(owner: &Object) -> String {
    let data = data(owner).to_string();
    match collisions(owner) {
        0 => names::digest(&[&data]),
        collisions => names::digest(&[&data, &collisions.to_string()]),
    }
}

fn name_of(owner: &Object) -> String {
    names::child(&owner.name.name, &hash_of(owner))
}

pub fn number(revision: &Object) -> i64 {
    revision.value["revision"].as_i64().unwrap_or(0)
}

/// From the oldest to the newest.
fn sorted<'a>(held: &[&'a Arc<Object>]) -> Vec<&'a Arc<Object>> {
    let mut sorted = held.to_vec();
    sorted.sort_by_cached_key(|one| {
        (number(one), one.created().map(|at| at.as_second()), one.name.clone())
    });
    sorted
}
