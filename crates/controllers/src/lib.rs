//! The built-in controllers. Each is a folder with the same names: `mod.rs` (the type and what
//! wakes it), `observe.rs` (reads), `plan.rs` (decides), `status.rs` (reports).

pub mod kinds;
pub mod pods;
pub mod replica_set;

use reconcile::{Context, run};
use tokio::task::JoinSet;

/// Starts every controller; one line each.
pub fn start(context: &Context) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(run::run(context.clone(), replica_set::Controller));
    tasks
}
