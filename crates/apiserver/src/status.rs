//! Errors as clients see them: the one place where an error becomes a `Status` and an HTTP code.
//!
//! Upstream: apimachinery/pkg/api/errors/errors.go

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::field_error::FieldError;

/// A failure to answer a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    pub code: u16,
    /// Empty for the few answers that have none.
    pub reason: Cow<'static, str>,
    pub message: String,
    pub details: Option<Box<Details>>,
    /// The `continue` of an expired list, to go on at the newest revision.
    pub go_on: Option<String>,
}

/// What the error is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    pub name: String,
    pub group: String,
    /// The resource (plural), or for invalid objects the kind.
    pub kind: String,
    pub uid: String,
    pub causes: Vec<Cause>,
    pub retry_after_seconds: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    pub reason: String,
    pub message: String,
    pub field: String,
}

/// A resource in an error: its group and plural name.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    pub group: &'a str,
    pub resource: &'a str,
}

impl About<'_> {
    /// `pods`, or `deployments.apps`.
    fn qualified(&self) -> String {
        qualified(self.resource, self.group)
    }

    fn details(&self, name: &str) -> Option<Box<Details>> {
        Some(Box::new(Details {
            name: name.to_owned(),
            group: self.group.to_owned(),
            kind: self.resource.to_owned(),
            ..Default::default()
        }))
    }
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

impl Error {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Error {
        let reason = Cow::Borrowed(reason);
        Error { code, reason, message: message.into(), details: None, go_on: None }
    }

    pub fn not_found(about: About<'_>, name: &str) -> Error {
        let message = format!("{} {name:?} not found", about.qualified());
        Error { details: about.details(name), ..Error::new(404, "NotFound", message) }
    }

    /// A path in a known group and version that names no resource.
    pub fn no_such_resource() -> Error {
        let message = "the server could not find the requested resource";
        Error { details: Some(Box::default()), ..Error::new(404, "NotFound", message) }
    }

    pub fn already_exists(about: About<'_>, name: &str) -> Error {
        let message = format!("{} {name:?} already exists", about.qualified());
        Error { details: about.details(name), ..Error::new(409, "AlreadyExists", message) }
    }

    pub fn conflict(about: About<'_>, name: &str, why: &str) -> Error {
        let message =
            format!("Operation cannot be fulfilled on {} {name:?}: {why}", about.qualified());
        Error { details: about.details(name), ..Error::new(409, "Conflict", message) }
    }

    /// The writer's term as leader is over.
    pub fn fenced(why: impl std::fmt::Display) -> Error {
        Error::new(409, "Conflict", why.to_string())
    }

    /// Others own what an apply would change.
    pub fn apply_conflict(message: String, details: Details) -> Error {
        Error { details: Some(Box::new(details)), ..Error::new(409, "Conflict", message) }
    }

    /// The object was changed since the client read it.
    pub fn modified(about: About<'_>, name: &str) -> Error {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Error::conflict(about, name, why)
    }

    /// `kind` and `group` are of the object, not the resource.
    pub fn invalid(kind: &str, group: &str, name: &str, errors: &[FieldError]) -> Error {
        let mut texts: Vec<String> = Vec::new();
        for error in errors {
            let text = error.to_string();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let all = match &texts[..] {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} {name:?} is invalid: {all}", qualified(kind, group));
        let cause = |error: &FieldError| Cause {
            reason: error.problem.reason().to_owned(),
            message: error.message(),
            field: error.path.clone(),
        };
        let details = Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes: errors.iter().map(cause).collect(),
            ..Default::default()
        };
        Error { details: Some(Box::new(details)), ..Error::new(422, "Invalid", message) }
    }

    pub fn bad_request(message: impl Into<String>) -> Error {
        Error::new(400, "BadRequest", message)
    }

    pub fn unauthorized() -> Error {
        Error::new(401, "Unauthorized", "Unauthorized")
    }

    /// Refuses a request whose credential is not for it, without details.
    pub fn not_permitted() -> Error {
        Error::new(403, "Forbidden", "Forbidden")
    }

    /// A denial by admission: `pods "x" is forbidden: why`.
    pub fn forbidden(about: About<'_>, name: &str, why: &str) -> Error {
        let subject = match name {
            "" => about.qualified(),
            name => format!("{} {name:?}", about.qualified()),
        };
        let message = format!("{subject} is forbidden: {why}");
        Error { details: about.details(name), ..Error::new(403, "Forbidden", message) }
    }

    /// What was configured cannot be used; the text says why.
    pub fn unusable(why: &str) -> Error {
        Error::new(500, "InternalError", why)
    }

    /// The client speaks no protocol of streams that is known here.
    pub fn unknown_protocol(wanted: &str, known: &str) -> Error {
        let message = format!("no protocol of [{wanted}] is spoken here, only [{known}]");
        Error::new(403, "Forbidden", message)
    }

    pub fn method_not_allowed() -> Error {
        let message = "the server does not allow this method on the requested resource";
        Error { details: Some(Box::default()), ..Error::new(405, "MethodNotAllowed", message) }
    }

    /// What is defined no longer gets no new objects.
    pub fn terminating_definition(about: About<'_>) -> Error {
        let message = "create not allowed while custom resource definition is terminating";
        Error { details: about.details(""), ..Error::new(403, "Forbidden", message) }
    }

    pub fn not_acceptable(accepted: &str) -> Error {
        let message = format!("only the following media types are accepted: {accepted}");
        Error::new(406, "NotAcceptable", message)
    }

    pub fn unsupported_media_type(accepted: &str) -> Error {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: \
             {accepted}"
        );
        Error::new(415, "UnsupportedMediaType", message)
    }

    pub fn expired(message: impl Into<String>) -> Error {
        Error::new(410, "Expired", message)
    }

    pub fn too_large(limit: usize) -> Error {
        let message = format!("Request entity too large: limit is {limit}");
        Error::new(413, "RequestEntityTooLarge", message)
    }

    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Error {
        let details = Details { retry_after_seconds, ..Default::default() };
        Error { details: Some(Box::new(details)), ..Error::new(429, "TooManyRequests", message) }
    }

    pub fn internal(message: impl std::fmt::Display) -> Error {
        let message = format!("Internal error occurred: {message}");
        let cause = Cause { reason: String::new(), message: message.clone(), field: String::new() };
        let details = Details { causes: vec![cause], ..Default::default() };
        Error { details: Some(Box::new(details)), ..Error::new(500, "InternalError", message) }
    }

    /// A failure with an empty reason, as upstream gives for a few plain errors.
    pub fn plain(message: impl Into<String>) -> Error {
        Error::new(500, "", message)
    }

    pub fn unavailable(message: impl Into<String>) -> Error {
        Error::new(503, "ServiceUnavailable", message)
    }

    pub fn timeout(message: impl std::fmt::Display, retry_after_seconds: u32) -> Error {
        let details = Details { retry_after_seconds, ..Default::default() };
        let message = format!("Timeout: {message}");
        Error { details: Some(Box::new(details)), ..Error::new(504, "Timeout", message) }
    }

    /// A revision that does not exist yet.
    pub fn too_large_resource_version(wanted: u64, current: u64) -> Error {
        let text = format!("Too large resource version: {wanted}, current: {current}");
        let mut error = Error::timeout(&text, 1);
        let cause = Cause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        };
        if let Some(details) = &mut error.details {
            details.causes.push(cause);
        }
        error
    }

    /// The body of the answer: compact, so that a refused watch is one line.
    pub fn to_status(&self) -> Value {
        let mut metadata = json!({});
        if let Some(go_on) = &self.go_on {
            metadata["continue"] = json!(go_on);
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = json!(self.reason);
        }
        if let Some(details) = &self.details {
            status["details"] = details.to_json();
        }
        status
    }
}

impl Details {
    fn to_json(&self) -> Value {
        let mut details = json!({});
        let texts = [
            ("name", &self.name),
            ("group", &self.group),
            ("kind", &self.kind),
            ("uid", &self.uid),
        ];
        for (field, text) in texts {
            if !text.is_empty() {
                details[field] = json!(text);
            }
        }
        if !self.causes.is_empty() {
            details["causes"] = self.causes.iter().map(Cause::to_json).collect();
        }
        if self.retry_after_seconds > 0 {
            details["retryAfterSeconds"] = json!(self.retry_after_seconds);
        }
        details
    }
}

impl Cause {
    fn to_json(&self) -> Value {
        let mut cause = json!({});
        let texts = [("reason", &self.reason), ("message", &self.message), ("field", &self.field)];
        for (field, text) in texts {
            if !text.is_empty() {
                cause[field] = json!(text);
            }
        }
        cause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: About<'_> = About { group: "", resource: "pods" };
    const DEPLOYMENTS: About<'_> = About { group: "apps", resource: "deployments" };

    #[test]
    fn messages_are_those_clients_know() {
        let cases = [
            (Error::not_found(PODS, "x"), "pods \"x\" not found"),
            (Error::not_found(DEPLOYMENTS, "x"), "deployments.apps \"x\" not found"),
            (Error::already_exists(PODS, "x"), "pods \"x\" already exists"),
            (
                Error::modified(PODS, "x"),
                "Operation cannot be fulfilled on pods \"x\": the object has been modified; \
                 please apply your changes to the latest version and try again",
            ),
            (
                Error::invalid("Deployment", "apps", "x", &[FieldError::required("spec.foo", "")]),
                "Deployment.apps \"x\" is invalid: spec.foo: Required value",
            ),
            (Error::too_large(3_145_728), "Request entity too large: limit is 3145728"),
            (Error::forbidden(PODS, "x", "no"), "pods \"x\" is forbidden: no"),
        ];
        for (error, message) in cases {
            assert_eq!(error.message, message);
        }
    }

    #[test]
    fn a_status_has_what_clients_read() {
        let status = Error::not_found(DEPLOYMENTS, "web").to_status();
        let expected = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "deployments.apps \"web\" not found", "reason": "NotFound",
            "details": {"name": "web", "group": "apps", "kind": "deployments"}, "code": 404
        });
        assert_eq!(status, expected);
    }
}
