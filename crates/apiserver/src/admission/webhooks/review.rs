//! AdmissionReview: the question to a webhook, and its answer.
//!
//! Upstream: apiserver/pkg/admission/plugin/webhook/{request/admissionreview,errors/statuserror}.go

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::matching::{Asking, Shown};
use super::name;
use super::versions::{GroupVersionKind, kind_of};
use crate::admission::{Attributes, Operation};
use crate::endpoints::Request;
use crate::endpoints::delete::{DeleteOptions, Propagation};
use crate::ids;
use crate::object::{self, text};
use crate::request::negotiate::media_type;
use crate::resources::Resource;
use crate::status::{Cause, Details, Error};

const GROUP: &str = "admission.k8s.io";
pub fn operation(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
}

/// The request as a webhook that knows the resource in one of its versions is told of it, without
/// the objects.
pub fn request(asking: &Asking<'_>, resource: &Resource, object: &Value) -> Value {
    let attributes = asking.attributes;
    let (own, subresource) = (attributes.resource, attributes.subresource);
    let mut request = json!({
        "uid": ids::uuid(&*asking.server.environment),
        "kind": kind_value(kind_of(resource, subresource)),
        "resource": resource_value(resource),
        "requestKind": kind_value(kind_of(own, subresource)),
        "requestResource": resource_value(own),
        "operation": operation(attributes.operation),
        "userInfo": attributes.user.to_info(),
        "dryRun": attributes.dry_run,
        "options": options(attributes),
    });
    // A Namespace is within itself.
    let namespace = match own.kind == "Namespace" && own.group.is_empty() {
        true => name(attributes, object),
        false => attributes.namespace,
    };
    for (field, value) in [
        ("name", name(attributes, object)),
        ("namespace", namespace),
        ("subResource", subresource),
        ("requestSubResource", subresource),
    ] {
        if !value.is_empty() {
            request[field] = json!(value);
        }
    }
    request
}

fn kind_value(of: GroupVersionKind) -> Value {
    json!({"group": of.group, "version": of.version, "kind": of.kind})
}

fn resource_value(of: &Resource) -> Value {
    json!({"group": of.group, "version": of.version, "resource": of.plural})
}

/// The options of the request as the object that upstream makes of them.
fn options(attributes: &Attributes<'_>) -> Value {
    let request = attributes.request;
    let is_patch = media_type(&request.content_type).contains("patch");
    let kind = match attributes.operation {
        Operation::Delete => return delete_options(request),
        Operation::Connect => return Value::Null,
        _ if is_patch => "PatchOptions",
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
    };
    let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    if attributes.dry_run {
        options["dryRun"] = json!(["All"]);
    }
    for name in ["fieldManager", "fieldValidation"] {
        if let Some(value) = request.options.get(name) {
            options[name] = json!(value);
        }
    }
    if let (true, Some(force)) = (is_patch, request.options.force) {
        options["force"] = json!(force);
    }
    options
}

fn delete_options(request: &Request) -> Value {
    let mut options = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
    // What cannot be read was refused before anybody is asked.
    let Ok(asked) = DeleteOptions::of(request) else { return options };
    if let Some(seconds) = asked.grace_period_seconds {
        options["gracePeriodSeconds"] = json!(seconds);
    }
    if let Some(propagation) = asked.propagation {
        options["propagationPolicy"] = json!(match propagation {
            Propagation::Orphan => "Orphan",
            Propagation::Background => "Background",
            Propagation::Foreground => "Foreground",
        });
    }
    for (name, value) in [("uid", asked.uid), ("resourceVersion", asked.resource_version)] {
        if let Some(value) = value {
            options["preconditions"][name] = json!(value);
        }
    }
    if request.options.dry_run {
        options["dryRun"] = json!(["All"]);
    }
    options
}

/// The whole question.
pub fn review(version: &str, shown: &Shown<'_>) -> Value {
    let mut request = shown.request.clone();
    request["object"] = shown.object.clone().into_owned();
    request["oldObject"] = shown.old.clone().into_owned();
    json!({
        "kind": "AdmissionReview",
        "apiVersion": format!("{GROUP}/{version}"),
        "request": request,
    })
}

/// Whether a webhook may change what it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Mutating,
    Validating,
}

/// What a webhook answered.
#[derive(Debug, PartialEq)]
pub struct Answer {
    /// Or the status that says why not.
    pub verdict: Result<(), Value>,
    /// JSON; empty for none.
    pub patch: Vec<u8>,
    pub patch_type: String,
    pub warnings: Vec<String>,
    pub audit_annotations: Vec<(String, String)>,
}

/// Reads an answer. Errors: what follows `failed calling webhook "n": `.
pub fn read(answer: &Value, version: &str, uid: &str, role: Role) -> Result<Answer, String> {
    let response = &answer["response"];
    if !response.is_object() {
        return Err("webhook response was absent".to_owned());
    }
    // The older version never said which question is answered.
    if version == "v1" {
        verify(answer, uid)?;
    }
    let malformed = |why: &str| format!("failed to call webhook: {why}");
    let patch = STANDARD
        .decode(text(&response["patch"]))
        .map_err(|error| malformed(&format!("response.patch is not base64: {error}")))?;
    let patch_type = match (&response["patchType"], version) {
        (Value::Null, "v1beta1") if !patch.is_empty() => "JSONPatch",
        (value, _) => text(value),
    };
    match role {
        Role::Mutating if version == "v1" => {
            if !patch.is_empty() && response["patchType"].is_null() {
                let why = "webhook returned response.patch but not response.patchType";
                return Err(why.to_owned());
            }
            if patch.is_empty() && !response["patchType"].is_null() {
                let why = "webhook returned response.patchType but not response.patch";
                return Err(why.to_owned());
            }
            if !response["patchType"].is_null() && patch_type.is_empty() {
                let why = format!("webhook returned invalid response.patchType of {patch_type:?}");
                return Err(why);
            }
        }
        Role::Validating if version == "v1" && !patch.is_empty() => {
            return Err("validating webhook may not return response.patch".to_owned());
        }
        Role::Validating if version == "v1" && !response["patchType"].is_null() => {
            return Err("validating webhook may not return response.patchType".to_owned());
        }
        _ => {}
    }
    let annotations = response["auditAnnotations"].as_object().into_iter().flatten();
    Ok(Answer {
        verdict: match response["allowed"].as_bool().unwrap_or(false) {
            true => Ok(()),
            false => Err(response["status"].clone()),
        },
        patch,
        patch_type: patch_type.to_owned(),
        warnings: object::texts(&response["warnings"]),
        audit_annotations: annotations
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect(),
    })
}

fn verify(answer: &Value, uid: &str) -> Result<(), String> {
    let found = text(&answer["response"]["uid"]);
    if found != uid {
        return Err(format!("expected response.uid={uid:?}, got {found:?}"));
    }
    let (version, kind) = (text(&answer["apiVersion"]), text(&answer["kind"]));
    if (version, kind) != ("admission.k8s.io/v1", "AdmissionReview") {
        return Err(format!(
            "expected webhook response of {GROUP}/v1, Kind=AdmissionReview, got {version}, \
             Kind={kind}"
        ));
    }
    Ok(())
}

/// The refusal of a webhook, as its client sees it.
pub fn denial(webhook: &str, status: &Value) -> Error {
    let denied = format!("admission webhook {webhook:?} denied the request");
    let reason = text(&status["reason"]);
    let message = match (text(&status["message"]), reason) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(0);
    Error {
        code: if (400..=599).contains(&code) { code } else { 400 },
        reason: reason.to_owned().into(),
        message,
        details: status["details"].is_object().then(|| Box::new(details(&status["details"]))),
        go_on: None,
    }
}

fn details(value: &Value) -> Details {
    let field = |value: &Value, name: &str| text(&value[name]).to_owned();
    let causes = value["causes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let cause = |cause: &Value| Cause {
        reason: field(cause, "reason"),
        message: field(cause, "message"),
        field: field(cause, "field"),
    };
    Details {
        name: field(value, "name"),
        group: field(value, "group"),
        kind: field(value, "kind"),
        uid: field(value, "uid"),
        causes: causes.iter().map(cause).collect(),
        retry_after_seconds: value["retryAfterSeconds"]
            .as_u64()
            .and_then(|seconds| u32::try_from(seconds).ok())
            .unwrap_or(0),
    }
}
