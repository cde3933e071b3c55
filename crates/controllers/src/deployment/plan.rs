//! What to do about a Deployment.

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::{Notice, Target};
use reconcile::{Error, Object, Plan, Selector, act};
use serde_json::{Value, json};

use super::annotations::REVISION;
use super::observe::Observed;
use super::rollout::Rollout;
use super::sets::Set;
use super::spec::{Spec, Strategy};
use super::{status, template};
use crate::claims;
use crate::kinds::{DEPLOYMENT, POD, REPLICA_SET};
use crate::options::Match;
use crate::pods;

pub fn plan(
    deployment: &Object,
    observed: &Observed,
    matching: Match,
    now: Timestamp,
) -> Result<Plan, Error> {
    let selector = Selector::read(&deployment.value["spec"]["selector"])?;
    if selector.is_empty() {
        return Ok(selects_all(deployment));
    }
    let mut plan = Plan::nothing();
    let held =
        claims::settle(&mut plan, (DEPLOYMENT, deployment), REPLICA_SET, &selector, &observed.sets);
    let sets = held.into_iter().map(Set::seen).collect();
    if matching == Match::Adopt && !deployment.is_terminating() {
        label_loose_pods(&mut plan, deployment, observed);
    }
    // What is adopted is changed, so only the next look can change it further.
    if !plan.steps.is_empty() {
        return Ok(plan);
    }
    let provided = status::provided(observed, matching, deployment, now);
    let spec = Spec::read(deployment, provided.replicas);
    let mut rollout = Rollout::new(deployment, spec, sets, now);
    if rollout.new.is_none() && observed.is_name_taken && !deployment.is_terminating() {
        return Ok(collides(deployment));
    }
    let is_rollout = advance(&mut rollout, observed);
    let status = status::status(&mut rollout, &provided, is_rollout);
    plan.wake = status::wake(&rollout, &status);
    finish(&mut plan, rollout, status);
    Ok(plan)
}

/// Makes the next move; true if it belongs to a rollout, whose progress is watched.
fn advance(rollout: &mut Rollout<'_>, observed: &Observed) -> bool {
    if rollout.deployment.is_terminating() {
        return false;
    }
    status::note_pause(rollout);
    if rollout.spec.is_paused {
        rollout.renew();
        rollout.rescale();
        rollout.clean_up();
        return false;
    }
    if rollout.is_scaled() {
        rollout.renew();
        rollout.rescale();
        return false;
    }
    match rollout.spec.strategy {
        Strategy::Rolling { .. } => rollout.roll(),
        Strategy::Recreate => rollout.recreate(observed),
    }
    true
}

fn finish(plan: &mut Plan, rollout: Rollout<'_>, status: Value) {
    // The smaller side first: room is made before it is used.
    for set in &rollout.sets {
        set.write(plan);
    }
    for at in &rollout.spare {
        if let Some(object) = rollout.sets[*at].object() {
            plan.delete(Target::unchanged(REPLICA_SET, object));
        }
    }
    let revision = rollout.new_set().and_then(|set| set.annotations.get(REVISION));
    let is_known = revision.is_none_or(|it| rollout.deployment.annotation(REVISION) == Some(it));
    if !is_known && !rollout.deployment.is_terminating() {
        let mut patch = json!({"metadata": {"annotations": {REVISION: revision}}});
        if let Some(change) = act::difference(&rollout.deployment.value["status"], &status) {
            patch["status"] = change;
        }
        // Whoever writes the status may write the annotations with it.
        plan.update(DEPLOYMENT, rollout.deployment, "status", patch);
    }
    plan.status = Some(status);
    plan.notices = rollout.notices;
}

/// What is reported when a step was refused.
pub fn refused(
    deployment: &Object,
    observed: &Observed,
    error: &Error,
    now: Timestamp,
) -> Option<Plan> {
    let sets = observed.sets.owned.iter().map(Set::seen).collect();
    let mut rollout = Rollout::new(deployment, Spec::read(deployment, 0), sets, now);
    if rollout.new.is_some() {
        return None;
    }
    let name = template::set_name(deployment);
    let message = format!("Failed to create new replica set {name:?}: {}", error.said());
    let notice = Notice::warning("ReplicaSetCreateError", message.clone());
    let mut plan = Plan { notices: vec![notice], ..Plan::nothing() };
    if rollout.spec.deadline_seconds.is_some() {
        let failed = status::progressing("False", "ReplicaSetCreateError", &message);
        status::set(&mut rollout.conditions, failed, now);
        let mut status = deployment.value["status"].clone();
        status["conditions"] = json!(rollout.conditions);
        plan.status = Some(status);
    }
    Some(plan)
}

/// A selector that matches everything would take the pods of everybody.
fn selects_all(deployment: &Object) -> Plan {
    let message = "This deployment is selecting all pods. A non-empty selector is required.";
    let mut status = deployment.value["status"].clone();
    status["observedGeneration"] = json!(deployment.generation());
    let notices = vec![Notice::warning("SelectingAll", message)];
    Plan { status: Some(status), notices, ..Plan::nothing() }
}

/// The next look uses another hash.
fn collides(deployment: &Object) -> Plan {
    let mut status = deployment.value["status"].clone();
    status["collisionCount"] = json!(template::collisions(deployment) + 1);
    Plan { status: Some(status), ..Plan::nothing() }
}

/// Gives pods of nobody's the label by which the newest ReplicaSet knows its own.
fn label_loose_pods(plan: &mut Plan, deployment: &Object, observed: &Observed) {
    let sets = observed.sets.owned.iter();
    let newest = sets
        .filter(|set| template::is_same(deployment, set))
        .min_by_key(|set| (set.created().map(|at| at.as_second()), set.name.clone()));
    let hash = newest.and_then(|set| set.label(template::HASH_LABEL)).map(ToOwned::to_owned);
    let hash = hash.unwrap_or_else(|| template::hash(deployment));
    for pod in &observed.loose {
        if pod.label(template::HASH_LABEL).is_none() && pods::is_active(pod) {
            let labels = json!({"metadata": {"labels": {template::HASH_LABEL: hash}}});
            plan.update(POD, pod, "", labels);
        }
    }
}
