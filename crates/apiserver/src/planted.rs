//! What parts of this program need to find, written many at once to a store that does not have it.
//!
//! It becomes what an apply of each would have made of it, in a fraction of the time. What is
//! checked of the objects of clients is not checked here: nobody but this program says what these
//! are, and the tests apply them.

use std::sync::Arc;

use fields::Force;
use serde_json::Value;
use store::{Key, Mutation, Operation, Precondition};
use tokio::task::JoinSet;

use crate::field_ownership::{Kind, refusal};
use crate::identity::User;
use crate::registry::custom::follow::is_definition;
use crate::registry::strategy::{Context, begin_create};
use crate::resources::{Registry, Resource};
use crate::server::{Server, store_failure};
use crate::status::Error;
use crate::time::rfc3339;
use crate::{decode, ids, object, persist, quantity};

/// Who writes, and as which manager of fields.
#[derive(Clone, Debug)]
pub struct Planter {
    pub user: Arc<User>,
    pub manager: &'static str,
}

/// An object that is about to be written.
pub struct Planted {
    resource: Arc<Resource>,
    pub key: Key,
    pub object: Value,
}

impl Planted {
    pub fn is_definition(&self) -> bool {
        is_definition(&self.resource)
    }

    /// What brings it into being.
    pub fn operation(&self) -> Operation {
        let fields = self.resource.field_values(&self.object);
        let mutation = Mutation::Put(persist::encode(&self.object, &fields));
        Operation { key: self.key.clone(), mutation, when: Precondition::Absent }
    }
}

/// Writes those that are of kinds that are served, and are not there. The others are left, and are
/// to be applied.
///
/// # Errors
/// The store cannot be read or written, or what is to be written is no object of its kind; all are
/// left then.
pub async fn plant(
    server: &Arc<Server>,
    planter: &Planter,
    manifests: &mut Vec<Arc<Value>>,
) -> Result<(), Error> {
    let registry = server.registry.now();
    let mut running = JoinSet::new();
    let mut is_new = Vec::new();
    for (at, manifest) in manifests.iter().enumerate() {
        let place = place(&registry, manifest);
        let Some((resource, key)) = place else { continue };
        if server.store.get(&key, None).await.map_err(store_failure)?.is_some() {
            continue;
        }
        is_new.push(at);
        let (server, planter, manifest) = (server.clone(), planter.clone(), manifest.clone());
        // All at once: they are few, and there is more than one processor.
        running.spawn(async move {
            let object = prepare(&server, &planter, &resource, &manifest)?;
            Ok(Planted { resource, key, object })
        });
    }
    let mut planted = Vec::new();
    while let Some(prepared) = running.join_next().await {
        let prepared = prepared.map_err(|error| Error::internal(error.to_string()))?;
        planted.push(prepared?);
    }
    // Names are given in this order.
    planted.sort_by(|one: &Planted, other| one.key.cmp(&other.key));
    if planted.is_empty() || !server.definitions.plant(server, planted).await? {
        // There is nothing new, or another process began to do the same.
        return Ok(());
    }
    let mut at = 0;
    manifests.retain(|_| {
        at += 1;
        is_new.binary_search(&(at - 1)).is_err()
    });
    Ok(())
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
    planter: &Planter,
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
    let requester = Some(&*planter.user);
    let context = Context { user: &planter.user.name, requester, now: &now, subresource: "" };
    begin_create(strategy, &mut object, &context);
    Ok(object)
}
