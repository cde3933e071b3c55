//! PersistentVolumes.
//!
//! Upstream: pkg/registry/core/persistentvolume/strategy.go, ValidatePersistentVolume

use serde_json::{Value, json};

use super::difference;
use super::persistent_volume_claim::validate_access_modes;
use super::pod_spec::{defaults, scheduling};
use crate::registry::amount;
use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, object, set_default};
use crate::registry::field::Field;
use crate::registry::names;
use crate::registry::strategy::{Context, Properties, Strategy};

pub const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

pub struct PersistentVolume;

impl Strategy for PersistentVolume {
    fn properties(&self) -> Properties {
        Properties { returns_deleted_object: true, ..Properties::WITH_STATUS }
    }

    fn default(&self, volume: &mut Value) {
        if let Some(status) = object(volume, "status") {
            set_default(status, "phase", "Pending");
        }
        let Some(spec) = object(volume, "spec") else { return };
        set_default(spec, "persistentVolumeReclaimPolicy", "Retain");
        set_default(spec, "volumeMode", "Filesystem");
        if let Some(path) = edit::at_mut(spec, &["hostPath"]) {
            set_default(path, "type", "");
        }
        defaults::default_networked_volume(spec);
    }

    fn prepare_create(&self, volume: &mut Value, context: &Context<'_>) {
        let status = json!({"phase": "Pending", "lastPhaseTransitionTime": context.now});
        edit::set(volume, "status", status);
    }

    fn prepare_update(&self, volume: &mut Value, old: &Value, context: &Context<'_>) {
        let phase = |it: &Value| edit::text(it, &["status", "phase"]).to_owned();
        if context.subresource == "status" && phase(volume) != phase(old) {
            let given = edit::at(volume, &["status", "lastPhaseTransitionTime"]);
            if given == edit::at(old, &["status", "lastPhaseTransitionTime"])
                && let Some(status) = object(volume, "status")
            {
                edit::set(status, "lastPhaseTransitionTime", context.now);
            }
        }
    }

    fn validate(&self, volume: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(volume);
        validate_spec(&root.at("spec"), &mut errors);
        errors
    }

    fn validate_update(&self, volume: &Value, old: &Value, subresource: &str) -> Errors {
        if subresource == "status" {
            return Errors::new();
        }
        let mut errors = self.validate(volume);
        let root = Field::root(volume);
        let spec = root.at("spec");
        let old = edit::at(old, &["spec"]);
        let sources = |spec: &Value| -> Value {
            let kept = |name: &&&str| edit::has(spec, &[name]);
            let all = SOURCES.iter().filter(kept);
            all.map(|name| ((*name).to_owned(), edit::at(spec, &[name]).clone())).collect()
        };
        let (new_source, old_source) = (sources(spec.value), sources(old));
        if new_source != old_source {
            errors.push(spec.at("persistentvolumesource").forbidden(format!(
                "spec.persistentvolumesource is immutable after creation\n{}",
                difference::of(&old_source, &new_source)
            )));
        }
        let mode = spec.at("volumeMode");
        checks::immutable(&mode, edit::at(old, &["volumeMode"]), &mut errors);
        let affinity = edit::at(old, &["nodeAffinity"]);
        if !affinity.is_null() && spec.raw("nodeAffinity") != affinity {
            errors.push(spec.at("nodeAffinity").invalid(checks::IMMUTABLE));
        }
        errors
    }
}

fn validate_spec(spec: &Field<'_>, errors: &mut Errors) {
    if spec.count("accessModes") == 0 {
        errors.push(spec.at("accessModes").required(""));
    }
    validate_access_modes(spec, errors);
    let capacity = spec.at("capacity");
    if spec.count("capacity") == 0 {
        errors.push(capacity.required(""));
    }
    let names: Vec<&str> =
        spec.map("capacity").into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    if !names.is_empty() && names != ["storage"] {
        errors.push(capacity.not_supported(&["storage"]));
    }
    for (_, amount) in spec.entries("capacity") {
        amount::positive(&amount, errors);
    }
    let reclaim = spec.at("persistentVolumeReclaimPolicy");
    let known = ["Delete", "Recycle", "Retain"];
    checks::absent_or_one_of(&reclaim, &known, errors);
    if spec.has("nodeAffinity") {
        let affinity = spec.at("nodeAffinity");
        let required = affinity.at("required");
        match required.is_set() {
            true => scheduling::validate_node_selector(&required, errors),
            false => errors.push(required.required("must specify required node constraints")),
        }
    }
    validate_source(spec, errors);
    checks::absent_or_named(&spec.at("storageClassName"), names::subdomain, errors);
    checks::absent_or_one_of(&spec.at("volumeMode"), &["Block", "Filesystem"], errors);
}

fn validate_source(spec: &Field<'_>, errors: &mut Errors) {
    let mut count = 0;
    for name in SOURCES {
        let source = spec.at(name);
        if !source.is_set() {
            continue;
        }
        count += 1;
        if count > 1 {
            errors.push(source.forbidden("may not specify more than 1 volume type"));
            continue;
        }
        let required: &[&str] = match name {
            "hostPath" | "local" => &["path"],
            "nfs" => &["server", "path"],
            "csi" => &["driver", "volumeHandle"],
            "iscsi" => &["targetPortal", "iqn"],
            _ => &[],
        };
        for field in required {
            checks::present(&source.at(field), errors);
        }
        let path = source.at("path");
        if ["hostPath", "local"].contains(&name) {
            checks::faults(&path, names::no_backsteps(path.as_text()), errors);
        }
        if name == "local" && !spec.has("nodeAffinity") {
            let detail = "Local volume requires node affinity";
            errors.push(crate::field_error::FieldError::required("metadata.annotations", detail));
        }
    }
    if count == 0 {
        errors.push(spec.required("must specify a volume type"));
    }
}
