//! What is registered in the store to be asked about writes, compiled, as it changes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use store::{Change, Entry, PageRequest, Revision, Store};

use super::policies::Policies;
use super::webhooks::{GROUP, Webhooks};
use super::{policies, webhooks};
use crate::persist::stored;
use crate::resources::{Registry, Resource};
use crate::server;
use crate::status::Error;

/// How long to wait before configurations are read again.
const RELOAD_PAUSE: Duration = Duration::from_secs(1);

/// What objects of one kind register, by the name of the object and then as it stands there.
pub struct Registered<T> {
    is_any: AtomicBool,
    all: RwLock<Arc<[Arc<T>]>>,
}

impl<T> Default for Registered<T> {
    fn default() -> Registered<T> {
        Registered { is_any: AtomicBool::new(false), all: RwLock::default() }
    }
}

impl<T> Registered<T> {
    /// All that is registered, unless nothing is.
    pub fn current(&self) -> Option<Arc<[Arc<T>]>> {
        if !self.is_any.load(Ordering::Acquire) {
            return None;
        }
        Some(self.all.read().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn set(&self, all: Arc<[Arc<T>]>) {
        let is_any = !all.is_empty();
        *self.all.write().unwrap_or_else(PoisonError::into_inner) = all;
        self.is_any.store(is_any, Ordering::Release);
    }
}

/// Keeps what is registered up to date with a store.
pub struct Configurations {
    webhooks: Arc<Webhooks>,
    policies: Arc<Policies>,
    followers: Vec<BoxFuture<'static, ()>>,
}

impl Configurations {
    /// Compiles everything there is.
    pub async fn load(store: Arc<dyn Store>, registry: &Registry) -> Result<Configurations, Error> {
        let (webhooks, policies) = (Arc::<Webhooks>::default(), Arc::<Policies>::default());
        let from = Source { store, registry };
        let compile = webhooks::compile;
        let followers = vec![
            from.load("mutatingwebhookconfigurations", &webhooks.mutating, compile).await?,
            from.load("validatingwebhookconfigurations", &webhooks.validating, compile).await?,
            from.load("validatingadmissionpolicies", &policies.all, policies::compile).await?,
            from.load(
                "validatingadmissionpolicybindings",
                &policies.bindings,
                policies::compile_binding,
            )
            .await?,
        ];
        Ok(Configurations { webhooks, policies, followers })
    }

    pub fn webhooks(&self) -> Arc<Webhooks> {
        self.webhooks.clone()
    }

    pub fn policies(&self) -> Arc<Policies> {
        self.policies.clone()
    }

    /// Follows the store until it is closed.
    pub async fn follow(self) {
        futures::future::join_all(self.followers).await;
    }
}

/// Where everything comes from.
struct Source<'a> {
    store: Arc<dyn Store>,
    registry: &'a Registry,
}

impl Source<'_> {
    /// Registers what is there, and answers who follows it.
    async fn load<T: Send + Sync + 'static>(
        &self,
        plural: &'static str,
        registered: &Arc<Registered<T>>,
        compile: fn(&Value) -> Vec<Arc<T>>,
    ) -> Result<BoxFuture<'static, ()>, Error> {
        let Some(resource) = self.registry.find(GROUP, plural) else {
            return Ok(futures::future::ready(()).boxed());
        };
        let (store, registered) = (self.store.clone(), registered.clone());
        let (known, position) = Default::default();
        let mut follower = Follower { store, registered, compile, resource, known, position };
        follower.reload().await?;
        Ok(follower.follow().boxed())
    }
}

/// Follows the objects of one kind.
struct Follower<T> {
    store: Arc<dyn Store>,
    registered: Arc<Registered<T>>,
    compile: fn(&Value) -> Vec<Arc<T>>,
    resource: Arc<Resource>,
    /// By the name of the object.
    known: BTreeMap<String, Vec<Arc<T>>>,
    position: Revision,
}

impl<T> Follower<T> {
    async fn reload(&mut self) -> Result<(), Error> {
        let at = self.store.revision();
        let page = self.store.list(&self.resource.range(""), PageRequest::all(), Some(at)).await;
        let entries = page.map_err(server::store_failure)?.entries;
        let named = |entry: &Arc<Entry>| (self.name(entry), self.compiled(entry));
        self.known = entries.iter().map(named).collect();
        self.position = at;
        self.publish();
        Ok(())
    }

    fn name(&self, entry: &Entry) -> String {
        self.resource.relative(&entry.key).to_owned()
    }

    fn compiled(&self, entry: &Entry) -> Vec<Arc<T>> {
        (self.compile)(&stored(entry).object(entry.modified))
    }

    fn publish(&self) {
        self.registered.set(self.known.values().flatten().cloned().collect());
    }

    async fn follow(mut self) {
        let kind = &self.resource.kind.clone();
        loop {
            match self.follow_watch().await {
                store::Error::Stopped { .. } => return,
                // What was missed is found by looking at everything again.
                error => tracing::warn!(%error, kind, "who is asked about writes is read again"),
            }
            while let Err(error) = self.reload().await {
                let error = error.message;
                tracing::warn!(error, kind, "who is asked about writes could not be read");
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
                let compiled = self.compiled(entry);
                self.known.insert(self.name(entry), compiled);
            }
            None => {
                self.known.remove(self.resource.relative(&change.key));
            }
        }
    }
}
