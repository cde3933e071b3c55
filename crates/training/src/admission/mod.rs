//! What is asked before objects of our kinds are written: what they lack is added, and what cannot
//! work is refused.
//!
//! One question is one AdmissionReview, whoever brings it: the server of this process, or any
//! other over HTTPS.

mod job_set;
mod job_set_claims;
mod job_set_update;
mod runtime;
#[cfg(test)]
mod tests;
mod train_job;
pub mod webhooks;

use api::review::{Answer, Question};
use k8s_openapi::jiff::Timestamp;
use reconcile::Context;
use reconcile::requests::Requests;
use serde_json::Value;

/// Answers an AdmissionReview; `None` if nobody knows the path.
pub async fn review(context: &Context, path: &str, review: &Value) -> Option<Value> {
    let question = Question::of(review);
    let now = context.environment.now();
    let requests = context.requests("trainer-webhook", Default::default());
    let answer = answer(&requests, path, &question, now).await?;
    Some(answer.written(review))
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
        webhooks::VALIDATE_JOB_SET => job_set::validate(requests, question).await,
        _ => return None,
    })
}
