//! How pods of one scheduler name are treated.

use crate::plugin::Plugin;
use crate::plugins;

/// Resources that are filled node by node, so that whole nodes stay free for what needs them.
const PACKED: [&str; 2] = ["nvidia.com/gpu", "amd.com/gpu"];

#[derive(Clone)]
pub struct Profile {
    /// What pods say in `spec.schedulerName`, and what events say they come from.
    pub scheduler_name: String,
    pub policy: Policy,
    /// Resources of which a pod goes to the node with the least left over.
    pub packed: Vec<String>,
}

/// How one of the nodes that fit is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The one with the best score.
    BestScore,
    /// The first that is Ready, in the order of names.
    FirstReady,
}

impl Profile {
    pub fn named(scheduler_name: &str) -> Profile {
        Profile {
            scheduler_name: scheduler_name.to_owned(),
            policy: Policy::BestScore,
            packed: PACKED.map(str::to_owned).to_vec(),
        }
    }

    pub fn plugins(&self) -> &'static [&'static dyn Plugin] {
        plugins::ALL
    }
}
