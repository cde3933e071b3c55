//! What is asked before objects of our kinds are written: what they lack is added, and what cannot
//! work is refused.
//!
//! One question is one AdmissionReview, whoever brings it: the server of this process, or any
//! other over HTTPS.

mod job_set;
mod job_set_update;
mod runtime;
#[cfg(test)]
mod tests;
mod train_job;
pub mod webhooks;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::jiff::Timestamp;
use reconcile::Context;
use reconcile::requests::Requests;
use serde_json::{Value, json};

use crate::field_error::{FieldError, together};

/// What is asked.
pub struct Question<'a> {
    pub request: &'a Value,
    /// The object as it is to be.
    pub new: &'a Value,
    /// As it was; null for one that is made.
    pub old: &'a Value,
}

/// What is answered.
#[derive(Debug, Default)]
pub struct Answer {
    pub refusal: Option<Refusal>,
    pub warnings: Vec<String>,
    /// The `spec` as it is to be written instead.
    pub spec: Option<Value>,
}

#[derive(Debug)]
pub struct Refusal {
    pub code: u16,
    pub message: String,
}

impl Answer {
    fn refuse(code: u16, message: impl Into<String>) -> Answer {
        let refusal = Some(Refusal { code, message: message.into() });
        Answer { refusal, ..Answer::default() }
    }

    /// Refuses for what is wrong, if anything is.
    fn judge(code: u16, errors: &[FieldError]) -> Answer {
        match errors {
            [] => Answer::default(),
            errors => Answer::refuse(code, together(errors)),
        }
    }
}

/// Answers an AdmissionReview; `None` if nobody knows the path.
pub async fn review(context: &Context, path: &str, review: &Value) -> Option<Value> {
    let request = &review["request"];
    let question = Question { request, new: &request["object"], old: &request["oldObject"] };
    let now = context.environment.now();
    let requests = context.requests("trainer-webhook", Default::default());
    let answer = answer(&requests, path, &question, now).await?;
    Some(written(review, &answer))
}

async fn answer(
    requests: &Requests,
    path: &str,
    question: &Question<'_>,
    now: Timestamp,
) -> Option<Answer> {
    Some(match path {
        webhooks::DEFAULT_TRAIN_JOB => train_job::default(question, now),
        webhooks::VALIDATE_TRAIN_JOB => train_job::validate(requests, question).await,
        webhooks::VALIDATE_RUNTIME => runtime::validate(question, runtime::Scope::Namespace),
        webhooks::VALIDATE_CLUSTER_RUNTIME => runtime::validate(question, runtime::Scope::Cluster),
        webhooks::DEFAULT_JOB_SET => job_set::default(question),
        webhooks::VALIDATE_JOB_SET => job_set::validate(question),
        _ => return None,
    })
}

fn written(review: &Value, answer: &Answer) -> Value {
    let mut response =
        json!({"uid": review["request"]["uid"], "allowed": answer.refusal.is_none()});
    if let Some(refusal) = &answer.refusal {
        let reason = if refusal.code == 422 { "Invalid" } else { "Forbidden" };
        response["status"] = json!({"status": "Failure", "code": refusal.code, "reason": reason,
            "message": refusal.message});
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
