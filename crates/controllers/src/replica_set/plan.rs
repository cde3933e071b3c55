//! Which pods to make, adopt, release and delete.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::{Notice, Target};
use reconcile::{Error, Object, Plan, Selector, names};

use super::observe::Observed;
use super::status;
use crate::claims;
use crate::kinds::{POD, REPLICA_SET};
use crate::pods;

/// Pods made or deleted in one reconcile; the rest follows in the next.
const BURST_MAX: usize = 500;

pub fn plan(object: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
    let selector = Selector::read(&object.value["spec"]["selector"])?;
    let mut plan = Plan::nothing();
    let held = claims::settle(&mut plan, (REPLICA_SET, object), POD, &selector, &observed.pods);
    if !object.is_terminating() {
        scale(&mut plan, object, observed, &held);
    }
    let status = status::status(object, &held, None, now);
    plan.wake = status::wake(object, &held, now);
    plan.status = Some(status);
    Ok(plan)
}

/// What is reported when a pod could not be made or deleted.
pub fn refused(object: &Object, observed: &Observed, error: &Error, now: Timestamp) -> Plan {
    let held: Vec<_> = observed.pods.owned.iter().collect();
    let failure = error.said();
    let status = Some(status::status(object, &held, Some(&failure), now));
    let notice = Notice::warning("FailedCreate", format!("Error creating: {failure}"));
    Plan { status, notices: vec![notice], ..Plan::nothing() }
}

fn scale(plan: &mut Plan, object: &Object, observed: &Observed, held: &[&Arc<Object>]) {
    // Old clients could write less than nothing.
    let wanted = object.value["spec"]["replicas"].as_i64().unwrap_or(1).max(0);
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let active: Vec<_> = held.iter().copied().filter(|pod| pods::is_active(pod)).collect();
    if active.len() < wanted {
        let missing = (wanted - active.len()).min(BURST_MAX);
        for name in free_names(object, observed, missing) {
            let template = &object.value["spec"]["template"];
            plan.create(POD, pods::from_template(template, &name, REPLICA_SET, object));
            plan.notices.push(Notice::normal("SuccessfulCreate", format!("Created pod: {name}")));
        }
    } else if active.len() > wanted {
        let surplus = (active.len() - wanted).min(BURST_MAX);
        for victim in first_to_go(active).into_iter().take(surplus) {
            let name = &victim.name.name;
            plan.notices.push(Notice::normal("SuccessfulDelete", format!("Deleted pod: {name}")));
            plan.delete(Target::of(POD, victim));
        }
    }
}

/// Names that follow from the ReplicaSet and a number, so that a create whose answer was lost is
/// found again; numbers of pods that still exist are passed over.
fn free_names(object: &Object, observed: &Observed, count: usize) -> Vec<String> {
    let own = observed.pods.owned.iter().chain(&observed.pods.orphans);
    let mut taken: BTreeSet<&str> = own.map(|pod| &*pod.name.name).collect();
    taken.extend(observed.foreign_names.iter().map(String::as_str));
    let name = |number: usize| {
        let digest = names::digest(&[&object.uid, &number.to_string()]);
        names::child(&object.name.name, &digest[..5])
    };
    let free = (0..).map(name).filter(|name| !taken.contains(name.as_str()));
    let mut made = BTreeSet::new();
    free.filter(|name| made.insert(name.clone())).take(count).collect()
}

fn first_to_go(active: Vec<&Arc<Object>>) -> Vec<&Arc<Object>> {
    let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in &active {
        *on_node.entry(pods::node(pod)).or_default() += 1;
    }
    let mut ranked = active;
    ranked.sort_by_cached_key(|pod| {
        let others = on_node.get(pods::node(pod)).copied().unwrap_or(0);
        pods::deletion_rank(pod, others)
    });
    ranked
}
