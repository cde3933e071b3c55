//! The cluster that a command asks: one that a kubeconfig names, or what runs on this machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use reconcile::handover::Place;
use reconcile::requests::{Origin, Requests};
use serde_json::json;

use super::exit::{self, Failure};
use super::known;
use super::wait::parse_duration;
use crate::directories;
use crate::instance::Instance;
use crate::kubeconfig;
use crate::reach;

const VARIABLE: &str = "KUBECONFIG";
/// What a pod is given of the cluster that it runs in.
const IN_POD: (&str, &str) =
    ("KUBERNETES_SERVICE_HOST", "/var/run/secrets/kubernetes.io/serviceaccount/token");
const NO_CLUSTER: &str = "No cluster configured. Start one with `setpoint up`, or set KUBECONFIG.";

/// Which cluster is meant.
#[derive(Args, Clone, Default)]
pub struct Target {
    /// The kubeconfig of the cluster, else that of what runs on the data directory, else KUBECONFIG
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig; else its current one. Alone, it means that of KUBECONFIG or
    /// ~/.kube/config.
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,

    /// Data directory of the cluster [env: SETPOINT_DATA_DIR].
    #[arg(long, global = true, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// The namespace of the objects; else that of the context, else `default`.
    #[arg(short, long, global = true)]
    pub namespace: Option<String>,

    #[command(flatten)]
    pub overrides: Overrides,
}

/// What is said in place of a kubeconfig's own words, by the names that kubectl has for it.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Options of the connection")]
pub struct Overrides {
    /// The cluster of the kubeconfig, in place of the context's.
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    cluster: Option<String>,

    /// The user of the kubeconfig, in place of the context's.
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    user: Option<String>,

    /// The address of the API server.
    #[arg(short, long, global = true, value_name = "URL", hide_short_help = true)]
    server: Option<http::Uri>,

    /// The bearer token to be known by, in place of what the kubeconfig has.
    #[arg(long, global = true, value_name = "TOKEN", hide_short_help = true)]
    token: Option<String>,

    /// The user to act for.
    #[arg(long = "as", global = true, value_name = "USER", hide_short_help = true)]
    acting_for: Option<String>,

    /// A group to act for; may be given more than once.
    #[arg(long = "as-group", global = true, value_name = "GROUP", hide_short_help = true)]
    #[arg(requires = "acting_for")]
    acting_for_groups: Vec<String>,

    /// Skip TLS certificate verification.
    #[arg(long, global = true, hide_short_help = true)]
    insecure_skip_tls_verify: bool,

    /// How long an answer may take.
    #[arg(long, global = true, value_name = "DURATION", hide_short_help = true)]
    #[arg(value_parser = parse_duration)]
    request_timeout: Option<Duration>,
}

impl Overrides {
    fn apply(&self, config: &mut kube::Config) -> Result<()> {
        if let Some(server) = &self.server {
            config.cluster_url = server.clone();
        }
        if let Some(token) = &self.token {
            // Nothing else that could be believed before it.
            config.auth_info = serde_json::from_value::<AuthInfo>(json!({"token": token}))?;
        }
        if let Some(user) = &self.acting_for {
            config.auth_info.impersonate = Some(user.clone());
            config.auth_info.impersonate_groups = Some(self.acting_for_groups.clone());
        }
        config.accept_invalid_certs |= self.insecure_skip_tls_verify;
        if self.request_timeout.is_some() {
            config.connect_timeout = self.request_timeout;
            config.read_timeout = self.request_timeout;
            config.write_timeout = self.request_timeout;
        }
        Ok(())
    }
}

/// Where a cluster is described.
#[derive(Debug, PartialEq, Eq)]
pub enum Chosen {
    /// The one that runs here.
    Local(PathBuf),
    File(PathBuf),
    /// As kubectl finds it.
    Usual,
    /// The one that this process is a pod of.
    Around,
    None,
}

/// What there is to choose from.
#[derive(Default)]
struct Found {
    /// Something runs on the data directory.
    runs: bool,
    /// That directory was asked for.
    is_named: bool,
    variable: Option<OsString>,
    /// The file in the home directory has a current context.
    has_current_context: bool,
    is_pod: bool,
}

impl Target {
    /// What runs on a directory.
    pub fn of_data(data: &Path) -> Target {
        Target { data_dir: Some(data.to_owned()), ..Target::default() }
    }

    /// The option, then what was asked for by name, then what runs here, then what kubectl asks.
    pub fn choose(&self) -> Result<Chosen> {
        if let Some(path) = &self.kubeconfig {
            return Ok(Chosen::File(path.clone()));
        }
        let Overrides { cluster, user, .. } = &self.overrides;
        let is_named = self.context.is_some() || cluster.is_some() || user.is_some();
        if (is_named || super::is_plugin()) && self.data_dir.is_none() {
            return Ok(Chosen::Usual);
        }
        let data = directories::data(self.data_dir.as_deref())?;
        let runs = Instance::running(&data)?.is_some_and(|instance| instance.listen.is_some());
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let found = Found {
            runs,
            is_named: self.data_dir.is_some(),
            variable: variable(VARIABLE),
            has_current_context: kubeconfig::users_current_context().is_some(),
            is_pod: variable(IN_POD.0).is_some() && Path::new(IN_POD.1).exists(),
        };
        Ok(rank(&data, &found))
    }

    /// Returns the data directory of the cluster, if it runs on this host.
    pub fn local_data(&self) -> Result<Option<PathBuf>> {
        Ok(match self.choose()? {
            Chosen::Local(kubeconfig) => kubeconfig.parent().map(Path::to_owned),
            _ => None,
        })
    }

    /// The same, for a command whose own `--user` is somebody else than one of the kubeconfig: to
    /// clap they are one option.
    pub fn without_user(mut self) -> Target {
        self.overrides.user = None;
        self
    }

    /// The namespace that is meant, where a client was made from this.
    pub fn namespace(&self, client: &kube::Client) -> String {
        self.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned())
    }
}

fn rank(data: &Path, found: &Found) -> Chosen {
    match found {
        Found { runs: true, .. } => Chosen::Local(kubeconfig::in_data(data)),
        Found { is_named: true, .. } => Chosen::None,
        Found { variable: Some(_), .. } | Found { has_current_context: true, .. } => Chosen::Usual,
        Found { is_pod: true, .. } => Chosen::Around,
        _ => Chosen::None,
    }
}

/// There is nobody to ask.
pub fn no_cluster() -> anyhow::Error {
    anyhow!(Failure::new(exit::FAILED, NO_CLUSTER).known(&known::NO_CLUSTER))
}

/// How a cluster is reached, and as whom.
pub async fn config(target: &Target) -> Result<kube::Config> {
    let Overrides { cluster, user, server, .. } = &target.overrides;
    let chosen = target.choose()?;
    let is_local = matches!(chosen, Chosen::Local(_));
    let (path, kubeconfig) = match (chosen, server) {
        (Chosen::Local(path) | Chosen::File(path), _) => {
            let kubeconfig = Kubeconfig::read_from(&path);
            (path.display().to_string(), kubeconfig)
        }
        (Chosen::Usual, _) => (VARIABLE.to_owned(), Kubeconfig::read()),
        (Chosen::Around, _) => {
            let config = kube::Config::incluster_env();
            return overridden(config.context("could not read the account of this pod")?, target);
        }
        (Chosen::None, Some(server)) => {
            return overridden(kube::Config::new(server.clone()), target);
        }
        (Chosen::None, None) => return Err(no_cluster()),
    };
    let reading = || format!("could not read the kubeconfig {path}");
    let (context, cluster, user) = (target.context.clone(), cluster.clone(), user.clone());
    let options = KubeConfigOptions { context, cluster, user };
    let config = reach::configure(kubeconfig.with_context(reading)?, &options);
    let mut config = config.await.with_context(reading)?;
    if is_local {
        // Whatever address it has, it is on this machine.
        config.proxy_url = None;
    }
    overridden(config, target)
}

fn overridden(mut config: kube::Config, target: &Target) -> Result<kube::Config> {
    target.overrides.apply(&mut config)?;
    Ok(config)
}

/// A client that writes under a name.
pub async fn connect(target: &Target, manager: &'static str) -> Result<Requests> {
    let config = config(target).await?;
    let client = kube::Client::try_from(config).context("could not use the kubeconfig")?;
    let (origin, place) = (Origin::default(), Place::Elsewhere);
    Ok(Requests { client, manager, origin, place, is_brief: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_here_comes_before_what_kubectl_asks_and_a_named_directory_alone() {
        let data = Path::new("/d");
        let variable = || Some(OsString::from("/k"));
        let none = Found::default;
        let ranked = |found: Found| rank(data, &found);
        let local = Chosen::Local(kubeconfig::in_data(data));
        assert_eq!(ranked(Found { runs: true, variable: variable(), ..none() }), local);
        assert_eq!(ranked(Found { variable: variable(), ..none() }), Chosen::Usual);
        let named = Found { is_named: true, variable: variable(), is_pod: true, ..none() };
        assert_eq!(ranked(named), Chosen::None);
        let home = Found { has_current_context: true, is_pod: true, ..none() };
        assert_eq!(ranked(home), Chosen::Usual);
        assert_eq!(ranked(Found { is_pod: true, ..none() }), Chosen::Around);
        assert_eq!(ranked(none()), Chosen::None);
    }

    #[test]
    fn what_is_said_takes_the_place_of_what_the_kubeconfig_has() {
        let mut config = kube::Config::new("https://a".parse().expect("an address"));
        config.auth_info.client_key_data = None;
        config.auth_info.client_certificate = Some("/certificate".to_owned());
        let overrides = Overrides {
            server: Some("https://b:1".parse().expect("an address")),
            token: Some("t".to_owned()),
            acting_for: Some("anna".to_owned()),
            acting_for_groups: vec!["team".to_owned()],
            request_timeout: Some(Duration::from_secs(5)),
            ..Overrides::default()
        };
        overrides.apply(&mut config).expect("they fit");
        assert_eq!(config.cluster_url, "https://b:1/");
        assert!(config.auth_info.client_certificate.is_none() && config.auth_info.token.is_some());
        assert_eq!(config.auth_info.impersonate.as_deref(), Some("anna"));
        assert_eq!(config.auth_info.impersonate_groups, Some(vec!["team".to_owned()]));
        assert_eq!(config.read_timeout, Some(Duration::from_secs(5)));
    }
}
