//! ResourceQuota: what the objects of a namespace may use together.
//!
//! A quota is charged in the very commit that writes the object, under the condition that the
//! quota is what was read: at no revision do objects use more than a quota allows. Deletions give
//! back in the same way. A quota whose status does not follow its specification yet is counted
//! before it is charged.
//!
//! Upstream: staging/apiserver/pkg/admission/plugin/resourcequota

mod count;
pub mod usage;

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use amounts::pod::Amounts;
use amounts::quota::{Counted, is_about, matches, usage};
use serde_json::{Value, json};
use store::{Entry, Key, Mutation, Operation, Precondition};
use tokio::sync::{Mutex, MutexGuard};

use super::lookup;
use crate::endpoints::Request;
use crate::object;
use crate::persist;
use crate::registry::edit;
use crate::server::Server;
use crate::status::Error;

use usage::{charge, check_constraints};

/// How many namespaces are charged at the same time, about.
const TURNS: usize = 64;
/// Where an update can change what an object uses.
const CHANGING: [&str; 3] = ["pods", "services", "persistentvolumeclaims"];

/// Writers of one namespace take turns: they would only fail on each other's revisions.
pub struct Turns([Mutex<()>; TURNS]);

impl Default for Turns {
    fn default() -> Turns {
        Turns(std::array::from_fn(|_| Mutex::new(())))
    }
}

impl Turns {
    async fn take(&self, namespace: &str) -> MutexGuard<'_, ()> {
        let mut hasher = DefaultHasher::new();
        namespace.hash(&mut hasher);
        self.0[hasher.finish() as usize % TURNS].lock().await
    }
}

/// An object before and after a write; `None` where there is none.
#[derive(Clone, Copy)]
pub struct Written<'a> {
    pub before: Option<&'a Value>,
    pub after: Option<&'a Value>,
}

/// The turn of a write in its namespace; `None` where no quota counts it.
pub async fn turn<'a>(
    server: &'a Server,
    request: &Request,
    written: Written<'_>,
) -> Result<Option<MutexGuard<'a, ()>>, Error> {
    let namespace = &request.target.namespace;
    if !may_change(request, written) || quotas(server, namespace).await?.is_empty() {
        return Ok(None);
    }
    Ok(Some(server.quota_turns.take(namespace).await))
}

/// What is to be committed together with a write: every quota that it changes, or a refusal.
pub async fn charges(
    server: &Server,
    request: &Request,
    written: Written<'_>,
) -> Result<Vec<Operation>, Error> {
    let resource = &request.resource;
    let namespace = &request.target.namespace;
    let counted = Counted { group: &resource.group, resource: &resource.plural };
    let own_key = resource.key(namespace, &request.target.name)?;
    let mut operations = Vec::new();
    for entry in quotas(server, namespace).await? {
        if entry.key == own_key {
            continue;
        }
        let quota = lookup::read(&entry);
        let of = |object: Option<&Value>| match object {
            Some(object) if matches(&quota, counted, object) => usage(counted, object),
            _ => Amounts::new(),
        };
        let (before, after) = (of(written.before), of(written.after));
        if before.is_empty() && after.is_empty() || !is_about(&quota, counted) {
            continue;
        }
        let refuse = |why: String| {
            let object = written.after.or(written.before).unwrap_or(&edit::NULL);
            Error::forbidden(resource.about(), object::name(object), &why)
        };
        if let (None, Some(pod), "pods") = (written.before, written.after, counted.resource) {
            check_constraints(&quota, pod).map_err(refuse)?;
        }
        let counted_quota = up_to_date(server, namespace, &quota).await?;
        let used = charge(&counted_quota, &after, &before).map_err(refuse)?;
        operations.extend(update(&entry, counted_quota, used));
    }
    Ok(operations)
}

/// An update of anything else leaves what is used as it is.
fn may_change(request: &Request, written: Written<'_>) -> bool {
    let resource = &request.resource;
    let is_update = written.before.is_some() && written.after.is_some();
    let can_change = resource.group.is_empty() && CHANGING.contains(&resource.plural.as_str());
    resource.namespaced && (!is_update || can_change)
}

async fn quotas(server: &Server, namespace: &str) -> Result<Vec<Arc<Entry>>, Error> {
    if namespace.is_empty() {
        return Ok(Vec::new());
    }
    lookup::entries(server, "", "resourcequotas", namespace).await
}

/// The quota with a status that follows its specification.
async fn up_to_date(server: &Server, namespace: &str, quota: &Value) -> Result<Value, Error> {
    let hard = edit::at(quota, &["spec", "hard"]);
    let has_all = edit::map(hard, &[])
        .into_iter()
        .flatten()
        .all(|(name, _)| edit::has(quota, &["status", "used", name]));
    let mut quota = quota.clone();
    if edit::same(hard, edit::at(&quota, &["status", "hard"])) && has_all {
        return Ok(quota);
    }
    let hard = hard.clone();
    let used = count::count(server, namespace, &quota).await?;
    edit::set(&mut quota, "status", json!({"hard": hard, "used": used}));
    Ok(quota)
}

/// The operation that makes a quota say what is used; `None` where it says so already.
fn update(entry: &Entry, mut quota: Value, used: Value) -> Option<Operation> {
    if let Some(status) = edit::object(&mut quota, "status") {
        edit::set(status, "used", used);
    }
    if quota == lookup::read(entry) {
        return None;
    }
    object::remove_meta(&mut quota, "resourceVersion");
    let mutation = Mutation::Put(persist::encode(&quota, &[]));
    let when = Precondition::At(entry.modified);
    let key: Key = entry.key.clone();
    Some(Operation { key, mutation, when })
}
