//! What parts of this program need to find, written many at once to a store that does not have it.
//!
//! It becomes what an apply of each would have made of it, in a fraction of the time. What is
//! checked of the objects of clients is not checked here: nobody but this program says what these
//! are, and the tests apply them.

use std::sync::Arc;

use fields::Force;
use serde_json::Value;
use store::{Key, Mutation, Operation, Precondition};

use crate::field_ownership::{Kind, refusal};
use crate::registry::custom::follow::is_definition;
use crate::registry::strategy::{Context, begin_create};
use crate::resources::{Registry, Resource};
use crate::server::{Server, store_failure};
use crate::status::Error;
use crate::time::rfc3339;
use crate::{bootstrap, decode, ids, object, persist, quantity};

/// Who writes, and as which manager of fields.
pub struct Planter<'a> {
    pub user: &'a str,
    pub manager: &'a str,
}

/// An object that is about to be written.
pub struct Planted {
    resource: Arc<Resource>,
    key: Key,
    pub object: Value,
}

impl Planted {
    pub fn is_definition(&self) -> bool {
        is_definition(&self.resource)
    }
}

/// Writes those that are of kinds that are served, and are not there. Answers with the others,
/// which are to be applied.
///
/// # Errors
/// The store cannot be read or written, or what is to be written is no object of its kind.
pub async fn plant(
    server: &Arc<Server>,
    planter: &Planter<'_>,
    manifests: Vec<Value>,
) -> Result<Vec<Value>, Error> {
    let registry = server.registry.now();
    let (mut planted, mut own, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for manifest in manifests {
        let Some((resource, key)) = place(&registry, &manifest) else {
            others.push(manifest);
            continue;
        };
        if server.store.get(&key, None).await.map_err(store_failure)?.is_some() {
            others.push(manifest);
            continue;
        }
        let object = prepare(server, planter, &resource, &manifest)?;
        planted.push(Planted { resource, key, object });
        own.push(manifest);
    }
    if !planted.is_empty() && !server.definitions.plant(server, planted).await? {
        // Another process began to do the same.
        others.append(&mut own);
    }
    Ok(others)
}

/// Writes them together; false when somebody else wrote one of them.
pub(crate) async fn commit(server: &Server, planted: Vec<Planted>) -> Result<bool, Error> {
    let operation = |one: Planted| {
        let fields = one.resource.field_values(&one.object);
        let mutation = Mutation::Put(persist::encode(&one.object, &fields));
        Operation { key: one.key, mutation, when: Precondition::Absent }
    };
    let operations = planted.into_iter().map(operation).collect();
    bootstrap::commit_all(&*server.store, operations, &*server.environment).await
}

/// Where an object of a kind that is stored as it is written has its place.
fn place(registry: &Registry, manifest: &Value) -> Option<(Arc<Resource>, Key)> {
    let is_of = |one: &&Arc<Resource>| {
        manifest["kind"] == one.kind.as_str() && manifest["apiVersion"] == one.api_version()
    };
    let resource = registry.all().find(is_of)?;
    let is_stored_so = resource.custom().is_none_or(|version| version.is_storage);
    let key = resource.key(object::namespace(manifest), object::name(manifest)).ok()?;
    is_stored_so.then(|| (resource.clone(), key))
}

/// As `endpoints::apply` and `endpoints::create` make it, in their order.
fn prepare(
    server: &Server,
    planter: &Planter<'_>,
    resource: &Resource,
    manifest: &Value,
) -> Result<Value, Error> {
    let kind = Kind::of(resource);
    let now = rfc3339(server.environment.now());
    let written = fields::Request {
        manager: planter.manager,
        api_version: kind.api_version(),
        subresource: "",
        time: &now,
    };
    let applied = fields::apply(&kind, None, manifest, &written, Force::Yes).map_err(refusal)?;
    let mut object = applied.object;
    let normalised = match (resource.builtin_type(), resource.custom()) {
        (Some(of), _) => {
            let canonical = |text: &str| quantity::rewritten(text).ok();
            decode::strict::normalise(&mut object, of, canonical).map(drop)
        }
        (None, Some(version)) => decode::read_custom(&mut object, version).map(drop),
        (None, None) => Ok(()),
    };
    normalised.map_err(|error| Error::bad_request(error.to_string()))?;
    let strategy = resource.strategy();
    strategy.default(&mut object);
    object::set_meta(&mut object, "uid", ids::uuid(&*server.environment));
    object::set_meta(&mut object, "creationTimestamp", now.as_str());
    let context = Context { user: planter.user, now: &now, ..Default::default() };
    begin_create(strategy, &mut object, &context);
    Ok(object)
}
