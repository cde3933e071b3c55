//! Work that ends: jobs, and what starts them by the clock.
//!
//! Upstream: pkg/printers/internalversion/printers.go (printJob, printCronJob)

use serde_json::Value;

use super::super::read::{
    age, at, condition_is_true, containers, count, integer, is_deleted, name, selector, since,
    text, text_or,
};
use super::super::{Column, Printer, cells};
use crate::age::human;
use crate::timestamp;

pub static PRINTERS: &[Printer] =
    &[Printer::new("batch", "Job", JOB, job), Printer::new("batch", "CronJob", CRON_JOB, cron_job)];

const JOB: &[Column] = &[
    Column::NAME,
    Column::text("Status", "Whether the job runs, waits or is over."),
    Column::text("Completions", "How many of the wanted pods have succeeded."),
    Column::text("Duration", "How long the job has run, or ran."),
    Column::AGE,
    Column::CONTAINERS,
    Column::IMAGES,
    Column::SELECTOR,
];

const CRON_JOB: &[Column] = &[
    Column::NAME,
    Column::text("Schedule", "When jobs are started, as cron writes it."),
    Column::text("Timezone", "The time zone of the schedule."),
    Column::boolean("Suspend", "Whether no further jobs are started."),
    Column::integer("Active", "How many jobs run."),
    Column::text("Last Schedule", "How long ago a job was last due."),
    Column::AGE,
    Column::CONTAINERS,
    Column::IMAGES,
    Column::SELECTOR,
];

fn job(object: &Value, now: i64) -> Vec<Value> {
    let (names, images) = containers(at(object, &["spec", "template", "spec"]));
    cells![
        name(object),
        job_status(object),
        completions(object),
        duration(object, now),
        age(object, now),
        names,
        images,
        selector(at(object, &["spec", "selector"])),
    ]
}

fn job_status(job: &Value) -> &'static str {
    if condition_is_true(job, "Complete") {
        "Complete"
    } else if condition_is_true(job, "Failed") {
        "Failed"
    } else if is_deleted(job) {
        "Terminating"
    } else if condition_is_true(job, "Suspended") {
        "Suspended"
    } else if condition_is_true(job, "FailureTarget") {
        "FailureTarget"
    } else {
        "Running"
    }
}

fn completions(job: &Value) -> String {
    let succeeded = integer(job, &["status", "succeeded"]);
    let wanted = at(job, &["spec", "completions"]).as_i64();
    match (wanted, integer(job, &["spec", "parallelism"])) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration(job: &Value, now: i64) -> String {
    let start = timestamp::parse(text(job, &["status", "startTime"]));
    let end = timestamp::parse(text(job, &["status", "completionTime"]));
    start.map(|start| human(end.unwrap_or(now).saturating_sub(start))).unwrap_or_default()
}

fn cron_job(object: &Value, now: i64) -> Vec<Value> {
    let job = at(object, &["spec", "jobTemplate", "spec"]);
    let (names, images) = containers(at(job, &["template", "spec"]));
    let suspend = match at(object, &["spec", "suspend"]).as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let last_schedule = match at(object, &["status", "lastScheduleTime"]) {
        Value::Null => "<none>".to_owned(),
        _ => since(object, &["status", "lastScheduleTime"], now),
    };
    cells![
        name(object),
        text(object, &["spec", "schedule"]),
        text_or(object, &["spec", "timeZone"], "<none>"),
        suspend,
        count(object, &["status", "active"]),
        last_schedule,
        age(object, now),
        names,
        images,
        selector(at(job, &["selector"])),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::{ago, check};

    #[test]
    fn jobs_say_how_far_they_are() {
        let spec = json!({"completions": 3, "selector": {"matchLabels": {"uid": "1"}},
            "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}});
        let status = json!({"succeeded": 1, "startTime": ago(200)});
        check(
            "batch",
            "Job",
            json!({"spec": spec, "status": status}),
            json!(["x", "Running", "1/3", "3m20s", "5m", "c", "i", "uid=1"]),
        );
        let status = json!({"succeeded": 3, "startTime": ago(200), "completionTime": ago(100),
            "conditions": [{"type": "Complete", "status": "True"}]});
        check(
            "batch",
            "Job",
            json!({"spec": spec, "status": status}),
            json!(["x", "Complete", "3/3", "100s", "5m", "c", "i", "uid=1"]),
        );
        check(
            "batch",
            "Job",
            json!({"spec": {"parallelism": 4}}),
            json!(["x", "Running", "0/1 of 4", "", "5m", "", "", "<none>"]),
        );
        check(
            "batch",
            "Job",
            json!({"spec": {"parallelism": 1}}),
            json!(["x", "Running", "0/1", "", "5m", "", "", "<none>"]),
        );
    }

    #[test]
    fn the_status_of_a_job_is_the_most_final_one() {
        let cases = [
            (json!(["Failed"]), false, "Failed"),
            (json!(["Failed"]), true, "Failed"),
            (json!([]), true, "Terminating"),
            (json!(["Suspended"]), true, "Terminating"),
            (json!(["Suspended"]), false, "Suspended"),
            (json!(["FailureTarget"]), false, "FailureTarget"),
            (json!(["Complete", "Failed"]), false, "Complete"),
        ];
        for (conditions, is_deleted, status) in cases {
            let conditions: Vec<_> = conditions
                .as_array()
                .into_iter()
                .flatten()
                .map(|type_| json!({"type": type_, "status": "True"}))
                .collect();
            let mut job = json!({"metadata": {}, "status": {"conditions": conditions}});
            if is_deleted {
                job["metadata"]["deletionTimestamp"] = json!(ago(1));
            }
            check("batch", "Job", job, json!(["x", status, "0/1", "", "5m", "", "", "<none>"]));
        }
    }

    #[test]
    fn cron_jobs() {
        check(
            "batch",
            "CronJob",
            json!({
                "spec": {
                    "schedule": "*/5 * * * *", "timeZone": "Etc/UTC", "suspend": false,
                    "jobTemplate": {"spec": {"template": {"spec": {"containers": [
                        {"name": "c", "image": "i"},
                    ]}}}},
                },
                "status": {"active": [{}, {}], "lastScheduleTime": ago(61)},
            }),
            json!(["x", "*/5 * * * *", "Etc/UTC", "False", 2, "61s", "5m", "c", "i", "<none>"]),
        );
        check(
            "batch",
            "CronJob",
            json!({"spec": {"schedule": "@daily", "suspend": true}}),
            json!(["x", "@daily", "<none>", "True", 0, "<none>", "5m", "", "", "<none>"]),
        );
    }
}
