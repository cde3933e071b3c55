//! The ReplicaSets of a Deployment, and what else its rollout waits for.

use std::collections::BTreeMap;
use std::sync::Arc;

use reconcile::{Context, Error, Name, Object, Selector};

use super::template;
use crate::claims::{self, Claimed};
use crate::kinds::{DEPLOYMENT, POD, REPLICA_SET};
use crate::options::Match;
use crate::pods;

#[derive(Default)]
pub struct Observed {
    pub sets: Claimed,
    /// Pods that have not ended, by the UID of their ReplicaSet; only where the old must end first.
    pub running: BTreeMap<String, usize>,
    /// Pods of nobody's that the Deployment selects; only where they are of concern.
    pub loose: Vec<Arc<Object>>,
    /// Another object has the name that the ReplicaSet of the template would get.
    pub is_name_taken: bool,
}

pub async fn observe(
    context: &Context,
    deployment: &Object,
    matching: Match,
) -> Result<Observed, Error> {
    let selector = Selector::read(&deployment.value["spec"]["selector"])?;
    let owner = (DEPLOYMENT, deployment);
    let sets = claims::claimed(context, owner, REPLICA_SET, &selector, |_| true).await?;
    let mut observed = Observed { sets, ..Observed::default() };
    let pods = context.cache(POD);
    if deployment.value["spec"]["strategy"]["type"] == "Recreate" {
        for set in &observed.sets.owned {
            let running =
                pods.owned_by(&set.uid).iter().filter(|pod| !pods::is_finished(pod)).count();
            observed.running.insert(set.uid.clone(), running);
        }
    }
    if matching != Match::Owners {
        let mut loose = pods.loose(&deployment.name.namespace);
        loose.retain(|pod| pods::is_active(pod) && selector.matches(pod));
        observed.loose = loose;
    }
    let name = Name::new(deployment.name.namespace.clone(), template::set_name(deployment));
    let named = context.cache(REPLICA_SET).get(&name);
    observed.is_name_taken = named.is_some_and(|named| {
        let is_own = named.controller() == Some(deployment.uid.as_str());
        let is_orphan = observed.sets.orphans.iter().any(|orphan| orphan.uid == named.uid);
        !(is_own || is_orphan) || !template::is_same(deployment, &named)
    });
    Ok(observed)
}
