//! The Jobs of a CronJob.

use std::sync::Arc;

use reconcile::{Context, Object};

use crate::kinds::JOB;

pub type Observed = Vec<Arc<Object>>;

pub fn observe(context: &Context, cron: &Object) -> Observed {
    context.cache(JOB).owned_by(&cron.uid)
}
