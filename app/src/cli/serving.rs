//! The options of the commands that start the program, and what they add up to.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{self, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use node::simulated::{self, NODES_MAX, Resources};
use tracing::{info, warn};

use super::Context;
use super::runtime::RuntimeOptions;
use super::wait::parse_duration;
use crate::components::Components;
use crate::config::{self, Fallback, Loaded, LogLevel, Source, StoreKind};
use crate::database::Databases;
use crate::directories;
use crate::listener::Listen;
use crate::node_name;
use crate::operators::{self, Family};
use crate::python::Python;
use crate::server::Plan;
use crate::telemetry;
use crate::traces::Traces;

/// Where keys and certificates are, in the data directory.
pub const KEYS_DIRECTORY: &str = "pki";

/// A part that can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    All,
    /// The API server, which everything else needs.
    Api,
    /// What makes pods of Deployments, Jobs and the rest.
    Controllers,
    /// What gives pods a node.
    Scheduler,
    /// This machine as a node that runs pods.
    Node,
    /// A family of operators, by its name.
    Operators(&'static str),
}

impl Component {
    /// As the command line has it.
    pub fn name(self) -> &'static str {
        match self {
            Component::All => "all",
            Component::Api => "api",
            Component::Controllers => "controllers",
            Component::Scheduler => "scheduler",
            Component::Node => "node",
            Component::Operators(family) => family,
        }
    }

    /// Every part, and what it is for.
    fn every() -> Vec<(Component, String)> {
        let parts = [
            (Component::All, "all of them"),
            (Component::Api, "the API server, which everything else needs"),
            (Component::Controllers, "what makes pods of Deployments, Jobs and the rest"),
            (Component::Scheduler, "what gives pods a node"),
            (Component::Node, "this machine as a node that runs pods"),
        ];
        let operators = operators::ALL.iter().map(|family| {
            let names: Vec<&str> = family.operators().iter().map(|one| one.name).collect();
            (Component::Operators(family.name()), format!("the operators {}", names.join(", ")))
        });
        let parts = parts.into_iter().map(|(part, help)| (part, help.to_owned()));
        parts.chain(operators).collect()
    }

    fn parser() -> impl TypedValueParser<Value = Component> {
        let every = Component::every().into_iter();
        let values = every.map(|(part, help)| PossibleValue::new(part.name()).help(help));
        PossibleValuesParser::new(values).map(|name| {
            let every = Component::every().into_iter().map(|(part, _)| part);
            every.into_iter().find(|part| part.name() == name).unwrap_or(Component::All)
        })
    }
}

/// What is served, from which store, and where.
#[derive(Args, Clone)]
pub struct Place {
    /// Configuration file; by default the one named by CONFIG_PATH, ./.config.yaml,
    /// ~/.config/setpoint/config.yaml or /etc/setpoint/config.yaml.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Where everything is kept. Else SETPOINT_DATA_DIR, $XDG_DATA_HOME/setpoint or
    /// ~/.local/share/setpoint.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// Where to listen. Port 0 takes a free one, which is then printed; without this option
    /// 127.0.0.1:6443, or a free port when that is taken.
    #[arg(long, value_name = "ADDR:PORT", value_parser = parse_address)]
    pub listen: Option<SocketAddr>,

    /// Write a kubeconfig of an administrator to this file as well, when ready; what was there is
    /// replaced. The same is always in the data directory.
    #[arg(long, value_name = "FILE")]
    pub kubeconfig_out: Option<PathBuf>,

    /// Where the state is kept; wins over storage.type of the file.
    #[arg(long, value_name = "memory|embedded|mysql|etcd", hide_possible_values = true)]
    pub store: Option<StoreKind>,

    /// How long to go on answering after being told to stop, with /readyz failing, so that whoever
    /// chooses between servers chooses another first.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    #[arg(hide_default_value = true)]
    pub shutdown_delay: Duration,
}

#[derive(Args, Clone)]
pub struct Serving {
    #[command(flatten)]
    pub place: Place,

    /// The parts to run, with commas between them.
    #[arg(long, value_name = "LIST", default_value = "all", value_delimiter = ',')]
    #[arg(value_parser = Component::parser())]
    pub components: Vec<Component>,

    #[command(flatten)]
    pub runtime: RuntimeOptions,

    /// Python of pods that run as processes: an interpreter or the directory of a virtual
    /// environment [default: `python` of the configuration, or the first python3 on PATH]
    #[arg(long, value_name = "PATH")]
    pub python: Option<PathBuf>,

    /// What this machine has besides what is found, such as nvidia.com/gpu=2. GPUs are given to
    /// containers one by one, by CUDA_VISIBLE_DEVICES.
    #[arg(long, value_name = "LIST", default_value = "")]
    #[arg(value_parser = parse_named)]
    pub node_resources: NodeResources,

    /// Play this many nodes that run nothing, named fake-0 and so on. This machine is then no node
    /// itself, unless `node` is among the parts to run.
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=i64::from(NODES_MAX)))]
    pub fake_nodes: u32,

    /// What each of them has; what is not named is cpu=32,memory=256Gi,pods=110.
    #[arg(long, value_name = "LIST", default_value = "")]
    #[arg(value_parser = parse_resources)]
    pub fake_node_resources: FakeResources,
}

impl Place {
    /// Reads what has to be read; changes nothing.
    pub fn plan(
        &self,
        context: &Context,
        fallback: Fallback,
        components: impl FnOnce(&Loaded) -> Result<Components>,
    ) -> Result<Plan> {
        let data = directories::data(self.data_dir.as_deref())?;
        let mut loaded = config::load_with(self.config.as_deref(), fallback)?;
        if let Some(kind) = self.store {
            loaded.config.storage.kind = kind;
        }
        let node = node_name::of_this_node()?;
        let kubeconfig_out = match &self.kubeconfig_out {
            Some(path) => Some(path::absolute(path).with_context(|| {
                format!("{} cannot be a kubeconfig; name a file", path.display())
            })?),
            None => None,
        };
        let (began, output, keys) = (context.began, context.output, data.join(KEYS_DIRECTORY));
        let listen = self.listen.map_or(Listen::Usual, Listen::At);
        let components = components(&loaded)?;
        let page = None;
        Ok(Plan {
            began,
            data,
            keys,
            listen,
            page,
            kubeconfig_out,
            node,
            loaded,
            components,
            databases: Databases::Never,
            is_interactive: false,
            shutdown_delay: self.shutdown_delay,
            output,
        })
    }
}

impl Serving {
    pub fn plan(&self, context: &Context) -> Result<Plan> {
        let mut plan =
            self.place.plan(context, Fallback::Defaults, |loaded| self.components(loaded))?;
        plan.databases = Databases::By(self.runtime.wanted(&plan.loaded));
        Ok(plan)
    }

    /// The parts to run, with what they are told.
    fn components(&self, loaded: &Loaded) -> Result<Components> {
        let has = |one: Component| {
            self.components.iter().any(|given| *given == one || *given == Component::All)
        };
        if !has(Component::Api) {
            bail!("the other parts need the API server in the same process; add `api` to the list");
        }
        // Whoever plays nodes does not expect pods to run for real, unless he says so.
        let is_node = match self.fake_nodes {
            0 => has(Component::Node),
            _ => self.components.contains(&Component::Node),
        };
        let resources = self.fake_node_resources.resources.clone();
        Ok(Components {
            controllers: has(Component::Controllers),
            scheduler: has(Component::Scheduler),
            operators: families(loaded, &self.components),
            node: is_node.then(|| self.runtime.wanted(loaded)),
            fake_nodes: simulated::Options { count: self.fake_nodes, resources },
            node_resources: self.node_resources.named.clone(),
            python: Python::choose(self.python.as_deref(), &loaded.config)?,
        })
    }
}

/// The operators that run: those that are named, and where all parts are meant, those that the
/// configuration does not leave out.
pub fn families(loaded: &Loaded, asked: &[Component]) -> Vec<&'static dyn Family> {
    let is_asked = |family: &&&'static dyn Family| {
        let name = family.name();
        let is_left_out = loaded.config.operators_off.contains(name);
        asked.contains(&Component::Operators(name))
            || (asked.contains(&Component::All) && !is_left_out)
    };
    operators::ALL.iter().filter(is_asked).copied().collect()
}

/// Resources as they were written, for the program that `up` starts.
#[derive(Clone, Debug)]
pub struct FakeResources {
    pub text: String,
    resources: Resources,
}

/// As that, of this machine.
#[derive(Clone, Debug)]
pub struct NodeResources {
    pub text: String,
    pub named: BTreeMap<String, String>,
}

/// Reads what this machine is said to have.
pub fn parse_named(text: &str) -> Result<NodeResources, String> {
    Ok(NodeResources { text: text.to_owned(), named: node::devices::parse(text)? })
}

fn parse_resources(text: &str) -> Result<FakeResources, String> {
    Ok(FakeResources { text: text.to_owned(), resources: text.parse()? })
}

/// How the log is to be written.
pub fn log_format(context: &Context, loaded: &Loaded) -> telemetry::Format {
    context.global.log_format.unwrap_or(loaded.config.log_format)
}

/// Starts the log of a program that serves.
pub fn start_log(context: &Context, loaded: &Loaded) -> Result<Option<Traces>> {
    let format = log_format(context, loaded);
    start_log_as(context, (loaded.config.log_level, format), loaded)
}

/// Starts the log and says what should be said about the configuration.
pub fn start_log_as(
    context: &Context,
    (level, format): (LogLevel, telemetry::Format),
    loaded: &Loaded,
) -> Result<Option<Traces>> {
    let said = context.global.level();
    let keeps = telemetry::Keeps::Lines;
    let traces = telemetry::start(&telemetry::Options { said, level, format, keeps })?;
    match &loaded.source {
        Source::File(path) => info!(file = %path.display(), "configuration read"),
        Source::Example(path) => warn!(
            file = %path.display(),
            "example configuration read: there is no .config.yaml; copy the example to it"
        ),
        Source::Defaults { tried } => {
            let tried: Vec<String> = tried.iter().map(|it| it.display().to_string()).collect();
            info!(tried = tried.join(", "), "no configuration file: built-in defaults apply");
        }
    }
    for warning in &loaded.remarks.warnings {
        warn!("{warning}");
    }
    for key in &loaded.remarks.without_effect {
        info!("{key}");
    }
    Ok(traces)
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let expected = "expected ADDR:PORT with a numeric address, such as 127.0.0.1:6443 or [::1]:0";
    text.parse().map_err(|_| expected.to_owned())
}
