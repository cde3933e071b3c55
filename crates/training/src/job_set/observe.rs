//! What a JobSet has: Jobs, a service, claims, and time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::{Context, Error, Name, Object, conditions};

use super::network;
use super::spec::{COMPLETED, FAILED, Spec};
use super::volume_claims;
use crate::kinds::{JOB, JOB_SET, PERSISTENT_VOLUME_CLAIM, SERVICE};
use crate::timers::Timers;
use crate::value::text;

pub struct Observed {
    /// The set itself went, though the cache still shows it.
    pub is_gone: bool,
    /// The Jobs that it controls.
    pub jobs: Vec<Arc<Object>>,
    /// Whether there is a service of the name that it wants, whoever made it.
    pub has_service: bool,
    /// The names of claims that exist, of those that it wants.
    pub claims: BTreeSet<String>,
    /// Until it is to be deleted, if it has ended and is not kept for ever.
    pub until_deletion: Option<Duration>,
}

pub async fn observe(
    context: &Context,
    set: &Arc<Object>,
    timers: &Timers,
) -> Result<Observed, Error> {
    let spec = Spec::of(set);
    let namespace = &set.name.namespace;
    let service = network::service_name(&spec).map(|name| Name::new(namespace.clone(), name));
    let claims = volume_claims::wanted(&spec).map(|claim| claim.name);
    let cache = context.owned_cache(PERSISTENT_VOLUME_CLAIM);
    let is_there = |name: &String| cache.contains(&Name::new(namespace.clone(), name.as_str()));
    let jobs = context.owned_cache(JOB).owned_by(&set.uid);
    let has_service = service.is_some_and(|name| context.owned_cache(SERVICE).contains(&name));
    // What is made for a set that went would be collected, and made again.
    let makes = !has_service || i64::try_from(jobs.len()).unwrap_or(i64::MAX) < spec.replicas();
    let is_gone = makes && !spec.is_finished() && {
        let live = context.get_live(JOB_SET, &set.name).await?;
        live.is_none_or(|live| live.uid != set.uid || live.is_terminating())
    };
    Ok(Observed {
        is_gone,
        jobs,
        has_service,
        claims: claims.filter(is_there).collect(),
        until_deletion: until_deletion(context, set, timers),
    })
}

fn until_deletion(context: &Context, set: &Object, timers: &Timers) -> Option<Duration> {
    let seconds = set.value["spec"]["ttlSecondsAfterFinished"].as_u64()?;
    let status = &set.value["status"];
    let ended = [COMPLETED, FAILED].into_iter().find_map(|kind| {
        conditions::find(status, kind).filter(|condition| condition["status"] == "True")
    })?;
    let since: Timestamp = text(&ended["lastTransitionTime"]).parse().ok()?;
    Some(timers.left(&set.uid, since, seconds, context.environment.now()))
}
