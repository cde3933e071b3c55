//! Gives every pod its node.
//!
//! Caches feed a columnar [`snapshot`]; the [`queue`] says which pod is next; [`cycle`] decides
//! about one pod as a pure function and [`classes`] about many that are alike; [`gang`] decides
//! about pods that start together or not at all; [`preempt`] finds who must go. What was decided is
//! assumed in the snapshot, and [`run`] carries it out: many bindings at once, each with the UID
//! that was seen. Where something fails, the pod goes back into the queue.
//!
//! A rule is a file in `plugins/` and a line of the table there.

pub mod classes;
pub mod cycle;
pub mod events;
#[cfg(test)]
mod fixtures;
pub mod gang;
pub mod kinds;
pub mod labels;
pub mod plugin;
pub mod plugins;
pub mod pod;
pub mod preempt;
pub mod profile;
pub mod quantity;
pub mod queue;
#[cfg(test)]
mod reference;
pub mod resources;
pub mod run;
pub mod snapshot;
pub mod verdict;

pub use cycle::schedule;
pub use gang::manifests::manifests;
pub use profile::{Policy, Profile};
pub use run::{Options, run};
pub use snapshot::Snapshot;
pub use verdict::{Diagnosis, Verdict, Verdicts};
