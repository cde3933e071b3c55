//! DELETE: at once, after a grace period, or when the last finalizer is gone.
//!
//! Upstream: apiserver/pkg/endpoints/handlers/delete.go, registry/generic/registry/store.go

use serde_json::{Value, json};
use store::{Mutation, Precondition, Timestamp};

use super::Request;
use super::saved::Saved;
use super::write::{Change, Committed, body_format, commit_charged, read};
use crate::admission::resource_quota::Written;
use crate::admission::{self, Attributes, Operation};
use crate::allocation;
use crate::answer::Answer;
use crate::decode;
use crate::facts;
use crate::field_error::FieldError;
use crate::object;
use crate::quantity;
use crate::registry::strategy::{DefaultPropagation, DeleteRequest, Deletion};
use crate::server::Server;
use crate::status::Error;
use crate::time::rfc3339;

const OPTIONS_TYPE: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
/// The finalizers that stand for a propagation policy.
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
/// How often the deletion is tried again when others write the same object.
const CONFLICT_RETRIES_MAX: usize = 32;

/// What the client asks for, from the body or the query.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    pub grace_period_seconds: Option<i64>,
    pub propagation: Option<Propagation>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub dry_run: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    Orphan,
    Background,
    Foreground,
}

pub async fn delete(server: &Server, request: &Request) -> Result<Answer, Error> {
    let options = DeleteOptions::of(request)?;
    let mut request = request.clone();
    request.options.dry_run |= options.dry_run;
    let deleted = delete_object(server, &request, &options).await?;
    let resource = &request.resource;
    let properties = resource.strategy().properties();
    if properties.returns_deleted_object || object::is_terminating(deleted.object()) {
        return Ok(deleted.represent(server, &request, 200));
    }
    let mut status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {
            "name": request.target.name,
            "kind": resource.plural,
            "uid": object::uid(deleted.object()),
        },
    });
    if !resource.group.is_empty() {
        status["details"]["group"] = json!(resource.group);
    }
    Ok(Answer::value(200, &status))
}

impl DeleteOptions {
    /// The body wins over the query.
    pub fn of(request: &Request) -> Result<DeleteOptions, Error> {
        let body = match request.body.is_empty() {
            true => json!({}),
            false => read_body(request)?,
        };
        DeleteOptions::read(request, &body)
    }

    /// From a body that was decoded.
    pub fn read(request: &Request, body: &Value) -> Result<DeleteOptions, Error> {
        let text = |name: &str| match &body[name] {
            Value::Null => request.options.get(name).map(str::to_owned),
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        };
        let grace = text("gracePeriodSeconds").map(|text| {
            let invalid = || Error::bad_request(format!("invalid gracePeriodSeconds {text:?}"));
            text.parse().map_err(|_| invalid())
        });
        let policy = text("propagationPolicy");
        let orphan = text("orphanDependents");
        if policy.is_some() && orphan.is_some() {
            return Err(Error::bad_request(
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        let propagation = match (policy.as_deref(), orphan.as_deref()) {
            (Some("Orphan"), _) | (None, Some("true")) => Some(Propagation::Orphan),
            (Some("Background"), _) | (None, Some(_)) => Some(Propagation::Background),
            (Some("Foreground"), _) => Some(Propagation::Foreground),
            (Some(other), _) => {
                let text = format!("invalid propagationPolicy {other:?}");
                return Err(Error::bad_request(text));
            }
            (None, None) => None,
        };
        let dry_run: Vec<_> = body["dryRun"].as_array().into_iter().flatten().collect();
        if let Some(other) = dry_run.iter().find(|value| **value != "All") {
            let text = other.as_str().unwrap_or_default();
            let error = FieldError::not_supported("dryRun", text, &["All"]);
            return Err(Error::invalid("DeleteOptions", "meta.k8s.io", "", &[error]));
        }
        let precondition = |name: &str| body["preconditions"][name].as_str().map(str::to_owned);
        Ok(DeleteOptions {
            grace_period_seconds: grace.transpose()?,
            propagation,
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
            dry_run: !dry_run.is_empty(),
        })
    }
}

/// The body, which is not that of the resource. Fields that are unknown do not matter.
fn read_body(request: &Request) -> Result<Value, Error> {
    let of = facts::type_by_name(OPTIONS_TYPE).expect("the facts have the options of a deletion");
    let format = body_format(request)?;
    let decoded = decode::object(&request.body, format, of, |text| quantity::rewritten(text).ok());
    let refused =
        |why: &str| Error::bad_request(format!("couldn't decode the body as DeleteOptions: {why}"));
    let decoded = decoded.map_err(|error| refused(&error.to_string()))?;
    match decoded.value["kind"].as_str().unwrap_or_default() {
        "" | "DeleteOptions" => Ok(decoded.value),
        other => Err(refused(&format!("it is of kind {other:?}"))),
    }
}

/// Deletes, or marks for deletion; answers with the object as it then is.
pub async fn delete_object(
    server: &Server,
    request: &Request,
    options: &DeleteOptions,
) -> Result<Saved, Error> {
    let about = request.resource.about();
    let name = &request.target.name;
    let attributes = Attributes::of(request, Operation::Delete, None);
    admission::mutate(server, &attributes, &mut Value::Null).await?;
    for _ in 0..CONFLICT_RETRIES_MAX {
        let current = read(server, request).await?.ok_or_else(|| Error::not_found(about, name))?;
        check_preconditions(request, options, &current.object)?;
        let attributes = Attributes { old: Some(&current.object), ..attributes };
        admission::validate(server, &attributes, &Value::Null).await?;
        let mut extra = Vec::new();
        let (mutation, saved) = match plan(server, request, options, &current.object) {
            Planned::Nothing => return Ok(Saved::whole(current.object)),
            Planned::Remove(object) => {
                extra = allocation::release(server, request, &object).await?;
                (Mutation::Delete, Saved::whole(object))
            }
            Planned::Mark(mut object) => {
                object::remove_meta(&mut object, "resourceVersion");
                Saved::prepare(server, request, object).await?
            }
        };
        let is_gone = mutation == Mutation::Delete;
        let after = (!is_gone).then_some(saved.object());
        let written = Written { before: Some(&current.object), after };
        let when = Precondition::At(current.revision);
        let change = Change { mutation, when, written, extra };
        if let Committed::At(revision) = commit_charged(server, request, change).await? {
            return Ok(saved.at(revision));
        }
    }
    Err(Error::conflict(about, name, "others keep changing it; please try again"))
}

pub fn check_preconditions(
    request: &Request,
    options: &DeleteOptions,
    object: &Value,
) -> Result<(), Error> {
    let about = request.resource.about();
    let name = &request.target.name;
    if let Some(uid) = &options.uid
        && uid != object::uid(object)
    {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The \
             object might have been deleted and then recreated",
            object::uid(object)
        );
        return Err(Error::conflict(about, name, &why));
    }
    let found = object::meta(object, "resourceVersion");
    if let Some(wanted) = &options.resource_version
        && wanted != found
    {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the \
             ResourceVersion in record ({found}). The object might have been modified"
        );
        return Err(Error::conflict(about, name, &why));
    }
    Ok(())
}

/// What a deletion does to the object as it is.
pub enum Planned {
    Nothing,
    Mark(Value),
    Remove(Value),
}

pub fn plan(
    server: &Server,
    request: &Request,
    options: &DeleteOptions,
    current: &Value,
) -> Planned {
    let resource = &request.resource;
    let strategy = resource.strategy();
    let grace_period_seconds = options.grace_period_seconds;
    let deletion = strategy.deletion(current, &DeleteRequest { grace_period_seconds });
    let mut object = current.clone();
    if !object::is_terminating(current) {
        strategy.begin_deletion(&mut object, &rfc3339(server.environment.now()));
    }
    let finalizers = finalizers(options, strategy.properties().default_propagation, &object);
    object::set_list(&mut object, "finalizers", finalizers.clone());
    if let Deletion::Graceful { seconds } = deletion
        && seconds > 0
    {
        return mark(server, object, current, seconds);
    }
    let is_namespace = resource.kind == "Namespace" && resource.group.is_empty();
    let holds = is_namespace
        && current["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    if finalizers.is_empty() && !holds {
        return Planned::Remove(object);
    }
    if is_namespace {
        object["status"]["phase"] = json!("Terminating");
    }
    mark(server, object, current, 0)
}

/// Sets the time of deletion; a later request can only bring it nearer.
fn mark(server: &Server, mut object: Value, current: &Value, seconds: i64) -> Planned {
    let earlier = current["metadata"]["deletionGracePeriodSeconds"].as_i64();
    if object::is_terminating(current) && earlier.is_none_or(|earlier| earlier <= seconds) {
        let unchanged = object::finalizers(&object) == object::finalizers(current);
        return if unchanged { Planned::Nothing } else { Planned::Mark(object) };
    }
    if !object::is_terminating(current) {
        object::raise_generation(&mut object);
    }
    let at = Timestamp(server.environment.now().0 + seconds * 1_000_000);
    object::set_meta(&mut object, "deletionTimestamp", rfc3339(at));
    object::set_meta(&mut object, "deletionGracePeriodSeconds", seconds);
    Planned::Mark(object)
}

/// The finalizers after the policy has had its say.
fn finalizers(options: &DeleteOptions, default: DefaultPropagation, object: &Value) -> Vec<String> {
    let mut finalizers = object::finalizers(object);
    let policy = options.propagation.or_else(|| {
        // Finalizers that are there already say what was asked for before.
        let has = |name: &str| finalizers.iter().any(|known| known == name);
        match default {
            _ if has(ORPHAN) => Some(Propagation::Orphan),
            _ if has(FOREGROUND) => Some(Propagation::Foreground),
            DefaultPropagation::Orphan => Some(Propagation::Orphan),
            DefaultPropagation::Background | DefaultPropagation::None => None,
        }
    });
    finalizers.retain(|name| name != ORPHAN && name != FOREGROUND);
    match policy {
        Some(Propagation::Orphan) => finalizers.push(ORPHAN.to_owned()),
        Some(Propagation::Foreground) => finalizers.push(FOREGROUND.to_owned()),
        Some(Propagation::Background) | None => {}
    }
    finalizers
}
