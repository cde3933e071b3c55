//! What changed since the scheduler last looked: the newest state of every object that did.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use reconcile::{Cache, Change, Context, Kind, Name, Object};
use tokio::sync::Notify;

use crate::kinds::{BUDGET, CLAIM, CLASS, GROUP, NAMESPACE, NODE, POD, VOLCANO_GROUP, VOLUME};

/// What must be known before the first decision, in the order in which it is taken in.
const NEEDED: [Kind; 7] = [NAMESPACE, CLASS, VOLUME, CLAIM, BUDGET, NODE, POD];
/// What may not be there yet. Pods that name a group wait for it.
const WISHED: [Kind; 2] = [GROUP, VOLCANO_GROUP];

/// An object as it is now; `None` when it went.
pub type News = (Kind, Name, Option<Arc<Object>>);

type Newest = BTreeMap<(usize, Name), Option<Arc<Object>>>;

#[derive(Default)]
pub struct Inbox {
    /// By the place in the order of kinds; there is at most one entry for each object.
    news: Mutex<Newest>,
    pub changed: Notify,
}

fn kinds() -> impl Iterator<Item = Kind> {
    // Groups come before the pods that name them.
    WISHED.into_iter().chain(NEEDED)
}

impl Inbox {
    /// Connects the caches; they tell as long as somebody holds the inbox.
    pub fn subscribe(context: &Context) -> Arc<Inbox> {
        let inbox = Arc::new(Inbox::default());
        for (order, kind) in kinds().enumerate() {
            let to = Arc::downgrade(&inbox);
            context.cache(kind).subscribe(move |change: &Change| {
                if let Some(inbox) = to.upgrade() {
                    inbox.tell(order, change.object().name.clone(), change.new.clone());
                }
            });
        }
        inbox
    }

    /// Returns when everything that must be known is; then it is in the inbox.
    pub async fn fill(&self, context: &Context) {
        for kind in NEEDED {
            context.cache(kind).reaches(1).await;
        }
        for (order, kind) in kinds().enumerate() {
            let cache: Arc<Cache> = context.cache(kind);
            for object in cache.all() {
                self.tell(order, object.name.clone(), Some(object));
            }
        }
    }

    fn tell(&self, order: usize, name: Name, object: Option<Arc<Object>>) {
        let mut news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        news.insert((order, name), object);
        drop(news);
        self.changed.notify_one();
    }

    /// Everything there is. Pods come in the order in which they were made.
    pub fn take(&self) -> Vec<News> {
        let news = {
            let mut held = self.news.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *held)
        };
        let kinds: Vec<Kind> = kinds().collect();
        let mut taken: Vec<(usize, Name, Option<Arc<Object>>)> =
            news.into_iter().map(|((order, name), object)| (order, name, object)).collect();
        taken.sort_by_cached_key(|(order, _, object)| {
            let created = object.as_ref().map(|object| object.meta("creationTimestamp").to_owned());
            let revision = object.as_ref().map_or(0, |object| object.revision);
            (*order, created, revision)
        });
        taken.into_iter().map(|(order, name, object)| (kinds[order], name, object)).collect()
    }
}
