//! What all writes share: reading the body, and read, change, commit, again on conflict.
//!
//! `change` is the only loop in the server that tries again, and the one place where an object
//! whose last finalizer is gone is deleted, so that PUT and PATCH cannot differ.

use serde_json::{Value, json};
use store::{Commit, Mutation, Operation, Precondition, Provenance, Revision};

use super::saved::Saved;
use super::{Request, bounds, update};
use crate::admission::resource_quota::{self, Written};
use crate::allocation;
use crate::conversion;
use crate::decode::{self, Format};
use crate::facts::Type;
use crate::field_error::FieldError;
use crate::field_ownership::is_unchanged;
use crate::object;
use crate::persist::{self, stored};
use crate::quantity;
use crate::rbac;
use crate::request::negotiate::{BodyType, body_type};
use crate::request::options::FieldValidation;
use crate::resources::Origin;
use crate::server::{Server, store_failure};
use crate::status::Error;

/// How often a change is tried again when others write the same object.
const CONFLICT_RETRIES_MAX: usize = 32;

/// What the body of a custom resource may be.
const ACCEPTED_CUSTOM: &str = "application/json, application/yaml";

/// Reads the body as an object.
pub fn decode(request: &Request) -> Result<Value, Error> {
    match &request.resource.origin {
        Origin::Builtin { type_id, .. } => decode_as(request, type_id.get()),
        Origin::Custom(version) => {
            if let Some(mut value) = request.carried.body() {
                let unknown = decode::read_custom(&mut value, version);
                return accept(request, decode::given(value, unknown));
            }
            let format = body_format(request)?;
            if format == Format::Protobuf {
                return Err(Error::unsupported_media_type(ACCEPTED_CUSTOM));
            }
            accept(request, decode::custom_object(&request.body, format, version))
        }
    }
}

/// Reads the body as an object of a built-in type.
pub fn decode_as(request: &Request, of: &'static Type) -> Result<Value, Error> {
    if let Some(mut value) = request.carried.body() {
        let decoded = decode::strict::normalise(&mut value, of, canonical_quantity);
        return accept(request, decode::given(value, decoded.map(|decoded| decoded.unknown)));
    }
    let format = body_format(request)?;
    accept(request, decode::object(&request.body, format, of, canonical_quantity))
}

/// What was decoded, if the client would have it with what is wrong with it.
fn accept(
    request: &Request,
    decoded: Result<decode::Object, decode::Error>,
) -> Result<Value, Error> {
    let resource = &request.resource;
    let cannot = |why: &str| {
        let (kind, version) = (&resource.kind, &resource.version);
        let text = format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}");
        Error::bad_request(text)
    };
    let decoded = decoded.map_err(|error| match error {
        decode::Error::TooLarge => bounds::too_large(),
        error => cannot(&error.to_string()),
    })?;
    if !decoded.problems.is_empty() {
        match request.options.field_validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => {
                decoded.problems.iter().for_each(|problem| request.warnings.add(problem));
            }
            FieldValidation::Strict => {
                return Err(cannot(&decode::strict_error(&decoded.problems)));
            }
        }
    }
    bounds::check(&decoded.value)?;
    Ok(decoded.value)
}

/// A patched object must still be one of its type; what no field is for is dropped, or refused.
pub fn normalise(request: &Request, object: &mut Value) -> Result<(), Error> {
    let resource = &request.resource;
    let refused = |text: String| {
        let error = FieldError::invalid("patch", Value::Null, text);
        Error::invalid(&resource.kind, &resource.group, &request.target.name, &[error])
    };
    let unknown = match &resource.origin {
        Origin::Builtin { type_id, .. } => {
            decode::strict::normalise(object, type_id.get(), canonical_quantity)
                .map(|decoded| decoded.unknown)
        }
        Origin::Custom(version) => decode::read_custom(object, version),
    };
    let unknown = unknown.map_err(|error| match error {
        decode::Error::TooLarge => bounds::too_large(),
        error => refused(error.to_string()),
    })?;
    bounds::check(object)?;
    let problems: Vec<_> = unknown.iter().map(|path| decode::unknown_field(path)).collect();
    match request.options.field_validation {
        _ if problems.is_empty() => Ok(()),
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            problems.iter().for_each(|problem| request.warnings.add(problem));
            Ok(())
        }
        FieldValidation::Strict => Err(refused(decode::strict_error(&problems))),
    }
}

fn canonical_quantity(text: &str) -> Option<String> {
    quantity::rewritten(text).ok()
}

/// How the body is to be read.
pub fn body_format(request: &Request) -> Result<Format, Error> {
    Ok(match body_type(&request.content_type)? {
        BodyType::Json => Format::Json,
        BodyType::Yaml => Format::Yaml,
        BodyType::Protobuf => Format::Protobuf,
    })
}

/// The body must be of the kind that the path is for; what it leaves out is filled in.
pub fn expect_kind(request: &Request, object: &mut Value) -> Result<(), Error> {
    let resource = &request.resource;
    let expected = resource.api_version();
    match object["apiVersion"].as_str().unwrap_or_default() {
        "" => object["apiVersion"] = json!(expected),
        found if found == expected => {}
        found => {
            return Err(Error::bad_request(format!(
                "the API version in the data ({found}) does not match the expected API version \
                 ({expected})"
            )));
        }
    }
    match object["kind"].as_str().unwrap_or_default() {
        "" => object["kind"] = json!(resource.kind),
        found if found == resource.kind => {}
        found => {
            return Err(Error::bad_request(format!(
                "{found} in version {:?} cannot be handled as a {}: no kind {found:?} is \
                 registered for version {expected:?}",
                resource.version, resource.kind
            )));
        }
    }
    Ok(())
}

/// An object as it is now.
pub struct Current {
    pub object: Value,
    pub revision: Revision,
}

pub async fn read(server: &Server, request: &Request) -> Result<Option<Current>, Error> {
    let resource = &request.resource;
    let key = resource.key(&request.target.namespace, &request.target.name)?;
    let entry = server.store.get(&key, None).await.map_err(store_failure)?;
    let Some(entry) = entry else { return Ok(None) };
    let entry = conversion::served_entry(resource, entry).await?;
    let object = stored(&entry).object(entry.modified);
    Ok(Some(Current { object, revision: entry.modified }))
}

/// An object as it is to be, and what is written together with it.
pub struct Changed {
    pub object: Value,
    pub extra: Vec<Operation>,
}

impl From<Value> for Changed {
    fn from(object: Value) -> Changed {
        Changed { object, extra: Vec::new() }
    }
}

/// What became of a change.
pub enum Outcome {
    Written(Saved),
    /// The last finalizer went with it.
    Deleted(Value),
    Unchanged(Value),
}

impl Outcome {
    pub fn object(self) -> Value {
        match self {
            Outcome::Written(saved) => saved.into_value(),
            Outcome::Deleted(object) | Outcome::Unchanged(object) => object,
        }
    }

    pub fn saved(self) -> Saved {
        match self {
            Outcome::Written(saved) => saved,
            Outcome::Deleted(object) | Outcome::Unchanged(object) => Saved::whole(object),
        }
    }
}

/// Who brings a changed object into the form in which it is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// Those of its kind: defaults, what only the server may change, checks.
    OfKind,
    /// The caller's, who changes what clients cannot. Admission is asked all the same.
    OfCaller,
}

/// Reads, changes and commits under the rules of the kind; again when somebody else was faster,
/// unless the client named the revision it changes.
pub async fn change(
    server: &Server,
    request: &Request,
    draft: impl Fn(&Value) -> Result<Value, Error>,
) -> Result<Outcome, Error> {
    change_under(server, request, Rules::OfKind, |current| draft(current).map(Changed::from)).await
}

/// The same for a change that the server drafts, with what is written together with it.
pub async fn change_by_server(
    server: &Server,
    request: &Request,
    draft: impl Fn(&Value) -> Result<Changed, Error>,
) -> Result<Outcome, Error> {
    change_under(server, request, Rules::OfCaller, draft).await
}

/// Every change of an object that exists comes here, and so through admission.
async fn change_under(
    server: &Server,
    request: &Request,
    rules: Rules,
    draft: impl Fn(&Value) -> Result<Changed, Error>,
) -> Result<Outcome, Error> {
    let about = request.resource.about();
    let name = &request.target.name;
    for _ in 0..CONFLICT_RETRIES_MAX {
        let Some(current) = read(server, request).await? else {
            return Err(Error::not_found(about, name));
        };
        let draft = draft(&current.object)?;
        let Changed { mut object, extra } =
            update::prepare(server, request, rules, (draft, &current.object)).await?;
        let named = object::meta(&object, "resourceVersion").to_owned();
        if !named.is_empty() && named != current.revision.to_string() {
            return Err(Error::modified(about, name));
        }
        object::remove_meta(&mut object, "resourceVersion");
        if is_unchanged(&object, &current.object) {
            return Ok(Outcome::Unchanged(current.object));
        }
        // A revision that the client named is compared with what is there at the next look.
        let changed = Changed { object, extra };
        if let Some(outcome) = commit_change(server, request, changed, &current).await? {
            return Ok(outcome);
        }
    }
    Err(Error::conflict(about, name, "others keep changing it; please try again"))
}

/// Commits a changed object, or its removal; `None` when somebody else was faster.
async fn commit_change(
    server: &Server,
    request: &Request,
    changed: Changed,
    current: &Current,
) -> Result<Option<Outcome>, Error> {
    let Changed { mut object, extra } = changed;
    let is_gone = object::is_terminating(&object)
        && object::finalizers(&object).is_empty()
        && object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
        && !holds_namespace(request, &object);
    let (before, when) = (Some(&current.object), Precondition::At(current.revision));
    if !is_gone {
        let (mutation, saved) = Saved::prepare(server, request, object).await?;
        let written = Written { before, after: Some(saved.object()) };
        let change = Change { mutation, when, written, extra };
        return Ok(match commit_charged(server, request, change).await? {
            Committed::At(revision) => Some(Outcome::Written(saved.at(revision))),
            Committed::Taken | Committed::Overtaken => None,
        });
    }
    let extra = allocation::release(server, request, &current.object).await?;
    let (mutation, written) = (Mutation::Delete, Written { before, after: None });
    let change = Change { mutation, when, written, extra };
    let Committed::At(revision) = commit_charged(server, request, change).await? else {
        return Ok(None);
    };
    object::set_meta(&mut object, "resourceVersion", revision.to_string());
    Ok(Some(match request.options.dry_run {
        true => Outcome::Written(Saved::whole(object)),
        false => Outcome::Deleted(object),
    }))
}

/// A namespace goes when its own finalizers are gone too.
fn holds_namespace(request: &Request, object: &Value) -> bool {
    request.resource.kind == "Namespace"
        && request.resource.group.is_empty()
        && object["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty())
}

/// The object as the store keeps it.
pub async fn encode(request: &Request, object: &Value) -> Result<Mutation, Error> {
    let resource = &request.resource;
    let converted = match &resource.conversion {
        // Most are stored as they are served, and need not be copied.
        None => None,
        Some(_) => Some(conversion::stored_object(resource, object.clone()).await?),
    };
    let object = converted.as_ref().unwrap_or(object);
    let fields = resource.field_values(object);
    Ok(Mutation::Put(persist::encode(object, &fields)))
}

/// One object's change, what it means to the quotas of its namespace, and what is written with it.
pub struct Change<'a> {
    pub mutation: Mutation,
    pub when: Precondition,
    pub written: Written<'a>,
    pub extra: Vec<Operation>,
}

/// What became of a commit.
pub enum Committed {
    At(Revision),
    /// Somebody else was faster with the object.
    Taken,
    /// Somebody else was faster with what is written together with it.
    Overtaken,
}

/// Commits a change together with what it costs. A dry run is charged but not committed: its
/// revision is the one it would replace.
pub async fn commit_charged(
    server: &Server,
    request: &Request,
    change: Change<'_>,
) -> Result<Committed, Error> {
    let Change { mutation, when, written, extra } = change;
    let target = &request.target;
    let key = request.resource.key(&target.namespace, &target.name)?;
    let turn = resource_quota::turn(server, request, written).await?;
    for _ in 0..CONFLICT_RETRIES_MAX {
        let mut operations = match &turn {
            Some(_) => resource_quota::charges(server, request, written).await?,
            None => Vec::new(),
        };
        if request.options.dry_run {
            return Ok(Committed::At(when.expected().unwrap_or_default()));
        }
        operations.push(Operation { key: key.clone(), mutation: mutation.clone(), when });
        operations.extend(extra.iter().cloned());
        match commit_all(server, request, operations).await {
            Ok(revision) => return Ok(Committed::At(revision)),
            Err(store::Error::Conflict { key: found, .. }) if found == key => {
                return Ok(Committed::Taken);
            }
            Err(store::Error::Conflict { key: found, .. })
                if extra.iter().any(|operation| operation.key == found) =>
            {
                return Ok(Committed::Overtaken);
            }
            // A quota was written by another process, or by whoever counts.
            Err(store::Error::Conflict { .. }) => {}
            Err(error) => return Err(store_failure(error)),
        }
    }
    let why = "others keep changing the quotas of its namespace; please try again";
    Err(Error::conflict(request.resource.about(), &target.name, why))
}

/// One write, with its provenance.
async fn commit_all(
    server: &Server,
    request: &Request,
    operations: Vec<Operation>,
) -> Result<Revision, store::Error> {
    let provenance = Provenance {
        manager: request.manager().into(),
        request: request.id.clone(),
        cause: request.cause.revision,
        reconcile: request.cause.reconcile.clone(),
        ..Provenance::of(server.environment.now(), request.user.name.clone())
    };
    let epoch = request.cause.epoch.clone();
    let committed = server.store.commit(Commit { operations, epoch, provenance }).await?;
    if request.resource.group == rbac::GROUP
        && let Some(kind) = rbac::Kind::of_resource(&request.resource.plural)
    {
        server.authorizer.reaches(kind, committed.revision).await;
    }
    Ok(committed.revision)
}
