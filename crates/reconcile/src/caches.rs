//! The caches of a process: one per kind, however many controllers look at it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::cache::{Cache, Holds};
use crate::environment::Environment;
use crate::follow::{Sink, follow};
use crate::handover::Place;
use crate::kind::Kind;

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

/// All caches. They are filled while this lives.
pub struct Caches {
    client: kube::Client,
    environment: Arc<dyn Environment>,
    place: Place,
    /// What is held of each kind, where that is not everything.
    holds: BTreeMap<Kind, Holds>,
    /// The namespace that is all there is of a cluster for this process.
    within: Option<Arc<str>>,
    /// Whether what has not changed for a while is packed.
    is_packing: bool,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    caches: BTreeMap<Kind, Arc<Cache>>,
    followers: JoinSet<()>,
}

impl Caches {
    pub fn new(client: kube::Client, environment: Arc<dyn Environment>) -> Caches {
        let (place, holds) = (Place::default(), BTreeMap::new());
        let (within, is_packing, held) = (None, false, Mutex::default());
        Caches { client, environment, place, holds, within, is_packing, held }
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

    /// The same for whoever looks into few of a cluster's objects: of these kinds only some are
    /// held whole.
    pub fn holding(self, holds: BTreeMap<Kind, Holds>) -> Caches {
        Caches { holds, ..self }
    }

    /// The same for a server in this process, which gives objects as they are.
    pub fn in_process(client: kube::Client, environment: Arc<dyn Environment>) -> Caches {
        Caches { place: Place::InProcess, ..Caches::new(client, environment) }
    }

    /// Where the server is.
    pub fn place(&self) -> Place {
        self.place
    }

    /// The cache of a kind; it is filled from the first time it is asked for.
    pub fn of(&self, kind: Kind) -> Arc<Cache> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cache) = held.caches.get(&kind) {
            return cache.clone();
        }
        let holds = self.holds.get(&kind).copied().unwrap_or_default();
        let cache = Cache::holding(kind, holds).of_namespace(self.within.clone());
        let cache = Arc::new(if self.is_packing { cache.packing() } else { cache });
        held.caches.insert(kind, cache.clone());
        held.followers.spawn(self.fill(cache.clone()));
        if self.is_packing {
            held.followers.spawn(pack(cache.clone()));
        }
        cache
    }

    /// Fills what somebody brings, as a cache is filled. Never returns.
    pub fn fill<S: Sink>(&self, sink: Arc<S>) -> impl Future<Output = ()> + Send + use<S> {
        follow(sink, (self.client.clone(), self.place), self.environment.clone())
    }

    /// The cache of a kind, if somebody has asked for it.
    pub fn held(&self, kind: Kind) -> Option<Arc<Cache>> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.caches.get(&kind).cloned()
    }

    /// Every cache there is.
    pub fn all(&self) -> Vec<Arc<Cache>> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.caches.values().cloned().collect()
    }
}
