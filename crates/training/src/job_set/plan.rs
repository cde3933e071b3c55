//! What a JobSet does next.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::{Deletion, Propagation, Target};
use reconcile::{Object, Plan, Step, Wake};

use super::children::{Children, Tallies};
use super::failure_policy::{self, Counts, Verdict};
use super::network;
use super::observe::Observed;
use super::spec::{RESTARTING, SUSPENDED, Spec};
use super::startup_policy;
use super::status::Status;
use super::success_policy;
use super::volume_claims;
use crate::kinds::{JOB, JOB_SET};

pub fn plan(set: &Object, observed: &Observed, now: Timestamp) -> Plan {
    let spec = Spec::of(set);
    let mut plan = Plan::nothing();
    if observed.is_gone || set.is_terminating() || spec.is_managed_elsewhere() {
        return plan;
    }
    let children = Children::sort(&observed.jobs, spec.restarts);
    let tallies = children.tallies(&spec);
    let mut status = Status::of(&spec, now);
    children.previous.iter().for_each(|job| delete(&mut plan, job));
    if spec.is_finished() {
        children.active.iter().for_each(|job| delete(&mut plan, job));
        expire(&mut plan, set, observed);
    } else {
        go_on(&mut plan, (&spec, observed), (&children, &tallies), &mut status);
    }
    plan.status = Some(status.value(&tallies));
    plan.notices = status.notices;
    plan
}

fn go_on(
    plan: &mut Plan,
    (spec, observed): (&Spec<'_>, &Observed),
    (children, tallies): (&Children<'_>, &Tallies<'_>),
    status: &mut Status<'_>,
) {
    let here: i64 = tallies.values().map(|tally| tally.ready + tally.succeeded).sum();
    if !spec.is_suspended && here == spec.replicas() {
        status.end(RESTARTING, "JobsReady", "all jobs are ready");
    }
    if !children.failed.is_empty() {
        return fail(spec, children, status);
    }
    if !children.succeeded.is_empty() && success_policy::is_met(spec, children) {
        return status.complete();
    }
    network::make_service(plan, spec, observed);
    volume_claims::make_claims(plan, spec, observed);
    startup_policy::start(plan, spec, (children, tallies), status);
    if spec.is_suspended {
        status.begin(SUSPENDED, "SuspendedJobs", "jobset is suspended");
        status.end(RESTARTING, "JobSetSuspended", "jobset is suspended");
    } else {
        status.end(SUSPENDED, "ResumeJobs", "jobset is resumed");
    }
}

/// A Job has failed: all fail, or all begin again.
fn fail(spec: &Spec<'_>, children: &Children<'_>, status: &mut Status<'_>) {
    let (verdict, job) = failure_policy::judge(spec, children);
    match verdict {
        Verdict::Fail { reason, message } => {
            status.fail(reason, &format!("{message} (first failed job: {})", job.name.name));
        }
        Verdict::Restart { counts, reason } => {
            status.restarts += 1;
            status.restarts_counted += i64::from(counts == Counts::TowardsMax);
            let message = format!(
                "restarting jobset, attempt {} (first failed job: {})",
                status.restarts, job.name.name
            );
            status.begin(RESTARTING, &reason, &message);
        }
    }
}

/// Deletes a Job, and keeps its name until its pods have gone.
fn delete(plan: &mut Plan, job: &Arc<Object>) {
    if !job.is_terminating() {
        plan.steps.push(foreground(Target::of(JOB, job)));
    }
}

fn foreground(target: Target) -> Step {
    let propagation = Some(Propagation::Foreground);
    Step::Delete { target, options: Deletion { propagation, grace_seconds: None } }
}

fn expire(plan: &mut Plan, set: &Object, observed: &Observed) {
    match observed.until_deletion {
        None => {}
        Some(left) if left.is_zero() => {
            plan.steps.push(foreground(Target::unchanged(JOB_SET, set)));
        }
        Some(left) => plan.wake = Wake::After(left),
    }
}
