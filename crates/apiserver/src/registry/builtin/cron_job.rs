//! CronJobs.
//!
//! Upstream: pkg/registry/batch/cronjob/strategy.go, pkg/apis/batch/validation/validation.go

use serde_json::Value;

use super::{cron_schedule, job, pod_spec, workload};
use crate::registry::checks::{self, Errors};
use crate::registry::edit::{object, set_default};
use crate::registry::field::Field;
use crate::registry::strategy::{Properties, Strategy};

/// Its jobs add eleven characters to the name.
const NAME_BYTES_MAX: usize = 52;

pub struct CronJob;

impl Strategy for CronJob {
    fn properties(&self) -> Properties {
        Properties::WITH_STATUS_AND_GENERATION
    }

    fn default(&self, cron: &mut Value) {
        let Some(spec) = object(cron, "spec") else { return };
        set_default(spec, "concurrencyPolicy", "Allow");
        set_default(spec, "suspend", false);
        set_default(spec, "successfulJobsHistoryLimit", 3);
        set_default(spec, "failedJobsHistoryLimit", 1);
        let template = object(spec, "jobTemplate").and_then(|it| object(it, "spec"));
        if let Some(template) = template.and_then(|it| object(it, "template")) {
            pod_spec::default_template(template);
        }
    }

    fn validate(&self, cron: &Value) -> Errors {
        let root = Field::root(cron);
        let mut errors = Errors::new();
        validate_spec(&root.at("spec"), &mut errors);
        let name = root.at("metadata").at("name").as_text().len();
        if name > NAME_BYTES_MAX {
            let detail = format!("must be no more than {NAME_BYTES_MAX} characters");
            errors.push(root.at("metadata").at("name").invalid(detail));
        }
        errors
    }

    fn validate_update(&self, cron: &Value, _old: &Value, subresource: &str) -> Errors {
        let mut errors = Errors::new();
        if subresource != "status" {
            validate_spec(&Field::root(cron).at("spec"), &mut errors);
        }
        errors
    }

    fn warnings(&self, cron: &Value, old: Option<&Value>) -> Vec<String> {
        let path = ["spec", "jobTemplate", "spec", "template", "spec"];
        workload::warnings(cron, old, &path)
    }
}

fn validate_spec(spec: &Field<'_>, errors: &mut Errors) {
    let schedule = spec.at("schedule");
    let text = schedule.as_text();
    if text.is_empty() {
        errors.push(schedule.required(""));
    } else if text.contains("TZ") {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.push(schedule.invalid(detail));
    } else if let Err(fault) = cron_schedule::check(text) {
        errors.push(schedule.invalid(fault));
    }
    checks::non_negative(&spec.at("startingDeadlineSeconds"), errors);
    let zone = spec.at("timeZone");
    if zone.is_set()
        && let Some(fault) = cron_schedule::time_zone_fault(zone.as_text())
    {
        errors.push(zone.invalid(fault));
    }
    let policy = spec.at("concurrencyPolicy");
    checks::one_of(&policy, &["Allow", "Forbid", "Replace"], errors);
    let template = spec.at("jobTemplate");
    let job = template.at("spec");
    job::validate_spec(&job, errors);
    if job.has("selector") {
        errors.push(job.at("selector").invalid("`selector` will be auto-generated"));
    }
    if job.flag("manualSelector") {
        errors.push(job.at("manualSelector").not_supported(&["nil", "false"]));
    }
    checks::non_negative(&spec.at("successfulJobsHistoryLimit"), errors);
    checks::non_negative(&spec.at("failedJobsHistoryLimit"), errors);
}
