//! POST: the whole recipe on one screen, in upstream's order.
//!
//! Upstream: apiserver/pkg/endpoints/handlers/create.go, registry/rest/create.go

use serde_json::Value;
use store::Precondition;

use super::get::represent;
use super::write::{commit, decode, encode, expect_kind};
use super::{Request, write};
use crate::answer::Answer;
use crate::object;
use crate::registry::builtin;
use crate::registry::metadata::Scope;
use crate::registry::strategy::{Context, begin_create, check_create};
use crate::resources::Resource;
use crate::server::{Server, store_failure};
use crate::status::Error;
use crate::time::rfc3339;
use crate::{admit, ids};

/// How often another name is tried when a generated one is taken.
const NAME_RETRIES_MAX: usize = 8;

pub async fn create(server: &Server, request: &Request) -> Result<Answer, Error> {
    let mut object = decode(request)?;
    expect_kind(request, &mut object)?;
    let object = create_object(server, request, object).await?;
    Ok(represent(server, request, 201, &object))
}

/// Creates an object that was decoded; also for a PUT or an apply of what does not exist.
pub async fn create_object(
    server: &Server,
    request: &Request,
    mut object: Value,
) -> Result<Value, Error> {
    if !object::meta(&object, "resourceVersion").is_empty() {
        return Err(Error::plain("resourceVersion should not be set on objects to be created"));
    }
    place(request, &mut object)?;
    let strategy = builtin::strategy(&request.resource.group, &request.resource.kind);
    strategy.default(&mut object);
    admit::mutate(server, request, &mut object, None).await?;
    let now = rfc3339(server.environment.now());
    object::set_meta(&mut object, "uid", ids::uuid(&*server.environment));
    object::set_meta(&mut object, "creationTimestamp", now.as_str());
    let base = object::meta(&object, "generateName").to_owned();
    let is_generated = object::name(&object).is_empty() && !base.is_empty();
    let context = Context { subresource: "", user: &request.user.name, now: &now };
    for _ in 0..NAME_RETRIES_MAX {
        if is_generated {
            object::set_meta(&mut object, "name", ids::generated_name(&base, &*server.environment));
        }
        begin_create(strategy, &mut object, &context);
        let errors = check_create(strategy, &object, scope(&request.resource));
        if !errors.is_empty() {
            let resource = &request.resource;
            let name = object::name(&object);
            return Err(Error::invalid(&resource.kind, &resource.group, name, &errors));
        }
        admit::validate(server, request, &object, None).await?;
        if let Some(created) = store(server, request, &object).await? {
            return Ok(created);
        }
        if !is_generated {
            return Err(exists(server, request, object::name(&object)).await);
        }
    }
    let mut error = Error::already_exists(request.resource.about(), object::name(&object));
    error.message += ", the server was not able to generate a unique name for the object";
    Err(error)
}

/// The object belongs where the path says; what only the server sets is wiped.
fn place(request: &Request, object: &mut Value) -> Result<(), Error> {
    for field in
        ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"]
    {
        object::remove_meta(object, field);
    }
    if !request.resource.namespaced {
        object::remove_meta(object, "namespace");
        return Ok(());
    }
    let namespace = &request.target.namespace;
    match object::namespace(object) {
        "" => object::set_meta(object, "namespace", namespace.as_str()),
        found if found == namespace => {}
        _ => {
            return Err(Error::bad_request(
                "the namespace of the provided object does not match the namespace sent on the \
                 request",
            ));
        }
    }
    Ok(())
}

fn scope(resource: &Resource) -> Scope {
    if resource.namespaced { Scope::Namespaced } else { Scope::Cluster }
}

/// Commits a new object; `None` when the name is taken.
async fn store(server: &Server, request: &Request, object: &Value) -> Result<Option<Value>, Error> {
    let mut object = object.clone();
    let mut request = request.clone();
    request.target.name = object::name(&object).to_owned();
    if request.options.dry_run {
        let is_taken = write::read(server, &request).await?.is_some();
        return Ok((!is_taken).then_some(object));
    }
    let mutation = encode(&request, &object);
    match commit(server, &request, mutation, Precondition::Absent).await {
        Ok(revision) => {
            object::set_meta(&mut object, "resourceVersion", revision.to_string());
            Ok(Some(object))
        }
        Err(store::Error::Conflict { .. }) => Ok(None),
        Err(error) => Err(store_failure(error)),
    }
}

async fn exists(server: &Server, request: &Request, name: &str) -> Error {
    let mut request = request.clone();
    request.target.name = name.to_owned();
    let mut error = Error::already_exists(request.resource.about(), name);
    if let Ok(Some(current)) = write::read(server, &request).await
        && object::is_terminating(&current.object)
    {
        error.message = format!("object is being deleted: {}", error.message);
    }
    error
}
