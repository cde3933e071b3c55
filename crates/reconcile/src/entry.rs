//! Tables of components: a crate lists what it has, one line each, and all start alike.

use std::pin::Pin;

use tokio::task::JoinSet;

use crate::context::Context;
use crate::reconciler::Reconciler;
use crate::run;
use crate::supervise::supervise;

/// A running component.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One component of a crate: its name, whether it is among those that are enabled, and how it
/// starts with what an installation chose.
pub struct Entry<Enabled, Options> {
    pub name: &'static str,
    pub is_enabled: fn(Enabled) -> bool,
    pub start: fn(Context, &Options) -> Task,
}

// Derived, these would ask the same of what is enabled and chosen.
impl<Enabled, Options> Clone for Entry<Enabled, Options> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Enabled, Options> Copy for Entry<Enabled, Options> {}

/// A component that is one reconciler.
pub fn run_boxed<R: Reconciler>(context: Context, reconciler: R) -> Task {
    Box::pin(run::run(context, reconciler))
}

/// Starts those that are enabled, each with a context of its own, and again whichever panics.
pub fn start<Enabled, Options>(
    table: &'static [Entry<Enabled, Options>],
    context_of: impl Fn(&'static str) -> Context,
    (enabled, options): (Enabled, &Options),
) -> JoinSet<()>
where
    Enabled: Copy + 'static,
    Options: Clone + Send + Sync + 'static,
{
    let mut tasks = JoinSet::new();
    for entry in table.iter().filter(|entry| (entry.is_enabled)(enabled)) {
        let (begin, options) = (entry.start, options.clone());
        let start = move |context: Context| begin(context, &options);
        tasks.spawn(supervise(entry.name, context_of(entry.name), start));
    }
    tasks
}
