//! The end of a definition: its objects are deleted, through their finalizers; then it goes too.
//!
//! Upstream: apiextensions-apiserver/pkg/controller/finalizer/crd_finalizer.go

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use store::{Key, KeyRange, Mutation, Operation, PageRequest, Precondition, Revision};

use super::conditions;
use super::definition::Definition;
use super::follow::commit;
use crate::endpoints::Request;
use crate::endpoints::delete::{DeleteOptions, delete_object};
use crate::identity::{GROUP_MASTERS, User};
use crate::object;
use crate::persist::{self, stored};
use crate::request::negotiate::{Encoding, Representation};
use crate::request::options::Options;
use crate::request::path::Target;
use crate::resources::Resource;
use crate::server::{Server, store_failure};
use crate::status::Error;
use crate::time::rfc3339;

/// Held by a definition for as long as it may have objects.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
/// How many objects are looked at at once.
const PAGE: usize = 500;

/// Deletes what is left of the objects of a definition; when nothing is, lets the definition go.
///
/// # Errors
/// The store cannot be read or written.
pub async fn advance(
    server: &Arc<Server>,
    definition: &Value,
    compiled: &Definition,
) -> Result<(), Error> {
    if !object::finalizers(definition).iter().any(|name| name == FINALIZER) {
        return Ok(());
    }
    let range = KeyRange::prefix(&compiled.prefix());
    let resources = compiled.resources(&definition["spec"]["names"], &Arc::downgrade(server));
    let mut after = None;
    let mut is_empty = true;
    loop {
        let request = PageRequest { limit: Some(PAGE), after: after.take() };
        let page = server.store.list(&range, request, None).await.map_err(store_failure)?;
        for entry in &page.entries {
            is_empty = false;
            let object = stored(entry).object(entry.modified);
            if object::is_terminating(&object) {
                continue;
            }
            match resources.first() {
                Some(resource) => delete(server, resource, &object).await?,
                // No version is served: nobody could act on a finalizer.
                None => remove(server, &entry.key, entry.modified).await?,
            }
        }
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    // What is still there goes when its finalizers do, which is seen.
    if is_empty { let_go(server, definition).await } else { Ok(()) }
}

async fn delete(server: &Server, resource: &Arc<Resource>, object: &Value) -> Result<(), Error> {
    let request = Request {
        resource: resource.clone(),
        target: Target {
            group: resource.group.clone(),
            version: resource.version.clone(),
            resource: resource.plural.clone(),
            namespace: object::namespace(object).to_owned(),
            name: object::name(object).to_owned(),
            ..Default::default()
        },
        options: Options::default(),
        representation: Representation::Object(Encoding::Json),
        content_type: String::new(),
        user_agent: "setpoint".to_owned(),
        body: Bytes::new(),
        user: Arc::new(User::authenticated("system:apiserver", [GROUP_MASTERS])),
        id: "".into(),
        cause: Default::default(),
        upgrade: None,
        warnings: Default::default(),
        annotations: Default::default(),
        carried: Default::default(),
    };
    match delete_object(server, &request, &DeleteOptions::default()).await {
        Ok(_) => Ok(()),
        Err(error) if error.code == 404 || error.code == 409 => Ok(()),
        Err(error) => Err(error),
    }
}

async fn remove(server: &Server, key: &Key, modified: Revision) -> Result<(), Error> {
    let when = Precondition::At(modified);
    let operation = Operation { key: key.clone(), mutation: Mutation::Delete, when };
    commit(server, vec![operation]).await.map(drop)
}

async fn let_go(server: &Server, definition: &Value) -> Result<(), Error> {
    let key = format!("customresourcedefinitions/{}", object::name(definition));
    let key = Key::new(key).map_err(|error| Error::internal(error.to_string()))?;
    let entry = server.store.get(&key, None).await.map_err(store_failure)?;
    let Some(entry) = entry else { return Ok(()) };
    let mut object = stored(&entry).object(entry.modified);
    if object::uid(&object) != object::uid(definition) {
        return Ok(());
    }
    let mut finalizers = object::finalizers(&object);
    finalizers.retain(|name| name != FINALIZER);
    let mutation = if finalizers.is_empty() {
        Mutation::Delete
    } else {
        let now = rfc3339(server.environment.now());
        object::set_list(&mut object, "finalizers", finalizers);
        object::remove_meta(&mut object, "resourceVersion");
        conditions::set_terminated(&mut object, &now);
        Mutation::Put(persist::encode(&object, &[]))
    };
    let when = Precondition::At(entry.modified);
    commit(server, vec![Operation { key, mutation, when }]).await.map(drop)
}
