//! Objects that change hands inside the process as they are, without their text.
//!
//! A part of this program that knows how puts these beside its request, as extensions: only whoever
//! has a client of `local.rs` can. They are of types that everybody knows, because neither side
//! knows the other. The request is otherwise like any other: the same checks, in the same order.
//!
//! What is written is offered to those who follow its kind. Who comes too late reads the text.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::Extensions;
use serde_json::Value;

use crate::local::Local;

/// The body of a request, taken once. Whoever brings one, be it empty, is answered with an object.
pub type Given = Arc<Mutex<Option<Value>>>;
/// An object without its revision and the owners of its fields, and its revision.
pub type Handed = (Arc<Value>, u64);
/// Where a watch puts objects: each belongs to the next line that has none.
pub type Hatch = Arc<Mutex<VecDeque<Handed>>>;

/// Objects that wait for those who follow them.
const OFFERS_MAX: usize = 1_024;
/// Objects that are put through a hatch before the one behind it is waited for.
pub const HATCH_OBJECTS_MAX: usize = 256;

/// What a part of this program brought beside its request.
#[derive(Clone, Default)]
pub struct Carried {
    pub given: Option<Given>,
    pub hatch: Option<Hatch>,
}

impl Carried {
    pub fn take(extensions: &mut Extensions) -> Carried {
        if extensions.get::<Local>().is_none() {
            return Carried::default();
        }
        Carried { given: extensions.remove(), hatch: extensions.remove() }
    }

    /// The body, if it was given.
    pub fn body(&self) -> Option<Value> {
        self.given.as_ref().and_then(|given| lock(given).take())
    }

    /// Whether the answer is to be an object rather than its text.
    pub fn wants_object(&self) -> bool {
        self.given.is_some()
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Objects that were just written, by the address of their stored bytes.
#[derive(Default)]
pub struct Offers {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// How many follow each resource, by its prefix.
    followers: HashMap<String, usize>,
    offers: HashMap<usize, Offer>,
    /// The oldest first. The bytes are kept so that no others get their address.
    order: VecDeque<Bytes>,
}

struct Offer {
    object: Arc<Value>,
    /// How many have not taken it yet.
    left: usize,
}

/// Somebody who follows a resource, for as long as this lives.
pub struct Follower {
    offers: Arc<Offers>,
    prefix: String,
}

impl Offers {
    pub fn follow(self: &Arc<Self>, prefix: &str) -> Follower {
        *lock(&self.held).followers.entry(prefix.to_owned()).or_default() += 1;
        Follower { offers: self.clone(), prefix: prefix.to_owned() }
    }

    /// Offers what is about to be stored as these bytes.
    pub fn offer(&self, prefix: &str, bytes: &Bytes, object: &Arc<Value>) {
        let mut held = lock(&self.held);
        let Some(left) = held.followers.get(prefix).copied() else { return };
        if held.order.len() >= OFFERS_MAX
            && let Some(oldest) = held.order.pop_front()
        {
            held.offers.remove(&address(&oldest));
        }
        held.order.push_back(bytes.clone());
        held.offers.insert(address(bytes), Offer { object: object.clone(), left });
    }

    /// The object that was stored as these bytes, for one who follows it.
    pub fn take(&self, bytes: &Bytes) -> Option<Arc<Value>> {
        let mut held = lock(&self.held);
        let offer = held.offers.get_mut(&address(bytes))?;
        offer.left -= 1;
        if offer.left > 0 {
            return Some(offer.object.clone());
        }
        let object = held.offers.remove(&address(bytes)).map(|offer| offer.object);
        // Bytes are kept no longer than it takes.
        while held.order.front().is_some_and(|oldest| !held.offers.contains_key(&address(oldest))) {
            held.order.pop_front();
        }
        object
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let mut held = lock(&self.offers.held);
        let is_last = match held.followers.get_mut(&self.prefix) {
            Some(count) => {
                *count -= 1;
                *count == 0
            }
            None => false,
        };
        if is_last {
            held.followers.remove(&self.prefix);
        }
    }
}

fn address(bytes: &Bytes) -> usize {
    bytes.as_ptr() as usize
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_offer_is_there_for_each_who_follows_and_then_gone() {
        let offers = Arc::new(Offers::default());
        let (bytes, object) = (Bytes::from(vec![1, 2]), Arc::new(json!({"a": 1})));
        offers.offer("pods/", &bytes, &object);
        assert!(offers.take(&bytes).is_none(), "nobody follows");
        let followers = [offers.follow("pods/"), offers.follow("pods/")];
        offers.offer("pods/", &bytes, &object);
        assert!(offers.take(&Bytes::from(vec![1, 2])).is_none(), "other bytes");
        assert_eq!(offers.take(&bytes), Some(object.clone()));
        assert_eq!(offers.take(&bytes), Some(object.clone()));
        assert!(offers.take(&bytes).is_none());
        drop(followers);
        offers.offer("pods/", &bytes, &object);
        assert!(offers.take(&bytes).is_none(), "nobody follows any more");
    }

    #[test]
    fn the_oldest_offers_make_room() {
        let offers = Arc::new(Offers::default());
        let _follower = offers.follow("pods/");
        let object = Arc::new(json!({}));
        let all: Vec<Bytes> = (0..=OFFERS_MAX).map(|_| Bytes::from(vec![7])).collect();
        all.iter().for_each(|bytes| offers.offer("pods/", bytes, &object));
        assert!(offers.take(&all[0]).is_none());
        assert!(offers.take(&all[1]).is_some());
    }
}
