//! One kind's objects as this process last saw them, shared by all controllers.
//!
//! A cache only moves forward: an event older than what is held is dropped. It never decides
//! anything; subscribers are told of every difference, also of those found by listing again. What
//! has not changed for a while may be packed (`packed.rs`); whoever asks for it does not notice.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use serde_json::Value;
use tokio::sync::watch;

use crate::defects::{Defect, is_planted};
use crate::kind::Kind;
use crate::labelled::Labelled;
use crate::name_set::NameSet;
use crate::object::{Name, Object};
use crate::packed::{Held, Models, Packed, whole};
use crate::selecting::{Selecting, selects};
use crate::selector::Selector;

/// A difference that a subscriber is told of. At least one side is there.
#[derive(Clone)]
pub struct Change {
    pub old: Option<Arc<Object>>,
    pub new: Option<Arc<Object>>,
}

impl Change {
    /// The object as it is, or as it was before it went.
    pub fn object(&self) -> &Arc<Object> {
        let either = self.new.as_ref().or(self.old.as_ref());
        either.expect("a change must have a side")
    }
}

/// Objects of a kind that are whole where objects are packed. A burst of changes has more than are
/// looked at together; the allocator could not give all of what they took back afterwards.
const WHOLE_MAX: usize = 64;
/// Objects of a kind that are packed at once.
const PACKED_MAX: usize = 16;

type Subscriber = Box<dyn Fn(&Change) + Send + Sync>;

/// The objects of one kind.
pub struct Cache {
    pub kind: Kind,
    /// The namespace that it is of, if it is of one.
    pub(crate) within: Option<Arc<str>>,
    is_packing: bool,
    models: Mutex<Models>,
    state: RwLock<State>,
    subscribers: RwLock<Vec<Subscriber>>,
    /// How far the cache has come; 0 before the first list is whole.
    seen: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<Name, Held>,
    /// Names by the UID of the controlling owner.
    owned: BTreeMap<Box<str>, NameSet>,
    /// Names of those that nobody controls.
    loose: BTreeSet<Name>,
    labelled: Labelled,
    /// `None` until somebody asks.
    selecting: Option<Selecting>,
    /// What came whole, oldest first, with its revision; empty where nothing is packed. What has
    /// changed since stands in it twice.
    arrived: VecDeque<(Name, u64)>,
}

impl Cache {
    pub fn new(kind: Kind) -> Cache {
        let state = RwLock::new(State::default());
        let (seen, _) = watch::channel(0);
        let (within, is_packing, models) = (None, false, Mutex::default());
        let subscribers = RwLock::default();
        Cache { kind, within, is_packing, models, state, subscribers, seen }
    }

    /// The same, which packs what nobody has changed for a while.
    pub fn packing(self) -> Cache {
        Cache { is_packing: true, ..self }
    }

    /// The same of one namespace.
    pub fn of_namespace(self, namespace: Option<Arc<str>>) -> Cache {
        Cache { within: namespace, ..self }
    }

    pub fn get(&self, name: &Name) -> Option<Arc<Object>> {
        let held = self.state().objects.get(name).cloned();
        held.map(Held::whole)
    }

    /// All objects, in the order of their names.
    pub fn all(&self) -> Vec<Arc<Object>> {
        let held = self.state().objects.values().cloned().collect();
        whole(held)
    }

    /// Calls with each object, in the order of their names: for whoever looks at all of them in
    /// passing, and needs no two at once.
    pub fn each(&self, mut look: impl FnMut(&Object)) {
        let held: Vec<Held> = self.state().objects.values().cloned().collect();
        held.into_iter().for_each(|held| look(&held.whole()));
    }

    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<Object>> {
        let held = self.state().in_namespace(namespace);
        whole(held)
    }

    /// Those of a namespace whose names begin so, in the order of their names.
    pub fn beginning_with(&self, namespace: &str, begin: &str) -> Vec<Arc<Object>> {
        let held = {
            let state = self.state();
            let objects = state.objects.range(Name::new(namespace, begin)..);
            let is_one = |(name, _): &(&Name, &Held)| {
                &*name.namespace == namespace && name.name.starts_with(begin)
            };
            objects.take_while(is_one).map(|(_, held)| held.clone()).collect()
        };
        whole(held)
    }

    /// Those of a namespace that nobody controls, in the order of their names.
    pub fn loose(&self, namespace: &str) -> Vec<Arc<Object>> {
        let held = {
            let state = self.state();
            let loose = state.loose.range(Name::new(namespace, "")..);
            let loose = loose.take_while(|name| &*name.namespace == namespace);
            loose.filter_map(|name| state.objects.get(name).cloned()).collect()
        };
        whole(held)
    }

    /// Those of a namespace that a selector matches, in the order of their names.
    pub fn selected(&self, namespace: &str, selector: &Selector) -> Vec<Arc<Object>> {
        self.learn(selector);
        let held = {
            let state = self.state();
            let sets = selector.exact().filter_map(|(key, value)| state.labelled.names(key, value));
            match sets.min_by_key(|names| names.len()) {
                Some(names) => state.named(namespace, names),
                None => state.in_namespace(namespace),
            }
        };
        let mut found = whole(held);
        found.retain(|object| selector.matches(object));
        found
    }

    fn learn(&self, selector: &Selector) {
        let is_known = {
            let state = self.state();
            let mut keys = selector.exact().map(|(key, _)| key);
            keys.all(|key| state.labelled.knows(key) || !state.labelled.may_know(key))
        };
        if is_known {
            return;
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let State { objects, labelled, .. } = &mut *state;
        for (key, _) in selector.exact() {
            if !labelled.knows(key) && labelled.may_know(key) {
                labelled.learn(key, objects.values().cloned().map(Held::whole));
            }
        }
    }

    /// Those of a namespace whose `spec.selector`, a plain map, selects what has these labels, in
    /// the order of their names.
    pub fn selecting(&self, namespace: &str, labels: &Value) -> Vec<Arc<Object>> {
        if self.state().selecting.is_none() {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            let objects = state.objects.values().cloned().map(Held::whole);
            let selecting = Selecting::of(objects);
            state.selecting.get_or_insert(selecting);
        }
        let held = {
            let state = self.state();
            let names = state.selecting.as_ref().map(|known| known.candidates(namespace, labels));
            let names = names.unwrap_or_default();
            names.iter().filter_map(|name| state.objects.get(name).cloned()).collect()
        };
        let mut found = whole(held);
        found.retain(|object| selects(object, labels));
        found.sort_by(|one, other| one.name.cmp(&other.name));
        found
    }

    /// The objects that the owner with this UID controls, in the order of their names.
    pub fn owned_by(&self, uid: &str) -> Vec<Arc<Object>> {
        let held = {
            let state = self.state();
            let names = state.owned.get(uid).into_iter().flat_map(NameSet::iter);
            names.filter_map(|name| state.objects.get(name).cloned()).collect()
        };
        whole(held)
    }

    pub fn len(&self) -> usize {
        self.state().objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the first list is whole.
    pub fn is_ready(&self) -> bool {
        *self.seen.borrow() > 0
    }

    /// The newest revision of this kind that the cache holds.
    pub fn seen(&self) -> u64 {
        *self.seen.borrow()
    }

    /// Returns when the cache holds everything up to a revision.
    pub async fn reaches(&self, revision: u64) {
        let mut seen = self.seen.subscribe();
        // The sender lives as long as the cache.
        let _ = seen.wait_for(|seen| *seen >= revision.max(1)).await;
    }

    /// Returns when the object with this UID is gone or going.
    pub async fn loses(&self, name: &Name, uid: &str) {
        let mut seen = self.seen.subscribe();
        let is_gone = || match self.get(name) {
            Some(object) => object.uid != uid || object.is_terminating(),
            None => true,
        };
        let _ = seen.wait_for(|_| is_gone()).await;
    }

    /// Calls with every change from here on, in order; it must not block.
    pub fn subscribe(&self, subscriber: impl Fn(&Change) + Send + Sync + 'static) {
        let mut subscribers = self.subscribers.write().unwrap_or_else(PoisonError::into_inner);
        subscribers.push(Box::new(subscriber));
    }

    /// An object was added or changed.
    pub(crate) fn put(&self, object: Object) {
        let revision = object.revision;
        self.replace(object);
        self.advance(revision);
    }

    /// An object went; `last` is how the server last saw it.
    pub(crate) fn remove(&self, last: &Object) {
        let held = self.get(&last.name);
        // An object of the same name that is newer was made after this one went.
        if held.is_some_and(|held| held.uid == last.uid || held.revision <= last.revision) {
            self.drop_name(&last.name);
        }
        self.advance(last.revision);
    }

    /// Everything there is, as of a revision.
    pub(crate) fn reset(&self, objects: Vec<Object>, revision: u64) {
        let listed: BTreeSet<Name> = objects.iter().map(|object| object.name.clone()).collect();
        let held: Vec<Name> = self.state().objects.keys().cloned().collect();
        if !is_planted(Defect::KeepWhatWent) {
            for name in held.iter().filter(|name| !listed.contains(*name)) {
                self.drop_name(name);
            }
        }
        for object in objects {
            self.replace(object);
        }
        self.advance(revision.max(1));
    }

    /// The server has nothing older than this to tell.
    pub(crate) fn advance(&self, revision: u64) {
        self.seen.send_modify(|seen| *seen = (*seen).max(revision));
    }

    fn replace(&self, object: Object) {
        let object = Arc::new(object);
        let old = {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            let old = state.objects.get(&object.name);
            if old.is_some_and(|old| old.revision() >= object.revision) {
                return;
            }
            let old = old.cloned().map(Held::whole);
            state.objects.insert(object.name.clone(), Held::Whole(object.clone()));
            state.reindex(old.as_deref(), Some(&object));
            if self.is_packing {
                state.arrived.push_back((object.name.clone(), object.revision));
            }
            old
        };
        self.tell(&Change { old, new: Some(object) });
        if self.is_packing {
            self.pack_first(|state| state.arrived.len() > WHOLE_MAX);
        }
    }

    fn drop_name(&self, name: &Name) {
        let old = {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            let old = state.objects.remove(name).map(Held::whole);
            state.reindex(old.as_deref(), None);
            old
        };
        if old.is_some() {
            self.tell(&Change { old, new: None });
        }
    }

    /// Packs some of what came before a revision or is of it; returns whether there may be more.
    pub(crate) fn pack(&self, until: u64) -> bool {
        let is_old = |state: &State| state.arrived.front().is_some_and(|first| first.1 <= until);
        (0..PACKED_MAX).all(|_| self.pack_first(is_old))
    }

    /// Packs what arrived first, if it is to be; returns whether it was.
    fn pack_first(&self, is_due: impl Fn(&State) -> bool) -> bool {
        let (name, revision) = {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            let first = if is_due(&state) { state.arrived.pop_front() } else { None };
            let Some(first) = first else { return false };
            first
        };
        let held = self.state().objects.get(&name).cloned();
        if let Some(Held::Whole(object)) = held
            && object.revision == revision
            && let Some(packed) = self.packed(&object)
        {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            let held = state.objects.get_mut(&name);
            if let Some(held) = held.filter(|held| held.revision() == revision) {
                *held = Held::Packed(packed);
            }
        }
        true
    }

    fn packed(&self, object: &Object) -> Option<Packed> {
        let model = {
            let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
            models.next(object)
        };
        Packed::of(object, model)
    }

    fn tell(&self, change: &Change) {
        let subscribers = self.subscribers.read().unwrap_or_else(PoisonError::into_inner);
        subscribers.iter().for_each(|subscriber| subscriber(change));
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn in_namespace(&self, namespace: &str) -> Vec<Held> {
        let objects = self.objects.range(Name::new(namespace, "")..);
        let objects = objects.take_while(|(name, _)| &*name.namespace == namespace);
        objects.map(|(_, object)| object.clone()).collect()
    }

    /// Those of the names that are of a namespace.
    fn named(&self, namespace: &str, names: &NameSet) -> Vec<Held> {
        let names = names.of_namespace(namespace);
        names.filter_map(|name| self.objects.get(name).cloned()).collect()
    }

    fn reindex(&mut self, old: Option<&Object>, new: Option<&Object>) {
        self.labelled.follow(old, new);
        if let Some(selecting) = &mut self.selecting {
            selecting.follow(old, new);
        }
        let (before, after) = (old.and_then(Object::controller), new.and_then(Object::controller));
        match (old, new) {
            (_, Some(new)) if after.is_none() => drop(self.loose.insert(new.name.clone())),
            (Some(either), _) | (_, Some(either)) => drop(self.loose.remove(&either.name)),
            (None, None) => {}
        }
        if before == after {
            return;
        }
        if let (Some(old), Some(uid)) = (old, before)
            && let Some(names) = self.owned.get_mut(uid)
        {
            names.remove(&old.name);
            if names.is_empty() {
                self.owned.remove(uid);
            }
        }
        if let (Some(new), Some(uid)) = (new, after) {
            self.owned.entry(uid.into()).or_default().insert(new.name.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PODS: Kind = Kind::namespaced("", "v1", "Pod", "pods");

    fn pod(name: &str, uid: &str, revision: u64) -> Object {
        Object::new(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "a",
            "name": name, "uid": uid, "resourceVersion": revision.to_string(),
            "ownerReferences": [{"uid": "owner", "controller": true}]}}))
    }

    fn changes(cache: &Cache) -> Arc<Mutex<Vec<String>>> {
        let told = Arc::new(Mutex::new(Vec::new()));
        let into = told.clone();
        cache.subscribe(move |change| {
            let side = |side: &Option<Arc<Object>>| {
                side.as_ref().map_or("-".to_owned(), |object| object.revision.to_string())
            };
            let text = format!("{} {}", side(&change.old), side(&change.new));
            into.lock().unwrap().push(text);
        });
        told
    }

    #[test]
    fn a_cache_only_moves_forward() {
        let cache = Cache::new(PODS);
        let told = changes(&cache);
        cache.put(pod("x", "1", 5));
        cache.put(pod("x", "1", 4));
        cache.put(pod("x", "1", 6));
        assert_eq!(*told.lock().unwrap(), ["- 5", "5 6"]);
        assert_eq!(cache.seen(), 6);
    }

    #[test]
    fn what_is_packed_is_found_as_before() {
        let cache = Cache::new(PODS).packing();
        let told = changes(&cache);
        cache.put(pod("x", "1", 5));
        cache.put(pod("y", "2", 6));
        assert!(!cache.pack(5));
        let is_packed = |name: &str| {
            let state = cache.state();
            matches!(state.objects.get(&Name::new("a", name)), Some(Held::Packed(_)))
        };
        assert!(is_packed("x") && !is_packed("y"));
        let found = cache.get(&Name::new("a", "x")).expect("it is held");
        assert_eq!((found.revision, &*found.value), (5, &*pod("x", "1", 5).value));
        assert_eq!(cache.owned_by("owner").len(), 2);
        // An older one changes nothing, a newer one is told of with what was before.
        cache.put(pod("x", "1", 4));
        cache.put(pod("x", "1", 7));
        assert!(!is_packed("x"));
        cache.pack(7);
        cache.remove(&pod("x", "1", 8));
        assert_eq!(*told.lock().unwrap(), ["- 5", "- 6", "5 7", "7 -"]);
        assert_eq!(cache.owned_by("owner").len(), 1);
    }

    #[test]
    fn few_objects_are_whole_however_many_come_at_once() {
        let count = 2 * WHOLE_MAX;
        let cache = Cache::new(PODS).packing();
        for revision in 1..=count as u64 {
            cache.put(pod(&format!("pod-{revision:03}"), "1", revision));
        }
        let whole = || {
            let state = cache.state();
            state.objects.values().filter(|held| matches!(held, Held::Whole(_))).count()
        };
        assert_eq!((whole(), cache.all().len()), (WHOLE_MAX, count));
        while cache.pack(count as u64) {}
        assert_eq!((whole(), cache.all().len()), (0, count));
    }

    #[test]
    fn who_selects_certain_labels_is_found_and_followed() {
        let service = |name: &str, revision: u64, app: &str| {
            Object::new(json!({"metadata": {"namespace": "a", "name": name,
                "resourceVersion": revision.to_string()}, "spec": {"selector": {"app": app}}}))
        };
        let cache = Cache::new(PODS);
        let names = |app: &str| -> Vec<String> {
            let found = cache.selecting("a", &json!({"app": app, "other": "label"}));
            found.iter().map(|object| object.name.name.to_string()).collect()
        };
        cache.put(service("y", 1, "web"));
        cache.put(service("x", 2, "web"));
        assert_eq!(names("web"), ["x", "y"]);
        cache.put(service("y", 3, "db"));
        assert_eq!((names("web"), names("db")), (vec!["x".into()], vec!["y".into()]));
        cache.remove(&service("x", 4, "web"));
        assert!(names("web").is_empty() && cache.selecting("b", &json!({"app": "db"})).is_empty());
    }

    #[test]
    fn what_is_selected_follows_labels_and_owners() {
        let labelled = |name: &str, revision: u64, app: &str, owner: Option<&str>| {
            let owners = owner.map(|uid| json!({"uid": uid, "controller": true}));
            Object::new(json!({"metadata": {"namespace": "a", "name": name, "uid": name,
                "resourceVersion": revision.to_string(), "labels": {"app": app, "tier": "x"},
                "ownerReferences": owners.into_iter().collect::<Vec<_>>()}}))
        };
        let cache = Cache::new(PODS);
        let selector = Selector::of_labels(&json!({"app": "web", "tier": "x"}));
        let names = |found: Vec<Arc<Object>>| -> Vec<String> {
            found.iter().map(|object| object.name.name.to_string()).collect()
        };
        cache.put(labelled("y", 1, "web", None));
        cache.put(labelled("x", 2, "web", Some("o")));
        cache.put(labelled("z", 3, "db", None));
        assert_eq!(names(cache.selected("a", &selector)), ["x", "y"]);
        assert_eq!(names(cache.loose("a")), ["y", "z"]);
        cache.put(labelled("y", 4, "db", Some("o")));
        cache.put(labelled("z", 5, "web", None));
        assert_eq!(names(cache.selected("a", &selector)), ["x", "z"]);
        assert_eq!(names(cache.loose("a")), ["z"]);
        cache.remove(&labelled("z", 6, "web", None));
        assert_eq!(names(cache.selected("a", &selector)), ["x"]);
        assert!(cache.loose("a").is_empty() && cache.selected("b", &selector).is_empty());
        assert_eq!(names(cache.selected("a", &Selector::default())), ["x", "y"]);
        assert_eq!(names(cache.beginning_with("a", "y")), ["y"]);
    }

    #[test]
    fn a_late_deletion_does_not_take_the_next_object_of_the_name() {
        let cache = Cache::new(PODS);
        cache.put(pod("x", "2", 9));
        cache.remove(&pod("x", "1", 8));
        assert!(cache.get(&Name::new("a", "x")).is_some());
        cache.remove(&pod("x", "2", 10));
        assert!(cache.is_empty());
        assert!(cache.owned_by("owner").is_empty());
    }

    #[test]
    fn listing_again_tells_what_went_meanwhile() {
        let cache = Cache::new(PODS);
        cache.reset(vec![pod("x", "1", 3), pod("y", "2", 4)], 4);
        let told = changes(&cache);
        cache.reset(vec![pod("y", "2", 4), pod("z", "3", 7)], 8);
        assert_eq!(*told.lock().unwrap(), ["3 -", "- 7"]);
        assert_eq!(cache.owned_by("owner").len(), 2);
        assert_eq!(cache.seen(), 8);
    }
}
