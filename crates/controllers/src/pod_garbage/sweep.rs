//! Keeps the number of finished pods within bounds.

use std::sync::Arc;
use std::time::Duration;

use reconcile::act::{self, Written};
use reconcile::leader::Term;
use reconcile::plan::{Deletion, Target};
use reconcile::{Context, Object, Step};

use crate::kinds::POD;
use crate::pods;

/// Pods are counted no more often than this.
const PAUSE: Duration = Duration::from_secs(20);

/// Looks whenever there are pods enough to matter and something changed. Never returns.
pub async fn sweep(context: Context, finished_max: usize) {
    let cache = context.cache(POD);
    loop {
        let seen = cache.seen();
        let may_act = !matches!(*context.term.borrow(), Term::Follower(_));
        if cache.is_ready() && cache.len() > finished_max && may_act {
            let steps = surplus(&cache.all(), finished_max);
            let requests = context.requests(super::NAME, Default::default());
            let mut written = Written::default();
            if let Err(error) =
                act::perform((&requests, &context.caches), &steps, &mut written).await
            {
                tracing::warn!(error = %error.chain(), "finished pods could not be removed");
            }
            context.metrics.wrote(super::NAME, written.writes);
        }
        tokio::time::sleep(PAUSE).await;
        tokio::select! {
            () = cache.reaches(seen + 1) => {}
            () = context.stopping() => return,
        }
    }
}

/// The pods that are too many: those that were evicted first, then the oldest.
pub fn surplus(all: &[Arc<Object>], finished_max: usize) -> Vec<Step> {
    let is_over = |pod: &&Arc<Object>| pods::is_finished(pod) && !pod.is_terminating();
    let mut finished: Vec<_> = all.iter().filter(is_over).collect();
    let count = finished.len().saturating_sub(finished_max);
    finished.sort_by_cached_key(|pod| {
        let was_evicted = pod.value["status"]["reason"] == "Evicted";
        (!was_evicted, pod.created(), pod.name.clone())
    });
    let options = Deletion { grace_seconds: Some(0), propagation: None };
    let delete = |pod: &&Arc<Object>| Step::Delete {
        target: Target::of(POD, pod),
        options: options.clone(),
    };
    finished.iter().take(count).map(delete).collect()
}
