//! Which Job a CronJob starts, and which it removes.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use reconcile::plan::{Deletion, Notice, Propagation, Target};
use reconcile::value::list;
use reconcile::{Object, Plan, Step, Wake, conditions, owners};
use serde_json::{Value, json};

use super::due::{self, Due};
use super::observe::Observed;
use super::schedule::{self, Schedule};
use crate::kinds::{CRON_JOB, JOB};

/// When a Job was meant to start.
const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// A CronJob is looked at this often at least: the clock may have been set.
const LOOK_MAX: Duration = Duration::from_secs(600);
/// So that a wake-up is never just before the time it is for.
const DELTA: Duration = Duration::from_millis(100);

type Job<'a> = &'a Arc<Object>;

/// What the plan is about.
struct Cron<'a> {
    object: &'a Object,
    jobs: &'a [Arc<Object>],
    /// Those that run, without those that this plan removes.
    active: Vec<Job<'a>>,
    last_schedule: Option<Timestamp>,
}

pub fn plan(object: &Object, jobs: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::nothing();
    let active = jobs.iter().filter(|job| finished(job).is_none()).collect();
    let mut cron = Cron { object, jobs, active, last_schedule: None };
    tell_changes(&mut plan, &cron);
    if !object.is_terminating() && object.value["spec"]["suspend"] != true {
        run_schedule(&mut plan, &mut cron, now);
    }
    // What has just been noted as started must be stored before its Job may go.
    if cron.last_schedule.is_none() && !object.is_terminating() {
        keep_history(&mut plan, &cron);
    }
    plan.status = Some(status(&cron));
    plan
}

/// How a Job ended, if it has.
fn finished(job: &Object) -> Option<&'static str> {
    let status = &job.value["status"];
    ["Complete", "Failed"].into_iter().find(|kind| conditions::is_true(status, kind))
}

/// Jobs that the CronJob called active and that are not any more.
fn tell_changes(plan: &mut Plan, cron: &Cron<'_>) {
    for known in list(&cron.object.value["status"]["active"]) {
        let uid = known["uid"].as_str().unwrap_or_default();
        let name = known["name"].as_str().unwrap_or_default();
        let notice = match cron.jobs.iter().find(|job| job.uid == uid) {
            None => Notice::normal("MissingJob", format!("Active job went missing: {name}")),
            Some(job) => match finished(job) {
                None => continue,
                Some(condition) => {
                    let text = format!("Saw completed job: {name}, condition: {condition}");
                    Notice::normal("SawCompletedJob", text)
                }
            },
        };
        plan.notices.push(notice);
    }
}

fn run_schedule(plan: &mut Plan, cron: &mut Cron<'_>, now: Timestamp) {
    let spec = &cron.object.value["spec"];
    let zone = match spec["timeZone"].as_str() {
        None => TimeZone::UTC,
        Some(name) => match schedule::time_zone(name) {
            Ok(zone) => zone,
            Err(why) => {
                let text = format!("invalid timeZone: {name:?}: {why}");
                plan.notices.push(Notice::warning("UnknownTimeZone", text));
                return;
            }
        },
    };
    let text = spec["schedule"].as_str().unwrap_or_default();
    let schedule = match Schedule::read(text, zone) {
        Ok(schedule) => schedule,
        Err(why) => {
            let text = format!("unparseable schedule: {text:?} : {why}");
            plan.notices.push(Notice::warning("UnparseableSchedule", text));
            return;
        }
    };
    if let Some(next) = schedule.next(now) {
        let left = next.as_millisecond() - now.as_millisecond();
        let left = Duration::from_millis(left.max(0).unsigned_abs()) + DELTA;
        plan.wake = Wake::After(left.min(LOOK_MAX));
    }
    match due::due(cron.object, &schedule, now) {
        Due::NotYet => {}
        Due::At { time, are_many_missed } => {
            if are_many_missed {
                let text = "too many missed start times. Set or decrease \
                            .spec.startingDeadlineSeconds or check clock skew";
                plan.notices.push(Notice::warning("TooManyMissedTimes", text));
            }
            start(plan, cron, &schedule, time, now);
        }
    }
}

fn start(
    plan: &mut Plan,
    cron: &mut Cron<'_>,
    schedule: &Schedule,
    time: Timestamp,
    now: Timestamp,
) {
    let spec = &cron.object.value["spec"];
    let deadline = spec["startingDeadlineSeconds"].as_i64();
    if deadline.is_some_and(|deadline| time.as_second() + deadline < now.as_second()) {
        let at = time.strftime("%a, %d %b %Y %H:%M:%S +0000");
        let text = format!("Missed scheduled time to start a job: {at}");
        plan.notices.push(Notice::warning("MissSchedule", text));
        return;
    }
    let name = format!("{}-{}", cron.object.name.name, time.as_second().div_euclid(60));
    if cron.jobs.iter().any(|job| *job.name.name == *name) {
        // It was made, and the answer got lost.
        cron.last_schedule = Some(time);
        return;
    }
    match spec["concurrencyPolicy"].as_str().unwrap_or_default() {
        "Forbid" if !cron.active.is_empty() => {
            let text = "Not starting job because prior execution is running and concurrency \
                        policy is Forbid";
            plan.notices.push(Notice::normal("JobAlreadyActive", text));
            return;
        }
        "Replace" => {
            for job in std::mem::take(&mut cron.active) {
                remove(plan, job);
            }
        }
        _ => {}
    }
    plan.create(JOB, job(cron.object, &name, schedule, time));
    plan.notices.push(Notice::normal("SuccessfulCreate", format!("Created job {name}")));
    cron.last_schedule = Some(time);
}

fn job(object: &Object, name: &str, schedule: &Schedule, time: Timestamp) -> Value {
    let template = &object.value["spec"]["jobTemplate"];
    let mut job = owners::child(JOB, name, CRON_JOB, object);
    for field in ["labels", "annotations"] {
        if !template["metadata"][field].is_null() {
            job["metadata"][field] = template["metadata"][field].clone();
        }
    }
    job["metadata"]["annotations"][SCHEDULED] = json!(schedule.write(time));
    job["spec"] = template["spec"].clone();
    job
}

fn remove(plan: &mut Plan, job: Job<'_>) {
    let options = Deletion { propagation: Some(Propagation::Background), grace_seconds: None };
    plan.steps.push(Step::Delete { target: Target::of(JOB, job), options });
    let text = format!("Deleted job {}", job.name.name);
    plan.notices.push(Notice::normal("SuccessfulDelete", text));
}

/// The oldest finished Jobs go.
fn keep_history(plan: &mut Plan, cron: &Cron<'_>) {
    let spec = &cron.object.value["spec"];
    for (condition, limit) in
        [("Complete", "successfulJobsHistoryLimit"), ("Failed", "failedJobsHistoryLimit")]
    {
        let Some(limit) = spec[limit].as_u64() else { continue };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let of = |job: &&Arc<Object>| finished(job) == Some(condition) && !job.is_terminating();
        let mut all: Vec<Job<'_>> = cron.jobs.iter().filter(of).collect();
        all.sort_by_key(|job| {
            let start = job.value["status"]["startTime"].as_str().unwrap_or_default();
            (start.to_owned(), job.name.clone())
        });
        let surplus = all.len().saturating_sub(limit);
        all.into_iter().take(surplus).for_each(|job| remove(plan, job));
    }
}

fn status(cron: &Cron<'_>) -> Value {
    let before = &cron.object.value["status"];
    let mut status = json!({});
    let reference = |job: &Job<'_>| {
        json!({"apiVersion": "batch/v1", "kind": "Job", "namespace": &*job.name.namespace,
            "name": &*job.name.name, "uid": job.uid, "resourceVersion": revision(before, job)})
    };
    if !cron.active.is_empty() {
        status["active"] = cron.active.iter().map(reference).collect();
    }
    let last = cron.last_schedule.map(conditions::time);
    match last.map(Value::from).unwrap_or_else(|| before["lastScheduleTime"].clone()) {
        Value::Null => {}
        last => status["lastScheduleTime"] = last,
    }
    let succeeded = cron.jobs.iter().filter(|job| finished(job) == Some("Complete"));
    let succeeded = succeeded.filter_map(|job| job.value["status"]["completionTime"].as_str());
    let last = before["lastSuccessfulTime"].as_str();
    if let Some(last) = succeeded.chain(last).max() {
        status["lastSuccessfulTime"] = json!(last);
    }
    status
}

/// The revision at which a Job was first called active; it would change with every pod otherwise.
fn revision(before: &Value, job: &Object) -> String {
    let known = list(&before["active"]).iter().find(|known| known["uid"] == job.uid.as_str());
    let revision = known.and_then(|known| known["resourceVersion"].as_str());
    revision.map_or_else(|| job.revision.to_string(), str::to_owned)
}
