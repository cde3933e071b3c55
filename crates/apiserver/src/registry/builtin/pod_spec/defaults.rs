//! What a pod's specification means where it says nothing.
//!
//! Upstream: pkg/apis/core/v1/defaults.go

use serde_json::{Value, json};

use crate::registry::edit::{
    self, at_mut, each_mut, object, set_default, set_default_nonzero, text,
};

const FILE_MODE: i64 = 0o644;
const TOKEN_SECONDS: i64 = 3600;
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Defaults of a `PodSpec`, wherever it is.
pub fn default_spec(spec: &mut Value) {
    set_default(spec, "restartPolicy", "Always");
    set_default(spec, "terminationGracePeriodSeconds", 30);
    set_default(spec, "dnsPolicy", "ClusterFirst");
    set_default(spec, "schedulerName", "default-scheduler");
    set_default(spec, "securityContext", json!({}));
    mirror_service_account(spec);
    for kind in CONTAINERS {
        each_mut(spec, &[kind]).for_each(default_container);
    }
    each_mut(spec, &["volumes"]).for_each(default_volume);
}

/// Defaults that only a pod has, not the template of one.
pub fn default_pod_only(spec: &mut Value) {
    set_default(spec, "enableServiceLinks", true);
    for kind in ["containers", "initContainers"] {
        each_mut(spec, &[kind]).for_each(default_requests);
    }
    if spec.get("resources").is_some() {
        default_requests(spec);
    }
    if spec.get("hostNetwork") != Some(&Value::Bool(true)) {
        return;
    }
    for kind in ["containers", "initContainers"] {
        for container in each_mut(spec, &[kind]) {
            for port in each_mut(container, &["ports"]) {
                let number = edit::int(port, &["containerPort"]).unwrap_or(0);
                set_default_nonzero(port, "hostPort", number);
            }
        }
    }
}

/// The old name of the field and the new one always agree.
fn mirror_service_account(spec: &mut Value) {
    let name = match (text(spec, &["serviceAccountName"]), text(spec, &["serviceAccount"])) {
        ("", "") => return,
        ("", old) => old.to_owned(),
        (name, _) => name.to_owned(),
    };
    edit::set(spec, "serviceAccountName", name.clone());
    edit::set(spec, "serviceAccount", name);
}

/// What is limited and not requested is requested as it is limited.
fn default_requests(container: &mut Value) {
    let Some(limits) = edit::map(container, &["resources", "limits"]).cloned() else { return };
    if limits.is_empty() {
        return;
    }
    let Some(resources) = at_mut(container, &["resources"]) else { return };
    let Some(requests) = object(resources, "requests") else { return };
    for (name, limit) in limits {
        set_default(requests, &name, limit);
    }
}

fn default_container(container: &mut Value) {
    let policy = pull_policy(text(container, &["image"]));
    set_default(container, "imagePullPolicy", policy);
    set_default(container, "terminationMessagePath", "/dev/termination-log");
    set_default(container, "terminationMessagePolicy", "File");
    for port in each_mut(container, &["ports"]) {
        set_default(port, "protocol", "TCP");
    }
    for variable in each_mut(container, &["env"]) {
        if let Some(source) = at_mut(variable, &["valueFrom"]) {
            default_field_reference(source);
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = at_mut(container, &[probe]) {
            default_probe(probe);
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(action) = at_mut(container, &["lifecycle", hook, "httpGet"]) {
            default_http_get(action);
        }
    }
    for policy in each_mut(container, &["resizePolicy"]) {
        set_default(policy, "restartPolicy", "NotRequired");
    }
}

/// Images that may move are pulled each time.
pub fn pull_policy(image: &str) -> &'static str {
    let name = image.rsplit('/').next().unwrap_or("");
    let (name, has_digest) = match name.split_once('@') {
        Some((name, _)) => (name, true),
        None => (name, false),
    };
    match name.split_once(':') {
        Some((_, "latest")) => "Always",
        Some(_) => "IfNotPresent",
        None if has_digest => "IfNotPresent",
        None => "Always",
    }
}

fn default_field_reference(source: &mut Value) {
    if let Some(reference) = at_mut(source, &["fieldRef"]) {
        set_default(reference, "apiVersion", "v1");
    }
    if let Some(reference) = at_mut(source, &["resourceFieldRef"]) {
        set_default(reference, "divisor", "0");
    }
}

fn default_probe(probe: &mut Value) {
    set_default_nonzero(probe, "timeoutSeconds", 1);
    set_default_nonzero(probe, "periodSeconds", 10);
    set_default_nonzero(probe, "successThreshold", 1);
    set_default_nonzero(probe, "failureThreshold", 3);
    if let Some(action) = at_mut(probe, &["httpGet"]) {
        default_http_get(action);
    }
    if let Some(action) = at_mut(probe, &["grpc"]) {
        set_default(action, "service", "");
    }
}

fn default_http_get(action: &mut Value) {
    set_default(action, "path", "/");
    set_default(action, "scheme", "HTTP");
}

fn default_volume(volume: &mut Value) {
    let Some(map) = volume.as_object() else { return };
    if map.iter().all(|(name, source)| name == "name" || source.is_null()) {
        edit::set(volume, "emptyDir", json!({}));
    }
    if let Some(path) = at_mut(volume, &["hostPath"]) {
        set_default(path, "type", "");
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = at_mut(volume, &[source]) {
            set_default(source, "defaultMode", FILE_MODE);
        }
    }
    each_mut(volume, &["downwardAPI", "items"]).for_each(default_field_reference);
    for source in each_mut(volume, &["projected", "sources"]) {
        if let Some(token) = at_mut(source, &["serviceAccountToken"]) {
            set_default_nonzero(token, "expirationSeconds", TOKEN_SECONDS);
        }
        each_mut(source, &["downwardAPI", "items"]).for_each(default_field_reference);
    }
    if let Some(image) = at_mut(volume, &["image"]) {
        let policy = pull_policy(text(image, &["reference"]));
        set_default(image, "pullPolicy", policy);
    }
    if let Some(claim) = at_mut(volume, &["ephemeral", "volumeClaimTemplate", "spec"]) {
        set_default(claim, "volumeMode", "Filesystem");
    }
    default_networked_volume(volume);
}

/// The sources of one vendor or another, also of persistent volumes.
pub fn default_networked_volume(volume: &mut Value) {
    if let Some(source) = at_mut(volume, &["iscsi"]) {
        set_default(source, "iscsiInterface", "default");
    }
    if let Some(source) = at_mut(volume, &["rbd"]) {
        set_default(source, "pool", "rbd");
        set_default(source, "user", "admin");
        set_default(source, "keyring", "/etc/ceph/keyring");
    }
    if let Some(source) = at_mut(volume, &["azureDisk"]) {
        set_default(source, "cachingMode", "ReadWrite");
        set_default(source, "kind", "Shared");
        set_default(source, "fsType", "ext4");
        set_default(source, "readOnly", false);
    }
    if let Some(source) = at_mut(volume, &["scaleIO"]) {
        set_default(source, "storageMode", "ThinProvisioned");
        set_default(source, "fsType", "xfs");
    }
}
