//! Looks at objects when something about them changed, or at a time; each by one task at once.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use reconcile::backoff::Backoff;
use reconcile::queue::Queue;
use reconcile::{Context, Name, Wake};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::failure::Failure;

pub const BACKOFF: Backoff =
    Backoff { first: Duration::from_millis(200), max: Duration::from_secs(60) };
/// Objects that are looked at at the same time; the rest waits.
const LOOKS_MAX: usize = 256;

/// Which objects are to be looked at.
#[derive(Default)]
pub struct Looks {
    queue: Mutex<Queue>,
    changed: Notify,
}

impl Looks {
    pub fn add(&self, name: Name) {
        self.lock().add(name, Instant::now());
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks until it is dropped. Who fails is looked at again, later each time.
pub async fn run<F, L>(context: &Context, looks: &Arc<Looks>, look: F)
where
    F: Fn(Name) -> L,
    L: Future<Output = Result<Wake, Failure>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    loop {
        while tasks.len() < LOOKS_MAX {
            let Some(name) = looks.lock().take(Instant::now()) else { break };
            let looking = AssertUnwindSafe(look(name.clone())).catch_unwind();
            // One that panics has failed: nobody would look at its object again.
            tasks.spawn(async move {
                let looked = looking.await;
                (name, looked.unwrap_or_else(|_| Err("a look panicked".to_owned().into())))
            });
        }
        let due = looks.lock().next_due();
        let sleep = async {
            match due {
                Some(at) if at > Instant::now() => tokio::time::sleep_until(at).await,
                // What is due waits for a place.
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            () = looks.changed.notified() => {}
            () = sleep => {}
            Some(done) = tasks.join_next() => match done {
                Ok((name, result)) => finish(context, looks, (name, result)),
                Err(error) => tracing::error!(%error, "a look failed"),
            },
        }
    }
}

fn finish(context: &Context, looks: &Looks, (name, result): (Name, Result<Wake, Failure>)) {
    let mut queue = looks.lock();
    queue.finish(&name);
    match result {
        Ok(wake) => {
            queue.forget_failures(&name);
            if let Wake::After(after) = wake {
                queue.add(name, Instant::now() + after);
            }
        }
        Err(failure) => {
            let failures = queue.fail(&name);
            let delay = BACKOFF.delay(failures, context.environment.random());
            tracing::warn!(object = %name, error = failure.said(), "will be tried again");
            queue.add(name, Instant::now() + delay.max(failure.retry_after()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn an_object_whose_look_panics_is_looked_at_again() {
        let cluster = testkit::Cluster::start().await;
        let (context, looks) = (cluster.context(), Arc::new(Looks::default()));
        looks.add(Name::new("default", "m"));
        let (times, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let look = |_| {
            let (times, done) = (times.clone(), done.clone());
            async move {
                assert!(times.fetch_add(1, Ordering::Relaxed) > 0, "the first look panics");
                done.notify_one();
                Ok(Wake::OnChange)
            }
        };
        tokio::select! {
            () = run(&context, &looks, look) => {}
            () = done.notified() => {}
        }
        assert_eq!(times.load(Ordering::Relaxed), 2);
    }
}
