//! Plans of CronJobs.

use serde_json::{Value, json};

use super::*;

fn cron(spec: Value, status: Value) -> Object {
    let mut object = json!({
        "metadata": {"namespace": "a", "name": "tick", "uid": "u",
            "creationTimestamp": "2024-01-01T00:00:00Z"},
        "spec": {"schedule": "*/10 * * * *", "concurrencyPolicy": "Allow",
            "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1,
            "jobTemplate": {"metadata": {"labels": {"l": "v"}}, "spec": {"template": {}}}},
        "status": status,
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    Object::new(object)
}

fn job(name: &str, condition: Option<&str>, minute: u32) -> Arc<Object> {
    let time = format!("2024-01-01T00:{minute:02}:00Z");
    let mut status = json!({"startTime": time});
    if let Some(kind) = condition {
        status["conditions"] = json!([{"type": kind, "status": "True"}]);
        status["completionTime"] = json!(time);
    }
    Arc::new(Object::new(json!({"metadata": {"namespace": "a", "name": name, "uid": name,
        "resourceVersion": "3", "ownerReferences": [{"uid": "u", "controller": true}]},
        "status": status})))
}

fn plan_at(cron: &Object, jobs: Vec<Arc<Object>>, time: &str) -> String {
    plan::plan(cron, &jobs, time.parse().expect("a time")).to_string()
}

#[test]
fn a_job_starts_when_its_time_has_come() {
    let object = cron(json!({}), json!({}));
    assert_eq!(
        plan_at(&object, Vec::new(), "2024-01-01T00:09:59Z"),
        "status {}\nwake after 1.1s\n"
    );
    // Minutes since 1970: 28401130.
    assert_eq!(
        plan_at(&object, Vec::new(), "2024-01-01T00:10:01Z"),
        "create batch/v1 Job a/tick-28401130\n\
         status {\"lastScheduleTime\":\"2024-01-01T00:10:00Z\"}\n\
         Normal SuccessfulCreate: Created job tick-28401130\n\
         wake after 599.1s\n"
    );
    let made = vec![job("tick-28401130", None, 10)];
    let again = plan_at(&object, made, "2024-01-01T00:10:01Z");
    assert!(!again.contains("create"), "{again}");
    assert!(again.contains("\"lastScheduleTime\":\"2024-01-01T00:10:00Z\""), "{again}");
}

#[test]
fn policies_say_what_happens_to_a_job_that_still_runs() {
    let status = json!({"lastScheduleTime": "2024-01-01T00:10:00Z", "active": [
        {"apiVersion": "batch/v1", "kind": "Job", "namespace": "a", "name": "tick-28401130",
            "uid": "tick-28401130", "resourceVersion": "3"}]});
    let at = |policy: &str| {
        let object = cron(json!({"concurrencyPolicy": policy}), status.clone());
        plan_at(&object, vec![job("tick-28401130", None, 10)], "2024-01-01T00:20:00Z")
    };
    assert!(at("Allow").starts_with("create batch/v1 Job a/tick-28401140\nstatus {\"active\""));
    let forbidden = at("Forbid");
    assert!(
        forbidden.contains(
            "Normal JobAlreadyActive: Not starting job because prior execution \
        is running and concurrency policy is Forbid"
        ),
        "{forbidden}"
    );
    assert!(!forbidden.contains("create"), "{forbidden}");
    assert!(at("Replace").starts_with(
        "delete batch/v1 Job a/tick-28401130\ncreate batch/v1 Job a/tick-28401140\n\
         status {\"lastScheduleTime\":\"2024-01-01T00:20:00Z\"}\n"
    ));
}

#[test]
fn what_was_missed_starts_once_unless_it_is_too_late() {
    let late = plan_at(&cron(json!({}), json!({})), Vec::new(), "2024-01-02T00:05:00Z");
    assert!(late.contains("create batch/v1 Job a/tick-28402560\n"), "{late}");
    assert!(
        late.contains(
            "Warning TooManyMissedTimes: too many missed start times. Set or \
        decrease .spec.startingDeadlineSeconds or check clock skew"
        ),
        "{late}"
    );
    let strict = cron(json!({"startingDeadlineSeconds": 60}), json!({}));
    let missed = plan_at(&strict, Vec::new(), "2024-01-02T00:05:00Z");
    assert!(!missed.contains("create") && !missed.contains("TooMany"), "{missed}");
    let few = plan_at(&cron(json!({}), json!({})), Vec::new(), "2024-01-01T01:05:00Z");
    assert!(few.contains("create batch/v1 Job a/tick-28401180\n"), "{few}");
    assert!(!few.contains("TooMany"), "{few}");
}

#[test]
fn what_is_suspended_or_cannot_be_read_does_not_start() {
    let suspended = cron(json!({"suspend": true}), json!({}));
    assert_eq!(
        plan_at(&suspended, Vec::new(), "2024-01-02T00:00:00Z"),
        "status {}\nwake on change\n"
    );
    let zone = cron(json!({"timeZone": "Mars/Olympus"}), json!({}));
    assert!(plan_at(&zone, Vec::new(), "2024-01-02T00:00:00Z").contains(
        "Warning UnknownTimeZone: invalid timeZone: \"Mars/Olympus\": unknown time zone \
         Mars/Olympus"
    ));
    let text = cron(json!({"schedule": "never"}), json!({}));
    assert!(plan_at(&text, Vec::new(), "2024-01-02T00:00:00Z").contains(
        "Warning UnparseableSchedule: unparseable schedule: \"never\" : expected exactly 5 fields"
    ));
}

#[test]
fn history_is_kept_as_long_as_it_says() {
    let status = json!({"lastScheduleTime": "2024-01-01T00:40:00Z", "active": [
        {"name": "gone", "uid": "gone"}, {"name": "b", "uid": "b"}]});
    let jobs = vec![
        job("a", Some("Complete"), 10),
        job("b", Some("Complete"), 20),
        job("c", Some("Failed"), 30),
        job("d", Some("Failed"), 25),
    ];
    assert_eq!(
        plan_at(&cron(json!({}), status), jobs, "2024-01-01T00:41:00Z"),
        "delete batch/v1 Job a/a\n\
         delete batch/v1 Job a/d\n\
         status {\"lastScheduleTime\":\"2024-01-01T00:40:00Z\",\
         \"lastSuccessfulTime\":\"2024-01-01T00:20:00Z\"}\n\
         Normal MissingJob: Active job went missing: gone\n\
         Normal SawCompletedJob: Saw completed job: b, condition: Complete\n\
         Normal SuccessfulDelete: Deleted job a\n\
         Normal SuccessfulDelete: Deleted job d\n\
         wake after 540.1s\n"
    );
}
