//! Objects of a kind that many controllers of a cluster create: in full those that an object of
//! certain groups controls, and the identity of all others.
//!
//! Another controller's object is a [`PartialObject`], a type of its own without content. It cannot
//! be the base of a write, because every step of a plan that changes an object takes an
//! [`Object`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use crate::cache::Cache;
use crate::follow::Sink;
use crate::kind::Kind;
use crate::object::{Name, Object};
use crate::owners;

/// The identity of an object whose content is not held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialObject {
    pub name: Name,
    pub uid: String,
    pub revision: u64,
    controller: Option<Box<str>>,
    is_terminating: bool,
}

impl PartialObject {
    fn from_object(object: &Object) -> PartialObject {
        PartialObject {
            name: object.name.clone(),
            uid: object.uid.clone(),
            revision: object.revision,
            controller: object.controller().map(Box::from),
            is_terminating: object.is_terminating(),
        }
    }
}

/// An object as an [`OwnedCache`] holds it.
#[derive(Clone, Debug)]
pub enum CachedObject {
    Full(Arc<Object>),
    Partial(Arc<PartialObject>),
}

impl CachedObject {
    pub fn name(&self) -> &Name {
        match self {
            CachedObject::Full(object) => &object.name,
            CachedObject::Partial(object) => &object.name,
        }
    }

    pub fn uid(&self) -> &str {
        match self {
            CachedObject::Full(object) => &object.uid,
            CachedObject::Partial(object) => &object.uid,
        }
    }

    pub fn revision(&self) -> u64 {
        match self {
            CachedObject::Full(object) => object.revision,
            CachedObject::Partial(object) => object.revision,
        }
    }

    /// The UID of the owner that controls it, if one does.
    pub fn controller(&self) -> Option<&str> {
        match self {
            CachedObject::Full(object) => object.controller(),
            CachedObject::Partial(object) => object.controller.as_deref(),
        }
    }

    pub fn is_terminating(&self) -> bool {
        match self {
            CachedObject::Full(object) => object.is_terminating(),
            CachedObject::Partial(object) => object.is_terminating,
        }
    }

    /// The object with its content, if the content is held.
    pub fn full(&self) -> Option<&Arc<Object>> {
        match self {
            CachedObject::Full(object) => Some(object),
            CachedObject::Partial(_) => None,
        }
    }

    /// The object with its content, if the owner with this UID controls it.
    pub fn controlled_by(&self, uid: &str) -> Option<&Arc<Object>> {
        self.full().filter(|object| object.controller() == Some(uid))
    }
}

type RemovalSubscriber = Box<dyn Fn(&Name) + Send + Sync>;

/// The objects of one kind: full where an object of the groups controls them, partial otherwise.
pub struct OwnedCache {
    full: Arc<Cache>,
    others: Option<Others>,
}

/// Objects that no object of the groups controls.
struct Others {
    groups: BTreeSet<&'static str>,
    objects: RwLock<BTreeMap<Name, Arc<PartialObject>>>,
    removal_subscribers: RwLock<Vec<RemovalSubscriber>>,
}

impl Others {
    fn objects(&self) -> RwLockWriteGuard<'_, BTreeMap<Name, Arc<PartialObject>>> {
        self.objects.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish_removal(&self, name: &Name) {
        let subscribers = self.removal_subscribers.read().unwrap_or_else(PoisonError::into_inner);
        subscribers.iter().for_each(|subscriber| subscriber(name));
    }
}

impl OwnedCache {
    /// A view of a cache that holds every object in full.
    pub(crate) fn over_full(full: Arc<Cache>) -> OwnedCache {
        OwnedCache { full, others: None }
    }

    /// Holds in full what objects of these groups control; `full` is empty and has no other feed.
    pub(crate) fn new(full: Arc<Cache>, groups: BTreeSet<&'static str>) -> OwnedCache {
        let (objects, removal_subscribers) = (RwLock::default(), RwLock::default());
        OwnedCache { full, others: Some(Others { groups, objects, removal_subscribers }) }
    }

    /// The cache of the objects that are held in full.
    pub(crate) fn full_objects(&self) -> &Arc<Cache> {
        &self.full
    }

    pub fn get(&self, name: &Name) -> Option<CachedObject> {
        if let Some(object) = self.full.get(name) {
            return Some(CachedObject::Full(object));
        }
        let partial = self.others.as_ref().and_then(|others| others.objects().get(name).cloned());
        partial.map(CachedObject::Partial)
    }

    pub fn contains(&self, name: &Name) -> bool {
        self.get(name).is_some()
    }

    /// The objects that the owner with this UID controls, in the order of their names. The owner is
    /// of one of the groups.
    pub fn owned_by(&self, uid: &str) -> Vec<Arc<Object>> {
        self.full.owned_by(uid)
    }

    /// Returns when the cache holds everything up to a revision.
    pub async fn reaches(&self, revision: u64) {
        self.full.reaches(revision).await;
    }

    /// Calls with the name of every object that is deleted from here on, whoever controls it; it
    /// must not block.
    pub fn subscribe_to_removals(&self, subscriber: impl Fn(&Name) + Send + Sync + 'static) {
        let subscriber = Arc::new(subscriber);
        let of_full = subscriber.clone();
        self.full.subscribe(move |change| {
            if change.new.is_none() {
                of_full(&change.object().name);
            }
        });
        if let Some(others) = &self.others {
            let subscribers = &others.removal_subscribers;
            let mut subscribers = subscribers.write().unwrap_or_else(PoisonError::into_inner);
            subscribers.push(Box::new(move |name| subscriber(name)));
        }
    }
}

impl Sink for OwnedCache {
    fn kind(&self) -> Kind {
        self.full.kind
    }

    fn within(&self) -> Option<&str> {
        self.full.within.as_deref()
    }

    fn reset(&self, objects: Vec<Object>, revision: u64) {
        let Some(others) = &self.others else { return self.full.reset(objects, revision) };
        let (ours, theirs): (Vec<Object>, Vec<Object>) =
            objects.into_iter().partition(|object| others.is_controlled(object));
        let partial =
            |object: &Object| (object.name.clone(), Arc::new(PartialObject::from_object(object)));
        let listed: BTreeMap<Name, Arc<PartialObject>> = theirs.iter().map(partial).collect();
        let names: BTreeSet<Name> =
            ours.iter().chain(&theirs).map(|object| object.name.clone()).collect();
        let before = std::mem::replace(&mut *others.objects(), listed);
        let removed: Vec<Name> = before.into_keys().filter(|name| !names.contains(name)).collect();
        // The revision is published last, when both parts show it.
        self.full.reset(ours, revision);
        removed.iter().for_each(|name| others.publish_removal(name));
    }

    fn put(&self, object: Object) {
        let Some(others) = &self.others else { return self.full.put(object) };
        let newest = self.get(&object.name).map_or(0, |held| held.revision());
        if newest >= object.revision {
            return self.full.advance(object.revision);
        }
        if others.is_controlled(&object) {
            others.objects().remove(&object.name);
            return self.full.put(object);
        }
        let partial = Arc::new(PartialObject::from_object(&object));
        others.objects().insert(object.name.clone(), partial);
        // Its controller released it: for the subscribers of full objects it is gone.
        self.full.remove(&object);
    }

    fn remove(&self, last: &Object) {
        if let Some(others) = &self.others {
            let is_it =
                |held: &Arc<PartialObject>| held.uid == last.uid || held.revision <= last.revision;
            let removed = {
                let mut objects = others.objects();
                let is_removed = objects.get(&last.name).is_some_and(is_it);
                is_removed.then(|| objects.remove(&last.name)).flatten()
            };
            if removed.is_some() {
                others.publish_removal(&last.name);
            }
        }
        self.full.remove(last);
    }

    fn advance(&self, revision: u64) {
        self.full.advance(revision);
    }
}

impl Others {
    fn is_controlled(&self, object: &Object) -> bool {
        owners::controller_group(object).is_some_and(|group| self.groups.contains(group))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;

    use super::*;

    const MAPS: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");

    fn map(name: &str, owner: &str, revision: u64) -> Object {
        Object::new(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "namespace": "a", "name": name, "uid": name, "resourceVersion": revision.to_string(),
            "labels": {"a": "b"}, "ownerReferences": [
                {"apiVersion": owner, "kind": "X", "uid": "o", "controller": true}]},
            "data": {"large": "text"}}))
    }

    fn cache() -> OwnedCache {
        OwnedCache::new(Arc::new(Cache::new(MAPS)), BTreeSet::from(["ours.io"]))
    }

    fn removals(cache: &OwnedCache) -> Arc<Mutex<Vec<String>>> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let into = seen.clone();
        cache.subscribe_to_removals(move |name| into.lock().unwrap().push(name.to_string()));
        seen
    }

    #[test]
    fn objects_of_other_controllers_are_partial_and_ours_are_full() {
        let cache = cache();
        cache.put(map("ours", "ours.io/v1", 5));
        cache.put(map("theirs", "apps/v1", 6));
        let get = |name: &str| cache.get(&Name::new("a", name)).expect("it is held");
        let ours = get("ours");
        let ours = ours.controlled_by("o").expect("it is full");
        assert_eq!(ours.value["data"]["large"], "text");
        let theirs = get("theirs");
        assert!(theirs.full().is_none() && theirs.controlled_by("o").is_none());
        assert_eq!((theirs.uid(), theirs.revision()), ("theirs", 6));
        assert_eq!((theirs.controller(), theirs.is_terminating()), (Some("o"), false));
        assert_eq!(cache.owned_by("o").len(), 1);
    }

    #[test]
    fn an_object_whose_controller_changes_moves_between_full_and_partial() {
        let cache = cache();
        let name = Name::new("a", "x");
        let is_full = || cache.get(&name).is_some_and(|object| object.full().is_some());
        cache.put(map("x", "apps/v1", 5));
        assert!(!is_full());
        cache.put(map("x", "ours.io/v1", 6));
        assert!(is_full());
        // An older event changes nothing.
        cache.put(map("x", "apps/v1", 5));
        assert!(is_full());
        cache.put(map("x", "apps/v1", 7));
        assert!(!is_full() && cache.contains(&name));
    }

    #[test]
    fn deletions_are_published_whoever_controls_the_object() {
        let cache = cache();
        cache.reset(vec![map("x", "ours.io/v1", 3), map("y", "apps/v1", 4)], 4);
        let removed = removals(&cache);
        cache.remove(&map("x", "ours.io/v1", 5));
        cache.remove(&map("y", "apps/v1", 6));
        assert_eq!(*removed.lock().unwrap(), ["a/x", "a/y"]);
        cache.put(map("z", "apps/v1", 7));
        cache.reset(Vec::new(), 8);
        assert_eq!(*removed.lock().unwrap(), ["a/x", "a/y", "a/z"]);
        assert!(!cache.contains(&Name::new("a", "z")));
    }
}
