//! POST: the whole recipe on one screen, in upstream's order.
//!
//! Upstream: apiserver/pkg/endpoints/handlers/create.go, registry/rest/create.go

use serde_json::Value;
use store::{Mutation, Precondition};

use super::saved::Saved;
use super::write::{Change, Committed, commit_charged, decode, expect_kind};
use super::{Request, bounds, write};
use crate::admission::resource_quota::Written;
use crate::admission::{self, Attributes, Changed, Operation};
use crate::allocation;
use crate::answer::Answer;
use crate::field_ownership;
use crate::ids;
use crate::object;
use crate::persist::stored;
use crate::registry::custom::follow::definition_key;
use crate::registry::metadata::Scope;
use crate::registry::strategy::{Context, begin_create, check_create};
use crate::resources::Resource;
use crate::server::{Server, store_failure};
use crate::status::Error;
use crate::time::rfc3339;

/// How often another name is tried when a generated one is taken.
const NAME_RETRIES_MAX: usize = 8;
/// How often it is tried again when others write what is written together with it.
const CONFLICT_RETRIES_MAX: usize = 32;

pub async fn create(server: &Server, request: &Request) -> Result<Answer, Error> {
    let mut object = decode(request)?;
    expect_kind(request, &mut object)?;
    let saved = create_object(server, request, object).await?;
    Ok(saved.represent(server, request, 201))
}

/// Creates an object that was decoded; also for a PUT or an apply of what does not exist.
pub async fn create_object(
    server: &Server,
    request: &Request,
    mut object: Value,
) -> Result<Saved, Error> {
    if !object::meta(&object, "resourceVersion").is_empty() {
        return Err(Error::plain("resourceVersion should not be set on objects to be created"));
    }
    place(request, &mut object)?;
    let strategy = request.resource.strategy();
    strategy.default(&mut object);
    bounds::check(&object)?;
    field_ownership::record(server, request, None, &mut object);
    // A PUT of what does not exist creates it, and is admitted as such.
    let attributes = Attributes::of(request, Operation::Create, None);
    let changed = admission::mutate(server, &attributes, &mut object).await?;
    if changed == Changed::ByWebhooks {
        strategy.default(&mut object);
    }
    let now = rfc3339(server.environment.now());
    object::set_meta(&mut object, "uid", ids::uuid(&*server.environment));
    object::set_meta(&mut object, "creationTimestamp", now.as_str());
    let base = object::meta(&object, "generateName").to_owned();
    let is_generated = object::name(&object).is_empty() && !base.is_empty();
    let (user, requester) = (&*request.user.name, Some(&*request.user));
    let context = Context { subresource: "", user, requester, now: &now };
    // Only what may be tried again under another name, or with what others took, is copied.
    let is_tried_again =
        is_generated || request.resource.custom().is_some() || allocation::is_service(request);
    let mut names = 0;
    for _ in 0..CONFLICT_RETRIES_MAX {
        if names == NAME_RETRIES_MAX {
            let mut error = Error::already_exists(request.resource.about(), object::name(&object));
            error.message += ", the server was not able to generate a unique name for the object";
            return Err(error);
        }
        if is_generated {
            object::set_meta(&mut object, "name", ids::generated_name(&base, &*server.environment));
        }
        let mut candidate = match is_tried_again {
            true => object.clone(),
            false => std::mem::take(&mut object),
        };
        let name = object::name(&candidate).to_owned();
        begin_create(strategy, &mut candidate, &context);
        server.profile.begin(&request.resource, &mut candidate, &now);
        let mut extra = allocation::settle(server, request, &mut candidate, None).await?;
        extra.extend(still_defined(server, request).await?);
        let errors = check_create(strategy, &candidate, scope(&request.resource));
        if !errors.is_empty() {
            let resource = &request.resource;
            let name = object::name(&candidate);
            return Err(Error::invalid(&resource.kind, &resource.group, name, &errors));
        }
        strategy.warnings(&candidate, None).into_iter().for_each(|it| request.warnings.add(it));
        admission::validate(server, &attributes, &candidate).await?;
        let (committed, saved) = store(server, request, candidate, extra).await?;
        match committed {
            Committed::At(_) if request.options.dry_run => return Ok(saved),
            Committed::At(revision) => return Ok(saved.at(revision)),
            Committed::Overtaken if !is_tried_again => break,
            // What is written together with it is looked at again.
            Committed::Overtaken => {}
            Committed::Taken if is_generated => names += 1,
            Committed::Taken => return Err(exists(server, request, &name).await),
        }
    }
    let why = "others keep changing what is written with it; please try again";
    Err(Error::conflict(request.resource.about(), object::name(&object), why))
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

/// What must hold when a custom object is committed: that its definition is there and is to stay.
/// Otherwise an object could come to be between the last look for objects and the definition's end.
async fn still_defined(
    server: &Server,
    request: &Request,
) -> Result<Option<store::Operation>, Error> {
    let resource = &request.resource;
    if resource.custom().is_none() {
        return Ok(None);
    }
    let key = definition_key(&resource.group, &resource.plural)?;
    let entry = server.store.get(&key, None).await.map_err(store_failure)?;
    let entry = entry.ok_or_else(Error::no_such_resource)?;
    if stored(&entry).is_terminating() {
        return Err(Error::terminating_definition(resource.about()));
    }
    let (mutation, when) = (Mutation::Keep, Precondition::At(entry.modified));
    Ok(Some(store::Operation { key, mutation, when }))
}

fn scope(resource: &Resource) -> Scope {
    if resource.namespaced { Scope::Namespaced } else { Scope::Cluster }
}

/// Commits a new object, with what is written together with it.
async fn store(
    server: &Server,
    request: &Request,
    object: Value,
    extra: Vec<store::Operation>,
) -> Result<(Committed, Saved), Error> {
    let mut request = request.clone();
    request.target.name = object::name(&object).to_owned();
    if request.options.dry_run && write::read(server, &request).await?.is_some() {
        return Ok((Committed::Taken, Saved::whole(object)));
    }
    let (mutation, saved) = Saved::prepare(server, &request, object).await?;
    let written = Written { before: None, after: Some(saved.object()) };
    let change = Change { mutation, when: Precondition::Absent, written, extra };
    let committed = commit_charged(server, &request, change).await?;
    Ok((committed, saved))
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
