//! The rules of kinds as data: an edit of a sample, and what comes of it.
//!
//! A case is a line `path = json ; path - => expected`: the edits of the kind's sample in
//! `samples.json` (`-` removes), and what is expected. `path{key}` is an entry of a map whose key
//! has dots. Errors are separated by ` && `, in order; `...` at the end leaves the rest open.

use serde_json::{Value, json};

use crate::field_error::FieldError;
use crate::registry::metadata::Scope;
use crate::registry::strategy::{
    Context, Strategy, begin_create, begin_update, check_create, check_update,
};

mod metadata;
mod networking;
mod objects;
mod pod_updates;
mod pods;
mod properties;
mod storage;
mod workloads;

const SAMPLES: &str = include_str!("samples.json");
const CLUSTER_KINDS: [&str; 26] = [
    "/Namespace",
    "/Node",
    "/PersistentVolume",
    "admissionregistration.k8s.io/MutatingWebhookConfiguration",
    "admissionregistration.k8s.io/ValidatingAdmissionPolicy",
    "admissionregistration.k8s.io/ValidatingAdmissionPolicyBinding",
    "admissionregistration.k8s.io/ValidatingWebhookConfiguration",
    "apiextensions.k8s.io/CustomResourceDefinition",
    "apiregistration.k8s.io/APIService",
    "certificates.k8s.io/CertificateSigningRequest",
    "flowcontrol.apiserver.k8s.io/FlowSchema",
    "flowcontrol.apiserver.k8s.io/PriorityLevelConfiguration",
    "networking.k8s.io/IPAddress",
    "networking.k8s.io/IngressClass",
    "networking.k8s.io/ServiceCIDR",
    "node.k8s.io/RuntimeClass",
    "rbac.authorization.k8s.io/ClusterRole",
    "rbac.authorization.k8s.io/ClusterRoleBinding",
    "resource.k8s.io/DeviceClass",
    "resource.k8s.io/ResourceSlice",
    "scheduling.k8s.io/PriorityClass",
    "storage.k8s.io/CSIDriver",
    "storage.k8s.io/CSINode",
    "storage.k8s.io/StorageClass",
    "storage.k8s.io/VolumeAttachment",
    "storage.k8s.io/VolumeAttributesClass",
];
const CONTEXT: Context<'_> =
    Context { subresource: "", user: "alice", requester: None, now: "2026-01-01T00:00:00Z" };

fn samples() -> serde_json::Map<String, Value> {
    serde_json::from_str(SAMPLES).unwrap()
}

/// The sample of a kind, with a name and a place.
fn sample(kind: &str) -> Value {
    let mut sample = samples().get(kind).unwrap_or_else(|| panic!("no sample of {kind}")).clone();
    let mut metadata = json!({"name": "a", "uid": "u-1"});
    if scope(kind) == Scope::Namespaced {
        metadata["namespace"] = json!("ns");
    }
    for (name, value) in sample["metadata"].as_object().into_iter().flatten() {
        metadata[name] = value.clone();
    }
    sample["metadata"] = metadata;
    sample["kind"] = json!(kind.split_once('/').unwrap().1);
    sample
}

fn scope(kind: &str) -> Scope {
    if CLUSTER_KINDS.contains(&kind) { Scope::Cluster } else { Scope::Namespaced }
}

fn strategy(kind: &str) -> &'static dyn Strategy {
    let (group, kind) = kind.split_once('/').unwrap();
    super::strategy(group, kind)
}

fn cases(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| {
        let (edits, expected) = line.split_once("=>").unwrap_or_else(|| panic!("no => in {line}"));
        (edits.trim(), expected.trim())
    })
}

/// Applies `path = json ; path -`.
fn edit(object: &mut Value, edits: &str) {
    for edit in edits.split(" ;").map(str::trim).filter(|edit| !edit.is_empty()) {
        if let Some(path) = edit.strip_suffix(" -") {
            remove(object, path);
            continue;
        }
        let (path, value) = edit.split_once(" = ").unwrap_or_else(|| panic!("no = in {edit}"));
        let value = serde_json::from_str(value).unwrap_or_else(|it| panic!("{value}: {it}"));
        *place(object, path) = value;
    }
}

/// `a.b[0]{c.d}` in steps.
fn steps(path: &str) -> Vec<String> {
    let mut steps = Vec::new();
    let mut rest = path.trim();
    while !rest.is_empty() {
        rest = rest.strip_prefix('.').unwrap_or(rest);
        let (step, after) = match rest.as_bytes()[0] {
            b'{' => rest[1..].split_once('}').unwrap(),
            b'[' => {
                let end = rest.find(']').unwrap() + 1;
                rest.split_at(end)
            }
            _ => rest.split_at(rest.find(['.', '[', '{']).unwrap_or(rest.len())),
        };
        steps.push(step.to_owned());
        rest = after;
    }
    steps
}

fn index(step: &str) -> Option<usize> {
    step.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

fn place<'a>(object: &'a mut Value, path: &str) -> &'a mut Value {
    let mut at = object;
    for step in steps(path) {
        at = match index(&step) {
            Some(index) => {
                if at.is_null() {
                    *at = json!([]);
                }
                let list = at.as_array_mut().unwrap();
                while list.len() <= index {
                    list.push(Value::Null);
                }
                &mut list[index]
            }
            None => {
                if at.is_null() {
                    *at = json!({});
                }
                at.as_object_mut().unwrap().entry(step).or_insert(Value::Null)
            }
        };
    }
    at
}

fn remove(object: &mut Value, path: &str) {
    let steps = steps(path);
    let (last, parents) = steps.split_last().unwrap();
    let mut at = object;
    for step in parents {
        at = match index(step) {
            Some(index) => &mut at[index],
            None => &mut at[step.as_str()],
        };
    }
    at.as_object_mut().unwrap().remove(last);
}

fn get<'a>(object: &'a Value, path: &str) -> &'a Value {
    steps(path).iter().fold(object, |at, step| match index(step) {
        Some(index) => &at[index],
        None => &at[step.as_str()],
    })
}

/// A new object as the server would prepare it.
fn created(kind: &str, edits: &str) -> Value {
    let mut object = sample(kind);
    edit(&mut object, edits);
    strategy(kind).default(&mut object);
    begin_create(strategy(kind), &mut object, &CONTEXT);
    object
}

/// What differs from the expected errors, if anything.
fn mismatch(what: &str, errors: &[FieldError], expected: &str) -> Option<String> {
    let found: Vec<String> = errors.iter().map(ToString::to_string).collect();
    let found = if found.is_empty() { "ok".to_owned() } else { found.join(" && ") };
    let matches = match expected.strip_suffix("...") {
        Some(start) => found.starts_with(start),
        None => found == expected,
    };
    (!matches).then(|| format!("{what}\n   found {found}\nexpected {expected}\n"))
}

fn assert_none(mismatches: &[String]) {
    assert!(mismatches.is_empty(), "\n{}", mismatches.join("\n"));
}

/// Creates edited samples, and compares the errors.
fn check(kind: &str, text: &str) {
    let mut mismatches = Vec::new();
    for (edits, expected) in cases(text) {
        let object = created(kind, edits);
        let errors = check_create(strategy(kind), &object, scope(kind));
        mismatches.extend(mismatch(&format!("{kind} {edits}"), &errors, expected));
    }
    assert_none(&mismatches);
}

/// Updates the sample by the edits, and compares the errors.
fn check_changes(kind: &str, text: &str) {
    check_changes_of(kind, "", "", text);
}

/// The same for a subresource, with an old object that is edited first.
fn check_changes_of(kind: &str, subresource: &str, before: &str, text: &str) {
    let mut mismatches = Vec::new();
    for (edits, expected) in cases(text) {
        let mut old = created(kind, "");
        edit(&mut old, before);
        let mut object = old.clone();
        edit(&mut object, edits);
        strategy(kind).default(&mut object);
        let context = Context { subresource, ..CONTEXT };
        begin_update(strategy(kind), &mut object, &old, &context);
        let (errors, _) = check_update(strategy(kind), &object, &old, subresource);
        mismatches.extend(mismatch(&format!("{kind} {edits}"), &errors, expected));
    }
    assert_none(&mismatches);
}

/// Creates edited samples, and looks at some of their fields: `path = json ; ...`.
fn check_created(kind: &str, text: &str) {
    for (edits, expected) in cases(text) {
        let object = created(kind, edits);
        assert_fields(&format!("{kind} {edits}"), &object, expected);
    }
}

/// Updates the sample by the edits, and looks at some of its fields.
fn check_changed(kind: &str, subresource: &str, before: &str, text: &str) {
    for (edits, expected) in cases(text) {
        let mut old = created(kind, "");
        edit(&mut old, before);
        let mut object = old.clone();
        edit(&mut object, edits);
        strategy(kind).default(&mut object);
        let context = Context { subresource, ..CONTEXT };
        begin_update(strategy(kind), &mut object, &old, &context);
        assert_fields(&format!("{kind} {edits}"), &object, expected);
    }
}

fn assert_fields(what: &str, object: &Value, expected: &str) {
    for expected in expected.split(" ; ") {
        let (path, value) = expected.split_once(" = ").unwrap();
        let value: Value = serde_json::from_str(value).unwrap();
        assert_eq!(get(object, path), &value, "{what}: {path}");
    }
}
