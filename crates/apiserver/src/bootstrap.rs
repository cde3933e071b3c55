//! What exists at birth: the namespaces the system lives in, and who may do what.
//!
//! Made when missing, at every start; what somebody took from the roles that every cluster has is
//! put back, and what somebody added stays.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use store::{
    COMMIT_OPERATIONS_MAX, Change, Commit, Environment, Key, KeyRange, Operation, PageRequest,
    Precondition, Provenance, Revision, Store,
};

use crate::rbac::{self, Authorizer};
use crate::registry::builtin;
use crate::registry::strategy::{Context, begin_create};
use crate::resources::{Registry, Resource};
use crate::status::Error;
use crate::{ids, object, persist, server, time};

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
/// How long to wait before roles are read again.
const RELOAD_PAUSE: Duration = Duration::from_secs(1);
/// On whose behalf the first objects are written.
const ACTOR: &str = "system:apiserver";

/// Makes what is missing, in as few commits as possible.
pub async fn bootstrap(
    store: &dyn Store,
    registry: &Registry,
    environment: &dyn Environment,
) -> Result<(), Error> {
    let mut operations = Vec::new();
    for (resource, object) in objects(registry) {
        let key = resource.key(object::namespace(&object), object::name(&object))?;
        let (object, when) = match store.get(&key, None).await.map_err(server::store_failure)? {
            None => (born(&resource, object, environment), Precondition::Absent),
            Some(entry) => {
                let found = persist::stored(&entry).object(entry.modified);
                let Some(object) = rbac::reconcile::reconciled(&found, &object) else { continue };
                (object, Precondition::At(entry.modified))
            }
        };
        let mutation = store::Mutation::Put(persist::encode(&object, &[]));
        operations.push(Operation { key, mutation, when });
    }
    while !operations.is_empty() {
        let rest = operations.split_off(operations.len().min(COMMIT_OPERATIONS_MAX));
        let provenance = Provenance::of(environment.now(), ACTOR);
        let commit = Commit { operations, epoch: None, provenance };
        match store.commit(commit).await {
            // Another process on the same store was faster; what it made is the same.
            Ok(_) | Err(store::Error::Conflict { .. }) => {}
            Err(error) => return Err(server::store_failure(error)),
        }
        operations = rest;
    }
    Ok(())
}

fn objects(registry: &Registry) -> Vec<(Arc<Resource>, Value)> {
    let mut objects = Vec::new();
    if let Some(namespaces) = registry.find("", "namespaces") {
        for name in NAMESPACES {
            let object = json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
                "spec": {}, "status": {},
            });
            objects.push((namespaces.clone(), object));
        }
    }
    for built_in in rbac::bootstrap::objects() {
        if let Some(resource) = registry.find(rbac::GROUP, built_in.kind.resource()) {
            objects.push((resource, built_in.object));
        }
    }
    objects
}

fn born(resource: &Resource, mut object: Value, environment: &dyn Environment) -> Value {
    let now = time::rfc3339(environment.now());
    object::set_meta(&mut object, "uid", ids::uuid(environment));
    object::set_meta(&mut object, "creationTimestamp", now.as_str());
    let strategy = builtin::strategy(&resource.group, &resource.kind);
    strategy.default(&mut object);
    let context = Context { subresource: "", user: ACTOR, now: &now };
    begin_create(strategy, &mut object, &context);
    object
}

/// Keeps an authorizer up to date with the roles and bindings of a store.
pub struct Roles {
    store: Arc<dyn Store>,
    authorizer: Arc<Authorizer>,
    kinds: Vec<(rbac::Kind, Arc<Resource>)>,
    /// What the authorizer was told of.
    known: BTreeSet<Key>,
    position: Revision,
}

impl Roles {
    /// Tells the authorizer of every role and binding there is.
    pub async fn load(
        store: Arc<dyn Store>,
        registry: &Registry,
        authorizer: Arc<Authorizer>,
    ) -> Result<Roles, Error> {
        let of_group = registry.all().filter(|one| one.group == rbac::GROUP);
        let kinds = of_group
            .filter_map(|one| Some((rbac::Kind::of_resource(&one.plural)?, one.clone())))
            .collect();
        let (known, position) = Default::default();
        let mut roles = Roles { store, authorizer, kinds, known, position };
        roles.reload().await?;
        Ok(roles)
    }

    async fn reload(&mut self) -> Result<(), Error> {
        let at = self.store.revision();
        let mut found = BTreeSet::new();
        for (kind, resource) in &self.kinds {
            let page = self.store.list(&resource.range(""), PageRequest::all(), Some(at)).await;
            for entry in &page.map_err(server::store_failure)?.entries {
                self.authorizer.apply(*kind, &persist::stored(entry).object(entry.modified));
                found.insert(entry.key.clone());
            }
        }
        for gone in self.known.difference(&found) {
            self.forget(gone);
        }
        self.known = found;
        self.position = at;
        Ok(())
    }

    /// Follows the store until it is closed.
    pub async fn follow(mut self) {
        loop {
            match self.follow_watch().await {
                store::Error::Stopped { .. } => return,
                // What was missed is found by looking at everything again.
                error => tracing::warn!(%error, "roles are read again"),
            }
            while let Err(error) = self.reload().await {
                tracing::warn!(error = error.message, "roles could not be read");
                tokio::time::sleep(RELOAD_PAUSE).await;
            }
        }
    }

    async fn follow_watch(&mut self) -> store::Error {
        let mut watch = match self.store.watch(KeyRange::all(), self.position).await {
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
        }
    }

    fn take(&mut self, change: &Change) {
        let Some(kind) = self.kind_of(&change.key).map(|(kind, _)| *kind) else { return };
        match &change.entry {
            Some(entry) => {
                self.authorizer.apply(kind, &persist::stored(entry).object(entry.modified));
                self.known.insert(change.key.clone());
            }
            None => {
                self.forget(&change.key);
                self.known.remove(&change.key);
            }
        }
    }

    fn forget(&self, key: &Key) {
        let Some((kind, resource)) = self.kind_of(key) else { return };
        let relative = resource.relative(key);
        let (namespace, name) = relative.split_once('/').unwrap_or(("", relative));
        self.authorizer.remove(*kind, namespace, name);
    }

    fn kind_of(&self, key: &Key) -> Option<&(rbac::Kind, Arc<Resource>)> {
        self.kinds.iter().find(|(_, resource)| key.as_str().starts_with(&resource.prefix))
    }
}
