//! `setpoint controller`: controllers, scheduler and node on a store that others share.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use node::simulated::{self, Resources};
use tracing::warn;

use super::Context;
use super::runtime::RuntimeOptions;
use super::serving::{self, Component, KEYS_DIRECTORY, NodeResources, parse_named};
use super::start;
use crate::components::Components;
use crate::config::{self, Fallback, StoreKind};
use crate::database::Databases;
use crate::directories;
use crate::listener::Listen;
use crate::node_name;
use crate::python::Python;
use crate::server::Plan;

/// The command, and the name under which the program is that command.
pub const NAME: &str = "controller";

const AFTER_HELP: &str = "\
Examples:
  setpoint controller                               on the store of the configuration
  NODE_NAME=node-2 setpoint controller --config node-2.yaml
  setpoint controller --runtime none                no pods run here; its node says so

The API is served to nobody but this process: no port is opened. Others reach the same objects
through a `setpoint start` on the same mysql or etcd store; of several processes one leads. Both
need the same keys, which are in `pki` of the data directory. Processes of one cluster run on one
host: there is no pod network between hosts.";

/// Run controllers, scheduler and node on a shared store, without serving the API.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Controller {
    /// Configuration file; by default the one named by CONFIG_PATH, ./.config.yaml, the user's,
    /// the machine's, or ./configs/config-example.yaml.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Where keys, records and volumes are kept. Else SETPOINT_DATA_DIR, $XDG_DATA_HOME/setpoint or
    /// ~/.local/share/setpoint.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,

    #[command(flatten)]
    runtime: RuntimeOptions,

    /// What this machine has besides what is found, such as nvidia.com/gpu=2.
    #[arg(long, value_name = "LIST", default_value = "")]
    #[arg(value_parser = parse_named)]
    node_resources: NodeResources,

    /// Where the state is kept; wins over storage.type of the file.
    #[arg(long, value_name = "memory|embedded|mysql|etcd", hide_possible_values = true)]
    store: Option<StoreKind>,
}

impl Controller {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let plan = self.plan(context)?;
        let _traces = serving::start_log(context, &plan.loaded)?;
        if let kind @ (StoreKind::Memory | StoreKind::Embedded) = plan.loaded.config.storage.kind {
            warn!(
                "{kind} storage is private to this process: nobody can give it work; processes \
                 share a store of type mysql or etcd"
            );
        }
        start::serve(plan)
    }

    fn plan(&self, context: &Context) -> Result<Plan> {
        let base = directories::data(self.data_dir.as_deref())?;
        let mut loaded = config::load_with(self.config.as_deref(), Fallback::Example)?;
        if let Some(kind) = self.store {
            loaded.config.storage.kind = kind;
        }
        let node = node_name::of_this_node()?;
        // A server on the same data directory has the directory, so ours is below it. The embedded
        // store can be opened once only, and then the whole directory is ours.
        let data = match loaded.config.storage.kind {
            StoreKind::Embedded => base.clone(),
            _ => base.join(NAME).join(&node),
        };
        let operators = serving::families(&loaded, &[Component::All]);
        let fake_nodes = simulated::Options { count: 0, resources: Resources::default() };
        let wanted = self.runtime.wanted(&loaded);
        let python = Python::choose(None, &loaded.config)?;
        Ok(Plan {
            began: context.began,
            data,
            keys: base.join(KEYS_DIRECTORY),
            listen: Listen::Nowhere,
            page: None,
            kubeconfig_out: None,
            node,
            loaded,
            components: Components {
                controllers: true,
                scheduler: true,
                operators,
                node: Some(wanted),
                fake_nodes,
                node_resources: self.node_resources.named.clone(),
                python,
            },
            databases: Databases::Never,
            is_interactive: false,
            shutdown_delay: Duration::ZERO,
            output: context.output,
        })
    }
}
