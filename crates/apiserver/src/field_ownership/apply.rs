//! An apply: what a configuration makes of an object, and what it is refused for.

use fields::Force;
use serde_json::Value;

use super::kind::Kind;
use crate::endpoints::Request;
use crate::request::negotiate::media_type;
use crate::server::Server;
use crate::status::{Cause, Details, Error};
use crate::time::rfc3339;

const APPLY: &str = "application/apply-patch+yaml";

/// Whether a request is an apply.
pub fn is_apply(request: &Request) -> bool {
    media_type(&request.content_type) == APPLY
}

/// What a configuration must say it is.
#[derive(Clone, Copy)]
pub struct Expected<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
}

/// Refuses a configuration that is not of the endpoint's kind, or says who owns what.
pub fn check(expected: Expected<'_>, config: &Value) -> Result<(), Error> {
    if config["metadata"].get("managedFields").is_some_and(|fields| !fields.is_null()) {
        return Err(refusal(fields::Error::ManagedFieldsApplied));
    }
    let specified = config["apiVersion"].as_str().unwrap_or_default().to_owned();
    if specified != expected.api_version {
        let expected = expected.api_version.to_owned();
        return Err(refusal(fields::Error::Version { specified, expected }));
    }
    let kind = config["kind"].as_str().unwrap_or_default();
    if kind != expected.kind {
        let group = if specified.contains('/') { "" } else { "/" };
        return Err(Error::bad_request(format!(
            "invalid object type: {group}{specified}, Kind={kind}"
        )));
    }
    Ok(())
}

/// What a configuration makes of the live object; None where there is none. The configuration
/// was checked, and names the object.
pub fn apply(
    server: &Server,
    request: &Request,
    live: Option<&Value>,
    config: &Value,
) -> Result<fields::Applied, fields::Error> {
    let kind = Kind::of(&request.resource);
    let time = rfc3339(server.environment.now());
    let written = fields::Request {
        manager: &request.options.field_manager,
        api_version: kind.api_version(),
        subresource: &request.target.subresource,
        time: &time,
    };
    let force = if request.options.force == Some(true) { Force::Yes } else { Force::No };
    fields::apply(&kind, live, config, &written, force)
}

/// What a client is told.
pub fn refusal(error: fields::Error) -> Error {
    match error {
        fields::Error::Conflicts(conflicts) => {
            let cause = |one: fields::Cause| Cause {
                reason: "FieldManagerConflict".to_owned(),
                message: one.message,
                field: one.field,
            };
            let causes = conflicts.causes().into_iter().map(cause).collect();
            let details = Details { causes, ..Default::default() };
            Error::apply_conflict(conflicts.to_string(), details)
        }
        fields::Error::Version { .. } | fields::Error::ManagedFieldsApplied => {
            Error::bad_request(error.to_string())
        }
        error => Error::plain(error.to_string()),
    }
}
