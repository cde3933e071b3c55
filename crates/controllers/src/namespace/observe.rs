//! What is left in a namespace that is going.

use std::collections::BTreeMap;

use reconcile::follow::METADATA_ONLY;
use reconcile::plan::Target;
use reconcile::requests::{Origin, Requests};
use reconcile::{Context, Error, Kind, Object};

use super::Controller;
use crate::discovery::{self, Served};
use crate::kinds::{JOB, POD};

/// Objects of a kind that are looked at; of the others only their number is known.
const OBJECTS_MAX: usize = 500;

#[derive(Default)]
pub struct Observed {
    /// Objects of every kind; while there are pods, only pods and Jobs.
    pub content: Vec<Content>,
    /// Versions whose kinds the server could not tell.
    pub stale: Vec<String>,
}

/// The objects of one kind.
pub struct Content {
    pub served: Served,
    pub count: usize,
    /// Those that nobody has deleted yet, of the ones looked at.
    pub staying: Vec<Target>,
    /// How many objects hold on to each finalizer.
    pub finalizers: BTreeMap<String, usize>,
}

pub fn is_to_be_emptied(namespace: &Object) -> bool {
    let finalizers = namespace.value["spec"]["finalizers"].as_array();
    let mut finalizers = finalizers.into_iter().flatten();
    namespace.is_terminating() && finalizers.any(|one| one == super::plan::FINALIZER)
}

pub async fn observe(context: &Context, namespace: &Object) -> Result<Observed, Error> {
    let mut observed = Observed::default();
    if !is_to_be_emptied(namespace) {
        return Ok(observed);
    }
    let name = <Controller as reconcile::Reconciler>::NAME;
    let requests = context.requests(name, Origin::default());
    let discovered = discovery::served(&requests).await?;
    observed.stale = discovered.stale;
    let mut kinds: Vec<Served> = discovered.served;
    kinds.retain(|one| one.kind.namespaced && one.can_delete);
    kinds.sort_by_key(|one| deletion_rank(one.kind));
    for served in kinds {
        let has_pods = || observed.content.iter().any(|content| content.served.kind == POD);
        if deletion_rank(served.kind) == AFTER_PODS && has_pods() {
            break;
        }
        observed.content.extend(content(&requests, served, &namespace.name.name).await?);
    }
    Ok(observed)
}

/// Rank of kinds that are deleted when all pods are.
const AFTER_PODS: u8 = 2;

/// Returns the place of a kind in the order of deletion: pods first, and Jobs with them. A Job
/// keeps finalizers on its pods until it could replace them, which it cannot in such a namespace.
fn deletion_rank(kind: Kind) -> u8 {
    match kind {
        POD => 0,
        JOB => 1,
        _ => AFTER_PODS,
    }
}

async fn content(
    requests: &Requests,
    served: Served,
    namespace: &str,
) -> Result<Option<Content>, Error> {
    let path = format!("{}?limit={OBJECTS_MAX}", served.kind.collection(namespace));
    let mut list = match requests.read_as(&path, METADATA_ONLY).await {
        Ok(list) => list,
        // The kind went meanwhile, and its objects with it.
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error),
    };
    let more = list["metadata"]["remainingItemCount"].as_u64().unwrap_or(0);
    let items = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
    let count = items.len() + usize::try_from(more).unwrap_or(usize::MAX);
    let mut content = Content { served, count, staying: Vec::new(), finalizers: BTreeMap::new() };
    for item in items {
        let object = Object::new(item);
        for finalizer in object.finalizers() {
            *content.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
        if !object.is_terminating() {
            content.staying.push(Target::of(served.kind, &object));
        }
    }
    Ok((content.count > 0).then_some(content))
}
