//! The pods and revisions of a DaemonSet, and all nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reconcile::{Context, Error, Object, Selector};

use super::failures::Failures;
use super::pod;
use crate::claims::{self, Claimed};
use crate::kinds::{CONTROLLER_REVISION, DAEMON_SET, NODE, POD};
use crate::pods;
use crate::revisions;

#[derive(Default)]
pub struct Observed {
    pub pods: Claimed,
    pub revisions: Claimed,
    pub nodes: Vec<Arc<Object>>,
    /// When each failed pod may be replaced, in seconds, by UID.
    pub replaceable: BTreeMap<String, i64>,
    /// How often pods have failed, by node; only where they have.
    pub failures: BTreeMap<String, u32>,
    /// Names that its pods cannot get.
    pub foreign_names: BTreeSet<String>,
    /// Another object has the name that the revision of the template would get.
    pub is_name_taken: bool,
}

pub async fn observe(
    context: &Context,
    set: &Object,
    failures: &Failures,
) -> Result<Observed, Error> {
    let selector = Selector::read(&set.value["spec"]["selector"])?;
    let owner = (DAEMON_SET, set);
    let is_here = |pod: &Object| !pod.is_terminating();
    let pods = claims::claimed(context, owner, POD, &selector, is_here).await?;
    let revisions =
        claims::claimed(context, owner, CONTROLLER_REVISION, &selector, |_| true).await?;
    let now = context.environment.now().as_second();
    let failed = pods.owned.iter().filter(|pod| pods::phase(pod) == "Failed");
    let replaceable = failed.map(|failed| {
        let at = failures.note(&set.uid, pod::node(failed), &failed.uid, now);
        (failed.uid.clone(), at)
    });
    Ok(Observed {
        replaceable: replaceable.collect(),
        failures: failures.of(&set.uid),
        foreign_names: claims::foreign_names(context, set, POD),
        is_name_taken: revisions::is_name_taken(context, set),
        nodes: context.cache(NODE).all(),
        pods,
        revisions,
    })
}
