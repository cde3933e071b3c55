//! What a set has: the StatefulSet of its leaders, and their groups.

use std::sync::Arc;

use reconcile::{Context, Error, Name, Object};
use serde_json::Value;

use super::spec::{Spec, Subdomain};
use super::{gang, labels};
use crate::kinds::{
    CONTROLLER_REVISION, LEADER_WORKER_SET, NODE, POD, POD_GROUP, SERVICE, STATEFUL_SET,
};

#[derive(Default)]
pub struct Observed {
    /// The set itself went, though the cache still shows it.
    pub is_gone: bool,
    /// The StatefulSet of the name that the leaders' is to have, whoever made it.
    pub leaders: Option<Arc<Object>>,
    pub revisions: Vec<Arc<Object>>,
    /// Whether there is a service of the set's own name, whoever made it.
    pub has_service: bool,
    /// In the order of their indexes.
    pub groups: Vec<Members>,
}

/// One group: a leader that there is, and what there is of the rest.
pub struct Members {
    pub index: i64,
    pub leader: Arc<Object>,
    pub workers: Workers,
    /// Whether there is a service of the leader's name.
    pub has_service: bool,
    /// Whether Volcano knows the group that the leader says it is of, or nobody can be told.
    pub has_group: bool,
    /// The part of the topology that its leader is in; known only where the workers must follow.
    pub domain: Option<Value>,
    /// The leader itself went, though the cache still shows it; looked for only where something
    /// would be made for it.
    pub is_gone: bool,
}

/// The StatefulSet that has the name of a group's workers.
pub enum Workers {
    Nothing,
    /// Of an earlier leader of the name; it goes.
    Earlier,
    Here {
        set: Arc<Object>,
        pods: Vec<Arc<Object>>,
    },
}

pub async fn observe(
    context: &Context,
    set: &Arc<Object>,
    has_groups: bool,
) -> Result<Observed, Error> {
    let spec = Spec::of(set);
    let leaders = context.cache(STATEFUL_SET).get(&set.name);
    let service = context.cache(SERVICE).get(&set.name);
    let mut observed = Observed {
        is_gone: false,
        revisions: context.owned_cache(CONTROLLER_REVISION).owned_by(&set.uid),
        has_service: service.is_some() || spec.subdomain() == Subdomain::UniquePerReplica,
        groups: Vec::new(),
        leaders,
    };
    let is_own = |one: &&Arc<Object>| one.controller() == Some(&set.uid);
    if let Some(leaders) = observed.leaders.as_ref().filter(is_own) {
        for leader in context.cache(POD).owned_by(&leaders.uid) {
            let Some(index) = index(set, &leader) else { continue };
            let mut members = members(context, leader);
            members.index = index;
            members.has_group = !has_groups || has_group(context, &members.leader);
            members.domain = domain(context, set, &members).await?;
            members.is_gone = lacks(&spec, &members) && is_gone(context, &members.leader).await?;
            observed.groups.push(members);
        }
        observed.groups.sort_by_key(|members| members.index);
    }
    // What is made for a set that went would be collected, and made again.
    if observed.leaders.is_none() || !observed.has_service {
        let live = context.get_live(LEADER_WORKER_SET, &set.name).await?;
        observed.is_gone = live.is_none_or(|live| live.uid != set.uid || live.is_terminating());
    }
    Ok(observed)
}

/// Whether something has to be made for a leader.
fn lacks(spec: &Spec<'_>, members: &Members) -> bool {
    // It is of the size of its own revision, whatever the set says by now.
    let is_alone = members.leader.annotation(labels::SIZE) == Some("1");
    let lacks_workers = !is_alone && matches!(members.workers, Workers::Nothing);
    let lacks_service = spec.subdomain() == Subdomain::UniquePerReplica && !members.has_service;
    !members.leader.is_terminating() && (lacks_workers || lacks_service || !members.has_group)
}

/// What is made for a leader that went is collected at once, and would be made again, for as long
/// as its going is not heard of.
async fn is_gone(context: &Context, leader: &Object) -> Result<bool, Error> {
    let live = context.get_live(POD, &leader.name).await?;
    Ok(live.is_none_or(|live| live.uid != leader.uid || live.is_terminating()))
}

/// The number of a leader, which is that of its group.
fn index(set: &Object, leader: &Object) -> Option<i64> {
    leader.name.name.strip_prefix(&*set.name.name)?.strip_prefix('-')?.parse().ok()
}

fn members(context: &Context, leader: Arc<Object>) -> Members {
    let workers = match context.cache(STATEFUL_SET).get(&leader.name) {
        None => Workers::Nothing,
        Some(found) if found.controller() != Some(&leader.uid) => Workers::Earlier,
        Some(set) => {
            let pods = context.cache(POD).owned_by(&set.uid);
            Workers::Here { pods, set }
        }
    };
    let has_service = context.cache(SERVICE).get(&leader.name).is_some();
    Members {
        index: 0,
        leader,
        workers,
        has_service,
        has_group: true,
        domain: None,
        is_gone: false,
    }
}

fn has_group(context: &Context, leader: &Object) -> bool {
    gang::name(leader).is_none_or(|group| {
        let name = Name::new(leader.name.namespace.clone(), group);
        context.cache(POD_GROUP).get(&name).is_some()
    })
}

/// Where a leader was put, if its workers have to come after it and are still to be made.
async fn domain(
    context: &Context,
    set: &Object,
    members: &Members,
) -> Result<Option<Value>, Error> {
    let node = members.leader.value["spec"]["nodeName"].as_str();
    let (Some(topology), Some(node), Workers::Nothing) =
        (set.annotation(labels::TOPOLOGY), node, &members.workers)
    else {
        return Ok(None);
    };
    let node = context.get_live(NODE, &Name::new("", node)).await?;
    let label = node.map(|node| node.value["metadata"]["labels"][topology].clone());
    Ok(label.filter(Value::is_string))
}
