//! Pods of workers that went while nobody looked.
//!
//! A pod that is deleted without grace is gone before its group is looked at, and its StatefulSet
//! makes another of the name. That it went is therefore noted when the cache tells of it.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use reconcile::{Cache, Change};

use super::labels;

/// StatefulSets that are remembered; beyond that the oldest knowledge is given up.
const SETS_MAX: usize = 16_384;

/// The name of a pod that went, by the UID of its StatefulSet.
#[derive(Debug, Default)]
pub struct Lost(Mutex<BTreeMap<String, String>>);

impl Lost {
    /// Notes a pod that went, if the StatefulSet that it was of is there and stays.
    pub fn note(&self, sets: &Cache, change: &Change) {
        let (Some(pod), None) = (&change.old, &change.new) else { return };
        let (Some(uid), Some(leader)) = (pod.controller(), pod.annotation(labels::LEADER_NAME))
        else {
            return;
        };
        let name = reconcile::Name::new(pod.name.namespace.clone(), leader);
        let stays = sets.get(&name).is_some_and(|set| set.uid == uid && !set.is_terminating());
        if !stays {
            return;
        }
        let mut lost = self.lock();
        if lost.len() >= SETS_MAX {
            lost.clear();
        }
        lost.insert(uid.to_owned(), pod.name.name.to_string());
    }

    /// Forgets a StatefulSet that went.
    pub fn forget(&self, change: &Change) {
        if let (Some(set), None) = (&change.old, &change.new) {
            self.lock().remove(&set.uid);
        }
    }

    /// The pod that a StatefulSet lost.
    pub fn of(&self, uid: &str) -> Option<String> {
        self.lock().get(uid).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
