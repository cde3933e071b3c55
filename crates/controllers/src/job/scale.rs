//! Which pods a Job makes and removes while it runs.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::{Notice, Target};
use reconcile::{Plan, Wake, act, names};
use serde_json::{Value, json};

use super::backoff;
use super::census::{Census, Pod};
use super::policies::Failure;
use super::spec::{INDEX, INDEX_FAILURES, INDEX_IGNORED_FAILURES, TRACKING, number};
use crate::kinds::{JOB, POD};
use crate::pods;

/// Pods made or deleted in one reconcile; the rest follows in the next.
const BURST_MAX: usize = 500;

/// Plans the pods; returns those that are active after it.
pub fn scale(plan: &mut Plan, census: &Census<'_>, now: Timestamp) -> usize {
    let active = census.active.len();
    let wanted = wanted(census);
    let mut surplus = surplus(census, active.saturating_sub(wanted));
    surplus.truncate(BURST_MAX);
    if !surplus.is_empty() {
        remove(plan, &surplus);
        return active - surplus.len();
    }
    // A pod that is going holds its place until it has failed, if the job says so.
    let going = if census.spec.replaces_only_failed { census.terminating } else { 0 };
    let missing = wanted.saturating_sub(active + going).min(BURST_MAX);
    if missing == 0 || census.spec.is_suspended {
        return active;
    }
    if census.spec.backoff_limit_per_index.is_none() {
        let wait = backoff::remaining(census, now);
        if wait > Duration::ZERO {
            plan.wake = plan.wake.or_earlier(Wake::After(wait));
            return active;
        }
    }
    active + add(plan, census, missing, now)
}

fn wanted(census: &Census<'_>) -> usize {
    let spec = &census.spec;
    match spec.completions {
        _ if spec.is_suspended => 0,
        // One success is enough: those that run may end, and nobody joins them.
        None if census.succeeded > 0 => census.active.len(),
        None => spec.parallelism,
        Some(completions) => {
            let completions = usize::try_from(completions).unwrap_or(usize::MAX);
            completions.saturating_sub(census.succeeded).min(spec.parallelism)
        }
    }
}

/// The pods to remove: so many at least, and those whose index is another's or none.
fn surplus<'a>(census: &Census<'a>, at_least: usize) -> Vec<Pod<'a>> {
    let mut ranked = census.active.clone();
    ranked.sort_by_cached_key(|pod| pods::deletion_rank(pod, 0));
    let mut surplus = Vec::new();
    let mut rest = Vec::new();
    let mut seen = BTreeSet::new();
    if census.spec.is_indexed {
        // The best of an index stays, so the ranks are walked from their end.
        for pod in ranked.into_iter().rev() {
            let index = census.spec.index(pod).filter(|index| !census.completed.has(*index));
            match index {
                Some(index) if seen.insert(index) => rest.push(pod),
                _ => surplus.push(pod),
            }
        }
        rest.reverse();
    } else {
        rest = ranked;
    }
    let more = at_least.saturating_sub(surplus.len());
    surplus.extend(rest.into_iter().take(more));
    surplus
}

/// A pod that is not wanted any more has not failed, so it is not kept to be counted.
fn remove(plan: &mut Plan, surplus: &[Pod<'_>]) {
    for pod in surplus {
        if let Some(patch) = act::finalizer_patch(pod, TRACKING, false) {
            plan.patch(Target::unchanged(POD, pod), patch);
        }
    }
    for pod in surplus {
        delete(plan, pod);
    }
}

pub fn delete(plan: &mut Plan, pod: Pod<'_>) {
    plan.delete(Target::of(POD, pod));
    let message = format!("Deleted pod: {}", pod.name.name);
    plan.notices.push(Notice::normal("SuccessfulDelete", message));
}

fn add(plan: &mut Plan, census: &Census<'_>, missing: usize, now: Timestamp) -> usize {
    let taken: BTreeSet<&str> = census.held.iter().map(|pod| &*pod.name.name).collect();
    let job = census.spec.job;
    let mut made = Vec::new();
    if census.spec.is_indexed {
        for index in pending(plan, census, missing, now) {
            let name = |attempt: usize| {
                let parts = [&*job.uid, &index.to_string(), &attempt.to_string()];
                let suffix = format!("{index}-{}", &names::digest(&parts)[..5]);
                names::child(&job.name.name, &suffix)
            };
            let free = (0..).map(name).find(|name| !taken.contains(name.as_str()));
            let name = free.expect("some name must be free");
            made.push(indexed_pod(census, &name, index));
        }
    } else {
        let name = |number: usize| {
            let digest = names::digest(&[&job.uid, &number.to_string()]);
            names::child(&job.name.name, &digest[..5])
        };
        let mut used = BTreeSet::new();
        let free = (0..).map(name).filter(|name| !taken.contains(name.as_str()));
        let free = free.filter(|name| used.insert(name.clone())).take(missing);
        made.extend(free.map(|name| pod(census, &name)));
    }
    let count = made.len();
    for pod in made {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        plan.notices.push(Notice::normal("SuccessfulCreate", format!("Created pod: {name}")));
        plan.create(POD, pod);
    }
    count
}

/// The first indexes that nobody works on; those that wait wake the job when they are due.
fn pending(plan: &mut Plan, census: &Census<'_>, count: usize, now: Timestamp) -> Vec<u32> {
    let spec = &census.spec;
    let mut busy = census.active_indexes();
    if spec.replaces_only_failed {
        let going = census.held.iter();
        let going = going.filter(|pod| pod.is_terminating() && !pods::is_finished(pod));
        busy.extend(going.filter_map(|pod| spec.index(pod)));
    }
    let is_free = |index: &u32| {
        !busy.contains(index) && !census.completed.has(*index) && !census.failed_indexes.has(*index)
    };
    let candidates = (0..spec.index_count()).filter(is_free).take(count);
    let mut due = Vec::new();
    for index in candidates {
        let last = census.last_failed.get(&index);
        let wait = last.map_or(Duration::ZERO, |pod| backoff::remaining_of_index(pod, now));
        if wait == Duration::ZERO {
            due.push(index);
        } else {
            plan.wake = plan.wake.or_earlier(Wake::After(wait));
        }
    }
    due
}

fn pod(census: &Census<'_>, name: &str) -> Value {
    let template = &census.spec.job.value["spec"]["template"];
    let mut pod = pods::from_template(template, name, JOB, census.spec.job);
    let finalizers = pod["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let others = finalizers.into_iter().filter(|one| one != TRACKING);
    let all: Vec<Value> = others.chain([json!(TRACKING)]).collect();
    pod["metadata"]["finalizers"] = json!(all);
    pod
}

fn indexed_pod(census: &Census<'_>, name: &str, index: u32) -> Value {
    let mut pod = pod(census, name);
    let text = json!(index.to_string());
    pod["metadata"]["annotations"][INDEX] = text.clone();
    pod["metadata"]["labels"][INDEX] = text;
    if census.spec.backoff_limit_per_index.is_some() {
        let (failures, ignored) = failures_before(census, index);
        pod["metadata"]["annotations"][INDEX_FAILURES] = json!(failures.to_string());
        if ignored > 0 {
            pod["metadata"]["annotations"][INDEX_IGNORED_FAILURES] = json!(ignored.to_string());
        }
    }
    if pod["spec"]["hostname"].as_str().unwrap_or_default().is_empty() {
        pod["spec"]["hostname"] = json!(format!("{}-{index}", census.spec.job.name.name));
    }
    for list in ["containers", "initContainers"] {
        let containers = pod["spec"][list].as_array_mut().into_iter().flatten();
        containers.for_each(tell_index);
    }
    pod
}

/// How often the index has failed, and how often that did not matter.
fn failures_before(census: &Census<'_>, index: u32) -> (usize, usize) {
    let Some(last) = census.last_failed.get(&index) else { return (0, 0) };
    let (failures, ignored) = (number(last, INDEX_FAILURES), number(last, INDEX_IGNORED_FAILURES));
    match census.failure(last) {
        Failure::Ignore => (failures, ignored + 1),
        _ => (failures + 1, ignored),
    }
}

fn tell_index(container: &mut Value) {
    const VARIABLE: &str = "JOB_COMPLETION_INDEX";
    let mut variables = container["env"].as_array().cloned().unwrap_or_default();
    if variables.iter().any(|one| one["name"] == VARIABLE) {
        return;
    }
    let path = format!("metadata.annotations['{INDEX}']");
    variables.push(json!({"name": VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": path}}}));
    container["env"] = json!(variables);
}
