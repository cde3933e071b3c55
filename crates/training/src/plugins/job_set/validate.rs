//! What a job may not ask of its runtime.

use reconcile::Object;
use serde_json::Value;

use crate::blueprint::{Blueprint, DATASET_INITIALIZER, MODEL_INITIALIZER, NODE};
use crate::field_error::FieldError;
use crate::plugin::Review;
use crate::train_job::TrainJob;
use crate::value::{find, list, text};

const PATCHES: &str = "spec.runtimePatches";
/// The longest prefix of a path, and the longest path.
const PREFIX_LENGTH_MAX: usize = 253;

pub fn validate(review: &Review<'_>) -> Vec<FieldError> {
    let mut errors = initializers(review.job, review.blueprint);
    errors.extend(changes(review));
    for patch in review.job.patches() {
        errors.extend(manager(text(&patch["manager"])));
        let jobs = &patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"];
        for job in list(jobs) {
            errors.extend(patched_job(review.runtime, job));
        }
    }
    errors
}

fn initializers(job: &TrainJob<'_>, blueprint: &Blueprint) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (name, source, config) in [
        (DATASET_INITIALIZER, "dataset", "datasetConfig"),
        (MODEL_INITIALIZER, "model", "modelConfig"),
    ] {
        if !job.spec()["initializer"][source].is_object() {
            continue;
        }
        let detail = match blueprint.find(name) {
            None => format!("must have {name} job when trainJob is configured with input {config}"),
            Some(set) => {
                let pod = &blueprint.template(set)["spec"];
                let places = [&pod["containers"], &pod["initContainers"]];
                let container = places.into_iter().find_map(|all| find(all, "name", name));
                match container {
                    None => format!("must have container with name - {name} in the {name} job"),
                    Some(one) if find(&one["volumeMounts"], "name", "initializer").is_none() => {
                        format!(
                            "must have volumeMount with name - initializer in container {name} of \
                             the {name} job"
                        )
                    }
                    Some(_) => continue,
                }
            }
        };
        let value = job.runtime_ref().clone();
        errors.push(FieldError::invalid("spec.runtimeRef", value, detail));
    }
    errors
}

/// Patches change only while nothing runs.
fn changes(review: &Review<'_>) -> Vec<FieldError> {
    let Some(old) = review.old else { return Vec::new() };
    if old.patches() == review.job.patches() {
        return Vec::new();
    }
    if !old.is_suspended() && !review.job.is_suspended() {
        let detail = "RuntimePatches can only be modified when the TrainJob is suspended before \
                      or after the update";
        return vec![FieldError::forbidden(PATCHES, detail)];
    }
    let mut errors = affinity(review, old);
    let status = review.job_set.map(|set| &set.value["status"]["replicatedJobsStatus"]);
    let jobs = status.into_iter().flat_map(list);
    let active = jobs.filter(|job| job["active"].as_i64().unwrap_or(0) > 0);
    let detail = |job: &Value| {
        let name = text(&job["name"]);
        format!(
            "RuntimePatches cannot be modified when the JobSet's ReplicatedJob {name} is still \
             active"
        )
    };
    errors.extend(active.map(|job| FieldError::forbidden(PATCHES, detail(job))));
    errors
}

/// A JobSet that is there takes no other affinity, so the job must not either: nobody would see
/// that it was not heeded.
fn affinity(review: &Review<'_>, old: &TrainJob<'_>) -> Vec<FieldError> {
    let is_own = |set: &&Object| set.controller() == Some(review.job.uid());
    if review.job_set.filter(is_own).is_none() {
        return Vec::new();
    }
    let [before, after] = [old, review.job].map(|job| Blueprint::begin(job, review.runtime));
    let of =
        |blueprint: &Blueprint, set: usize| blueprint.template(set)["spec"]["affinity"].clone();
    let sets = before.pod_sets.iter().enumerate();
    let changed = sets.filter(|(set, _)| of(&before, *set) != of(&after, *set));
    let detail = |name: &str| {
        format!(
            "the affinity of the ReplicatedJob {name} cannot be modified once its JobSet exists; \
             nodeSelector, tolerations and schedulingGates can"
        )
    };
    changed.map(|(_, set)| FieldError::forbidden(PATCHES, detail(&set.name))).collect()
}

fn patched_job(runtime: &Value, patch: &Value) -> Vec<FieldError> {
    let name = text(&patch["name"]);
    let Some(job) = find(&runtime["template"]["spec"]["replicatedJobs"], "name", name) else {
        let detail = "must not have replicated job that doesn't exist in the runtime job template";
        return vec![FieldError::invalid(PATCHES, patch.clone(), detail)];
    };
    let pod = &job["template"]["spec"]["template"]["spec"];
    let is_there = |name: &str| {
        let places = [&pod["containers"], &pod["initContainers"]];
        places.into_iter().any(|place| find(place, "name", name).is_some())
    };
    let patched = &patch["template"]["spec"]["template"]["spec"];
    let mut errors = Vec::new();
    for (place, word) in [("initContainers", "initContainer"), ("containers", "container")] {
        for container in list(&patched[place]) {
            let container_name = text(&container["name"]);
            if !is_there(container_name) {
                let detail =
                    format!("must not have {word} that doesn't exist in the runtime job {name}");
                errors.push(FieldError::invalid(PATCHES, patch.clone(), detail));
            }
            let ours = [DATASET_INITIALIZER, MODEL_INITIALIZER, NODE];
            let has_env = !list(&container["env"]).is_empty();
            if place == "containers" && ours.contains(&container_name) && has_env {
                let detail = "must not have envs for the dataset-initializer, model-initializer, \
                              node containers";
                errors.push(FieldError::invalid(PATCHES, patch.clone(), detail));
            }
        }
    }
    errors
}

/// A path with a domain before it: `acme.io/foo`.
fn manager(name: &str) -> Option<FieldError> {
    let field = "spec.runtimePatches.manager";
    let detail = match name.split_once('/') {
        None => "must be a domain-prefixed path (such as \"acme.io/foo\")",
        Some((domain, path)) => {
            let is_label = |label: &str| {
                let bytes = label.as_bytes();
                let is_inner =
                    |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
                let ends = |byte: Option<&u8>| byte.is_some_and(|byte| *byte != b'-');
                bytes.iter().all(is_inner) && ends(bytes.first()) && ends(bytes.last())
            };
            let is_domain = domain.len() <= PREFIX_LENGTH_MAX && domain.split('.').all(is_label);
            let is_path = !path.is_empty()
                && path.bytes().all(|byte| {
                    byte.is_ascii_alphanumeric() || b"/_.~!$&'()*+,;=:@%-".contains(&byte)
                });
            match (is_domain, is_path) {
                (true, true) => return None,
                (false, _) => {
                    "must be a domain-prefixed path: the domain is not a DNS-1123 \
                               subdomain"
                }
                (true, false) => "Invalid path",
            }
        }
    };
    Some(FieldError::invalid(field, name, detail))
}
