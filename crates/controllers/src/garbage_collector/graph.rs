//! Who owns whom, as the watches tell it: identities, references and the way of deletion, nothing
//! else of any object. It decides nothing: it says whom a change concerns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reconcile::{Kind, Name, Object};
use serde_json::{Value, json};

pub const ORPHAN: &str = "orphan";
pub const FOREGROUND: &str = "foregroundDeletion";

/// A UID in the room of a number. What is no UUID is hashed; a clash can only cost a look, as
/// every deletion carries the whole UID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Uid(u128);

impl Uid {
    pub fn of(text: &str) -> Uid {
        let digits: String = text.chars().filter(|one| *one != '-').collect();
        if text.len() == 36
            && digits.len() == 32
            && let Ok(number) = u128::from_str_radix(&digits, 16)
        {
            return Uid(number);
        }
        let step = |hash: u128, byte: u8| {
            (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
        };
        Uid(text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, step))
    }
}

/// One entry of `ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    pub api_version: Box<str>,
    pub kind: Box<str>,
    pub name: Box<str>,
    pub uid: Box<str>,
    pub controller: Option<bool>,
    pub blocks: Option<bool>,
}

impl Reference {
    fn read(value: &Value) -> Reference {
        let text = |field: &str| value[field].as_str().unwrap_or_default().into();
        Reference {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
            controller: value["controller"].as_bool(),
            blocks: value["blockOwnerDeletion"].as_bool(),
        }
    }

    pub fn group(&self) -> &str {
        self.api_version.rsplit_once('/').map_or("", |(group, _)| group)
    }

    pub fn value(&self) -> Value {
        let mut value = json!({"apiVersion": &*self.api_version, "kind": &*self.kind,
            "name": &*self.name, "uid": &*self.uid});
        if let Some(controller) = self.controller {
            value["controller"] = json!(controller);
        }
        if let Some(blocks) = self.blocks {
            value["blockOwnerDeletion"] = json!(blocks);
        }
        value
    }
}

/// The references of an object.
pub fn references(object: &Object) -> Vec<Reference> {
    let list = object.value["metadata"]["ownerReferences"].as_array();
    list.into_iter().flatten().map(Reference::read).collect()
}

/// How an object is going, if it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Going {
    No,
    /// Nothing is to be done for those it owns before it is gone.
    Plainly,
    /// After those it owns.
    Foreground,
    /// After those it owns have been let go.
    Orphan,
}

impl Going {
    pub fn of(object: &Object) -> Going {
        let has = |name: &str| object.finalizers().any(|one| one == name);
        match object.is_terminating() {
            false => Going::No,
            true if has(ORPHAN) => Going::Orphan,
            true if has(FOREGROUND) => Going::Foreground,
            true => Going::Plainly,
        }
    }
}

/// An object that owns, or is owned, or keeps those it owns in mind while it goes.
#[derive(Clone, Debug)]
pub struct Node {
    pub kind: Kind,
    pub name: Name,
    pub uid: Box<str>,
    pub revision: u64,
    pub owners: Vec<Reference>,
    pub going: Going,
}

impl Node {
    fn of(kind: Kind, object: &Object) -> Node {
        Node {
            kind,
            name: object.name.clone(),
            uid: object.uid.as_str().into(),
            revision: object.revision,
            owners: references(object),
            going: Going::of(object),
        }
    }

    fn is_plain(&self) -> bool {
        self.owners.is_empty() && matches!(self.going, Going::No | Going::Plainly)
    }

    /// Whether its owner may not go before it.
    pub fn blocks(&self, owner: Uid) -> bool {
        let mut owners = self.owners.iter();
        owners.any(|one| one.blocks == Some(true) && Uid::of(&one.uid) == owner)
    }
}

/// What is known of one object. Most own nothing and are owned by nobody: of those only that they
/// are there.
struct Known {
    kind: u16,
    revision: u64,
    namespace: Arc<str>,
    node: Option<Box<Node>>,
}

#[derive(Default)]
pub struct Graph {
    known: BTreeMap<Uid, Known>,
    /// Those that refer to an owner, whether it exists or not.
    dependents: BTreeMap<Uid, BTreeSet<Uid>>,
    kinds: Vec<Kind>,
    /// Each name once, however many objects are there.
    namespaces: BTreeSet<Arc<str>>,
}

impl Graph {
    pub fn node(&self, uid: Uid) -> Option<&Node> {
        self.known.get(&uid)?.node.as_deref()
    }

    pub fn dependents(&self, owner: Uid) -> Vec<&Node> {
        let uids = self.dependents.get(&owner).into_iter().flatten();
        uids.filter_map(|uid| self.node(*uid)).collect()
    }

    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether somebody has to look at an object.
    pub fn concerns(&self, uid: Uid) -> bool {
        let Some(node) = self.node(uid) else { return false };
        match node.going {
            Going::Foreground | Going::Orphan => true,
            Going::Plainly => false,
            Going::No => node.owners.iter().any(|owner| {
                let uid = Uid::of(&owner.uid);
                let is_waiting =
                    self.node(uid).is_some_and(|owner| owner.going == Going::Foreground);
                !self.known.contains_key(&uid) || is_waiting || self.is_elsewhere(node, uid)
            }),
        }
    }

    /// Whether an owner is in another namespace, where it cannot own.
    pub fn is_elsewhere(&self, node: &Node, owner: Uid) -> bool {
        let known = self.known.get(&owner);
        known.is_some_and(|owner| {
            !owner.namespace.is_empty() && owner.namespace != node.name.namespace
        })
    }

    /// An object was added or changed; returns whom that concerns.
    pub fn put(&mut self, kind: Kind, object: &Object) -> Vec<Uid> {
        let uid = Uid::of(&object.uid);
        if self.known.get(&uid).is_some_and(|known| known.revision > object.revision) {
            return Vec::new();
        }
        let mut concerned = BTreeSet::new();
        let node = Node::of(kind, object);
        let owners = |node: &Node| node.owners.iter().map(|one| Uid::of(&one.uid)).collect();
        let before: BTreeSet<Uid> = self.node(uid).map(owners).unwrap_or_default();
        let after: BTreeSet<Uid> = owners(&node);
        for gone in before.difference(&after) {
            self.unlink(*gone, uid);
        }
        for new in after.difference(&before) {
            self.dependents.entry(*new).or_default().insert(uid);
        }
        // An owner that waits for this one may wait no longer.
        concerned.extend(before.union(&after).copied().filter(|owner| self.concerns(*owner)));
        let was = self.node(uid).map_or(Going::No, |node| node.going);
        if node.going != was && matches!(node.going, Going::Foreground | Going::Orphan) {
            concerned.extend(self.dependents.get(&uid).into_iter().flatten());
        }
        let node = (!node.is_plain()).then(|| Box::new(node));
        let namespace = self.namespace(&object.name);
        let known = Known { kind: self.index(kind), revision: object.revision, namespace, node };
        self.known.insert(uid, known);
        if self.concerns(uid) {
            concerned.insert(uid);
        }
        concerned.into_iter().collect()
    }

    /// An object went; returns whom that concerns.
    pub fn remove(&mut self, uid: Uid) -> Vec<Uid> {
        let Some(known) = self.known.remove(&uid) else { return Vec::new() };
        let mut concerned = BTreeSet::new();
        for owner in known.node.iter().flat_map(|node| &node.owners) {
            let owner = Uid::of(&owner.uid);
            self.unlink(owner, uid);
            if self.concerns(owner) {
                concerned.insert(owner);
            }
        }
        concerned.extend(self.dependents.get(&uid).into_iter().flatten());
        concerned.into_iter().collect()
    }

    /// Everything there is of a kind; returns whom the differences concern.
    pub fn reset(&mut self, kind: Kind, objects: &[Object]) -> Vec<Uid> {
        let listed: BTreeSet<Uid> = objects.iter().map(|object| Uid::of(&object.uid)).collect();
        let mut concerned = BTreeSet::new();
        for uid in self.of_kind(kind).into_iter().filter(|uid| !listed.contains(uid)) {
            concerned.extend(self.remove(uid));
        }
        for object in objects {
            concerned.extend(self.put(kind, object));
        }
        concerned.into_iter().collect()
    }

    /// A kind is not served any more, so none of its objects is there; returns those it owned.
    pub fn forget(&mut self, kind: Kind) -> Vec<(Uid, Vec<Uid>)> {
        let mut all = Vec::new();
        for uid in self.of_kind(kind) {
            all.push((uid, self.remove(uid)));
        }
        all
    }

    fn of_kind(&self, kind: Kind) -> Vec<Uid> {
        let Some(index) = self.kinds.iter().position(|one| *one == kind) else {
            return Vec::new();
        };
        let known = self.known.iter().filter(|(_, known)| usize::from(known.kind) == index);
        known.map(|(uid, _)| *uid).collect()
    }

    fn index(&mut self, kind: Kind) -> u16 {
        let found = self.kinds.iter().position(|one| *one == kind);
        let index = found.unwrap_or_else(|| {
            self.kinds.push(kind);
            self.kinds.len() - 1
        });
        u16::try_from(index).expect("there must be fewer kinds than numbers")
    }

    fn namespace(&mut self, name: &Name) -> Arc<str> {
        match self.namespaces.get(&name.namespace) {
            Some(known) => known.clone(),
            None => {
                self.namespaces.insert(name.namespace.clone());
                name.namespace.clone()
            }
        }
    }

    fn unlink(&mut self, owner: Uid, dependent: Uid) {
        if let Some(dependents) = self.dependents.get_mut(&owner) {
            dependents.remove(&dependent);
            if dependents.is_empty() {
                self.dependents.remove(&owner);
            }
        }
    }
}
