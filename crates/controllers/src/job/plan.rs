//! What a Job does next.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::{Notice, Target};
use reconcile::{Error, Object, Plan, Selector, Step, Wake, act, owners};
use serde_json::{Value, json};

use super::census::Census;
use super::observe::Observed;
use super::scale;
use super::spec::{Spec, TRACKING};
use super::status::{self, Result as Came};
use super::track;
use super::verdict::{self, Verdict};
use crate::kinds::{JOB, POD};

pub fn plan(job: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
    let mut plan = Plan::nothing();
    let spec = Spec::of(job);
    if spec.is_managed_elsewhere() {
        return Ok(plan);
    }
    if spec.is_finished() {
        // Whatever turns up late is not counted any more.
        for pod in &observed.owned {
            if let Some(patch) = act::finalizer_patch(pod, TRACKING, false) {
                plan.patch(Target::unchanged(POD, pod), patch);
            }
        }
        return Ok(plan);
    }
    let selector = Selector::read(&job.value["spec"]["selector"])?;
    let held = settle(&mut plan, job, &selector, observed);
    let census = Census::take(job, held);
    let mut verdict = verdict::verdict(&census, now);
    let mut active = census.active.len();
    if verdict.is_some() {
        census.active.iter().for_each(|pod| scale::delete(&mut plan, pod));
        active = 0;
    } else if !job.is_terminating() {
        active = scale::scale(&mut plan, &census, now);
        verdict = completed(&census, active);
    }
    let tracked = track::track(&mut plan, &census, verdict.as_ref());
    // Pods that are over are freed also where the server refuses to make others.
    plan.steps.sort_by_key(|step| matches!(step, Step::Create { .. }));
    let came = Came { active, tracked: &tracked, verdict: verdict.as_ref() };
    plan.status = Some(status::status(&census, &came, &mut plan.notices, now));
    if verdict.is_none()
        && let Some(left) = verdict::seconds_left(&census, now)
    {
        let left = Duration::from_secs(left.max(0).unsigned_abs());
        plan.wake = plan.wake.or_earlier(Wake::After(left));
    }
    Ok(plan)
}

/// What is reported when a pod could not be made or deleted.
pub fn refused(job: &Object, observed: &Observed, error: &Error, now: Timestamp) -> Plan {
    let census = Census::take(job, observed.owned.iter().collect());
    let tracked = track::note_finished(&census);
    let came = Came { active: census.active.len(), tracked: &tracked, verdict: None };
    let mut notices = Vec::new();
    let status = Some(status::status(&census, &came, &mut notices, now));
    notices.push(Notice::warning("FailedCreate", format!("Error creating: {}", error.chain())));
    Plan { status, notices, ..Plan::nothing() }
}

fn completed(census: &Census<'_>, active: usize) -> Option<Verdict> {
    let wanted = match census.spec.completions {
        Some(completions) => usize::try_from(completions).unwrap_or(usize::MAX),
        None => 1,
    };
    (census.succeeded >= wanted && active == 0).then(Verdict::completed)
}

/// Plans adoptions and releases, with the finalizer; returns the pods that the job holds.
fn settle<'a>(
    plan: &mut Plan,
    job: &Object,
    selector: &Selector,
    observed: &'a Observed,
) -> Vec<&'a Arc<Object>> {
    let mut held = Vec::new();
    for pod in &observed.owned {
        if selector.matches(pod) {
            held.push(pod);
        } else {
            plan.patch(Target::unchanged(POD, pod), release(job, pod));
        }
    }
    for orphan in &observed.orphans {
        plan.patch(Target::unchanged(POD, orphan), adopt(job, orphan));
        held.push(orphan);
    }
    held
}

fn adopt(job: &Object, pod: &Object) -> Value {
    let mut references = references(pod);
    references.push(owners::controller_reference(JOB, job));
    let mut patch = act::finalizer_patch(pod, TRACKING, true).unwrap_or_else(|| json!({}));
    patch["metadata"]["ownerReferences"] = json!(references);
    patch
}

fn release(job: &Object, pod: &Object) -> Value {
    let mut references = references(pod);
    references.retain(|one| one["uid"] != job.uid.as_str());
    let mut patch = act::finalizer_patch(pod, TRACKING, false).unwrap_or_else(|| json!({}));
    patch["metadata"]["ownerReferences"] = json!(references);
    patch
}

fn references(pod: &Object) -> Vec<Value> {
    pod.value["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default()
}
