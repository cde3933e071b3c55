//! What the server says of one object and its owners, past every cache: what is deleted does not
//! come back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use reconcile::follow::METADATA_ONLY;
use reconcile::plan::Notice;
use reconcile::requests::Requests;
use reconcile::{Error, Kind, Name, Object};

use super::Shared;
use super::graph::{Going, Node, Reference, Uid, references};
use super::plan::{Item, Standing};

/// Owners that are remembered to be gone.
const ABSENT_MAX: usize = 500;

/// An owner as a reference in a namespace names it.
pub type Coordinates = (String, Reference);

/// Owners that the server said are gone. A UID never comes back.
#[derive(Default)]
pub struct Absent {
    known: BTreeSet<Coordinates>,
    order: VecDeque<Coordinates>,
}

impl Absent {
    pub fn insert(&mut self, namespace: &str, reference: &Reference) {
        let coordinates = coordinates(namespace, reference);
        if self.known.insert(coordinates.clone()) {
            self.order.push_back(coordinates);
        }
        if self.order.len() > ABSENT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    fn contains(&self, namespace: &str, reference: &Reference) -> bool {
        self.known.contains(&coordinates(namespace, reference))
    }
}

fn coordinates(namespace: &str, reference: &Reference) -> Coordinates {
    let reference = Reference { controller: None, blocks: None, ..reference.clone() };
    (namespace.to_owned(), reference)
}

/// An object to decide about, and what there is to say about it.
pub struct Observed {
    pub item: Item,
    pub notices: Vec<Notice>,
    /// Whether a kind that is not served would have to be asked.
    pub is_unknown: bool,
}

/// `None` when it went meanwhile.
pub async fn observe(
    shared: &Shared,
    requests: &Requests,
    node: &Node,
) -> Result<Option<Observed>, Error> {
    let live = get(requests, node.kind, &node.name).await?;
    let Some(live) = live.filter(|live| *live.uid == *node.uid) else { return Ok(None) };
    let uid = Uid::of(&live.uid);
    let dependents = shared.graph().dependents(uid).into_iter().cloned().collect();
    let mut item = Item { kind: node.kind, live, owners: Vec::new(), dependents };
    let mut observed = (Vec::new(), false);
    if Going::of(&item.live) == Going::No {
        for reference in references(&item.live) {
            let standing = standing(shared, requests, &item, &reference).await?;
            if let Some(notice) = misplaced(shared, &item, &reference) {
                observed.0.push(notice);
            }
            observed.1 |= standing == Standing::Unknown;
            item.owners.push((reference, standing));
        }
    }
    let (notices, is_unknown) = observed;
    Ok(Some(Observed { item, notices, is_unknown }))
}

async fn standing(
    shared: &Shared,
    requests: &Requests,
    item: &Item,
    reference: &Reference,
) -> Result<Standing, Error> {
    let namespace = &*item.live.name.namespace;
    if shared.absent().contains(namespace, reference) {
        return Ok(Standing::Absent);
    }
    let Some(kind) = shared.kind(reference) else { return Ok(Standing::Unknown) };
    if kind.namespaced && namespace.is_empty() {
        return Ok(Standing::Unknown);
    }
    let namespace_of_owner = if kind.namespaced { namespace } else { "" };
    let owner = get(requests, kind, &Name::new(namespace_of_owner, &*reference.name)).await?;
    match owner.filter(|owner| *owner.uid == *reference.uid) {
        Some(owner) if Going::of(&owner) == Going::Foreground => Ok(Standing::Waiting),
        Some(_) => Ok(Standing::Solid),
        None => {
            shared.absent().insert(namespace, reference);
            Ok(Standing::Absent)
        }
    }
}

/// A reference across namespaces is a mistake that its author should hear of.
fn misplaced(shared: &Shared, item: &Item, reference: &Reference) -> Option<Notice> {
    let namespace = &*item.live.name.namespace;
    let kind = shared.kind(reference)?;
    let graph = shared.graph();
    let uid = Uid::of(&item.live.uid);
    let is_elsewhere =
        graph.node(uid).is_some_and(|node| graph.is_elsewhere(node, Uid::of(&reference.uid)));
    let is_wide = kind.namespaced && namespace.is_empty();
    if !is_elsewhere && !is_wide {
        return None;
    }
    let Reference { api_version, kind, name, uid, .. } = reference;
    let message = format!(
        "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] does \
         not exist in namespace {namespace:?}"
    );
    Some(Notice::warning("OwnerRefInvalidNamespace", message))
}

async fn get(requests: &Requests, kind: Kind, name: &Name) -> Result<Option<Object>, Error> {
    let path = kind.path(&name.namespace, &name.name);
    match requests.read_as(&path, METADATA_ONLY).await {
        Ok(value) => Ok(Some(Object::new(value))),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Kinds by what references call them.
pub type Kinds = BTreeMap<(String, String), Kind>;
