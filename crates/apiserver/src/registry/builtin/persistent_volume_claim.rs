//! PersistentVolumeClaims.
//!
//! Upstream: pkg/registry/core/persistentvolumeclaim/strategy.go, ValidatePersistentVolumeClaim

use serde_json::{Value, json};

use super::difference;
use crate::registry::amount;
use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, at_mut, object, set_default, text};
use crate::registry::field::Field;
use crate::registry::label_selector;
use crate::registry::names;
use crate::registry::strategy::{Context, Properties, Strategy};

pub const ACCESS_MODES: [&str; 4] =
    ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub struct PersistentVolumeClaim;

impl Strategy for PersistentVolumeClaim {
    fn properties(&self) -> Properties {
        Properties { returns_deleted_object: true, ..Properties::WITH_STATUS }
    }

    fn default(&self, claim: &mut Value) {
        if let Some(spec) = object(claim, "spec") {
            set_default(spec, "volumeMode", "Filesystem");
        }
        if let Some(status) = object(claim, "status") {
            set_default(status, "phase", "Pending");
        }
    }

    fn empty_status(&self) -> Value {
        json!({"phase": "Pending"})
    }

    fn prepare_create(&self, claim: &mut Value, _context: &Context<'_>) {
        if let Some(spec) = at_mut(claim, &["spec"]) {
            mirror_data_source(spec);
        }
    }

    fn prepare_update(&self, claim: &mut Value, _old: &Value, context: &Context<'_>) {
        if context.subresource.is_empty()
            && let Some(spec) = at_mut(claim, &["spec"])
        {
            mirror_data_source(spec);
        }
    }

    fn validate(&self, claim: &Value) -> Errors {
        let mut errors = Errors::new();
        validate_spec(&Field::root(claim).at("spec"), &mut errors);
        errors
    }

    fn validate_update(&self, claim: &Value, old: &Value, subresource: &str) -> Errors {
        if subresource == "status" {
            return Errors::new();
        }
        let mut errors = self.validate(claim);
        validate_fixed(&Field::root(claim).at("spec"), old, &mut errors);
        errors
    }
}

/// The old name of the field and the new one agree, where the old one can say it.
fn mirror_data_source(spec: &mut Value) {
    match (edit::has(spec, &["dataSource"]), edit::has(spec, &["dataSourceRef"])) {
        (true, false) => {
            let source = edit::at(spec, &["dataSource"]).clone();
            edit::set(spec, "dataSourceRef", source);
        }
        (false, true) if text(spec, &["dataSourceRef", "namespace"]).is_empty() => {
            let mut source = edit::at(spec, &["dataSourceRef"]).clone();
            edit::remove(&mut source, "namespace");
            edit::set(spec, "dataSource", source);
        }
        _ => {}
    }
}

/// A claim's specification: also of templates of claims.
pub fn validate_spec(spec: &Field<'_>, errors: &mut Errors) {
    let modes = spec.at("accessModes");
    if spec.count("accessModes") == 0 {
        errors.push(modes.required("at least 1 access mode is required"));
    }
    if spec.has("selector") {
        label_selector::validate(&spec.at("selector"), errors);
    }
    validate_access_modes(spec, errors);
    let resources = spec.at("resources");
    let storage = resources.key("requests", "storage");
    match storage.is_set() {
        false => errors.push(storage.required("")),
        true => amount::positive(&storage, errors),
    }
    let class = spec.at("storageClassName");
    checks::absent_or_named(&class, names::subdomain, errors);
    checks::absent_or_one_of(&spec.at("volumeMode"), &["Block", "Filesystem"], errors);
    let source = spec.at("dataSource");
    if source.is_set() {
        validate_source(&source, errors);
    }
    let attributes = spec.at("volumeAttributesClassName");
    checks::absent_or_named(&attributes, names::subdomain, errors);
}

pub fn validate_access_modes(spec: &Field<'_>, errors: &mut Errors) {
    let modes = spec.at("accessModes");
    for mode in spec.list("accessModes") {
        if !ACCESS_MODES.contains(&mode.as_str().unwrap_or("")) {
            errors.push(crate::field_error::FieldError::not_supported(
                modes.path(),
                mode.clone(),
                &ACCESS_MODES,
            ));
        }
    }
    let alone = spec.list("accessModes").iter().any(|mode| mode == "ReadWriteOncePod");
    if alone && spec.count("accessModes") > 1 {
        errors.push(modes.forbidden("may not use ReadWriteOncePod with other access modes"));
    }
}

fn validate_source(source: &Field<'_>, errors: &mut Errors) {
    checks::present(&source.at("name"), errors);
    checks::present(&source.at("kind"), errors);
    let group = source.text("apiGroup");
    if group.is_empty() && source.text("kind") != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(source.invalid_value(source.text("kind"), detail));
    }
}

/// A claim once made changes only its size, and its volume when it is bound.
fn validate_fixed(spec: &Field<'_>, old: &Value, errors: &mut Errors) {
    let bound = text(old, &["status", "phase"]) == "Bound";
    let capacity = amount::read(edit::at(old, &["status", "capacity", "storage"]));
    let old = edit::at(old, &["spec"]);
    let mut allowed = spec.value.clone();
    if text(old, &["volumeName"]).is_empty() {
        edit::copy_field(&mut allowed, old, "volumeName");
    }
    if !edit::has(old, &["storageClassName"]) {
        edit::copy_field(&mut allowed, old, "storageClassName");
    }
    edit::copy_field(&mut allowed, old, "volumeAttributesClassName");
    for name in ["dataSource", "dataSourceRef"] {
        if !edit::has(old, &[name]) && edit::has(old, &["dataSource"]) {
            edit::copy_field(&mut allowed, old, name);
        }
    }
    let size = |spec: &Value| amount::read(edit::at(spec, &["resources", "requests", "storage"]));
    let (wanted, was) = (size(spec.value), size(old));
    if bound {
        let storage = edit::at(old, &["resources", "requests", "storage"]).clone();
        if let Some(requests) = at_mut(&mut allowed, &["resources", "requests"]) {
            edit::set(requests, "storage", storage);
        }
    }
    if allowed != *old {
        let detail = format!(
            "spec is immutable after creation except resources.requests and \
             volumeAttributesClassName for bound claims\n{}",
            difference::of(old, &allowed)
        );
        errors.push(spec.forbidden(detail));
    }
    let resources = spec.at("resources");
    let requests = resources.at("requests");
    if let (true, Some(wanted), Some(was)) = (bound, wanted, was)
        && wanted < was
    {
        match capacity {
            Some(capacity) if wanted > capacity => {}
            Some(_) => {
                let detail = "field can not be less than status.capacity";
                errors.push(requests.at("storage").forbidden(detail));
            }
            None => {
                let detail = "field can not be less than previous value";
                errors.push(requests.at("storage").forbidden(detail));
            }
        }
    }
}
