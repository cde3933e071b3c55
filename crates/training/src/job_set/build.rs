//! A Job as its JobSet wants it.

use reconcile::owners;
use serde_json::{Value, json};

use super::placement;
use super::spec::{ReplicatedJob, Spec};
use super::volume_claims;
use crate::kinds::{JOB, JOB_SET};
use crate::value::{overlay, text};

pub const JOB_SET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";
pub const JOB_SET_UID: &str = "jobset.sigs.k8s.io/jobset-uid";
pub const REPLICATED_JOB: &str = "jobset.sigs.k8s.io/replicatedjob-name";
pub const RESTART_ATTEMPT: &str = "jobset.sigs.k8s.io/restart-attempt";
pub const JOB_KEY: &str = "jobset.sigs.k8s.io/job-key";

pub fn job(spec: &Spec<'_>, of: &ReplicatedJob<'_>, index: i64) -> Value {
    let name = spec.job_name(of, index);
    let mut job = owners::child(JOB, &name, JOB_SET, spec.set);
    let marks = marks(spec, of, index);
    let topology = placement::annotations(spec, of);
    job["spec"] = of.template["spec"].clone();
    job["spec"]["suspend"] = json!(spec.is_suspended);
    mark(&mut job["metadata"], &of.template["metadata"], &marks, &topology);
    let pod = &mut job["spec"]["template"];
    let own = pod["metadata"].clone();
    mark(&mut pod["metadata"], &own, &marks, &topology);
    if pod["spec"]["restartPolicy"].is_null() {
        pod["spec"]["restartPolicy"] = json!("OnFailure");
    }
    if let Some(subdomain) = spec.subdomain() {
        pod["spec"]["subdomain"] = json!(subdomain);
    }
    volume_claims::mount(spec, &mut pod["spec"]);
    placement::place(spec, of, &name, &mut pod["spec"]);
    if job["spec"]["completionMode"].is_null() {
        job["spec"]["completionMode"] = json!("Indexed");
    }
    job
}

/// Labels and annotations of a template, then ours.
fn mark(meta: &mut Value, template: &Value, marks: &Value, topology: &Value) {
    for (field, more) in [("labels", None), ("annotations", Some(topology))] {
        meta[field] = json!({});
        overlay(meta, field, &template[field]);
        overlay(meta, field, marks);
        if let Some(more) = more {
            overlay(meta, field, more);
        }
    }
}

/// What tells a Job and its pods where they belong.
fn marks(spec: &Spec<'_>, of: &ReplicatedJob<'_>, index: i64) -> Value {
    let name = spec.job_name(of, index);
    let mut marks = json!({
        JOB_SET_NAME: spec.name(),
        JOB_SET_UID: spec.set.uid,
        REPLICATED_JOB: of.name,
        RESTART_ATTEMPT: spec.restarts.to_string(),
        "jobset.sigs.k8s.io/replicatedjob-replicas": of.replicas.to_string(),
        "jobset.sigs.k8s.io/global-replicas": spec.replicas().to_string(),
        "jobset.sigs.k8s.io/job-index": index.to_string(),
        "jobset.sigs.k8s.io/job-global-index": (of.first_global + index).to_string(),
        JOB_KEY: placement::job_key(&spec.set.name.namespace, &name),
        "jobset.sigs.k8s.io/group-name": of.group,
        "jobset.sigs.k8s.io/group-replicas": spec.group_replicas(of.group).to_string(),
        "jobset.sigs.k8s.io/job-group-index": (of.first_in_group + index).to_string(),
    });
    let coordinator = &spec.value()["coordinator"];
    if coordinator.is_object() {
        let number = |field: &str| coordinator[field].as_i64().unwrap_or(0);
        let host = format!(
            "{}-{}-{}-{}",
            spec.name(),
            text(&coordinator["replicatedJob"]),
            number("jobIndex"),
            number("podIndex"),
        );
        let subdomain = spec.subdomain().unwrap_or(spec.name());
        marks["jobset.sigs.k8s.io/coordinator"] = json!(format!("{host}.{subdomain}"));
    }
    marks
}
