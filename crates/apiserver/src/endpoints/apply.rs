//! PATCH with `application/apply-patch+yaml`: the object gets what its applier wants of it, and is
//! created if it does not exist.
//!
//! Upstream: apiserver/pkg/endpoints/handlers/patch.go (applyPatcher)

use serde_json::Value;

use super::create::create_object;
use super::patch::unbind;
use super::saved::Saved;
use super::update::expect_place;
use super::write::{change, normalise};
use super::{Request, bounds};
use crate::answer::Answer;
use crate::decode::{self, Parsed, json, yaml};
use crate::field_error::FieldError;
use crate::field_ownership::{self, Expected, is_apply, refusal};
use crate::object;
use crate::rbac::Attributes;
use crate::request::options::FieldValidation;
use crate::server::Server;
use crate::status::Error;

/// How often it is tried again when the object comes or goes meanwhile.
const RETRIES_MAX: usize = 8;

/// The options that only an apply has, and must have.
pub fn check_options(request: &Request) -> Result<(), Error> {
    let options = &request.options;
    let error = match is_apply(request) {
        true if options.field_manager.is_empty() => {
            FieldError::required("fieldManager", "is required for apply patch")
        }
        false if options.force.is_some() => {
            FieldError::forbidden("force", "may not be specified for non-apply patch")
        }
        _ => return Ok(()),
    };
    Err(Error::invalid("PatchOptions", "meta.k8s.io", "", &[error]))
}

pub async fn apply(server: &Server, request: &Request) -> Result<Answer, Error> {
    let api_version = request.resource.api_version();
    let expected = Expected { api_version: &api_version, kind: &request.resource.kind };
    let config = read_config(request, expected)?;
    let name = &request.target.name;
    for _ in 0..RETRIES_MAX {
        let changed = change(server, request, |current| merged(server, request, current, &config));
        match changed.await {
            Err(error) if error.code == 404 && request.target.subresource.is_empty() => {}
            outcome => return Ok(outcome?.saved().represent(server, request, 200)),
        }
        match create(server, request, &config).await {
            Err(error) if error.reason == "AlreadyExists" => {}
            created => return Ok(created?.represent(server, request, 201)),
        }
    }
    let why = "others keep creating and deleting it; please try again";
    Err(Error::conflict(request.resource.about(), name, why))
}

/// The body, which must be a configuration of the object that the path names.
pub fn read_config(request: &Request, expected: Expected<'_>) -> Result<Value, Error> {
    let mut config = parse(request)?;
    bounds::check(&config)?;
    field_ownership::check(expected, &config)?;
    if object::name(&config).is_empty() {
        object::set_meta(&mut config, "name", request.target.name.as_str());
    }
    expect_place(request, &mut config)?;
    Ok(config)
}

fn parse(request: &Request) -> Result<Value, Error> {
    // Most clients send JSON, which is YAML too but is read faster.
    let Parsed { value, duplicates } = match json::parse(&request.body) {
        Ok(parsed) if parsed.duplicates.is_empty() => parsed,
        _ => yaml::parse(&request.body).map_err(|error| match error {
            decode::Error::TooLarge => bounds::too_large(),
            error => Error::bad_request(format!("error decoding YAML: {error}")),
        })?,
    };
    for problem in duplicates {
        let problem = format!("error converting YAML to JSON: {problem}");
        match request.options.field_validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => request.warnings.add(problem),
            FieldValidation::Strict => {
                return Err(Error::bad_request(format!("error strict decoding YAML: {problem}")));
            }
        }
    }
    if !value.is_object() {
        return Err(Error::bad_request("error decoding YAML: the body is not an object"));
    }
    Ok(value)
}

/// What the configuration makes of the object.
fn merged(
    server: &Server,
    request: &Request,
    current: &Value,
    config: &Value,
) -> Result<Value, Error> {
    let applied = field_ownership::apply(server, request, Some(current), config);
    let mut applied = applied.map_err(refusal)?;
    // What is stored is in its final form already.
    if applied.changed {
        normalise(request, &mut applied.object)?;
    }
    unbind(&mut applied.object, current);
    Ok(applied.object)
}

async fn create(server: &Server, request: &Request, config: &Value) -> Result<Saved, Error> {
    let (target, resource) = (&request.target, &request.resource);
    let asked = Attributes {
        verb: "create",
        group: &target.group,
        resource: &target.resource,
        namespace: &target.namespace,
        name: &target.name,
        ..Default::default()
    };
    server.decide(&request.user, &asked)?;
    let uid = object::uid(config);
    if !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was \
             found"
        );
        return Err(Error::conflict(resource.about(), &target.name, &why));
    }
    let applied = field_ownership::apply(server, request, None, config).map_err(refusal)?;
    let mut object = applied.object;
    normalise(request, &mut object)?;
    create_object(server, request, object).await
}
