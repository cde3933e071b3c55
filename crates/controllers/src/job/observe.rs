//! The pods of a Job.

use reconcile::{Context, Error, Object, Selector};

use super::spec::Spec;
use crate::claims::{self, Claimed};
use crate::kinds::{JOB, POD};

pub type Observed = Claimed;

pub async fn observe(context: &Context, job: &Object) -> Result<Observed, Error> {
    let spec = Spec::of(job);
    if spec.is_managed_elsewhere() || spec.is_finished() {
        let owned = context.cache(POD).owned_by(&job.uid);
        return Ok(Observed { owned, orphans: Vec::new() });
    }
    let selector = Selector::read(&job.value["spec"]["selector"])?;
    let stays = |pod: &Object| !pod.is_terminating();
    claims::claimed(context, (JOB, job), POD, &selector, stays).await
}
