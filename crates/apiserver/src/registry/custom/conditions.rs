//! What is said of a definition in its status.
//!
//! Upstream: apiextensions-apiserver/pkg/controller/{status,establish,apiapproval}

use schema::{Path, Schema, structural};
use serde_json::{Value, json};

use super::names::{self, Taken};
use crate::object;
use crate::registry::edit;

const APPROVAL: &str = "api-approved.kubernetes.io";

/// A condition but for its time.
struct Condition<'a> {
    kind: &'a str,
    status: &'a str,
    reason: &'a str,
    message: &'a str,
}

/// Whether the kind of a definition is served.
pub fn is_served(definition: &Value) -> bool {
    has(definition, "Established") || has(definition, "NamesAccepted")
}

fn has(definition: &Value, kind: &str) -> bool {
    find(definition, kind).is_some_and(|condition| condition["status"] == "True")
}

fn find<'a>(definition: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = definition["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

/// Brings the status of a definition up to date. Nothing changes when it is.
pub fn settle(definition: &mut Value, taken: &Taken, now: &str) {
    let before = definition["status"]["acceptedNames"].clone();
    let judgement = names::judge(&definition["spec"]["names"], &before, taken);
    definition["status"]["acceptedNames"] = judgement.accepted;
    let (status, reason, message) = match &judgement.conflict {
        None => ("True", "NoConflicts", "no conflicts found"),
        Some((reason, message)) => ("False", *reason, message.as_str()),
    };
    set(definition, Condition { kind: "NamesAccepted", status, reason, message }, now);
    if !has(definition, "Established") {
        let (status, reason, message) = match &judgement.conflict {
            None => ("True", "InitialNamesAccepted", "the initial names have been accepted"),
            Some(_) => ("False", "NotAccepted", "not all names are accepted"),
        };
        set(definition, Condition { kind: "Established", status, reason, message }, now);
    }
    settle_schema(definition, now);
    settle_approval(definition, now);
    if let Some(generation) = definition["metadata"]["generation"].as_i64() {
        definition["status"]["observedGeneration"] = json!(generation);
    }
    // The version that is stored from here on is among those that may be found in the store.
    let versions = definition["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let stored = versions.iter().find(|version| version["storage"] == true);
    let mut names = object::texts(&definition["status"]["storedVersions"]);
    if let Some(name) = stored.and_then(|version| version["name"].as_str())
        && !names.iter().any(|known| known == name)
    {
        names.push(name.to_owned());
        definition["status"]["storedVersions"] = json!(names);
    }
}

/// Only definitions from before schemas were checked can be at fault.
fn settle_schema(definition: &mut Value, now: &str) {
    let versions = definition["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let has_all = versions.iter().all(|version| version["schema"]["openAPIV3Schema"].is_object());
    if has_all {
        return remove(definition, "NonStructuralSchema");
    }
    let mut violations = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let at = format!("spec.versions[{index}].schema.openAPIV3Schema");
        match Schema::parse(&version["schema"]["openAPIV3Schema"], &Path::new(&at)) {
            Ok(schema) => violations.extend(structural::structural(&schema, &Path::new(&at))),
            Err(violation) => violations.push(*violation),
        }
    }
    let message = structural::condition_message(&violations);
    let (status, reason) = ("True", "Violations");
    set(
        definition,
        Condition { kind: "NonStructuralSchema", status, reason, message: &message },
        now,
    );
}

/// Groups of Kubernetes itself say who approved of them.
fn settle_approval(definition: &mut Value, now: &str) {
    let group = definition["spec"]["group"].as_str().unwrap_or_default();
    if !needs_approval(group) {
        return;
    }
    let approval = approval(definition);
    let (status, reason, message) = match &approval {
        Approval::Given(url) => ("True", "ApprovedAnnotation", format!("approved in {url}")),
        Approval::Bypassed(text) => {
            ("False", "UnapprovedAnnotation", format!("not approved: {text:?}"))
        }
        Approval::Missing(why) => ("False", "MissingAnnotation", why.clone()),
        Approval::Invalid(why) => ("False", "InvalidAnnotation", why.clone()),
    };
    let kind = "KubernetesAPIApprovalPolicyConformant";
    set(definition, Condition { kind, status, reason, message: &message }, now);
}

/// What the annotation of a protected group says.
pub enum Approval {
    Given(String),
    Bypassed(String),
    Missing(String),
    Invalid(String),
}

pub fn needs_approval(group: &str) -> bool {
    let is_below = |domain: &str| group == domain || group.ends_with(&format!(".{domain}"));
    is_below("k8s.io") || is_below("kubernetes.io")
}

pub fn approval(definition: &Value) -> Approval {
    let text = definition["metadata"]["annotations"][APPROVAL].as_str().unwrap_or_default();
    if text.is_empty() {
        let why = format!(
            "protected groups must have approval annotation {APPROVAL:?}, see \
             https://github.com/kubernetes/enhancements/pull/1111"
        );
        return Approval::Missing(why);
    }
    if text.starts_with("unapproved") {
        return Approval::Bypassed(text.to_owned());
    }
    let is_url =
        text.parse::<http::Uri>().is_ok_and(|uri| uri.host().is_some()) && text.contains("://");
    if is_url {
        return Approval::Given(text.to_owned());
    }
    let why = format!(
        "protected groups must have approval annotation {APPROVAL:?} with either a URL or a \
         reason starting with \"unapproved\", see \
         https://github.com/kubernetes/enhancements/pull/1111"
    );
    Approval::Invalid(why)
}

/// Marks a definition whose objects are to go.
pub fn set_terminating(definition: &mut Value, reason: &str, message: &str, now: &str) {
    let (kind, status) = ("Terminating", "True");
    set(definition, Condition { kind, status, reason, message }, now);
}

/// Says that no objects are left.
pub fn set_terminated(definition: &mut Value, now: &str) {
    let (kind, status) = ("Terminating", "False");
    let (reason, message) = ("InstanceDeletionCompleted", "removed all instances");
    set(definition, Condition { kind, status, reason, message }, now);
}

/// Sets a condition; its time moves only when its status does.
fn set(definition: &mut Value, condition: Condition<'_>, now: &str) {
    let Condition { kind, status, reason, message } = condition;
    let before = find(definition, kind);
    let since = before
        .filter(|before| before["status"] == status)
        .and_then(|before| before["lastTransitionTime"].as_str());
    let mut wanted = json!({
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since.unwrap_or(now),
    });
    if let Some(generation) = definition["metadata"]["generation"].as_i64() {
        wanted["observedGeneration"] = json!(generation);
    }
    let Some(Value::Object(status)) = edit::object(definition, "status") else { return };
    let list = status.entry("conditions").or_insert(Value::Null);
    if !list.is_array() {
        *list = json!([]);
    }
    let Some(list) = list.as_array_mut() else { return };
    match list.iter_mut().find(|one| one["type"] == kind) {
        Some(one) => *one = wanted,
        None => list.push(wanted),
    }
}

fn remove(definition: &mut Value, kind: &str) {
    if let Some(list) = definition["status"]["conditions"].as_array_mut() {
        list.retain(|condition| condition["type"] != kind);
    }
}
