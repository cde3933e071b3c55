//! Writes down what exists at birth, and follows who may do what.
//!
//! Made when missing, at every start. What somebody took from the roles that every cluster has is
//! put back, and what tells where this server is is brought up to date; everything else that
//! somebody changed stays.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use store::{
    COMMIT_BYTES_MAX, COMMIT_OPERATIONS_MAX, Change, Commit, Environment, Key, KeyRange, Mutation,
    Operation, PageRequest, Precondition, Provenance, Revision, Store,
};

use crate::first_objects::{self, Care, Cluster, First};
use crate::rbac::{self, Authorizer};
use crate::registry::edit;
use crate::registry::strategy::{Context, begin_create};
use crate::resources::{Registry, Resource};
use crate::status::Error;
use crate::{ids, object, persist, server, time};

/// How long to wait before roles are read again.
const RELOAD_PAUSE: Duration = Duration::from_secs(1);
/// Where roles and their bindings are in the store: those of the cluster, and those of namespaces.
const RANGES: [&str; 2] = ["clusterrole", "role"];
/// On whose behalf the first objects are written.
const ACTOR: &str = "system:apiserver";
/// How often what is missing is looked for again when another process writes it too.
const ATTEMPTS_MAX: usize = 8;

/// Makes what is missing, in as few commits as possible.
pub async fn bootstrap(
    store: &dyn Store,
    registry: &Registry,
    environment: &dyn Environment,
    cluster: &Cluster,
) -> Result<(), Error> {
    let objects = objects(registry, cluster);
    for _ in 0..ATTEMPTS_MAX {
        let operations = missing(store, &objects, environment).await?;
        if commit_all(store, operations, environment).await?.is_some() {
            return Ok(());
        }
    }
    Err(Error::unavailable("others keep writing the first objects"))
}

fn objects(registry: &Registry, cluster: &Cluster) -> Vec<(Arc<Resource>, First)> {
    let mut objects = first_objects::all(registry, cluster);
    objects.extend(rbac::bootstrap::objects().map(|built_in| First {
        group: rbac::GROUP,
        plural: built_in.kind.resource(),
        object: built_in.object,
        care: Care::Restored,
    }));
    let served = |first: First| Some((registry.find(first.group, first.plural)?, first));
    objects.into_iter().filter_map(served).collect()
}

/// What must be written for all objects to be there and as they should be.
async fn missing(
    store: &dyn Store,
    objects: &[(Arc<Resource>, First)],
    environment: &dyn Environment,
) -> Result<Vec<Operation>, Error> {
    // One question to a shared store, not one for each object.
    let page = store.list(&KeyRange::prefix("namespaces/"), PageRequest::first(1), None).await;
    let at = page.map_err(server::store_failure)?.revision;
    let mut operations = Vec::new();
    for (resource, first) in objects {
        let object = &first.object;
        let key = resource.key(object::namespace(object), object::name(object))?;
        let entry = store.get(&key, Some(at)).await.map_err(server::store_failure)?;
        let (object, when) = match entry {
            None => (born(resource, object.clone(), environment), Precondition::Absent),
            Some(entry) => {
                let found = persist::stored(&entry).object(entry.modified);
                let wanted = match first.care {
                    Care::Once => None,
                    Care::Always => renewed(&found, object),
                    Care::Restored => rbac::reconcile::reconciled(&found, object),
                };
                let wanted = wanted.or_else(|| has_void_status(&found).then(|| found.clone()));
                let Some(mut wanted) = wanted else { continue };
                if has_void_status(&wanted) {
                    edit::remove(&mut wanted, "status");
                    object::remove_meta(&mut wanted, "resourceVersion");
                }
                (wanted, Precondition::At(entry.modified))
            }
        };
        let fields = resource.field_values(&object);
        let mutation = Mutation::Put(persist::encode(&object, &fields));
        operations.push(Operation { key, mutation, when });
    }
    Ok(operations)
}

/// Reports whether an object has the status that an earlier version wrote to objects of all kinds.
/// Kinds without a status cannot be applied with it.
fn has_void_status(object: &Value) -> bool {
    object.get("status") == Some(&json!({"conditions": null}))
}

/// The object that was found with what it should say, if it says something else.
fn renewed(found: &Value, wanted: &Value) -> Option<Value> {
    let mut renewed = found.clone();
    for (name, value) in wanted.as_object()? {
        if !["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
            renewed[name.as_str()] = value.clone();
        }
    }
    if renewed == *found {
        return None;
    }
    object::remove_meta(&mut renewed, "resourceVersion");
    Some(renewed)
}

/// Commits at once, so that one sync of the disk can do for all; none when another process wrote
/// one of the keys. The revisions are those of the operations, in order.
pub(crate) async fn commit_all(
    store: &dyn Store,
    mut operations: Vec<Operation>,
    environment: &dyn Environment,
) -> Result<Option<Vec<Revision>>, Error> {
    let (mut commits, mut counts) = (Vec::new(), Vec::new());
    while !operations.is_empty() {
        let rest = operations.split_off(fitting(&operations));
        let provenance = Provenance::of(environment.now(), ACTOR);
        counts.push(operations.len());
        commits.push(store.commit(Commit { operations, epoch: None, provenance }));
        operations = rest;
    }
    let mut revisions = Some(Vec::new());
    for (committed, count) in join_all(commits).await.into_iter().zip(counts) {
        match (committed, &mut revisions) {
            (Ok(committed), Some(all)) => {
                all.extend(std::iter::repeat_n(committed.revision, count));
            }
            (Ok(_), None) => {}
            (Err(store::Error::Conflict { .. }), _) => revisions = None,
            (Err(error), _) => return Err(server::store_failure(error)),
        }
    }
    Ok(revisions)
}

/// How many of the operations make one commit.
fn fitting(operations: &[Operation]) -> usize {
    let mut bytes = 0;
    let fits = |operation: &&Operation| {
        let value = match &operation.mutation {
            Mutation::Put(value) => value.len(),
            Mutation::Delete | Mutation::Keep => 0,
        };
        bytes += value + 2 * operation.key.as_bytes().len();
        bytes <= COMMIT_BYTES_MAX
    };
    let count = operations.iter().take(COMMIT_OPERATIONS_MAX).take_while(fits).count();
    count.max(1)
}

fn born(resource: &Resource, mut object: Value, environment: &dyn Environment) -> Value {
    let now = time::rfc3339(environment.now());
    object::set_meta(&mut object, "uid", ids::uuid(environment));
    object::set_meta(&mut object, "creationTimestamp", now.as_str());
    let conditions = object.pointer_mut("/status/conditions").map(Value::take);
    let strategy = resource.strategy();
    strategy.default(&mut object);
    let context = Context { user: ACTOR, now: &now, ..Default::default() };
    begin_create(strategy, &mut object, &context);
    if let Some(Value::Array(mut conditions)) = conditions {
        conditions.iter_mut().for_each(|it| it["lastTransitionTime"] = json!(now));
        object["status"]["conditions"] = Value::Array(conditions);
    }
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
        self.kinds.iter().for_each(|(kind, _)| self.authorizer.saw(*kind, at));
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

    /// Two watches, so that nobody is woken by what is written of other kinds.
    async fn follow_watch(&mut self) -> store::Error {
        let [cluster, namespaced] = RANGES.map(KeyRange::prefix);
        let watches = futures::future::try_join(
            self.store.watch(cluster, self.position),
            self.store.watch(namespaced, self.position),
        );
        let (mut cluster, mut namespaced) = match watches.await {
            Ok(watches) => watches,
            Err(error) => return error,
        };
        loop {
            let batch = tokio::select! {
                batch = cluster.next() => batch,
                batch = namespaced.next() => batch,
            };
            let batch = match batch {
                Ok(batch) => batch,
                Err(error) => return error,
            };
            for change in &batch.changes {
                self.take(change, batch.revision);
            }
        }
    }

    fn take(&mut self, change: &Change, revision: Revision) {
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
        self.authorizer.saw(kind, revision);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_that_decides_is_followed() {
        for kind in rbac::Kind::ALL {
            let prefix = format!("{}/", kind.resource());
            assert!(RANGES.iter().any(|range| prefix.starts_with(range)), "{prefix}");
        }
    }
}
