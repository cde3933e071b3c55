//! The rules of an object's metadata, for all kinds.
//!
//! Upstream: apimachinery/pkg/api/validation/objectmeta.go, pkg/apis/core/validation (finalizers)

use serde_json::Value;

use super::checks::{self, Errors};
use super::field::Field;
use super::names::{self, NameRule};
use crate::field_error::FieldError;
use crate::object;

/// All keys and values of an object's annotations together.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

const FINALIZER_ORPHAN: &str = "orphan";
const FINALIZER_FOREGROUND: &str = "foregroundDeletion";
const MANAGER_BYTES_MAX: usize = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Namespaced,
    Cluster,
}

/// The metadata of an object whose name is already generated.
pub fn validate(object: &Value, scope: Scope, rule: NameRule) -> Errors {
    let mut errors = Errors::new();
    let root = Field::root(object);
    let metadata = root.at("metadata");
    let prefix = metadata.at("generateName");
    if !prefix.as_text().is_empty() {
        checks::faults(&prefix, rule.prefix_faults(prefix.as_text()), &mut errors);
    }
    let name = metadata.at("name");
    match name.as_text() {
        "" => errors.push(name.required("name or generateName is required")),
        text => checks::faults(&name, rule.faults(text), &mut errors),
    }
    validate_namespace(&metadata.at("namespace"), scope, &mut errors);
    checks::non_negative(&metadata.at("generation"), &mut errors);
    validate_common(&metadata, &mut errors);
    errors
}

fn validate_namespace(namespace: &Field<'_>, scope: Scope, errors: &mut Errors) {
    match (scope, namespace.as_text()) {
        (Scope::Namespaced, _) => checks::named(namespace, names::label, errors),
        (Scope::Cluster, "") => {}
        (Scope::Cluster, _) => errors.push(namespace.forbidden("not allowed on this type")),
    }
}

fn validate_common(metadata: &Field<'_>, errors: &mut Errors) {
    checks::labels(&metadata.at("labels"), errors);
    validate_annotations(&metadata.at("annotations"), errors);
    validate_owners(metadata, errors);
    validate_finalizers(metadata, errors);
    validate_managed_fields(metadata, errors);
}

/// Annotation keys are label keys in any case; their total size is limited.
pub fn validate_annotations(annotations: &Field<'_>, errors: &mut Errors) {
    let mut bytes = 0;
    for (key, value) in annotations.value.as_object().into_iter().flatten() {
        bytes += key.len() + value.as_str().map_or(0, str::len);
        for fault in names::qualified_name(&key.to_lowercase()) {
            errors.push(annotations.invalid_value(key.as_str(), fault));
        }
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        errors.push(annotations.too_long(ANNOTATIONS_BYTES_MAX));
    }
}

fn validate_owners(metadata: &Field<'_>, errors: &mut Errors) {
    let owners = metadata.at("ownerReferences");
    let mut controller: Option<String> = None;
    for owner in metadata.items("ownerReferences") {
        validate_owner(&owner, &owners, errors);
        if !owner.flag("controller") {
            continue;
        }
        let name = format!("{}/{}", owner.text("kind"), owner.text("name"));
        match &controller {
            None => controller = Some(name),
            Some(first) => errors.push(owners.invalid(format!(
                "Only one reference can have Controller set to true. Found \"true\" in references \
                 for {first} and {name}"
            ))),
        }
    }
}

/// Upstream names the list, not the element.
fn validate_owner(owner: &Field<'_>, owners: &Field<'_>, errors: &mut Errors) {
    let api_version = owner.text("apiVersion");
    let version = api_version.rsplit('/').next().unwrap_or("");
    if version.is_empty() {
        let error = owners.at("apiVersion");
        errors.push(error.invalid_value(api_version, "version must not be empty"));
    }
    for name in ["kind", "name", "uid"] {
        if owner.text(name).is_empty() {
            errors.push(owners.at(name).invalid_value("", "must not be empty"));
        }
    }
    if api_version == "v1" && owner.text("kind") == "Event" {
        let detail = "/v1, Kind=Event is disallowed from being an owner";
        errors.push(owners.invalid_value(owner.value.clone(), detail));
    }
}

fn validate_finalizers(metadata: &Field<'_>, errors: &mut Errors) {
    let finalizers = metadata.at("finalizers");
    for finalizer in metadata.items("finalizers") {
        for fault in names::qualified_name(finalizer.as_text()) {
            errors.push(finalizers.invalid_value(finalizer.value.clone(), fault));
        }
    }
    let has = |name: &str| metadata.list("finalizers").iter().any(|it| it == name);
    if has(FINALIZER_ORPHAN) && has(FINALIZER_FOREGROUND) {
        errors.push(finalizers.invalid(format!(
            "finalizer {FINALIZER_ORPHAN} and {FINALIZER_FOREGROUND} cannot be both set"
        )));
    }
}

/// Finalizers that do not say whose they are.
pub fn bare_finalizers(object: &Value) -> Errors {
    let root = Field::root(object);
    let metadata = root.at("metadata");
    let bare = metadata.items("finalizers").filter(|one| is_bare_finalizer(one.as_text()));
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    bare.map(|finalizer| finalizer.invalid(detail)).collect()
}

/// What is said of those where they are accepted.
pub fn finalizer_warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let before = old.map(object::finalizers).unwrap_or_default();
    let mut added = object::finalizers(object);
    added.retain(|name| is_bare_finalizer(name) && !before.contains(name));
    added.sort();
    let warning = |name: &String| {
        format!(
            "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name including a \
             path (/) to avoid accidental conflicts with other finalizer writers"
        )
    };
    added.iter().map(warning).collect()
}

fn is_bare_finalizer(name: &str) -> bool {
    let known = [FINALIZER_ORPHAN, FINALIZER_FOREGROUND, "kubernetes"];
    !name.is_empty() && !name.contains('/') && !known.contains(&name)
}

/// The metadata of a resource that is a part of another one, at a path: it has no name of its own
/// unless it says so.
pub fn validate_embedded(path: &str, metadata: &serde_json::Map<String, Value>) -> Errors {
    let mut metadata = metadata.clone();
    let is_named = metadata.get("name").is_some_and(|name| name != "");
    if !is_named {
        metadata.insert("name".to_owned(), "fakename".into());
    }
    let scope = match metadata.get("namespace").is_some_and(|name| name != "") {
        true => Scope::Namespaced,
        false => Scope::Cluster,
    };
    let object =
        Value::Object([("metadata".to_owned(), Value::Object(metadata))].into_iter().collect());
    let mut errors = validate(&object, scope, NameRule::PathSegment);
    for error in &mut errors {
        if let Some(rest) = error.path.strip_prefix("metadata") {
            error.path = format!("{path}{rest}");
        }
    }
    errors
}

fn validate_managed_fields(metadata: &Field<'_>, errors: &mut Errors) {
    for entry in metadata.items("managedFields") {
        let operation = entry.at("operation");
        if !["Apply", "Update"].contains(&operation.as_text()) {
            errors.push(operation.invalid("must be `Apply` or `Update`"));
        }
        let kind = entry.at("fieldsType");
        if !["", "FieldsV1"].contains(&kind.as_text()) {
            errors.push(kind.invalid("must be `FieldsV1`"));
        }
        let manager = entry.at("manager");
        if manager.as_text().len() > MANAGER_BYTES_MAX {
            errors.push(manager.too_long(MANAGER_BYTES_MAX));
        }
    }
}

/// What may not change in the metadata.
pub fn validate_update(object: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let root = Field::root(object);
    let metadata = root.at("metadata");
    let old_root = Field::root(old);
    let old = old_root.at("metadata");
    if old.has("deletionTimestamp") {
        errors.extend(no_new_finalizers(&metadata, &old));
    }
    let (generation, was) = (metadata.int("generation"), old.int("generation"));
    if generation.unwrap_or(0) < was.unwrap_or(0) {
        let field = metadata.at("generation");
        errors.push(field.invalid_value(generation.unwrap_or(0), "must not be decremented"));
    }
    let fixed = [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ];
    for name in fixed {
        checks::immutable(&metadata.at(name), old.raw(name), &mut errors);
    }
    validate_common(&metadata, &mut errors);
    errors
}

fn no_new_finalizers(metadata: &Field<'_>, old: &Field<'_>) -> Option<FieldError> {
    let old = old.list("finalizers");
    let mut added: Vec<String> = Vec::new();
    for finalizer in metadata.list("finalizers") {
        if !old.contains(finalizer) {
            added.push(finalizer.to_string());
        }
    }
    if added.is_empty() {
        return None;
    }
    added.sort();
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers \
         []string{{{}}}",
        added.join(", ")
    );
    Some(metadata.at("finalizers").forbidden(detail))
}
