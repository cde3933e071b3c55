//! `setpoint operator`: our operators on any cluster.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow};
use clap::{ArgAction, Args, Subcommand};
use serde_json::{Value, json};

use super::start::multi_threaded;
use super::{Context, exit};
use crate::operators::Nodes;
use crate::operators::choice::{Choice, every_name};
use crate::operators::cluster::Access;
use crate::operators::installation::{
    HEALTH_PORT, Installation, METRICS_PORT, Reached, SECURE_PORT,
};
use crate::operators::said::{Address, Only, Said};
use crate::operators::standalone::{
    self, Addresses, Election, FirstObjects, Install, LIFE_SECONDS, Plan,
};
use crate::output::{self, Format};
use crate::telemetry;

const AFTER_HELP: &str = "\
Examples:
  setpoint operator manifests | kubectl apply -f -     install it on a cluster, as a Deployment
  setpoint operator --enable trainer                   what that Deployment runs
  setpoint operator --install --kubeconfig FILE --webhook-url https://HOST:9443
      from a machine beside the cluster

On a cluster that has JobSet already, `--enable trainer` leaves JobSet to whoever runs it. Several
processes may run the same: all of them answer, and of each operator one does the work.";

const MANIFESTS_AFTER_HELP: &str = "\
Examples:
  setpoint operator manifests | kubectl apply -f -
  setpoint operator manifests --enable trainer --namespace ml --image IMAGE:TAG
  setpoint operator manifests --runtimes | kubectl apply -f -     the runtimes, to be kept by you

The runtimes that every installation has are made by the operator where they are missing, because a
cluster takes them only when it knows their kinds; print them with --runtimes to apply your own.";

/// Run our operators for another cluster.
#[derive(Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub struct Operator {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    run: Run,
}

#[derive(Subcommand)]
enum Command {
    /// Print the manifests that install the operators.
    #[command(after_help = MANIFESTS_AFTER_HELP)]
    Manifests(Manifests),
}

/// Which operators, and where they live.
#[derive(Args, Clone)]
struct Installed {
    #[arg(long, value_name = "LIST", default_value = "all", value_parser = Choice::parse)]
    #[arg(help = enable_help())]
    enable: Choice,

    /// Where leases, certificates and the service are. Else the namespace of this pod, or that
    /// which the operators have upstream.
    #[arg(short, long)]
    namespace: Option<String>,

    /// Where the cluster reaches this process, if it does not run in it: webhooks and reports of
    /// progress then go there, and not to a service.
    #[arg(long, value_name = "https://HOST:PORT", value_parser = parse_url)]
    webhook_url: Option<String>,

    /// Work in this namespace alone; operators that work everywhere leave it to this one.
    #[arg(long, value_name = "NAMESPACE")]
    watch_namespace: Option<String>,
}

#[derive(Args)]
struct Run {
    #[command(flatten)]
    installed: Installed,

    /// The kubeconfig of the cluster. Else the account of this pod, KUBECONFIG or ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig; else its current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// A file that the operators are configured by: an OperatorConfiguration of
    /// operator.config.dynamo.nvidia.com/v1alpha1. What is given here wins over it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Where /healthz and /readyz are answered. Else port 8081 of every address.
    #[arg(long, value_name = "ADDR:PORT")]
    health_address: Option<SocketAddr>,

    /// Where /metrics is answered, over TLS. Else port 8443 of every address.
    #[arg(long, value_name = "ADDR:PORT")]
    metrics_address: Option<SocketAddr>,

    /// Where webhooks and reports of progress are answered, over TLS. Else port 9443 of every
    /// address.
    #[arg(long, value_name = "ADDR:PORT")]
    webhook_address: Option<SocketAddr>,

    /// Do the work only while holding a lease, as is usual. Without it nobody else may run the
    /// same.
    #[arg(long, value_name = "true|false", action = ArgAction::Set)]
    #[arg(hide_possible_values = true)]
    leader_elect: Option<bool>,

    /// Install what is needed first, as this user: definitions, roles, webhooks.
    #[arg(long)]
    install: bool,

    /// Do not make the runtimes that every installation has.
    #[arg(long)]
    no_runtimes: bool,

    /// How long serving certificates hold.
    #[arg(long, hide = true, default_value_t = LIFE_SECONDS)]
    #[arg(value_parser = clap::value_parser!(i64).range(3..=LIFE_SECONDS))]
    certificate_seconds: i64,
}

#[derive(Args)]
struct Manifests {
    #[command(flatten)]
    installed: Installed,

    /// The image of this program that the cluster runs.
    #[arg(long, default_value = concat!("setpoint:", env!("CARGO_PKG_VERSION")))]
    image: String,

    /// The file that the operators will be configured by: what it asks rights for gets them.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Print the runtimes that every installation has, and nothing else.
    #[arg(long)]
    runtimes: bool,

    /// Print the definitions of kinds, and nothing else: what comes before a Helm chart.
    #[arg(long, conflicts_with = "runtimes")]
    definitions: bool,
}

impl Operator {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        match &self.command {
            Some(Command::Manifests(manifests)) => manifests.print(context),
            None => self.run.run(context),
        }
    }
}

impl Installed {
    /// Refuses what a role of one namespace does not suffice for.
    fn check(&self) -> Result<()> {
        let Some(namespace) = &self.watch_namespace else { return Ok(()) };
        let of_cluster = self.enable.operators().find_map(|(_, operator)| {
            let kind = operator.needs.iter().find(|kind| !kind.namespaced)?;
            Some((operator.name, kind.plural))
        });
        let Some((name, plural)) = of_cluster else { return Ok(()) };
        let what = format!(
            "the operator {name:?} cannot work in the namespace {namespace} alone: it needs \
             {plural}, which are in no namespace"
        );
        let others = self
            .enable
            .operators()
            .filter(|(_, operator)| operator.needs.iter().all(|kind| kind.namespaced));
        let others: Vec<&str> = others.map(|(_, operator)| operator.name).collect();
        let hint = match others.is_empty() {
            true => "leave --watch-namespace out".to_owned(),
            false => format!("name the others: --enable {}", others.join(",")),
        };
        Err(anyhow!(exit::Failure::new(exit::USAGE, what).hint(hint)))
    }
}

impl Run {
    fn run(&self, context: &Context) -> Result<ExitCode> {
        self.installed.check()?;
        let (file, said) = read(&self.installed.enable, self.config.as_deref())?;
        let _traces = telemetry::start(&telemetry::Options {
            said: context.global.level(),
            level: said.level.unwrap_or_default(),
            format: context.global.log_format.or(said.format).unwrap_or_default(),
            keeps: telemetry::Keeps::Nothing,
        })?;
        let runtime = multi_threaded()?;
        let ended = runtime.block_on(standalone::run(self.plan(context, file, &said)));
        runtime.shutdown_background();
        ended.map(|()| ExitCode::SUCCESS)
    }

    fn plan(&self, context: &Context, file: Option<String>, said: &Said) -> Plan {
        let Installed { enable, namespace, webhook_url, watch_namespace } = self.installed.clone();
        let address = |flag: Option<SocketAddr>, said: Address, port: u16| {
            flag.unwrap_or_else(|| said.or(port))
        };
        let elects = self.leader_elect.or(said.elects).unwrap_or(true);
        Plan {
            choice: enable,
            access: Access { kubeconfig: self.kubeconfig.clone(), context: self.context.clone() },
            namespace,
            url: webhook_url,
            addresses: Addresses {
                health: address(self.health_address, said.health, HEALTH_PORT),
                metrics: address(self.metrics_address, said.metrics, METRICS_PORT),
                secure: address(self.webhook_address, said.secure, SECURE_PORT),
            },
            election: if elects { Election::ByLease } else { Election::None },
            lease: said.lease.clone(),
            install: if self.install { Install::Here } else { Install::ByOthers },
            first_objects: match self.no_runtimes {
                true => FirstObjects::LeftOut,
                false => FirstObjects::Made,
            },
            certificate_life_seconds: self.certificate_seconds,
            mounted: said.mounted.clone(),
            file,
            only: watch_namespace.map(Only::of).or(said.only.clone()),
            output: context.output,
        }
    }
}

/// The text of a file, and what it says of the process.
fn read(enable: &Choice, config: Option<&Path>) -> Result<(Option<String>, Said)> {
    let Some(path) = config else { return Ok((None, Said::default())) };
    let shown = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("could not read {shown}"))?;
    let mut families = enable.families();
    let read = families.find_map(|(family, _)| family.read(&text)).ok_or_else(|| {
        anyhow!("{shown} is for none of the operators that are enabled; see its apiVersion")
    })?;
    let said = read.map_err(|why| anyhow!(why)).with_context(|| format!("{shown} is wrong"))?;
    Ok((Some(text), said))
}

impl Manifests {
    fn print(&self, context: &Context) -> Result<ExitCode> {
        self.installed.check()?;
        let Installed { enable, namespace, webhook_url, watch_namespace } = self.installed.clone();
        let only = watch_namespace;
        let namespace = namespace.unwrap_or_else(|| enable.first().home().namespace.to_owned());
        let reached = webhook_url.map_or(Reached::Service, Reached::Url);
        let lease = read(&enable, self.config.as_deref())?.1.lease;
        let installation = Installation { choice: enable, namespace, reached, only, lease };
        let all = match self.runtimes {
            true => installation.first_objects(Nodes::Images),
            false => installation.manifests(&self.image),
        };
        let is_asked =
            |one: &&Value| !self.definitions || one["kind"] == "CustomResourceDefinition";
        let all: Vec<Value> = all.iter().filter(is_asked).cloned().collect();
        let text = written(&all, context.output.format)?;
        std::io::stdout().lock().write_all(text.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// As kubectl reads it: a list in JSON, documents of YAML otherwise.
fn written(all: &[Value], format: Format) -> Result<String> {
    if format == Format::Json {
        return Ok(format!("{}\n", json!({"apiVersion": "v1", "kind": "List", "items": all})));
    }
    let mut text = String::new();
    for one in all {
        let document = output::yaml(one).map_err(|error| anyhow!(error))?;
        text.push_str("---\n");
        text.push_str(&document);
        if !document.ends_with('\n') {
            text.push('\n');
        }
    }
    Ok(text)
}

fn enable_help() -> String {
    format!("The operators to run, with commas between them: {}", every_name().join(", "))
}

fn parse_url(text: &str) -> Result<String, String> {
    let is_good = text.strip_prefix("https://").is_some_and(|rest| {
        let rest = rest.trim_end_matches('/');
        !rest.is_empty() && !rest.contains(['/', '?', '#', '@', ' '])
    });
    match is_good {
        true => Ok(text.trim_end_matches('/').to_owned()),
        false => Err("expected https://HOST:PORT".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_what_was_meant_in_either_form() {
        let choice = Choice::parse("all").expect("it is known");
        let namespace = "ml".to_owned();
        let installation =
            Installation { choice, namespace, reached: Reached::Service, only: None, lease: None };
        for all in [installation.manifests("i"), installation.first_objects(Nodes::Images)] {
            let yaml = written(&all, Format::Text).expect("printed");
            let documents = yaml.split("---\n").filter(|one| !one.is_empty());
            let read: Vec<Value> = documents
                .map(|one| serde_saphyr::from_str(one).unwrap_or_else(|_| panic!("{one}")))
                .collect();
            assert_eq!(read, all);
            let list: Value = serde_json::from_str(&written(&all, Format::Json).expect("printed"))
                .expect("it is JSON");
            assert_eq!(list["items"], json!(all));
        }
    }

    #[test]
    fn what_needs_the_whole_cluster_is_not_confined_to_a_namespace() {
        let check = |enable: &str, only: Option<&str>| {
            let enable = Choice::parse(enable).expect("it is known");
            let watch_namespace = only.map(str::to_owned);
            Installed { enable, namespace: None, webhook_url: None, watch_namespace }.check()
        };
        for (enable, only) in [("all", None), ("jobset", Some("team")), ("dynamo", Some("team"))] {
            check(enable, only).expect("it can work so");
        }
        let refused = check("jobset,trainer", Some("team")).expect_err("refused");
        let expected = "the operator \"trainer\" cannot work in the namespace team alone: it needs \
                        clustertrainingruntimes, which are in no namespace";
        assert_eq!(refused.to_string(), expected);
        assert_eq!(exit::hint_of(&refused).as_deref(), Some("name the others: --enable jobset"));
    }

    #[test]
    fn a_url_is_a_scheme_and_a_host() {
        assert_eq!(parse_url("https://a:1/"), Ok("https://a:1".to_owned()));
        for bad in ["http://a", "https://", "https://a/b", "a:1"] {
            assert!(parse_url(bad).is_err(), "{bad}");
        }
    }
}
