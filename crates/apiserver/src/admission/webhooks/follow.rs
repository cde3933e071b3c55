//! The webhook configurations of the store, compiled, as they change.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use store::{Change, Entry, PageRequest, Revision, Store};

use super::GROUP;
use super::configuration::{Webhook, compile};
use crate::persist::stored;
use crate::resources::{Registry, Resource};
use crate::server;
use crate::status::Error;

/// How long to wait before configurations are read again.
const RELOAD_PAUSE: Duration = Duration::from_secs(1);

/// Who is asked about writes.
#[derive(Default)]
pub struct Webhooks {
    pub mutating: Registered,
    pub validating: Registered,
}

/// The webhooks of one kind, by the name of their configuration and then as they stand there.
#[derive(Default)]
pub struct Registered {
    is_any: AtomicBool,
    all: RwLock<Arc<[Arc<Webhook>]>>,
}

impl Registered {
    /// All webhooks, unless there is none.
    pub fn current(&self) -> Option<Arc<[Arc<Webhook>]>> {
        if !self.is_any.load(Ordering::Acquire) {
            return None;
        }
        Some(self.all.read().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn set(&self, all: Arc<[Arc<Webhook>]>) {
        let is_any = !all.is_empty();
        *self.all.write().unwrap_or_else(PoisonError::into_inner) = all;
        self.is_any.store(is_any, Ordering::Release);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Mutating,
    Validating,
}

impl Kind {
    fn plural(self) -> &'static str {
        match self {
            Kind::Mutating => "mutatingwebhookconfigurations",
            Kind::Validating => "validatingwebhookconfigurations",
        }
    }
}

/// Keeps the webhooks up to date with the configurations of a store.
pub struct Configurations {
    webhooks: Arc<Webhooks>,
    followers: Vec<Follower>,
}

impl Configurations {
    /// Compiles every configuration there is.
    pub async fn load(store: Arc<dyn Store>, registry: &Registry) -> Result<Configurations, Error> {
        let webhooks = Arc::new(Webhooks::default());
        let mut followers = Vec::new();
        for kind in [Kind::Mutating, Kind::Validating] {
            let Some(resource) = registry.find(GROUP, kind.plural()) else { continue };
            let (store, webhooks) = (store.clone(), webhooks.clone());
            let (known, position) = Default::default();
            let mut follower = Follower { store, webhooks, kind, resource, known, position };
            follower.reload().await?;
            followers.push(follower);
        }
        Ok(Configurations { webhooks, followers })
    }

    pub fn webhooks(&self) -> Arc<Webhooks> {
        self.webhooks.clone()
    }

    /// Follows the store until it is closed.
    pub async fn follow(self) {
        futures::future::join_all(self.followers.into_iter().map(Follower::follow)).await;
    }
}

/// Follows the configurations of one kind.
struct Follower {
    store: Arc<dyn Store>,
    webhooks: Arc<Webhooks>,
    kind: Kind,
    resource: Arc<Resource>,
    /// By the name of the configuration.
    known: BTreeMap<String, Vec<Arc<Webhook>>>,
    position: Revision,
}

impl Follower {
    async fn reload(&mut self) -> Result<(), Error> {
        let at = self.store.revision();
        let page = self.store.list(&self.resource.range(""), PageRequest::all(), Some(at)).await;
        let entries = page.map_err(server::store_failure)?.entries;
        let named = |entry: &Arc<Entry>| (self.name(entry), compile_entry(entry));
        self.known = entries.iter().map(named).collect();
        self.position = at;
        self.publish();
        Ok(())
    }

    fn name(&self, entry: &Entry) -> String {
        self.resource.relative(&entry.key).to_owned()
    }

    fn publish(&self) {
        let registered = match self.kind {
            Kind::Mutating => &self.webhooks.mutating,
            Kind::Validating => &self.webhooks.validating,
        };
        registered.set(self.known.values().flatten().cloned().collect());
    }

    async fn follow(mut self) {
        loop {
            match self.follow_watch().await {
                store::Error::Stopped { .. } => return,
                // What was missed is found by looking at everything again.
                error => tracing::warn!(%error, "webhook configurations are read again"),
            }
            while let Err(error) = self.reload().await {
                let error = error.message;
                tracing::warn!(error, "webhook configurations could not be read");
                tokio::time::sleep(RELOAD_PAUSE).await;
            }
        }
    }

    async fn follow_watch(&mut self) -> store::Error {
        let mut watch = match self.store.watch(self.resource.range(""), self.position).await {
            Ok(watch) => watch,
            Err(error) => return error,
        };
        loop {
            let batch = match watch.next().await {
                Ok(batch) => batch,
                Err(error) => return error,
            };
            for change in &batch.changes {
                self.take(change);
            }
            if !batch.changes.is_empty() {
                self.publish();
            }
        }
    }

    fn take(&mut self, change: &Change) {
        match &change.entry {
            Some(entry) => {
                self.known.insert(self.name(entry), compile_entry(entry));
            }
            None => {
                self.known.remove(self.resource.relative(&change.key));
            }
        }
    }
}

fn compile_entry(entry: &Entry) -> Vec<Arc<Webhook>> {
    compile(&stored(entry).object(entry.modified))
}
