//! Where trainers report how far they are. A report comes with a token that is for one job's
//! status and nothing else; whoever listens brings the request here.
//!
//! Upstream: kubeflow/trainer, pkg/statusserver

use reconcile::requests::Requests;
use reconcile::{Context, Error, Name};
use serde_json::{Value, json};

use crate::kinds::TRAIN_JOB;
use crate::plugins::progress::audience;
use crate::value::{list, text};

/// The largest report.
pub const BODY_BYTES_MAX: usize = 65_536;
/// Who owns what is reported.
const MANAGER: &str = "trainer-status";
const ACCOUNT: &str = "system:serviceaccount:";

/// The job that a path is about.
pub fn job_of(path: &str) -> Option<Name> {
    let rest = path.strip_prefix(&format!("/apis/{}/namespaces/", api::training::api_version()))?;
    match rest.split('/').collect::<Vec<_>>()[..] {
        [namespace, "trainjobs", name, "status"] if !namespace.is_empty() && !name.is_empty() => {
            Some(Name::new(namespace, name))
        }
        _ => None,
    }
}

/// Takes a report; the answer is a status code and JSON.
pub async fn take(
    context: &Context,
    job: &Name,
    authorization: Option<&str>,
    body: &[u8],
) -> (u16, Value) {
    if body.len() > BODY_BYTES_MAX {
        return failure(413, "RequestEntityTooLarge", "Payload too large");
    }
    let requests = context.requests(MANAGER, Default::default());
    match may_report(&requests, job, authorization).await {
        Ok(true) => {}
        Ok(false) => return failure(403, "Forbidden", "Forbidden"),
        Err(_) => return failure(500, "InternalError", "Internal error"),
    }
    let Some(report) = read(body) else { return failure(422, "Invalid", "Invalid payload") };
    if report["trainerStatus"].is_null() {
        return (200, report);
    }
    // Applying makes what is not there, where it can.
    let is_there = match requests.get(TRAIN_JOB, job).await {
        Ok(found) => found.is_some(),
        Err(_) => return failure(500, "InternalError", "Internal error"),
    };
    if !is_there {
        return failure(404, "NotFound", "Train job not found");
    }
    match write(&requests, job, &report["trainerStatus"]).await {
        Ok(()) => (200, report),
        Err(error) => match error.code() {
            Some(404) => failure(404, "NotFound", "Train job not found"),
            Some(400 | 422) => failure(422, "Invalid", &error.said()),
            _ => failure(500, "InternalError", "Internal error"),
        },
    }
}

/// Whether a token is for this job, and of its namespace.
async fn may_report(
    requests: &Requests,
    job: &Name,
    authorization: Option<&str>,
) -> Result<bool, Error> {
    let words: Vec<&str> = authorization.unwrap_or_default().split_whitespace().collect();
    let [scheme, token] = words[..] else { return Ok(false) };
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Ok(false);
    }
    let audience = audience(&job.namespace, &job.name);
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": token, "audiences": [audience]}});
    let review = requests.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await?;
    let status = &review["status"];
    let is_for_it = list(&status["audiences"]).iter().any(|one| *one == audience.as_str());
    let account = text(&status["user"]["username"]).strip_prefix(ACCOUNT);
    let namespace = account.and_then(|account| account.split(':').next());
    Ok(status["authenticated"] == true && is_for_it && namespace == Some(&*job.namespace))
}

/// A report, if it is of the form of one.
fn read(body: &[u8]) -> Option<Value> {
    let report: Value = serde_json::from_slice(body).ok()?;
    let known = report.as_object()?.get("trainerStatus").unwrap_or(&Value::Null);
    (known.is_null() || known.is_object()).then_some(report)
}

/// What is reported replaces what was; what is left out goes.
async fn write(requests: &Requests, job: &Name, reported: &Value) -> Result<(), Error> {
    let object = json!({
        "metadata": {"namespace": &*job.namespace, "name": &*job.name},
        "status": {"trainerStatus": reported},
    });
    requests.apply_part(TRAIN_JOB, &object, "status").await.map(|_| ())
}

fn failure(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let status = json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "reason": reason, "message": message, "code": code});
    (code, status)
}
