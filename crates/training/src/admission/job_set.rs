//! JobSets: what they lack, and what cannot work.
//!
//! Upstream: kubernetes-sigs/jobset, pkg/webhooks/jobset_webhook.go

use reconcile::requests::Requests;
use regex::Regex;
use serde_json::{Value, json};

use super::job_set_claims;
use super::job_set_update;
use super::{Answer, Question};
use crate::field_error::{FieldError, Problem};
use crate::value::{list, object_mut, text};

const NAME_LENGTH_MAX: usize = 63;
const RULE_NAME_LENGTH_MAX: usize = 128;
const REASONS: [&str; 5] = [
    "BackoffLimitExceeded",
    "DeadlineExceeded",
    "FailedIndexes",
    "MaxFailedIndexesExceeded",
    "PodFailurePolicy",
];

pub fn default(question: &Question<'_>) -> Answer {
    let mut spec = question.new["spec"].clone();
    let missing = |value: &Value| value.is_null();
    if missing(&spec["successPolicy"]) {
        spec["successPolicy"] = json!({"operator": "All"});
    }
    if missing(&spec["startupPolicy"]) {
        spec["startupPolicy"] = json!({"startupPolicyOrder": "AnyOrder"});
    }
    let jobs = spec.pointer_mut("/replicatedJobs").and_then(Value::as_array_mut);
    for job in jobs.into_iter().flatten() {
        let job = &mut job["template"]["spec"];
        if missing(&job["completionMode"]) {
            job["completionMode"] = json!("Indexed");
        }
        let pod = &mut job["template"]["spec"];
        if missing(&pod["restartPolicy"]) {
            pod["restartPolicy"] = json!("OnFailure");
        }
    }
    let network = object_mut(&mut spec["network"]);
    for field in ["enableDNSHostnames", "publishNotReadyAddresses"] {
        network.entry(field).or_insert(json!(true));
    }
    if let Some(rules) = spec.pointer_mut("/failurePolicy/rules").and_then(Value::as_array_mut) {
        for (number, rule) in rules.iter_mut().enumerate() {
            if text(&rule["name"]).is_empty() {
                rule["name"] = json!(format!("failurePolicyRule{number}"));
            }
        }
    }
    let claims = spec.pointer_mut("/volumeClaimPolicies").and_then(Value::as_array_mut);
    for policy in claims.into_iter().flatten() {
        if missing(&policy["retentionPolicy"]) {
            policy["retentionPolicy"] = json!({"whenDeleted": "Delete"});
        }
    }
    let is_changed = spec != question.new["spec"];
    match is_changed {
        true => Answer::with_spec(spec, question.new),
        false => Answer::default(),
    }
}

pub async fn validate(requests: &Requests, question: &Question<'_>) -> Answer {
    let mut answer = judge(question);
    if question.old.is_null() && answer.refusal.is_none() {
        let found = job_set_claims::found(requests, question.new).await;
        answer = Answer::judge_by(422, &job_set_claims::judge(question.new, &found));
    }
    answer
}

pub fn judge(question: &Question<'_>) -> Answer {
    let mut errors = Vec::new();
    let (name, spec) = (text(&question.new["metadata"]["name"]), &question.new["spec"]);
    if question.old.is_null() {
        jobs(&mut errors, name, spec);
        policies(&mut errors, spec);
        others(&mut errors, name, spec);
    } else {
        job_set_update::validate(&mut errors, &question.old["spec"], spec);
    }
    Answer::judge_by(422, &errors)
}

fn jobs(errors: &mut Vec<FieldError>, name: &str, spec: &Value) {
    let mut before: Vec<&str> = Vec::new();
    for (number, job) in list(&spec["replicatedJobs"]).iter().enumerate() {
        let field = format!("spec.replicatedJobs[{number}]");
        for on in list(&job["dependsOn"]).iter().map(|on| text(&on["name"])) {
            let field = format!("{field}.dependsOn");
            if number == 0 {
                let detail = "DependsOn can't be set for the first ReplicatedJob";
                errors.push(FieldError::invalid(field, on, detail));
            } else if !before.contains(&on) {
                let detail = "depends on a replicatedJob that does not come before it";
                errors.push(FieldError::invalid(field, on, detail));
            }
        }
        before.push(text(&job["name"]));
        let replicas = job["replicas"].as_i64().unwrap_or(1);
        let parallelism = job["template"]["spec"]["parallelism"].as_i64().unwrap_or(1);
        if replicas.saturating_mul(parallelism) > i64::from(i32::MAX) {
            let detail = "the product of replicas and parallelism must not exceed 2147483647";
            errors.push(FieldError::invalid(&field, replicas, detail));
        }
        if let Some(group) = job["groupName"].as_str().filter(|group| !is_label_1035(group)) {
            let detail = "must be a DNS-1035 label";
            errors.push(FieldError::invalid(format!("{field}.groupName"), group, detail));
        }
        names(errors, (name, text(&job["name"])), job);
    }
}

/// Names of Jobs and pods are made of names of users, and have a greatest length.
fn names(errors: &mut Vec<FieldError>, (set, job_name): (&str, &str), job: &Value) {
    let replicas = job["replicas"].as_i64().unwrap_or(1);
    let longest = format!("{set}-{job_name}-{}", replicas.max(1) - 1);
    let mut check = |name: &str, what: &str| {
        if name.len() > NAME_LENGTH_MAX {
            let detail = format!(
                "JobSet name is too long, {what} names generated for this JobSet will exceed 63 \
                 characters"
            );
            errors.push(FieldError::invalid("metadata.name", set, detail));
        } else if !is_label_1035(name) {
            errors.push(FieldError::invalid("metadata.name", set, "must be a DNS-1035 label"));
        } else {
            return true;
        }
        false
    };
    let template = &job["template"]["spec"];
    let is_indexed = template["completionMode"].as_str().unwrap_or("Indexed") == "Indexed";
    if check(&longest, "job")
        && is_indexed
        && let Some(completions) = template["completions"].as_i64()
    {
        check(&format!("{longest}-{}-abcde", completions.max(1) - 1), "pod");
    }
}

fn policies(errors: &mut Vec<FieldError>, spec: &Value) {
    let jobs = list(&spec["replicatedJobs"]);
    let unknown = |errors: &mut Vec<FieldError>, targets: &Value, field: &str| {
        for target in list(targets) {
            if !jobs.iter().any(|job| job["name"] == *target) {
                let detail = "is not the name of a replicatedJob";
                errors.push(FieldError::invalid(field, target.clone(), detail));
            }
        }
    };
    let success = "spec.successPolicy.targetReplicatedJobs";
    unknown(errors, &spec["successPolicy"]["targetReplicatedJobs"], success);
    let policy = &spec["failurePolicy"];
    if policy["restartStrategy"] == "InPlaceRestart" {
        let detail = "InPlaceRestart needs the feature gate InPlaceRestart, which is off";
        let field = "spec.failurePolicy.restartStrategy";
        errors.push(FieldError::invalid(field, "InPlaceRestart", detail));
    }
    let form = Regex::new("^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$");
    let form = form.expect("the pattern must be one");
    let mut seen: Vec<&str> = Vec::new();
    for (number, rule) in list(&policy["rules"]).iter().enumerate() {
        let field = format!("spec.failurePolicy.rules[{number}]");
        let name = text(&rule["name"]);
        if name.is_empty() || name.len() > RULE_NAME_LENGTH_MAX || !form.is_match(name) {
            let detail = "must have 1 to 128 characters and match \
                          ^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
            errors.push(FieldError::invalid(format!("{field}.name"), name, detail));
        } else if seen.contains(&name) {
            let problem = Problem::Duplicate(json!(name));
            let field = format!("{field}.name");
            errors.push(FieldError { field, problem, detail: String::new() });
        }
        seen.push(name);
        if matches!(text(&rule["action"]), "RestartJob" | "RestartJobAndIgnoreMaxRestarts") {
            let detail = "this action needs the feature gate RestartJob, which is off";
            let action = rule["action"].clone();
            errors.push(FieldError::invalid(format!("{field}.action"), action, detail));
        }
        for reason in list(&rule["onJobFailureReasons"]) {
            if !REASONS.contains(&text(reason)) {
                let detail = format!("must be one of {}", REASONS.join(", "));
                let field = format!("{field}.onJobFailureReasons");
                errors.push(FieldError::invalid(field, reason.clone(), detail));
            }
        }
        for pattern in list(&rule["onJobFailureMessagePatterns"]) {
            if let Err(error) = Regex::new(text(pattern)) {
                let field = format!("{field}.onJobFailureMessagePatterns");
                errors.push(FieldError::invalid(field, pattern.clone(), error.to_string()));
            }
        }
        unknown(errors, &rule["targetReplicatedJobs"], &format!("{field}.targetReplicatedJobs"));
    }
}

fn others(errors: &mut Vec<FieldError>, name: &str, spec: &Value) {
    if let Some(subdomain) = spec["network"]["subdomain"].as_str()
        && !subdomain.is_empty()
        && !is_label_1035(subdomain)
    {
        let detail = "must be a DNS-1123 subdomain and a DNS-1035 label";
        errors.push(FieldError::invalid("spec.network.subdomain", subdomain, detail));
    }
    if let Some(by) = spec["managedBy"].as_str()
        && (by.len() > NAME_LENGTH_MAX
            || !by.split_once('/').is_some_and(|(a, b)| {
                a.contains(|c: char| c.is_ascii_alphanumeric()) && !b.is_empty()
            }))
    {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\") of at most 63 \
                      characters";
        errors.push(FieldError::invalid("spec.managedBy", by, detail));
    }
    coordinator(errors, spec);
    claims(errors, name, spec);
}

fn coordinator(errors: &mut Vec<FieldError>, spec: &Value) {
    let coordinator = &spec["coordinator"];
    if !coordinator.is_object() {
        return;
    }
    let jobs = list(&spec["replicatedJobs"]);
    let job = jobs.iter().find(|job| job["name"] == coordinator["replicatedJob"]);
    let number = |field: &str| coordinator[field].as_i64().unwrap_or(0);
    let detail = match job {
        None => "replicatedJob does not exist",
        Some(job) if number("jobIndex") >= job["replicas"].as_i64().unwrap_or(1) => {
            "coordinator job index is out of range"
        }
        Some(job) => {
            let template = &job["template"]["spec"];
            match template["completions"].as_i64() {
                None => "coordinator job must be Indexed and have completions",
                Some(completions) if number("podIndex") >= completions => {
                    "coordinator pod index is out of range"
                }
                Some(_) => return,
            }
        }
    };
    errors.push(FieldError::invalid("spec.coordinator", coordinator.clone(), detail));
}

fn claims(errors: &mut Vec<FieldError>, set: &str, spec: &Value) {
    let mut seen: Vec<&str> = Vec::new();
    for (number, policy) in list(&spec["volumeClaimPolicies"]).iter().enumerate() {
        for template in list(&policy["templates"]) {
            let field = format!("spec.volumeClaimPolicies[{number}].templates");
            let name = text(&template["metadata"]["name"]);
            let mut bad = |detail: &str| {
                errors.push(FieldError::invalid(&field, name, detail));
            };
            if name.is_empty() || !is_label_1123(name) {
                bad("must have a name that is a DNS-1123 label");
            } else if seen.contains(&name) {
                bad("must have a name of its own");
            } else if format!("{name}-{set}").len() > NAME_LENGTH_MAX {
                bad("the name of the claim will exceed 63 characters");
            }
            seen.push(name);
            let pods: Vec<&Value> = list(&spec["replicatedJobs"])
                .iter()
                .map(|job| &job["template"]["spec"]["template"]["spec"])
                .collect();
            let mounts = |pod: &&Value| {
                let all = list(&pod["containers"]).iter().chain(list(&pod["initContainers"]));
                all.flat_map(|one| list(&one["volumeMounts"])).any(|one| one["name"] == name)
            };
            if !pods.iter().any(mounts) {
                bad("must be mounted by a container");
            }
            let has = |pod: &&Value| list(&pod["volumes"]).iter().any(|one| one["name"] == name);
            if pods.iter().any(has) {
                bad("is also the name of a volume of the pods");
            }
        }
    }
}

fn is_label_1123(name: &str) -> bool {
    let bytes = name.as_bytes();
    let is_inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    let ends = |byte: Option<&u8>| byte.is_some_and(|byte| *byte != b'-');
    bytes.len() <= NAME_LENGTH_MAX
        && bytes.iter().all(is_inner)
        && ends(bytes.first())
        && ends(bytes.last())
}

fn is_label_1035(name: &str) -> bool {
    is_label_1123(name) && name.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
}
