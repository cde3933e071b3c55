//! PUT: replaces an object, or the part of it that a subresource is.
//!
//! Upstream: apiserver/pkg/endpoints/handlers/update.go, registry/rest/update.go

use std::sync::Mutex;

use serde_json::Value;

use super::create::create_object;
use super::write::{Changed, Rules, change, decode, expect_kind, read};
use super::{Request, bounds};
use crate::admission::{self, Attributes, Operation};
use crate::allocation;
use crate::answer::Answer;
use crate::field_error::FieldError;
use crate::field_ownership;
use crate::handover::lock;
use crate::object;
use crate::registry::strategy::{Context, begin_update, check_update};
use crate::server::Server;
use crate::status::Error;
use crate::time::rfc3339;

pub async fn update(server: &Server, request: &Request) -> Result<Answer, Error> {
    let mut object = decode(request)?;
    expect_kind(request, &mut object)?;
    expect_place(request, &mut object)?;
    let resource = &request.resource;
    let properties = resource.strategy().properties();
    let is_new = request.target.subresource.is_empty()
        && properties.allows_create_on_update
        && read(server, request).await?.is_none();
    if is_new {
        let created = create_object(server, request, object).await?;
        return Ok(created.represent(server, request, 201));
    }
    if object::meta(&object, "resourceVersion").is_empty()
        && !properties.allows_unconditional_update
    {
        let error =
            FieldError::invalid("metadata.resourceVersion", 0, "must be specified for an update");
        let name = &request.target.name;
        return Err(Error::invalid(&resource.kind, &resource.group, name, &[error]));
    }
    // Who names the revision means one try; only others need a copy for the next.
    let is_bound = !object::meta(&object, "resourceVersion").is_empty();
    let object = Mutex::new(Some(object));
    let draft = |_: &Value| {
        let mut object = lock(&object);
        let given = if is_bound { object.take() } else { object.clone() };
        given.ok_or_else(|| Error::modified(resource.about(), &request.target.name))
    };
    let outcome = change(server, request, draft).await?;
    Ok(outcome.saved().represent(server, request, 200))
}

/// Name and namespace are those of the path.
pub fn expect_place(request: &Request, object: &mut Value) -> Result<(), Error> {
    let target = &request.target;
    match object::name(object) {
        "" => {
            return Err(Error::bad_request(
                "the name of the object must be specified to be updated",
            ));
        }
        found if found == target.name => {}
        found => {
            let text = format!(
                "the name of the object ({found}) does not match the name on the URL ({})",
                target.name
            );
            return Err(Error::bad_request(text));
        }
    }
    if !request.resource.namespaced {
        return Ok(());
    }
    match object::namespace(object) {
        "" => object::set_meta(object, "namespace", target.namespace.as_str()),
        found if found == target.namespace => {}
        found => {
            let text = format!(
                "the namespace of the object ({found}) does not match the namespace on the URL \
                 ({})",
                target.namespace
            );
            return Err(Error::bad_request(text));
        }
    }
    Ok(())
}

/// What an update makes of the object it found: defaults, admission, what only the server may
/// change, checks, and admission again.
pub async fn prepare(
    server: &Server,
    request: &Request,
    rules: Rules,
    (draft, current): (Changed, &Value),
) -> Result<Changed, Error> {
    let Changed { mut object, mut extra } = draft;
    expect_same(request, &object, current)?;
    let resource = &request.resource;
    let strategy = resource.strategy();
    let attributes = Attributes::of(request, Operation::Update, Some(current));
    if rules == Rules::OfKind {
        strategy.default(&mut object);
        bounds::check(&object)?;
        field_ownership::record(server, request, Some(current), &mut object);
    }
    let changed = admission::mutate(server, &attributes, &mut object).await?;
    if changed == admission::Changed::ByWebhooks {
        strategy.default(&mut object);
    }
    if rules == Rules::OfKind {
        // The scale of an object is a part of its specification like any other.
        let subresource = match request.target.subresource.as_str() {
            "scale" => "",
            other => other,
        };
        let now = rfc3339(server.environment.now());
        let (user, requester) = (&*request.user.name, Some(&*request.user));
        let context = Context { subresource, user, requester, now: &now };
        begin_update(strategy, &mut object, current, &context);
        extra = allocation::settle(server, request, &mut object, Some(current)).await?;
        let (errors, warnings) = check_update(strategy, &object, current, subresource);
        if !errors.is_empty() {
            let name = &request.target.name;
            return Err(Error::invalid(&resource.kind, &resource.group, name, &errors));
        }
        warnings.into_iter().for_each(|warning| request.warnings.add(warning));
    }
    admission::validate(server, &attributes, &object).await?;
    Ok(Changed { object, extra })
}

/// Who names a uid or a revision means that one.
fn expect_same(request: &Request, object: &Value, current: &Value) -> Result<(), Error> {
    let about = request.resource.about();
    let uid = object::uid(object);
    if !uid.is_empty() && uid != object::uid(current) {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            object::uid(current)
        );
        return Err(Error::conflict(about, &request.target.name, &why));
    }
    let revision = object::meta(object, "resourceVersion");
    if !revision.is_empty() && revision != object::meta(current, "resourceVersion") {
        return Err(Error::modified(about, &request.target.name));
    }
    Ok(())
}
