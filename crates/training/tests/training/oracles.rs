//! What must hold of training whatever happens: TJ-1 to TJ-10, each judged over everything that was
//! written in a run.

use std::collections::{BTreeMap, BTreeSet};

use reconcile::conditions;
use serde_json::{Value, json};
use testkit::faults::Pattern;
use testkit::oracle::{Case, Check, Violation};
use testkit::record::Change;
use training::value::{find, list, text};

/// The job of another manager, in every trial that has one.
pub const FOREIGN: &str = "theirs";

/// Every oracle, one line each.
pub const ALL: &[Check] = &[
    nothing_runs_after_the_end,
    ends_once,
    one_pod_a_rank,
    one_set_a_job,
    attempts_apart,
    held_runs_nothing,
    sets_stay_as_they_were,
    gangs_are_whole,
    ranks_agree,
    restarts_are_of_failures,
    completes_in_one_attempt,
    foreign_jobs_are_left_alone,
];

const ATTEMPT: &str = "jobset.sigs.k8s.io/restart-attempt";
const SET: &str = "jobset.sigs.k8s.io/jobset-name";
const SET_UID: &str = "jobset.sigs.k8s.io/jobset-uid";
const REPLICATED: &str = "jobset.sigs.k8s.io/replicatedjob-name";
const GROUP_LABEL: &str = "scheduling.x-k8s.io/pod-group";

fn is_of(kind: &str) -> impl Fn(&&Change) -> bool + '_ {
    move |change| change.new.as_ref().or(change.old.as_ref()).is_some_and(|one| one["kind"] == kind)
}

fn label<'a>(object: &'a Value, name: &str) -> &'a str {
    text(&object["metadata"]["labels"][name])
}

fn number(object: &Value, name: &str) -> i64 {
    label(object, name).parse().unwrap_or(0)
}

fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

fn is_over(pod: &Value) -> bool {
    matches!(text(&pod["status"]["phase"]), "Succeeded" | "Failed")
}

fn is(object: &Value, condition: &str) -> bool {
    conditions::is_true(&object["status"], condition)
}

/// Whether a fault may last longer than what users wait.
pub fn lasts(case: &Case<'_>) -> bool {
    case.run.planned.iter().any(|one| one.fault.pattern() == Pattern::Lasting)
}

/// The world after each change: every object that there is, by key.
fn replay<'a>(case: &'a Case<'_>, mut look: impl FnMut(&BTreeMap<&'a str, &'a Value>, &'a Change)) {
    let mut world: BTreeMap<&str, &Value> = BTreeMap::new();
    for change in &case.run.history {
        match &change.new {
            Some(new) => world.insert(&change.key, new),
            None => world.remove(change.key.as_str()),
        };
        look(&world, change);
    }
}

/// TJ-1: what has ended has no pods that run.
fn nothing_runs_after_the_end(case: &Case<'_>) -> Vec<Violation> {
    let objects = case.run.objects.values();
    let ended = objects.clone().filter(|object| {
        object["kind"] == "TrainJob" && (is(object, "Complete") || is(object, "Failed"))
    });
    let ended: BTreeSet<&str> = ended.map(name).collect();
    let runs = objects
        .filter(|object| object["kind"] == "Pod" && !is_over(object))
        .filter(|pod| ended.contains(label(pod, SET)));
    runs.map(|pod| Violation::new("TJ-1", format!("{} runs after the end", name(pod)))).collect()
}

/// TJ-2: ended is ended, never both ways, and the reason stays.
fn ends_once(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for change in &case.run.history {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { continue };
        if !matches!(text(&new["kind"]), "TrainJob" | "JobSet") {
            continue;
        }
        let ended = |object: &Value| {
            let reason = |kind: &str| {
                let found = conditions::find(&object["status"], kind);
                let found = found.filter(|one| one["status"] == "True");
                found.map(|one| text(&one["reason"]).to_owned())
            };
            [reason("Complete"), reason("Completed"), reason("Failed")]
        };
        let (before, after) = (ended(old), ended(new));
        let changed = before.iter().zip(&after).any(|(old, new)| old.is_some() && old != new);
        if changed || after.iter().flatten().count() > 1 {
            violations.push(Violation::new("TJ-2", format!("{} ends twice", change.key)));
        }
    }
    violations
}

/// TJ-3: one live pod for each index of a Job, whichever attempt it is of.
fn one_pod_a_rank(case: &Case<'_>) -> Vec<Violation> {
    let mut live: BTreeMap<&str, String> = BTreeMap::new();
    let mut violations = Vec::new();
    for change in case.run.history.iter().filter(is_of("Pod")) {
        live.remove(change.key.as_str());
        let Some(new) = change.new.as_ref().filter(|new| !is_over(new)) else { continue };
        let rank = format!(
            "{} {} {}",
            label(new, SET_UID),
            label(new, "batch.kubernetes.io/job-name"),
            label(new, "batch.kubernetes.io/job-completion-index"),
        );
        if live.values().any(|other| *other == rank) {
            violations.push(Violation::new("TJ-3", format!("two pods of {rank}")));
        }
        live.insert(&change.key, rank);
    }
    violations
}

/// TJ-3: a job has one JobSet in its life.
fn one_set_a_job(case: &Case<'_>) -> Vec<Violation> {
    let mut made: BTreeMap<&str, usize> = BTreeMap::new();
    for change in case.run.history.iter().filter(is_of("JobSet")) {
        if let (None, Some(new)) = (&change.old, &change.new) {
            *made.entry(text(&new["metadata"]["ownerReferences"][0]["uid"])).or_default() += 1;
        }
    }
    let many = made.into_iter().filter(|(_, count)| *count > 1);
    many.map(|(uid, count)| Violation::new("TJ-3", format!("{count} JobSets of {uid}"))).collect()
}

/// TJ-3: where a set blocks between attempts, no pod runs while one of an earlier attempt is there.
fn attempts_apart(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    replay(case, |world, change| {
        let runs = |pod: &&Value| pod["kind"] == "Pod" && pod["status"]["phase"] == "Running";
        let Some(pod) = change.new.as_ref().filter(runs) else { return };
        let of_set = |object: &Value| {
            object["kind"] == "JobSet" && object["metadata"]["uid"] == label(pod, SET_UID)
        };
        let set = world.values().find(|object| of_set(object));
        let blocks = set.is_some_and(|set| {
            set["spec"]["failurePolicy"]["restartStrategy"] == "BlockingRecreate"
        });
        let is_earlier = |other: &Value| {
            other["kind"] == "Pod"
                && label(other, SET_UID) == label(pod, SET_UID)
                && number(other, ATTEMPT) < number(pod, ATTEMPT)
        };
        if blocks && world.values().any(|other| is_earlier(other)) {
            let what = format!("{} runs beside an earlier attempt", change.key);
            violations.push(Violation::new("TJ-3", what));
        }
    });
    violations
}

/// TJ-4: nothing runs of a job that is held, at the end and when it is let go.
fn held_runs_nothing(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let is_held = |job: &Value| job["kind"] == "TrainJob" && job["spec"]["suspend"] == true;
    let is_live = |pod: &Value, job: &Value| {
        pod["kind"] == "Pod" && !is_over(pod) && label(pod, SET) == name(job)
    };
    let objects = || case.run.objects.values();
    for job in objects().filter(|job| is_held(job)).filter(|_| case.run.is_settled) {
        if objects().any(|pod| is_live(pod, job)) {
            violations.push(Violation::new("TJ-4", format!("{} runs though held", name(job))));
        }
    }
    replay(case, |world, change| {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { return };
        let is_resumed = is_held(old) && !is_held(new);
        if is_resumed && !lasts(case) && world.values().any(|pod| is_live(pod, new)) {
            let what = format!("{} still ran when it was let go", name(new));
            violations.push(Violation::new("TJ-4", what));
        }
    });
    violations
}

/// TJ-4 and TJ-5: what a set runs does not change, whether it is held, let go, or its runtime is
/// changed or deleted.
fn sets_stay_as_they_were(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for change in case.run.history.iter().filter(is_of("JobSet")) {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { continue };
        let without_suspension = |set: &Value| {
            let mut spec = set["spec"].clone();
            spec["suspend"] = json!(null);
            spec
        };
        if without_suspension(old) != without_suspension(new) {
            violations.push(Violation::new("TJ-5", format!("{} changed", change.key)));
        }
    }
    violations
}

/// TJ-6: a gang is as large as the pods that start together, and there before them.
fn gangs_are_whole(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    replay(case, |world, change| {
        let Some(new) = &change.new else { return };
        let group = label(new, GROUP_LABEL);
        if new["kind"] == "Pod" && change.old.is_none() && !group.is_empty() {
            let is_group = |other: &&Value| other["kind"] == "PodGroup" && name(other) == group;
            if !world.values().copied().any(|other| is_group(&other)) {
                let what = format!("{} is there before its gang", change.key);
                violations.push(Violation::new("TJ-6", what));
            }
        }
        if new["kind"] == "JobSet" {
            let members: i64 = list(&new["spec"]["replicatedJobs"]).iter().map(members).sum();
            let group = world
                .values()
                .find(|other| other["kind"] == "PodGroup" && name(other) == name(new));
            let size = group.map(|group| group["spec"]["minMember"].as_i64().unwrap_or(0));
            if members > 0 && size != Some(members) {
                let what = format!("{} of {members} has a gang of {size:?}", change.key);
                violations.push(Violation::new("TJ-6", what));
            }
        }
    });
    violations
}

/// How many pods of a replicated job are of the gang.
fn members(job: &Value) -> i64 {
    let spec = &job["template"]["spec"];
    let is_member = spec["template"]["metadata"]["labels"][GROUP_LABEL].is_string();
    let replicas = job["replicas"].as_i64().unwrap_or(1);
    if is_member { replicas * spec["parallelism"].as_i64().unwrap_or(1) } else { 0 }
}

/// TJ-7: the ranks of an attempt are told the same, and as many as there are.
fn ranks_agree(case: &Case<'_>) -> Vec<Violation> {
    const TOLD: [&str; 5] =
        ["PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"];
    let mut told: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut violations = Vec::new();
    for change in case.run.history.iter().filter(is_of("Pod")) {
        let (None, Some(pod)) = (&change.old, &change.new) else { continue };
        let env = &pod["spec"]["containers"][0]["env"];
        let found = TOLD.map(|name| find(env, "name", name).cloned().unwrap_or_default());
        let attempt = [SET_UID, ATTEMPT, REPLICATED].map(|name| label(pod, name)).join(" ");
        let first = told.entry(attempt.clone()).or_insert_with(|| found.to_vec());
        if *first != found {
            violations.push(Violation::new("TJ-7", format!("ranks of {attempt} disagree")));
        }
        let jobs = case.run.history.iter().filter(is_of("Job")).filter_map(|job| job.new.as_ref());
        let mut jobs = jobs.filter(|job| name(job) == label(pod, "batch.kubernetes.io/job-name"));
        let ranks = jobs.next().map(|job| job["spec"]["completions"].to_string());
        let world_size = found[0]["value"].as_str().map(str::to_owned);
        if world_size.is_some() && world_size != ranks {
            let what = format!("{} is told of {world_size:?} ranks, not {ranks:?}", change.key);
            violations.push(Violation::new("TJ-7", what));
        }
    }
    violations
}

/// TJ-8: restarts go up one at a time, each for a failure of the attempt before, and no further
/// than they may.
fn restarts_are_of_failures(case: &Case<'_>) -> Vec<Violation> {
    let mut failed: BTreeSet<(String, i64)> = BTreeSet::new();
    let mut violations = Vec::new();
    for change in &case.run.history {
        let Some(new) = &change.new else { continue };
        if new["kind"] == "Job" && is(new, "Failed") {
            failed.insert((label(new, SET_UID).to_owned(), number(new, ATTEMPT)));
        }
        if new["kind"] != "JobSet" {
            continue;
        }
        let restarts = |set: &Value| set["status"]["restarts"].as_i64().unwrap_or(0);
        let (before, after) = (change.old.as_ref().map_or(0, restarts), restarts(new));
        let most = new["spec"]["failurePolicy"]["maxRestarts"].as_i64().unwrap_or(0);
        let uid = text(&new["metadata"]["uid"]).to_owned();
        let is_due = after == before || failed.contains(&(uid, before));
        if !(0..=1).contains(&(after - before)) || after > most || !is_due {
            let what = format!("{} restarts from {before} to {after}", change.key);
            violations.push(Violation::new("TJ-8", what));
        }
    }
    violations
}

/// TJ-8: a set completes by Jobs of one attempt, the last.
fn completes_in_one_attempt(case: &Case<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    replay(case, |world, change| {
        let completes = |set: &&Value| set["kind"] == "JobSet" && is(set, "Completed");
        let Some(set) = change.new.as_ref().filter(completes) else { return };
        if change.old.as_ref().is_some_and(|old| is(old, "Completed")) {
            return;
        }
        let attempt = set["status"]["restarts"].as_i64().unwrap_or(0);
        let succeeded = world.values().filter(|job| {
            job["kind"] == "Job"
                && is(job, "Complete")
                && label(job, SET_UID) == text(&set["metadata"]["uid"])
                && number(job, ATTEMPT) == attempt
        });
        let targets = list(&set["spec"]["successPolicy"]["targetReplicatedJobs"]);
        let is_target = |job: &&Value| targets.is_empty() || targets.contains(&job["name"]);
        let jobs = list(&set["spec"]["replicatedJobs"]).iter().filter(is_target);
        let wanted: i64 = jobs.map(|job| job["replicas"].as_i64().unwrap_or(1)).sum();
        if (succeeded.count() as i64) < wanted {
            let what = format!("{} completes by Jobs of another attempt", change.key);
            violations.push(Violation::new("TJ-8", what));
        }
    });
    violations
}

/// TJ-10: nothing is written for a job of another manager.
fn foreign_jobs_are_left_alone(case: &Case<'_>) -> Vec<Violation> {
    let written = case.run.own().filter(|change| change.key.contains(FOREIGN));
    written.map(|change| Violation::new("TJ-10", format!("{} was written", change.key))).collect()
}

/// When the component brought about a change that fulfils a condition, in seconds since the
/// beginning of the world.
pub fn moment(case: &Case<'_>, is_it: impl Fn(&Change) -> bool) -> Option<u64> {
    let change = case.run.own().find(|change| is_it(change))?;
    let made = case.run.made.iter().find(|made| made.revision == change.revision)?;
    Some(made.at.as_secs())
}
