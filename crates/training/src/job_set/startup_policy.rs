//! Which Jobs are made and set going, and in which order.

use std::sync::Arc;

use reconcile::act::difference;
use reconcile::plan::Target;
use reconcile::{Object, Plan};
use serde_json::json;

use super::build::{self, REPLICATED_JOB};
use super::children::{Children, Tallies, may_start};
use super::spec::{ReplicatedJob, STARTUP_COMPLETED, STARTUP_IN_PROGRESS, Spec, Until};
use super::status::Status;
use crate::kinds::JOB;
use crate::value::{list, list_mut, overlay};

/// Makes what is missing; holds or lets go what is there.
pub fn start(
    plan: &mut Plan,
    spec: &Spec<'_>,
    (children, tallies): (&Children<'_>, &Tallies<'_>),
    status: &mut Status<'_>,
) {
    let in_order = spec.starts_in_order() && !spec.is_suspended;
    let mut waits = false;
    let mut held: Vec<(&Arc<Object>, &ReplicatedJob<'_>)> = Vec::new();
    for of in &spec.jobs {
        if !may_start(spec, of, tallies) {
            continue;
        }
        make_missing(plan, spec, of, children);
        let own = |job: &&Arc<Object>| job.label(REPLICATED_JOB) == Some(of.name);
        held.extend(children.active.iter().copied().filter(own).map(|job| (job, of)));
        let tally = tallies.get(of.name).copied().unwrap_or_default();
        if in_order && !tally.reached(Until::Ready, of.replicas) {
            waits = true;
            break;
        }
    }
    if spec.is_suspended {
        suspend(plan, children);
    } else {
        for (job, of) in held.into_iter().filter(|(job, _)| job.value["spec"]["suspend"] == true) {
            resume(plan, job, of);
        }
    }
    if in_order {
        report(status, waits);
    }
}

fn report(status: &mut Status<'_>, waits: bool) {
    if waits {
        let message = "in order startup policy is in progress";
        status.begin(STARTUP_IN_PROGRESS, "InOrderStartupPolicyInProgress", message);
        status.end(STARTUP_COMPLETED, "InOrderStartupPolicyInProgress", message);
    } else {
        let message = "in order startup policy has completed";
        status.begin(STARTUP_COMPLETED, "InOrderStartupPolicyCompleted", message);
        status.end(STARTUP_IN_PROGRESS, "InOrderStartupPolicyCompleted", message);
    }
}

/// Whether nothing of this attempt may begin before all of the last has gone.
fn is_blocking(spec: &Spec<'_>, children: &Children<'_>) -> bool {
    spec.value()["failurePolicy"]["restartStrategy"] == "BlockingRecreate"
        && !children.previous.is_empty()
}

fn make_missing(plan: &mut Plan, spec: &Spec<'_>, of: &ReplicatedJob<'_>, children: &Children<'_>) {
    if is_blocking(spec, children) {
        return;
    }
    for index in 0..of.replicas {
        let name = spec.job_name(of, index);
        let mut taken = children.current().chain(children.previous.iter().copied());
        if !taken.any(|job| *job.name.name == *name) {
            plan.create(JOB, build::job(spec, of, index));
        }
    }
}

fn suspend(plan: &mut Plan, children: &Children<'_>) {
    for job in children.active.iter().filter(|job| job.value["spec"]["suspend"] != true) {
        plan.patch(Target::of(JOB, job), json!({"spec": {"suspend": true}}));
    }
}

/// Lets a Job go, with what may have changed of its template while it was held.
fn resume(plan: &mut Plan, job: &Object, of: &ReplicatedJob<'_>) {
    if job.value["status"]["startTime"].is_string() {
        // A template may change only as long as nothing has started.
        plan.update(JOB, job, "status", json!({"status": {"startTime": null}}));
    }
    let wanted = &of.template["spec"]["template"];
    let mut template = job.value["spec"]["template"].clone();
    for field in ["labels", "annotations"] {
        overlay(&mut template["metadata"], field, &wanted["metadata"][field]);
    }
    overlay(&mut template["spec"], "nodeSelector", &wanted["spec"]["nodeSelector"]);
    for toleration in list(&wanted["spec"]["tolerations"]) {
        let held = list_mut(&mut template["spec"]["tolerations"]);
        if !held.contains(toleration) {
            held.push(toleration.clone());
        }
    }
    template["spec"]["schedulingGates"] = wanted["spec"]["schedulingGates"].clone();
    let mut patch = json!({"spec": {"suspend": false}});
    let before = &job.value["spec"]["template"];
    if let Some(meta) = difference(&before["metadata"], &template["metadata"]) {
        patch["spec"]["template"]["metadata"] = meta;
    }
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        if template["spec"][field] != before["spec"][field] {
            patch["spec"]["template"]["spec"][field] = template["spec"][field].clone();
        }
    }
    plan.patch(Target::of(JOB, job), patch);
}
