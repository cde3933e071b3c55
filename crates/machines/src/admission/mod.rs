//! What is asked before a Wukong is written: what it lacks is added, and what cannot work is
//! refused.
//!
//! One question is one AdmissionReview, whoever brings it: the server of this process, or any
//! other over HTTPS.

mod bases;
mod defaults;
mod host_networks;
#[cfg(test)]
mod tests;
pub mod webhooks;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reconcile::{Context, Object};
use serde_json::{Value, json};

use crate::kinds::STORAGE_CLASS;
use crate::value::{find, list, text};
use crate::wukong::{Classes, validate};

/// What is answered.
#[derive(Debug, Default)]
struct Answer {
    refusal: Option<String>,
    warnings: Vec<String>,
    /// The `spec` as it is to be written instead.
    spec: Option<Value>,
}

/// Answers an AdmissionReview; `None` if nobody knows the path.
pub async fn review(context: &Context, path: &str, review: &Value) -> Option<Value> {
    if path == webhooks::BASES {
        let refusal = bases::refusal(context, &review["request"]).await;
        return Some(written(review, &Answer { refusal, ..Answer::default() }));
    }
    if ![webhooks::DEFAULT, webhooks::VALIDATE].contains(&path) {
        return None;
    }
    let request = &review["request"];
    let (new, old) = (&request["object"], &request["oldObject"]);
    let default_class = match lacks_class(new) {
        true => default_class(context).await,
        false => None,
    };
    let mut answer = match path {
        webhooks::DEFAULT => default(new, default_class.as_deref()),
        _ => judge(new, old, default_class.as_deref()),
    };
    if path == webhooks::VALIDATE && answer.refusal.is_none() {
        answer.refusal = host_networks::refusal(context, request).await;
    }
    Some(written(review, &answer))
}

fn lacks_class(object: &Value) -> bool {
    list(&object["spec"]["disks"]).iter().any(|disk| text(&disk["storageClassName"]).is_empty())
}

/// The class of disks that name none. Who cannot be asked has none to offer.
async fn default_class(context: &Context) -> Option<String> {
    let requests = context.requests("wukong-webhook", Default::default());
    let mut all = match requests.read(&STORAGE_CLASS.collection("")).await {
        Ok(all) => all,
        Err(error) => {
            tracing::warn!(error = %error.chain(), "could not ask for storage classes");
            return None;
        }
    };
    let items = all["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
    let classes = items.into_iter().map(|item| Arc::new(Object::new(item))).collect();
    Classes::of(classes).default().map(str::to_owned)
}

fn default(new: &Value, default_class: Option<&str>) -> Answer {
    let mut spec = new["spec"].clone();
    if spec.is_object() {
        defaults::fill_in(&mut spec, default_class);
    }
    Answer { spec: (spec != new["spec"]).then_some(spec), ..Answer::default() }
}

fn judge(new: &Value, old: &Value, default_class: Option<&str>) -> Answer {
    let (spec, before) = (&new["spec"], &old["spec"]);
    // What is written of one that goes, or is not changed, is not the user's to mend.
    let is_going = !new["metadata"]["deletionTimestamp"].is_null();
    if is_going || (old.is_object() && spec == before) {
        return Answer::default();
    }
    let mut wrong = validate::spec(spec, default_class);
    let mut warnings = Vec::new();
    if old.is_object() {
        wrong.extend(validate::update(before, spec));
        warnings = unheard(before, spec);
    }
    let refusal = (!wrong.is_empty()).then(|| wrong.join("; "));
    Answer { refusal, warnings, ..Answer::default() }
}

/// Changes of disks that change nothing, since the disks are there.
fn unheard(old: &Value, new: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for disk in list(&old["disks"]) {
        let Some(now) = find(&new["disks"], "name", text(&disk["name"])) else { continue };
        for field in ["image", "storageClassName"] {
            let was = text(&disk[field]);
            if !was.is_empty() && was != text(&now[field]) {
                let name = text(&disk["name"]);
                warnings.push(format!("disk {name:?} was made before: its {field} stays"));
            }
        }
    }
    warnings
}

fn written(review: &Value, answer: &Answer) -> Value {
    let mut response =
        json!({"uid": review["request"]["uid"], "allowed": answer.refusal.is_none()});
    if let Some(message) = &answer.refusal {
        response["status"] = json!({"status": "Failure", "code": 403, "reason": "Forbidden",
            "message": message});
    }
    if !answer.warnings.is_empty() {
        response["warnings"] = json!(answer.warnings);
    }
    if let Some(spec) = &answer.spec {
        let patch = json!([{"op": "replace", "path": "/spec", "value": spec}]);
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(STANDARD.encode(patch.to_string()));
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}
