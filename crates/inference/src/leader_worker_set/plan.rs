//! What a set does next.

use std::sync::Arc;
use std::time::Duration;

use amounts::Quantity;
use k8s_openapi::jiff::Timestamp;
use reconcile::plan::{Deletion, Notice, Propagation, Target};
use reconcile::{Error, Object, Plan, Step, Wake, conditions};
use serde_json::{Value, json};

use super::members::MEMBERS;
use super::observe::{Members, Observed, Workers};
use super::restart::{self, Verdict};
use super::revision::{self, Current};
use super::rollout::{self, Group, Leaders, Template};
use super::spec::{Spec, Startup};
use super::status;
use super::{build, gang, labels};
use crate::kinds::{CONTROLLER_REVISION, POD, POD_GROUP, SERVICE, STATEFUL_SET};

/// How long until leaders that go are looked at again.
const GOING: Duration = Duration::from_secs(5);
/// How long until a revision that is not there yet is looked for again.
const UNSEEN: Duration = Duration::from_secs(1);

pub fn plan(set: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
    let spec = Spec::of(set);
    let mut plan = Plan::nothing();
    if observed.is_gone || set.is_terminating() {
        return Ok(plan);
    }
    if let Some(leaders) = &observed.leaders {
        if leaders.controller() != Some(&set.uid) {
            let reason = format!("StatefulSet {} belongs to another owner", leaders.name);
            return Err(Error::Other { reason });
        }
        if leaders.is_terminating() {
            plan.wake = Wake::After(GOING);
            return Ok(plan);
        }
    }
    let current = revision::current(set, &observed.revisions);
    keep_revision(&mut plan, observed, &current);
    if !observed.has_service {
        plan.create(SERVICE, build::shared_service(&spec));
    }
    lead(&mut plan, &spec, observed, &current.key);
    for members in &observed.groups {
        keep_group(&mut plan, &spec, observed, members);
    }
    let status = status::status(&spec, observed, (&current.key, now));
    plan.notices.extend(status.notices);
    plan.status = Some(status.value);
    let is_told = |leaders: &Arc<Object>| leaders.label(labels::REVISION) == Some(&current.key);
    if status.is_update_done && observed.leaders.as_ref().is_some_and(is_told) {
        forget_revisions(&mut plan, observed, &current.key);
    }
    Ok(plan)
}

/// Makes the revision that groups will be made from, before any of them is.
fn keep_revision(plan: &mut Plan, observed: &Observed, current: &Current) {
    let Some(made) = &current.made else { return };
    plan.create(CONTROLLER_REVISION, made.clone());
    if observed.leaders.is_some() {
        let message = format!("Creating revision with key {} for updated LWS", current.key);
        plan.notices.push(Notice::normal("CreatingRevision", message));
    }
}

/// Makes the leaders what they are to be.
fn lead(plan: &mut Plan, spec: &Spec<'_>, observed: &Observed, key: &str) {
    let found = observed.leaders.as_deref();
    let template = match found {
        Some(found) if found.label(labels::REVISION) != Some(key) => Template::Changed,
        _ => Template::Known,
    };
    let leaders = found.map(read_leaders);
    let groups = groups(spec, observed, leaders.as_ref(), key);
    let step = rollout::next((spec.replicas, &spec.rollout), leaders.as_ref(), template, &groups);
    let wanted = build::leaders(spec, key, step);
    if found.is_none_or(|found| !is_as_wanted(&found.value, &wanted)) {
        plan.apply(STATEFUL_SET, wanted);
    }
}

fn read_leaders(found: &Object) -> Leaders {
    let spec = &found.value["spec"];
    let partition = &spec["updateStrategy"]["rollingUpdate"]["partition"];
    Leaders {
        partition: partition.as_i64().unwrap_or(0),
        replicas: spec["replicas"].as_i64().unwrap_or(1),
        asked: found.annotation(labels::REPLICAS).and_then(|text| text.parse().ok()),
    }
}

/// How the groups are that the leaders stand for, by their index.
fn groups(
    spec: &Spec<'_>,
    observed: &Observed,
    leaders: Option<&Leaders>,
    key: &str,
) -> Vec<Group> {
    let count = leaders.map_or(0, |leaders| leaders.replicas.max(0));
    let mut groups = vec![Group::default(); usize::try_from(count).unwrap_or(0)];
    for members in &observed.groups {
        let at = usize::try_from(members.index).ok().and_then(|at| groups.get_mut(at));
        if let Some(group) = at {
            *group = members.state(spec, key);
        }
    }
    groups
}

impl Members {
    /// Whether everything of a group serves, and is of a revision.
    pub fn state(&self, spec: &Spec<'_>, key: &str) -> Group {
        let is_of = |object: &Object| object.label(labels::REVISION) == Some(key);
        let leads = is_running_and_ready(&self.leader);
        if spec.size == 1 {
            return Group { is_ready: leads, is_updated: is_of(&self.leader) };
        }
        let Workers::Here { set, .. } = &self.workers else { return Group::default() };
        let (wanted, status) = (&set.value["spec"]["replicas"], &set.value["status"]);
        let available = status["availableReplicas"].as_i64().unwrap_or(0);
        let follow = available == wanted.as_i64().unwrap_or(1)
            && status["currentRevision"] == status["updateRevision"];
        Group { is_ready: leads && follow, is_updated: is_of(&self.leader) && is_of(set) }
    }

    /// Whether something of a group is of another revision.
    pub fn is_old(&self, key: &str) -> bool {
        let is_other = |object: &Object| object.label(labels::REVISION) != Some(key);
        let follow = match &self.workers {
            Workers::Here { set, .. } => is_other(set),
            Workers::Nothing | Workers::Earlier => false,
        };
        is_other(&self.leader) || follow
    }
}

pub fn is_running_and_ready(pod: &Object) -> bool {
    let status = &pod.value["status"];
    !pod.is_terminating() && status["phase"] == "Running" && conditions::is_true(status, "Ready")
}

/// Begins a group again, or makes what it lacks.
fn keep_group(plan: &mut Plan, spec: &Spec<'_>, observed: &Observed, members: &Members) {
    let leader = &members.leader;
    if leader.is_terminating() || members.is_gone {
        return;
    }
    match restart::judge(spec, members) {
        Verdict::BeginAgain(cause) => {
            delete_group(plan, leader);
            let message = format!(
                "Worker pod {cause} failed, deleted leader pod {} to recreate group {}",
                leader.name.name, members.index
            );
            plan.notices.push(Notice::normal("RecreateGroup", message));
            return;
        }
        Verdict::Note(digest) => note(plan, members, &digest),
        Verdict::Nothing => {}
    }
    if leader.annotation(labels::SUBDOMAIN) == Some("UniquePerReplica") && !members.has_service {
        plan.create(SERVICE, build::group_service(spec.set, leader));
    }
    if let Some(group) = gang::name(leader).filter(|_| !members.has_group) {
        plan.create(POD_GROUP, gang::group(spec, leader, group));
    }
    let is_named = |said: &&str| **said != *leader.name.name;
    if let Some(said) = leader.annotation(labels::LEADER_NAME).filter(is_named) {
        let message = format!("Leader pod {} says that its leader is {said}", leader.name.name);
        plan.notices.push(Notice::warning("UnexpectedLeaderName", message));
    }
    if matches!(members.workers, Workers::Nothing) {
        follow(plan, spec, observed, members);
    }
}

/// Notes who is of a group.
fn note(plan: &mut Plan, members: &Members, digest: &str) {
    if let Workers::Here { set, .. } = &members.workers {
        let patch = json!({"metadata": {"annotations": {MEMBERS: digest}}});
        plan.patch(Target::of(STATEFUL_SET, set), patch);
    }
}

/// Deletes a leader, and keeps its name until its workers have gone.
fn delete_group(plan: &mut Plan, leader: &Object) {
    let options = Deletion { propagation: Some(Propagation::Foreground), grace_seconds: None };
    plan.steps.push(Step::Delete { target: Target::of(POD, leader), options });
}

/// Makes the workers of a leader, once they may be.
fn follow(plan: &mut Plan, spec: &Spec<'_>, observed: &Observed, members: &Members) {
    let leader = &members.leader;
    let key = leader.label(labels::REVISION).unwrap_or_default();
    let Some(revision) = revision::find(&observed.revisions, key) else {
        // One that is of now will be there soon; what is of a revision that was let go of can never
        // be whole.
        let is_of_now = observed.leaders.as_ref().and_then(|one| one.label(labels::REVISION));
        if is_of_now == Some(key) {
            plan.wake = plan.wake.or_earlier(Wake::After(UNSEEN));
        } else {
            delete_group(plan, leader);
        }
        return;
    };
    let revised = revision::restored(revision);
    let waits = spec.startup == Startup::LeaderReady && !is_running_and_ready(leader);
    if build::size(&revised) == 1 || waits {
        return;
    }
    if leader.label(labels::GROUP_KEY).is_none() {
        let message = format!(
            "Leader pod {} has no group key: the webhook for pods was not asked when it was made",
            leader.name.name
        );
        plan.notices.push(Notice::warning("MissingGroupKey", message));
        return;
    }
    let mut workers = build::workers(spec.set, leader, &revised);
    if let Some(topology) = spec.set.annotation(labels::TOPOLOGY) {
        let Some(domain) = &members.domain else { return };
        workers["spec"]["template"]["spec"]["nodeSelector"][topology] = domain.clone();
    }
    plan.create(STATEFUL_SET, workers);
}

/// Lets go of revisions that no group is of any more.
fn forget_revisions(plan: &mut Plan, observed: &Observed, key: &str) {
    let is_used = |revision: &Object| {
        let label = revision.label(labels::REVISION);
        let is_of = |members: &Members| members.leader.label(labels::REVISION) == label;
        label == Some(key) || observed.groups.iter().any(is_of)
    };
    for revision in observed.revisions.iter().filter(|revision| !is_used(revision)) {
        plan.delete(Target::of(CONTROLLER_REVISION, revision));
    }
}

/// What is reported when a step was refused: why, where users look.
pub fn refused(error: &Error) -> Option<Plan> {
    let is_told = error.is_refusal() || matches!(error, Error::Other { .. });
    let notices = vec![Notice::warning("FailedCreate", error.said())];
    is_told.then(|| Plan { notices, ..Plan::nothing() })
}

/// Whether an object says all that is wanted of it, and nothing of ours that is not.
fn is_as_wanted(found: &Value, wanted: &Value) -> bool {
    let pod = |set: &Value| set["spec"]["template"]["metadata"]["annotations"].clone();
    let (has, wants) = (pod(found), pod(wanted));
    let optional = [
        labels::TOPOLOGY,
        labels::SUBGROUP_TOPOLOGY,
        labels::SUBGROUP_TYPE,
        labels::SUBGROUP_SIZE,
        labels::SUBDOMAIN,
    ];
    agrees(found, wanted) && optional.iter().all(|name| has[*name] == wants[*name])
}

/// Whether one says what the other does, however servers write amounts and leave out nothing.
fn agrees(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => wanted.iter().all(|(key, wanted)| {
            // Servers before 1.35 do not keep it.
            key == "maxUnavailable" && !found.contains_key(key)
                || agrees(found.get(key).unwrap_or(&Value::Null), wanted)
        }),
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len()
                && found.iter().zip(wanted).all(|(found, wanted)| agrees(found, wanted))
        }
        (Value::Null, wanted) => is_nothing(wanted),
        (found, wanted) => found == wanted || is_same_amount(found, wanted),
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().all(is_nothing),
        Value::Array(items) => items.is_empty(),
        other => [json!(null), json!(""), json!(0), json!(false)].contains(other),
    }
}

fn is_same_amount(one: &Value, other: &Value) -> bool {
    let (one, other) = (Quantity::read(one), Quantity::read(other));
    one.is_some() && one == other
}
