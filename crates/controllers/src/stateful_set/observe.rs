//! The pods, revisions and claims of a StatefulSet.

use std::collections::BTreeSet;

use reconcile::{Context, Error, Object, Selector};

use super::identity;
use super::spec::Spec;
use super::volume_claims::{self, Claims};
use crate::claims::{self, Claimed};
use crate::kinds::{CONTROLLER_REVISION, PERSISTENT_VOLUME_CLAIM, POD, STATEFUL_SET};
use crate::revisions;

#[derive(Default)]
pub struct Observed {
    pub pods: Claimed,
    pub revisions: Claimed,
    /// By name; only those that pods of the set mount.
    pub claims: Claims,
    /// Another object has the name that the revision of the template would get.
    pub is_name_taken: bool,
}

pub async fn observe(context: &Context, set: &Object) -> Result<Observed, Error> {
    let selector = Selector::read(&set.value["spec"]["selector"])?;
    let owner = (STATEFUL_SET, set);
    let is_member = |pod: &Object| identity::ordinal(set, pod).is_some() && !pod.is_terminating();
    let pods = claims::claimed(context, owner, POD, &selector, is_member).await?;
    let revisions =
        claims::claimed(context, owner, CONTROLLER_REVISION, &selector, |_| true).await?;
    let mut observed = Observed { pods, revisions, ..Observed::default() };
    observed.is_name_taken = revisions::is_name_taken(context, set);
    let spec = Spec::read(set);
    let all = observed.pods.owned.iter().chain(&observed.pods.orphans);
    let mut ordinals: BTreeSet<i64> = all.filter_map(|pod| identity::ordinal(set, pod)).collect();
    ordinals.extend(spec.start..spec.start + spec.replicas);
    let wanted = ordinals.into_iter().flat_map(|ordinal| volume_claims::names(set, ordinal));
    let wanted: BTreeSet<String> = wanted.collect();
    if !wanted.is_empty() {
        let found = context.cache(PERSISTENT_VOLUME_CLAIM).in_namespace(&set.name.namespace);
        let found = found.into_iter().filter(|claim| wanted.contains(&*claim.name.name));
        observed.claims = found.map(|claim| (claim.name.name.to_string(), claim)).collect();
    }
    Ok(observed)
}
