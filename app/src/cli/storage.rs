//! `setpoint storage`: the store and the API, and nothing that acts on its objects.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use node::simulated::{self, Resources};

use super::Context;
use super::runtime::RuntimeOptions;
use super::serving::{self, Place};
use super::start;
use crate::components::Components;
use crate::config::Fallback;
use crate::database::Databases;

const AFTER_HELP: &str = "\
Examples:
  setpoint storage                                      the store of the configuration
  CONFIG_PATH=node-1/.config.yaml setpoint storage      that of another file

With a mysql or etcd store, `setpoint controller` in other processes acts on what is written here.
A server of that kind that is said to be on this machine and does not answer is started as a
container, where docker or podman runs, and stopped at the end; its data are kept.";

/// Open the store and serve the API, without controllers.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Storage {
    #[command(flatten)]
    place: Place,

    #[command(flatten)]
    runtime: RuntimeOptions,
}

impl Storage {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let mut plan = self.place.plan(context, Fallback::Example, |_| Ok(none()))?;
        plan.databases = Databases::By(self.runtime.wanted(&plan.loaded));
        let _traces = serving::start_log(context, &plan.loaded)?;
        start::serve(plan)
    }
}

/// No part but the API.
pub fn none() -> Components {
    Components {
        controllers: false,
        scheduler: false,
        operators: Vec::new(),
        node: None,
        fake_nodes: simulated::Options { count: 0, resources: Resources::default() },
        node_resources: Default::default(),
        python: None,
    }
}
