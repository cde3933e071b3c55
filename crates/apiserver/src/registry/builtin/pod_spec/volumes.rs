//! The rules of a pod's volumes.
//!
//! Upstream: pkg/apis/core/validation/validation.go (ValidateVolumes and its kin)

use std::collections::BTreeMap;

use serde_json::Value;

use super::env;
use crate::registry::amount;
use crate::registry::builtin::persistent_volume_claim;
use crate::registry::checks::{self, Errors};
use crate::registry::edit;
use crate::registry::field::Field;
use crate::registry::names;

/// The good volumes of a pod by name.
pub type Volumes<'a> = BTreeMap<&'a str, &'a Value>;

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
const HOST_PATH_TYPES: [&str; 8] = [
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];
/// In the order in which upstream looks for them.
const SOURCES: [&str; 30] = [
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

pub fn validate<'a>(spec: &Field<'a>, metadata: &Value, errors: &mut Errors) -> Volumes<'a> {
    let mut good = Volumes::new();
    let mut all: Vec<&str> = Vec::new();
    let pod = edit::text(metadata, &["name"]);
    for (index, volume) in spec.items("volumes").enumerate() {
        let count = errors.len();
        validate_source(&volume, pod, errors);
        let name = volume.at("name");
        checks::named(&name, names::label, errors);
        if all.contains(&name.as_text()) && !name.as_text().is_empty() {
            errors.push(name.duplicate());
        }
        if errors.len() == count
            && let Some(volume) = spec.list("volumes").get(index)
        {
            good.insert(edit::text(volume, &["name"]), volume);
            all.push(edit::text(volume, &["name"]));
        }
    }
    good
}

fn validate_source(volume: &Field<'_>, pod: &str, errors: &mut Errors) {
    let mut count = 0;
    for name in SOURCES {
        let source = volume.at(name);
        if !source.is_set() {
            continue;
        }
        count += 1;
        if count > 1 {
            errors.push(source.forbidden("may not specify more than 1 volume type"));
            continue;
        }
        validate_one(name, &source, errors);
        if name == "ephemeral" && !pod.is_empty() {
            let claim = format!("{pod}-{}", volume.text("name"));
            for fault in names::subdomain(&claim) {
                let detail = format!("PVC name {claim:?}: {fault}");
                errors.push(volume.at("name").invalid(detail));
            }
        }
    }
    if count == 0 {
        errors.push(volume.required("must specify a volume type"));
    }
}

fn validate_one(name: &str, source: &Field<'_>, errors: &mut Errors) {
    let required: &[&str] = match name {
        "emptyDir" => {
            if amount::is_negative(source.raw("sizeLimit")) {
                let detail = "SizeLimit field must be a valid resource quantity";
                errors.push(source.at("sizeLimit").forbidden(detail));
            }
            &[]
        }
        "hostPath" => return validate_host_path(source, errors),
        "secret" => return validate_files(source, "secretName", errors),
        "configMap" => return validate_files(source, "name", errors),
        "downwardAPI" => return validate_downward(source, errors),
        "projected" => return validate_projected(source, errors),
        "nfs" => {
            let path = source.at("path");
            checks::present(&source.at("server"), errors);
            checks::present(&path, errors);
            if !path.as_text().starts_with('/') {
                errors.push(path.invalid_value(path.as_text(), "must be an absolute path"));
            }
            &[]
        }
        "ephemeral" => return validate_ephemeral(source, errors),
        "csi" => {
            checks::named(&source.at("driver"), names::subdomain, errors);
            &[]
        }
        "persistentVolumeClaim" => &["claimName"],
        "gitRepo" => &["repository"],
        "iscsi" => &["targetPortal", "iqn"],
        "glusterfs" => &["endpoints", "path"],
        "rbd" => &["image"],
        "cinder" | "awsElasticBlockStore" | "portworxVolume" => &["volumeID"],
        "gcePersistentDisk" => &["pdName"],
        "flexVolume" => &["driver"],
        "azureFile" => &["secretName", "shareName"],
        "azureDisk" => &["diskName", "diskURI"],
        "vsphereVolume" => &["volumePath"],
        "photonPersistentDisk" => &["pdID"],
        "quobyte" => &["registry", "volume"],
        "scaleIO" => &["gateway", "system", "volumeName"],
        _ => &[],
    };
    for field in required {
        checks::present(&source.at(field), errors);
    }
}

fn validate_host_path(source: &Field<'_>, errors: &mut Errors) {
    let path = source.at("path");
    if path.as_text().is_empty() {
        return errors.push(path.required(""));
    }
    checks::faults(&path, names::no_backsteps(path.as_text()), errors);
    checks::absent_or_one_of(&source.at("type"), &HOST_PATH_TYPES, errors);
}

fn validate_mode(mode: &Field<'_>, errors: &mut Errors) {
    if mode.as_int().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        errors.push(mode.invalid(MODE));
    }
}

fn validate_files(source: &Field<'_>, name: &str, errors: &mut Errors) {
    checks::present(&source.at(name), errors);
    validate_mode(&source.at("defaultMode"), errors);
    for item in source.items("items") {
        validate_item(&item, errors);
    }
}

fn validate_item(item: &Field<'_>, errors: &mut Errors) {
    checks::present(&item.at("key"), errors);
    let path = item.at("path");
    checks::present(&path, errors);
    checks::faults(&path, names::descending_file(path.as_text()), errors);
    validate_mode(&item.at("mode"), errors);
}

/// Upstream names the source, not the item.
fn validate_downward(source: &Field<'_>, errors: &mut Errors) {
    validate_mode(&source.at("defaultMode"), errors);
    for item in source.items("items") {
        let path = item.text("path");
        if path.is_empty() {
            errors.push(source.at("path").required(""));
        }
        if let Some(fault) = names::descending_file(path) {
            errors.push(source.at("path").invalid_value(path, fault));
        }
        match (item.has("fieldRef"), item.has("resourceFieldRef")) {
            (true, both) => {
                let field = item.at("fieldRef");
                env::validate_field_reference(&field, &env::VOLUME_FIELDS, errors);
                if both {
                    errors.push(source.invalid_value(
                        "resource",
                        "fieldRef and resourceFieldRef can not be specified simultaneously",
                    ));
                }
            }
            (false, true) => {
                let resource = item.at("resourceFieldRef");
                checks::present(&resource.at("containerName"), errors);
                env::validate_resource_reference(&resource, errors);
            }
            (false, false) => {
                let detail = "one of fieldRef and resourceFieldRef is required";
                errors.push(source.required(detail));
            }
        }
        validate_mode(&item.at("mode"), errors);
    }
}

fn validate_projected(projected: &Field<'_>, errors: &mut Errors) {
    validate_mode(&projected.at("defaultMode"), errors);
    let mut paths: Vec<&str> = Vec::new();
    for source in projected.items("sources") {
        let kinds = [
            "secret",
            "configMap",
            "downwardAPI",
            "serviceAccountToken",
            "clusterTrustBundle",
            "podCertificate",
        ];
        let count = kinds.iter().filter(|kind| source.has(kind)).count();
        for kind in ["secret", "configMap"] {
            let files = source.at(kind);
            if files.is_set() {
                checks::present(&files.at("name"), errors);
            }
            for item in files.items("items") {
                validate_item(&item, errors);
            }
            let items = edit::list(source.value, &[kind, "items"]);
            for path in items.iter().map(|item| edit::text(item, &["path"])) {
                note_path(projected, path, &mut paths, errors);
            }
        }
        let downward = source.at("downwardAPI");
        if downward.is_set() {
            validate_downward(&downward, errors);
            let items = edit::list(source.value, &["downwardAPI", "items"]);
            for path in items.iter().map(|item| edit::text(item, &["path"])) {
                note_path(projected, path, &mut paths, errors);
            }
        }
        let token = source.at("serviceAccountToken");
        if token.is_set() {
            validate_token(&token, errors);
            let path = edit::text(source.value, &["serviceAccountToken", "path"]);
            note_path(projected, path, &mut paths, errors);
        }
        if count > 1 {
            errors.push(source.forbidden("may not specify more than 1 volume type"));
        }
    }
}

fn note_path<'a>(
    projected: &Field<'_>,
    path: &'a str,
    seen: &mut Vec<&'a str>,
    errors: &mut Errors,
) {
    if path.is_empty() {
        return;
    }
    if seen.contains(&path) {
        errors.push(projected.invalid_value(path, "conflicting duplicate paths"));
    }
    seen.push(path);
}

fn validate_token(token: &Field<'_>, errors: &mut Errors) {
    let expiration = token.at("expirationSeconds");
    match expiration.as_int().unwrap_or(0) {
        ..600 => {
            errors.push(expiration.invalid("may not specify a duration less than 10 minutes"));
        }
        seconds if seconds > 1 << 32 => {
            errors.push(expiration.invalid("may not specify a duration larger than 2^32 seconds"));
        }
        _ => {}
    }
    let path = token.at("path");
    checks::present(&path, errors);
    checks::faults(&path, names::descending_file(path.as_text()), errors);
}

fn validate_ephemeral(source: &Field<'_>, errors: &mut Errors) {
    let template = source.at("volumeClaimTemplate");
    if !template.is_set() {
        return errors.push(template.required(""));
    }
    persistent_volume_claim::validate_spec(&template.at("spec"), errors);
}
