//! Runs one component through a workload under every fault that its own trace offers, and asks the
//! oracles what they think of it.
//!
//! Every run is one thread, one seed and paused time. Read [`Trial`], then `run.rs` (one run),
//! `plans.rs` (which faults), `report.rs` (all of them).

mod plans;
mod report;
mod run;
mod seeds;

use std::pin::Pin;
use std::sync::Arc;

use reconcile::Context;

use crate::cluster::Cluster;
use crate::faults::Pattern;
use crate::oracle::{Case, Check};

pub use plans::plans;
pub use report::{roll_back, try_everything, try_with};
pub use run::{Run, run};

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What is put on trial.
#[derive(Clone, Copy)]
pub struct Trial {
    /// The controller, which is also its service account in kube-system; what follows a `/` or
    /// a `:` only tells trials apart. A name that begins with `system:` is that user.
    pub name: &'static str,
    pub seed: u64,
    /// Makes the component anew, as after a start of the process.
    pub component: fn(Context) -> Task,
    /// What users do, and what plays around the component.
    pub workload: fn(Arc<Cluster>, Context) -> Task,
    pub play: fn(Context) -> Task,
}

/// What few trials need besides.
#[derive(Clone, Copy)]
pub struct Also {
    /// Oracles that know what the component does.
    pub oracles: &'static [Check],
    /// Plans after which the world may end otherwise than without faults.
    pub incomparable: &'static [Pattern],
    /// Whether a run went the way that it is compared with, where there are several.
    pub is_alike: fn(&Case<'_>) -> bool,
    /// How many plans are run at most where not all that stand for a class are: worlds with much
    /// in them take long to make.
    pub samples_max: usize,
    /// Whether it is one of several of which one leads. One that is alone where it is, as what
    /// runs on a node, has no term to write under, and no rival while it stands still.
    pub is_led: bool,
}

impl Default for Also {
    /// What users do goes on while nothing can be written, and at other times when the clock jumps:
    /// only a trial that knows better compares where that leads.
    fn default() -> Also {
        let incomparable = &[Pattern::Clock, Pattern::Lasting];
        Also {
            oracles: &[],
            incomparable,
            is_alike: |_| true,
            samples_max: usize::MAX,
            is_led: true,
        }
    }
}
