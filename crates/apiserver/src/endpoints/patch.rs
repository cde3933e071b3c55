//! PATCH: computes the new object from the current one, then it is an update like any other.
//!
//! Upstream: apiserver/pkg/endpoints/handlers/patch.go

use serde_json::Value;

use super::write::{change, expect_kind, normalise};
use super::{Request, apply, bounds};
use crate::answer::Answer;
use crate::decode::{self, json};
use crate::field_error::FieldError;
use crate::field_ownership::is_apply;
use crate::object;
use crate::patch;
use crate::request::negotiate::media_type;
use crate::server::Server;
use crate::status::Error;

const ACCEPTED: &str = "application/json-patch+json, application/merge-patch+json, \
                        application/strategic-merge-patch+json, application/apply-patch+yaml";
/// A custom resource says nothing of how its lists are merged by a client.
const ACCEPTED_CUSTOM: &str = "application/json-patch+json, application/merge-patch+json, \
                               application/apply-patch+yaml";

/// What kind of patch the body is.
#[derive(Clone, Copy)]
enum Kind {
    Json,
    Merge,
    Strategic,
}

pub async fn patch(server: &Server, request: &Request) -> Result<Answer, Error> {
    apply::check_options(request)?;
    if is_apply(request) {
        return apply::apply(server, request).await;
    }
    let kind = match media_type(&request.content_type) {
        "application/json-patch+json" => Kind::Json,
        "application/merge-patch+json" => Kind::Merge,
        "application/strategic-merge-patch+json" => Kind::Strategic,
        _ => return Err(Error::unsupported_media_type(ACCEPTED)),
    };
    if request.options.force.is_some() {
        let error = FieldError::forbidden("force", "may not be specified for non-apply patch");
        return Err(Error::invalid("PatchOptions", "meta.k8s.io", "", &[error]));
    }
    if matches!(kind, Kind::Strategic) && request.resource.builtin_type().is_none() {
        return Err(Error::unsupported_media_type(ACCEPTED_CUSTOM));
    }
    let body = match request.carried.body() {
        Some(body) => body,
        None => parse(&request.body)?,
    };
    let outcome = change(server, request, |current| {
        let mut object = current.clone();
        patched(request, kind, &mut object, &body)?;
        normalise(request, &mut object)?;
        expect_kind(request, &mut object)?;
        unbind(&mut object, current);
        Ok(object)
    })
    .await?;
    Ok(outcome.saved().represent(server, request, 200))
}

fn parse(body: &[u8]) -> Result<Value, Error> {
    let parsed = json::parse(body).map_err(|error| match error {
        decode::Error::TooLarge => bounds::too_large(),
        error => Error::bad_request(format!("error decoding patch: {error}")),
    })?;
    Ok(parsed.value)
}

/// Only a revision that the patch itself names binds it to that revision.
pub fn unbind(object: &mut Value, current: &Value) {
    if object::meta(object, "resourceVersion") == object::meta(current, "resourceVersion") {
        object::remove_meta(object, "resourceVersion");
    }
}

fn patched(request: &Request, kind: Kind, object: &mut Value, body: &Value) -> Result<(), Error> {
    let applied = match kind {
        Kind::Json => patch::json::apply(object, body),
        Kind::Merge => patch::merge::apply(object, body.clone()),
        Kind::Strategic => match request.resource.builtin_type() {
            Some(of) => patch::strategic::apply(object, body.clone(), of),
            None => return Err(Error::unsupported_media_type(ACCEPTED_CUSTOM)),
        },
    };
    applied.map_err(|error| refused(request, &error))
}

fn refused(request: &Request, error: &patch::Error) -> Error {
    match error {
        patch::Error::Malformed(text) => Error::bad_request(text.as_str()),
        patch::Error::TooLarge(text) => Error { message: text.clone(), ..Error::too_large(0) },
        patch::Error::DoesNotApply(text) => {
            let resource = &request.resource;
            let error = FieldError::invalid("patch", Value::Null, text.as_str());
            let name = &request.target.name;
            let mut invalid = Error::invalid(&resource.kind, &resource.group, name, &[error]);
            invalid.message = text.clone();
            invalid
        }
    }
}
