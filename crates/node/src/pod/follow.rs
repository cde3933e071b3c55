//! Follows the ConfigMaps and Secrets that the pods of this node refer to, one watch each, however
//! many pods do. It only tells that something changed; what, is read when it is needed.
//!
//! Upstream: pkg/kubelet/util/manager/watch_based_manager.go

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reconcile::follow::{Form, Sink, follow};
use reconcile::handover::Place;
use reconcile::{Context, Kind, Name, Object};
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// Objects that are followed. What goes beyond is read when its pod is looked at for other reasons.
const FOLLOWED_MAX: usize = 4_096;

/// An object that a pod refers to.
pub type Key = (Kind, Name);

/// Everything that is followed.
#[derive(Default)]
pub struct Followers {
    held: Mutex<BTreeMap<Key, Follower>>,
}

struct Follower {
    followed: Arc<Followed>,
    _task: JoinSet<()>,
}

/// One object, and the workers that want to know of it.
struct Followed {
    kind: Kind,
    name: Name,
    /// The newest revision at which something happened to it.
    latest: AtomicU64,
    wakes: Mutex<BTreeMap<String, Arc<Notify>>>,
}

impl Followers {
    /// From here on a pod's worker is woken by these objects, and by no others.
    pub fn refer(
        &self,
        context: &Context,
        (uid, wake): (&str, &Arc<Notify>),
        keys: &BTreeSet<Key>,
    ) {
        let mut held = self.lock();
        held.retain(|key, follower| keys.contains(key) || follower.followed.is_wanted_without(uid));
        for key in keys {
            if held.len() >= FOLLOWED_MAX && !held.contains_key(key) {
                tracing::warn!(kind = %key.0, object = %key.1, "too many objects to follow");
                continue;
            }
            let follower = held.entry(key.clone()).or_insert_with(|| Follower::start(context, key));
            follower.followed.wakes().insert(uid.to_owned(), wake.clone());
        }
    }

    /// A pod refers to nothing any more.
    pub fn forget(&self, uid: &str) {
        self.lock().retain(|_, follower| follower.followed.is_wanted_without(uid));
    }

    /// The newest revision at which something happened to an object, as far as is known.
    pub fn latest(&self, key: &Key) -> u64 {
        let held = self.lock();
        held.get(key).map_or(0, |follower| follower.followed.latest.load(Ordering::Acquire))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, Follower>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Follower {
    fn start(context: &Context, (kind, name): &Key) -> Follower {
        let followed = Arc::new(Followed {
            kind: *kind,
            name: name.clone(),
            latest: AtomicU64::new(0),
            wakes: Mutex::default(),
        });
        let mut task = JoinSet::new();
        // One object of many: what is offered to those who follow all of them is not for this one.
        let server = (context.client.clone(), Place::Elsewhere);
        task.spawn(follow(followed.clone(), server, context.environment.clone()));
        Follower { followed, _task: task }
    }
}

impl Followed {
    fn is_wanted_without(&self, uid: &str) -> bool {
        let mut wakes = self.wakes();
        wakes.remove(uid);
        !wakes.is_empty()
    }

    fn wakes(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Notify>>> {
        self.wakes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn happened(&self, revision: u64) {
        if self.latest.fetch_max(revision, Ordering::AcqRel) < revision {
            self.wakes().values().for_each(|wake| wake.notify_one());
        }
    }
}

impl Sink for Followed {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn form(&self) -> Form {
        Form::Metadata
    }

    fn only(&self) -> Option<&Name> {
        Some(&self.name)
    }

    fn reset(&self, objects: Vec<Object>, _: u64) {
        objects.iter().for_each(|object| self.happened(object.revision));
    }

    fn put(&self, object: Object) {
        self.happened(object.revision);
    }

    fn remove(&self, last: &Object) {
        self.happened(last.revision);
    }

    fn advance(&self, _: u64) {}
}
