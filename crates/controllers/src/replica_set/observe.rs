//! The pods of a ReplicaSet: those it controls, and those it may adopt.

use std::sync::Arc;

use reconcile::{Cache, Change, Context, Error, Name, Object, Selector};

use crate::kinds::{POD, REPLICA_SET};
use crate::pods;

/// What the plan needs to know.
#[derive(Default)]
pub struct Observed {
    /// Pods that the ReplicaSet controls.
    pub owned: Vec<Arc<Object>>,
    /// Active pods without a controller that match; only when it may adopt.
    pub orphans: Vec<Arc<Object>>,
}

pub async fn observe(context: &Context, object: &Object) -> Result<Observed, Error> {
    let cache = context.cache(POD);
    let owned = cache.owned_by(&object.uid);
    let selector = Selector::read(&object.value["spec"]["selector"])?;
    let is_orphan = |pod: &Arc<Object>| {
        pod.controller().is_none() && pods::is_active(pod) && selector.matches(pod)
    };
    let orphans = cache.in_namespace(&object.name.namespace);
    let mut orphans: Vec<_> = orphans.into_iter().filter(is_orphan).collect();
    if !orphans.is_empty() && !may_adopt(context, object).await? {
        orphans.clear();
    }
    Ok(Observed { owned, orphans })
}

/// A pod without a controller concerns every ReplicaSet that selects it.
pub fn sets_that_may_adopt(sets: &Cache, change: &Change) -> Vec<Name> {
    let Some(pod) = change.new.as_ref().filter(|pod| pod.controller().is_none()) else {
        return Vec::new();
    };
    let selects = |set: &Arc<Object>| {
        Selector::read(&set.value["spec"]["selector"]).is_ok_and(|selector| selector.matches(pod))
    };
    let sets = sets.in_namespace(&pod.name.namespace);
    sets.into_iter().filter(selects).map(|set| set.name.clone()).collect()
}

/// Adopting cannot be undone by looking again, so the server is asked whether the ReplicaSet is
/// still the one and stays.
async fn may_adopt(context: &Context, object: &Object) -> Result<bool, Error> {
    let live = context.get_live(REPLICA_SET, &object.name).await?;
    Ok(live.is_some_and(|live| live.uid == object.uid && !live.is_terminating()))
}
