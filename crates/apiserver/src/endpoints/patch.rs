//! PATCH: computes the new object from the current one, then it is an update like any other.
//!
//! Upstream: apiserver/pkg/endpoints/handlers/patch.go

use serde_json::Value;

use super::Request;
use super::get::represent;
use super::update::prepare;
use super::write::change;
use crate::answer::Answer;
use crate::facts::Type;
use crate::patch;
use crate::request::negotiate::media_type;
use crate::server::Server;
use crate::status::Error;

const ACCEPTED: &str = "application/json-patch+json, application/merge-patch+json, \
                        application/strategic-merge-patch+json";

/// What kind of patch the body is.
enum Patch {
    Json(patch::json::Patch),
    Merge(Value),
    Strategic(Value, &'static Type),
}

pub async fn patch(server: &Server, request: &Request) -> Result<Answer, Error> {
    let patch = Patch::parse(request)?;
    let outcome = change(server, request, |current| {
        let patched = patch.apply(request, current)?;
        prepare(server, request, patched, current)
    })
    .await?;
    Ok(represent(server, request, 200, &outcome.object()))
}

impl Patch {
    fn parse(request: &Request) -> Result<Patch, Error> {
        let value = || -> Result<Value, Error> {
            let value: Value = serde_json::from_slice(&request.body).map_err(malformed)?;
            if value.is_object() { Ok(value) } else { Err(malformed("it is not an object")) }
        };
        match media_type(&request.content_type) {
            "application/json-patch+json" => patch::json::parse(&request.body)
                .map(Patch::Json)
                .map_err(|error| refused(request, error)),
            "application/merge-patch+json" => Ok(Patch::Merge(value()?)),
            "application/strategic-merge-patch+json" => {
                Ok(Patch::Strategic(value()?, request.resource.facts.type_id.get()))
            }
            _ => Err(Error::unsupported_media_type(ACCEPTED)),
        }
    }

    fn apply(&self, request: &Request, current: &Value) -> Result<Value, Error> {
        match self {
            Patch::Json(patch) => patch.apply(current).map_err(|error| refused(request, error)),
            Patch::Merge(patch) => Ok(patch::merge::apply(current, patch)),
            Patch::Strategic(patch, kind) => patch::strategic::apply(current, patch, kind)
                .map_err(|error| refused(request, error)),
        }
    }
}

fn malformed(why: impl std::fmt::Display) -> Error {
    Error::bad_request(format!("error decoding patch: {why}"))
}

fn refused(_request: &Request, error: patch::Error) -> Error {
    error.into()
}
