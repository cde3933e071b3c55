//! What a request says of itself.

use k8s_openapi::jiff::Timestamp;
use reconcile::Object;
use reconcile::conditions::{self, Condition, Truth};
use serde_json::{Value, json};

use crate::value::{list, object_mut, text};

pub const VALIDATION: &str = "Validation";
pub const PROFILING: &str = "Profiling";
pub const SPEC_GENERATED: &str = "SpecGenerated";
pub const DEPLOYMENT_READY: &str = "DeploymentReady";
const SUCCEEDED: &str = "Succeeded";

/// What went wrong, by the condition that says so, in the order in which things happen.
const FAILURES: [(&str, &str); 4] = [
    (VALIDATION, "Validation failed: "),
    (PROFILING, "Profiling failed: "),
    (SPEC_GENERATED, "Spec generation failed: "),
    (DEPLOYMENT_READY, "Deployment failed: "),
];

/// A status while it is changed.
pub struct Status {
    value: Value,
    generation: i64,
    now: Timestamp,
}

impl Status {
    pub fn of(request: &Object, now: Timestamp) -> Status {
        let mut value = request.value["status"].clone();
        object_mut(&mut value);
        Status { value, generation: request.generation(), now }
    }

    pub fn phase(&mut self, phase: &str) {
        self.value["phase"] = json!(phase);
    }

    pub fn set(&mut self, field: &str, value: Value) {
        object_mut(&mut self.value).insert(field.to_owned(), value);
    }

    pub fn clear(&mut self, field: &str) {
        object_mut(&mut self.value).remove(field);
    }

    pub fn condition(&mut self, kind: &str, status: Truth, reason: &str, message: &str) {
        let mut all = list(&self.value["conditions"]).to_vec();
        let observed_generation = Some(self.generation);
        let condition = Condition { kind, status, reason, message, observed_generation };
        conditions::set(&mut all, &condition, self.now);
        self.value["conditions"] = json!(all);
    }

    /// Ends a request that cannot go on.
    pub fn fail(&mut self, kind: &str, reason: &str, message: &str) {
        self.phase("Failed");
        self.condition(kind, Truth::False, reason, message);
    }

    /// The whole status, with what follows from the rest of it.
    pub fn value(mut self) -> Value {
        let (truth, reason, message) = self.end();
        self.condition(SUCCEEDED, truth, &reason, &message);
        self.value["observedGeneration"] = json!(self.generation);
        self.value
    }

    fn end(&self) -> (Truth, String, String) {
        let (truth, reason, message) = match text(&self.value["phase"]) {
            "Profiling" => (Truth::False, "Profiling", "Profiling is in progress"),
            "Ready" => (Truth::True, "SpecGenerated", "Profiling complete, spec available"),
            "Deploying" => (Truth::False, "Deploying", "Deployment is in progress"),
            "Deployed" => (Truth::True, "Deployed", "Deployment is healthy"),
            "Failed" => return self.failure(),
            _ => (Truth::False, "Pending", "DGDR is pending"),
        };
        (truth, reason.to_owned(), message.to_owned())
    }

    fn failure(&self) -> (Truth, String, String) {
        let found = FAILURES.into_iter().find_map(|(kind, prefix)| {
            let one = conditions::find(&self.value, kind)?;
            let is_false = one["status"] == "False";
            is_false.then(|| {
                (text(&one["reason"]).to_owned(), format!("{prefix}{}", text(&one["message"])))
            })
        });
        let (reason, message) =
            found.unwrap_or_else(|| ("Failed".to_owned(), "DGDR failed".to_owned()));
        (Truth::False, reason, message)
    }
}
