//! What a TrainJob does next.

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::{Deletion, Notice, Propagation, Target};
use reconcile::{Object, Plan, Step, Wake};
use serde_json::Value;

use super::job::TrainJob;
use super::observe::{Observed, Runtime};
use super::snapshot;
use super::status;
use crate::kinds::{CONFIG_MAP, JOB_SET, TRAIN_JOB};
use crate::plugin::{Make, Settings, Unless, Wanted};
use crate::plugins;
use crate::value::says;

/// How much of an error a user is told.
const FAILURE_CHARACTERS_MAX: usize = 950;

pub fn plan(settings: &Settings, object: &Object, observed: &Observed, now: Timestamp) -> Plan {
    let job = TrainJob::of(object);
    let mut plan = Plan::nothing();
    if object.is_terminating() || observed.is_outdated || job.is_managed_elsewhere() {
        return plan;
    }
    let set = job_set(&job, observed);
    // What has ended in time, or before anybody looked, has ended as its JobSet says.
    let has_ended = set.is_some_and(status::has_ended);
    let is_late = !has_ended && observed.until_deadline.is_some_and(|left| left.is_zero());
    match build(settings, &job, observed) {
        _ if is_late => {}
        Ok(wanted) => apply(&mut plan, &job, observed, wanted),
        Err(why) => plan.notices.push(failure(&why)),
    }
    if is_late || job.has_exceeded_deadline() {
        // Until it is gone: a deletion that failed is tried again. Only as it was seen: one that
        // has ended in time, which an old view does not show, stays with all that it has.
        if let Some(set) = set.filter(|set| !set.is_terminating()) {
            plan.delete(Target::unchanged(JOB_SET, set));
        }
    } else if let Some(left) = observed.until_deadline.filter(|_| !has_ended) {
        plan.wake = Wake::After(left);
    }
    expire(&mut plan, object, observed);
    plan.status = status::status(&job, (&observed.runtime, set), is_late, now);
    plan
}

/// The JobSet, if it is the job's own.
fn job_set<'a>(job: &TrainJob<'_>, observed: &'a Observed) -> Option<&'a Object> {
    let found = observed.found.get(&(JOB_SET, job.name().to_owned()))?;
    found.controlled_by(job.uid()).map(|set| &**set)
}

/// The objects that the job needs, in the order in which they are made.
fn build(
    settings: &Settings,
    job: &TrainJob<'_>,
    observed: &Observed,
) -> Result<Vec<Wanted>, String> {
    let mut wanted = Vec::new();
    let runtime: &Value = match &observed.runtime {
        Runtime::Unsupported | Runtime::Unread => return Ok(wanted),
        Runtime::Missing(why) => return Err(why.clone()),
        Runtime::Kept(runtime) => runtime,
        Runtime::Live(runtime) => {
            let object = snapshot::take(job, runtime)?;
            wanted.push(Wanted { kind: CONFIG_MAP, object, unless: Unless::There });
            runtime
        }
    };
    let blueprint = plugins::enforce(settings, job, &runtime["spec"])?;
    let Observed { found, surroundings, fresh, .. } = observed;
    let make = Make { settings, job, blueprint: &blueprint, found, surroundings, fresh };
    for plugin in plugins::ALL {
        wanted.extend(plugin.objects(&make)?);
    }
    Ok(wanted)
}

fn apply(plan: &mut Plan, job: &TrainJob<'_>, observed: &Observed, wanted: Vec<Wanted>) {
    for Wanted { kind, object, unless } in wanted {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let Some(found) = observed.found.get(&(kind, name)) else {
            plan.apply(kind, object);
            continue;
        };
        let Some(found) = found.controlled_by(job.uid()) else {
            let why = format!("{kind} {} exists and belongs to another owner", found.name());
            plan.notices.push(failure(&why));
            return;
        };
        let stays = match unless {
            Unless::There => true,
            Unless::Running if !job.is_suspended() => true,
            // It has to go first.
            _ if found.is_terminating() => true,
            Unless::Running | Unless::Same => is_applied(&found.value, &object),
        };
        if !stays {
            plan.apply(kind, object);
        }
    }
}

/// Whether an object is as it is wanted.
fn is_applied(found: &Value, wanted: &Value) -> bool {
    says(found, wanted) && has_no_more(&found["spec"], &wanted["spec"])
}

/// Whether pods have no labels, annotations or selectors beyond what is wanted: nobody else puts
/// them there, so what is too much was taken back.
fn has_no_more(found: &Value, wanted: &Value) -> bool {
    let jobs = crate::value::list(&found["replicatedJobs"]).iter();
    let mut pairs = jobs.zip(crate::value::list(&wanted["replicatedJobs"]));
    pairs.all(|(found, wanted)| {
        let of = |job: &Value| {
            let pod = &job["template"]["spec"]["template"];
            let size = |map: &Value| map.as_object().map_or(0, serde_json::Map::len);
            [
                size(&pod["metadata"]["labels"]),
                size(&pod["metadata"]["annotations"]),
                size(&pod["spec"]["nodeSelector"]),
                crate::value::list(&pod["spec"]["tolerations"]).len(),
                crate::value::list(&pod["spec"]["schedulingGates"]).len(),
            ]
        };
        of(found) == of(wanted)
    })
}

/// What users are told when their job cannot be built.
pub fn failure(why: &str) -> Notice {
    let mut text: String = why.chars().take(FAILURE_CHARACTERS_MAX).collect();
    if text.len() < why.len() {
        text.push_str(" ...");
    }
    let message = format!("TrainJob resources reconciliation failed: {text}");
    Notice::warning("TrainJobResourcesCreationFailed", message)
}

/// Deletes a job that has ended and is not to be kept for longer.
fn expire(plan: &mut Plan, object: &Object, observed: &Observed) {
    match observed.until_deletion {
        None => {}
        Some(left) if left.is_zero() => {
            let propagation = Some(Propagation::Background);
            let options = Deletion { propagation, grace_seconds: None };
            // Who asked for more time meanwhile gets it.
            let target = Target::unchanged(TRAIN_JOB, object);
            plan.steps.push(Step::Delete { target, options });
        }
        Some(left) => plan.wake = plan.wake.or_earlier(Wake::After(left)),
    }
}
