//! The caches of a process: one per kind, however many controllers look at it.
//!
//! A full read ([`Caches::of`]) never returns an object without its content: a kind of which the
//! process holds only its own objects in full ([`Caches::owned`]) has a cache of another type.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::cache::Cache;
use crate::environment::Environment;
use crate::follow::{Sink, follow};
use crate::handover::Place;
use crate::kind::Kind;
use crate::object::Name;
use crate::owned_cache::{CachedObject, OwnedCache};

/// How often is looked for what has not changed since the last time.
const PACK: Duration = Duration::from_secs(2);

/// Packs what has not changed for a while. Never returns.
async fn pack(cache: Arc<Cache>) {
    let mut until = 0;
    loop {
        tokio::time::sleep(PACK).await;
        while cache.pack(until) {
            tokio::task::yield_now().await;
        }
        until = cache.seen();
    }
}

/// The kinds that one operator reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeclaredReads {
    pub operator: &'static str,
    /// Kinds of which it reads any object with its content.
    pub full: BTreeSet<Kind>,
    /// Kinds of which it reads the content of the objects that its own objects control, and only
    /// the identity of the others.
    pub owned: BTreeSet<Kind>,
    /// The API groups of its own objects.
    pub groups: BTreeSet<&'static str>,
}

/// Returns the kinds of which a process that runs these operators holds only the objects of its
/// own in full, with the groups of their controllers.
pub fn partial_kinds(operators: &[DeclaredReads]) -> BTreeMap<Kind, BTreeSet<&'static str>> {
    let mut partial: BTreeMap<Kind, BTreeSet<&'static str>> = BTreeMap::new();
    for reads in operators {
        for kind in &reads.owned {
            partial.entry(*kind).or_default().extend(&reads.groups);
        }
    }
    partial.retain(|kind, _| !operators.iter().any(|reads| reads.full.contains(kind)));
    partial
}

/// All caches. They are filled while this lives.
pub struct Caches {
    client: kube::Client,
    environment: Arc<dyn Environment>,
    place: Place,
    /// Kinds whose objects are held in full only where an object of these groups controls them.
    partial: Arc<BTreeMap<Kind, BTreeSet<&'static str>>>,
    /// The namespace that is all there is of a cluster for this process.
    within: Option<Arc<str>>,
    /// Whether what has not changed for a while is packed.
    is_packing: bool,
    /// The operator that reads through this handle, if operators declare their reads.
    reads: Option<DeclaredReads>,
    held: Arc<Mutex<Held>>,
}

#[derive(Default)]
struct Held {
    caches: BTreeMap<Kind, Arc<Cache>>,
    owned: BTreeMap<Kind, Arc<OwnedCache>>,
    undeclared: BTreeSet<(&'static str, Kind)>,
    followers: JoinSet<()>,
}

impl Caches {
    pub fn new(client: kube::Client, environment: Arc<dyn Environment>) -> Caches {
        let (place, partial, reads) = (Place::default(), Arc::default(), None);
        let (within, is_packing, held) = (None, false, Arc::default());
        Caches { client, environment, place, partial, within, is_packing, reads, held }
    }

    /// The same for whoever has more objects than changes: those that have not changed for a while
    /// take little room, and a moment when they are asked for.
    pub fn packing(self) -> Caches {
        Caches { is_packing: true, ..self }
    }

    /// The same for whoever sees one namespace, and what is in none.
    pub fn within(self, namespace: Option<&str>) -> Caches {
        Caches { within: namespace.map(Arc::from), ..self }
    }

    /// The same for a process that runs these operators and no other controller. Kinds that none
    /// of them reads in full are held in full only as far as they control the objects.
    pub fn for_operators(self, operators: &[DeclaredReads]) -> Caches {
        Caches { partial: Arc::new(partial_kinds(operators)), ..self }
    }

    /// The same caches as one operator reads them. A read that it has not declared is an error.
    pub fn declaring(&self, reads: DeclaredReads) -> Caches {
        Caches {
            client: self.client.clone(),
            environment: self.environment.clone(),
            place: self.place,
            partial: self.partial.clone(),
            within: self.within.clone(),
            is_packing: self.is_packing,
            reads: Some(reads),
            held: self.held.clone(),
        }
    }

    /// The same for a server in this process, which gives objects as they are.
    pub fn in_process(client: kube::Client, environment: Arc<dyn Environment>) -> Caches {
        Caches { place: Place::InProcess, ..Caches::new(client, environment) }
    }

    /// Where the server is.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The cache of a kind, every object with its content; it is filled from the first time it is
    /// asked for.
    pub fn of(&self, kind: Kind) -> Arc<Cache> {
        let is_declared = match &self.reads {
            Some(reads) => reads.full.contains(&kind),
            None => !self.partial.contains_key(&kind),
        };
        if !is_declared {
            self.report_undeclared(kind);
        }
        let mut held = self.held();
        if let Some(cache) = held.caches.get(&kind) {
            return cache.clone();
        }
        let cache = self.new_cache(kind);
        held.caches.insert(kind, cache.clone());
        held.followers.spawn(self.fill(cache.clone()));
        if self.is_packing {
            held.followers.spawn(pack(cache.clone()));
        }
        cache
    }

    /// The cache of a kind of which the caller reads its own objects, and the identity of others.
    pub fn owned(&self, kind: Kind) -> Arc<OwnedCache> {
        let Some(groups) = self.partial.get(&kind) else { return self.view_of_full(kind) };
        if self.reads.as_ref().is_some_and(|reads| !reads.owned.contains(&kind)) {
            self.report_undeclared(kind);
        }
        let mut held = self.held();
        if let Some(cache) = held.owned.get(&kind) {
            return cache.clone();
        }
        let full = self.new_cache(kind);
        let cache = Arc::new(OwnedCache::new(full.clone(), groups.clone()));
        held.owned.insert(kind, cache.clone());
        held.followers.spawn(self.fill(cache.clone()));
        if self.is_packing {
            held.followers.spawn(pack(full));
        }
        cache
    }

    /// Another operator of the process reads the kind in full, or operators do not declare reads.
    fn view_of_full(&self, kind: Kind) -> Arc<OwnedCache> {
        match &self.reads {
            Some(reads) if reads.owned.contains(&kind) => {
                let full = DeclaredReads { full: [kind].into(), ..reads.clone() };
                Arc::new(OwnedCache::over_full(self.declaring(full).of(kind)))
            }
            _ => Arc::new(OwnedCache::over_full(self.of(kind))),
        }
    }

    fn new_cache(&self, kind: Kind) -> Arc<Cache> {
        let cache = Cache::new(kind).of_namespace(self.within.clone());
        Arc::new(if self.is_packing { cache.packing() } else { cache })
    }

    /// A mistake in this program, never a user's: it fails tests. The caller gets full objects.
    fn report_undeclared(&self, kind: Kind) {
        let operator = self.reads.as_ref().map_or("none", |reads| reads.operator);
        let is_first = self.held().undeclared.insert((operator, kind));
        if is_first {
            tracing::error!(operator, %kind, "undeclared read of a kind; holding all its objects");
        }
        debug_assert!(false, "operator {operator} reads {kind} and has not declared it");
    }

    /// Reads that operators have not declared.
    pub fn undeclared_reads(&self) -> Vec<(&'static str, Kind)> {
        self.held().undeclared.iter().copied().collect()
    }

    /// Fills what somebody brings, as a cache is filled. Never returns.
    pub fn fill<S: Sink>(&self, sink: Arc<S>) -> impl Future<Output = ()> + Send + use<S> {
        follow(sink, (self.client.clone(), self.place), self.environment.clone())
    }

    /// The cache of a kind, if somebody has asked for it.
    pub fn held_of(&self, kind: Kind) -> Option<Arc<Cache>> {
        self.held().caches.get(&kind).cloned()
    }

    /// An object of a kind that some controller reads, as far as it is held.
    pub fn lookup(&self, kind: Kind, name: &Name) -> Lookup {
        let (full, owned) = {
            let held = self.held();
            (held.caches.get(&kind).cloned(), held.owned.get(&kind).cloned())
        };
        match (full, owned) {
            (None, None) => Lookup::KindNotHeld,
            (Some(cache), _) => cache.get(name).map(CachedObject::Full).into(),
            (None, Some(cache)) => cache.get(name).into(),
        }
    }

    /// Returns when the caches of a kind show a write. A kind that the operator never reads has
    /// no cache to wait for.
    pub async fn show(&self, kind: Kind, write: &ShownWrite<'_>) {
        let (mut full, owned) = {
            let held = self.held();
            (held.caches.get(&kind).cloned(), held.owned.get(&kind).cloned())
        };
        if full.is_none() && owned.is_none() && self.reads.is_none() {
            full = Some(self.of(kind));
        }
        let owned = owned.map(|cache| cache.full_objects().clone());
        for cache in full.into_iter().chain(owned) {
            match write {
                ShownWrite::Revision(revision) => cache.reaches(*revision).await,
                ShownWrite::Deletion { name, uid } => cache.loses(name, uid).await,
            }
        }
    }

    /// Every cache there is.
    pub fn all(&self) -> Vec<Arc<Cache>> {
        let held = self.held();
        let owned = held.owned.values().map(|cache| cache.full_objects().clone());
        held.caches.values().cloned().chain(owned).collect()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A write that caches are to show.
pub enum ShownWrite<'a> {
    Revision(u64),
    Deletion { name: &'a Name, uid: &'a str },
}

/// An object as the caches of a process know it.
pub enum Lookup {
    /// No controller reads the kind.
    KindNotHeld,
    Absent,
    Present(CachedObject),
}

impl From<Option<CachedObject>> for Lookup {
    fn from(found: Option<CachedObject>) -> Lookup {
        found.map_or(Lookup::Absent, Lookup::Present)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");
    const JOBS: Kind = Kind::namespaced("batch", "v1", "Job", "jobs");

    fn reads(
        operator: &'static str,
        full: &[Kind],
        owned: &[Kind],
        group: &'static str,
    ) -> DeclaredReads {
        let (full, owned) = (full.iter().copied().collect(), owned.iter().copied().collect());
        DeclaredReads { operator, full, owned, groups: [group].into() }
    }

    #[test]
    fn a_kind_that_one_operator_reads_in_full_is_partial_for_none() {
        let trainer = reads("trainer", &[], &[MAPS, JOBS], "trainer.io");
        let dynamo = reads("dynamo", &[MAPS], &[JOBS], "nvidia.com");
        let both = partial_kinds(&[trainer.clone(), dynamo.clone()]);
        assert_eq!(both, BTreeMap::from([(JOBS, BTreeSet::from(["nvidia.com", "trainer.io"]))]));
        // The order does not matter.
        assert_eq!(partial_kinds(&[dynamo, trainer.clone()]), both);
        assert_eq!(partial_kinds(&[trainer]).len(), 2);
    }
}
