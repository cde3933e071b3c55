//! The rules of a new job.
//!
//! Upstream: pkg/apis/batch/validation/validation.go (ValidateJobSpec)

use serde_json::json;

use super::super::{pod_spec, workload};
use super::{CONTROLLER_UID, policies};
use crate::registry::checks::{self, Errors};
use crate::registry::field::Field;
use crate::registry::label_selector;

const PARALLELISM_INDEXED_MAX: i64 = 100_000;
const COMPLETIONS_PER_INDEX_MAX: i64 = 100_000;
const NAME_INDEXED_BYTES_MAX: usize = 63;

pub fn validate(root: &Field<'_>, errors: &mut Errors) {
    let metadata = root.at("metadata");
    let spec = root.at("spec");
    if spec.text("completionMode") == "Indexed" {
        let last = spec.int("completions").unwrap_or(1).max(1) - 1;
        let longest = format!("{}-{last}", metadata.text("name"));
        if longest.len() > NAME_INDEXED_BYTES_MAX {
            let detail = format!(
                "will not able to create pod with invalid DNS label: must be no more than \
                 {NAME_INDEXED_BYTES_MAX} characters"
            );
            errors.push(metadata.at("name").invalid(detail));
        }
    }
    validate_generated_selector(root, errors);
    validate_spec(&spec, errors);
    let selector = spec.raw("selector");
    let template = spec.at("template");
    let labels = template.at("metadata");
    if !label_selector::is_empty(selector)
        && !label_selector::matches(selector, labels.raw("labels"))
    {
        errors.push(labels.at("labels").invalid(workload::MISMATCH));
    }
}

/// Who does not take over selecting may not select.
fn validate_generated_selector(root: &Field<'_>, errors: &mut Errors) {
    let spec = root.at("spec");
    if spec.flag("manualSelector") {
        return;
    }
    let uid = root.at("metadata").text("uid");
    let selector = spec.at("selector");
    let expected = json!({"matchLabels": {CONTROLLER_UID: uid}});
    if !selector.is_set() {
        errors.push(selector.required(""));
    } else if *selector.value != expected {
        errors.push(selector.invalid("`selector` not auto-generated"));
    }
}

/// A `JobSpec`, also of a cron job's template.
pub fn validate_spec(spec: &Field<'_>, errors: &mut Errors) {
    let numbers = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    for name in numbers {
        checks::non_negative(&spec.at(name), errors);
    }
    if spec.has("selector") {
        label_selector::validate(&spec.at("selector"), errors);
    }
    validate_mode(spec, errors);
    policies::validate(spec, errors);
    validate_managed_by(spec, errors);
    let template = spec.at("template");
    pod_spec::validate_template(&template, errors);
    let pod = template.at("spec");
    let restart = pod.at("restartPolicy");
    match restart.as_text() {
        "Never" => {}
        "OnFailure" if !spec.has("podFailurePolicy") => {}
        "OnFailure" => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.push(restart.invalid(detail));
        }
        _ => errors.push(restart.required("valid values: \"OnFailure\", \"Never\"")),
    }
}

fn validate_mode(spec: &Field<'_>, errors: &mut Errors) {
    let mode = spec.at("completionMode");
    checks::absent_or_one_of(&mode, &["Indexed", "NonIndexed"], errors);
    let indexed = mode.as_text() == "Indexed";
    if indexed && !spec.has("completions") {
        let detail = "when completion mode is Indexed";
        errors.push(spec.at("completions").required(detail));
    }
    let parallelism = spec.at("parallelism");
    if indexed && parallelism.as_int().is_some_and(|it| it > PARALLELISM_INDEXED_MAX) {
        errors.push(parallelism.invalid(format!(
            "must be less than or equal to {PARALLELISM_INDEXED_MAX} when completion mode is \
             Indexed"
        )));
    }
    let per_index = spec.at("backoffLimitPerIndex");
    if !indexed && per_index.is_set() {
        errors.push(per_index.invalid("requires indexed completion mode"));
    }
    let failed = spec.at("maxFailedIndexes");
    if failed.is_set() && !per_index.is_set() {
        errors.push(per_index.required("when maxFailedIndexes is specified"));
    }
    if let (Some(failed_max), Some(completions)) = (failed.as_int(), spec.int("completions")) {
        if failed_max > completions {
            errors.push(failed.invalid("must be less than or equal to completions"));
        }
        if completions > COMPLETIONS_PER_INDEX_MAX && failed_max > 10_000 {
            errors.push(failed.invalid(
                "must be less than or equal to 10000 when completions are above 100000 and used \
                 with backoff limit per index",
            ));
        }
    }
}

fn validate_managed_by(spec: &Field<'_>, errors: &mut Errors) {
    let manager = spec.at("managedBy");
    if !manager.is_set() {
        return;
    }
    let text = manager.as_text();
    let parts = text.split_once('/');
    let host = parts.map(|(host, _)| host).unwrap_or("");
    if host.is_empty() || parts.is_some_and(|(_, path)| path.is_empty()) {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errors.push(manager.invalid(detail));
    } else {
        let faults = crate::registry::names::subdomain(host);
        errors.extend(faults.into_iter().map(|it| manager.invalid_value(host, it)));
    }
    if text.len() > 63 {
        errors.push(manager.too_long(63));
    }
}
