//! The cluster that a command asks: one that a kubeconfig names, or what runs on this machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use reconcile::handover::Place;
use reconcile::requests::{Origin, Requests};

use super::exit::{self, Failure};
use crate::directories;
use crate::instance::Instance;
use crate::kubeconfig;

const VARIABLE: &str = "KUBECONFIG";
pub const NO_CLUSTER: &str =
    "No cluster configured. Start one with `setpoint up`, or set KUBECONFIG.";

/// Which cluster is meant.
#[derive(Args, Clone)]
pub struct Target {
    /// The kubeconfig of the cluster, else that of what runs on the data directory, else KUBECONFIG
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig; else its current one. Alone, it means that of KUBECONFIG or
    /// ~/.kube/config.
    #[arg(long, global = true, value_name = "NAME")]
    pub context: Option<String>,

    /// The data directory of what runs. Else SETPOINT_DATA_DIR, $XDG_DATA_HOME/setpoint or
    /// ~/.local/share/setpoint.
    #[arg(long, global = true, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// The namespace of the objects.
    #[arg(short, long, global = true, default_value = "default")]
    pub namespace: String,
}

/// Where a cluster is described.
#[derive(Debug, PartialEq, Eq)]
pub enum Chosen {
    /// The one that runs here.
    Local(PathBuf),
    File(PathBuf),
    /// As kubectl finds it.
    Usual,
    None,
}

impl Target {
    /// What runs on a directory.
    pub fn of_data(data: &Path) -> Target {
        let (data_dir, namespace) = (Some(data.to_owned()), "default".to_owned());
        Target { kubeconfig: None, context: None, data_dir, namespace }
    }

    /// The option, then what was asked for by name, then what runs here, then the variable. A file
    /// in the home directory alone is not enough: it may be of anything.
    pub fn choose(&self) -> Result<Chosen> {
        if let Some(path) = &self.kubeconfig {
            return Ok(Chosen::File(path.clone()));
        }
        let is_elsewhere = self.context.is_some() || super::is_plugin();
        if is_elsewhere && self.data_dir.is_none() {
            return Ok(Chosen::Usual);
        }
        let data = directories::data(self.data_dir.as_deref())?;
        let runs = Instance::running(&data)?.is_some_and(|instance| instance.listen.is_some());
        let variable = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
        Ok(rank(&data, runs, self.data_dir.is_some(), variable))
    }
}

fn rank(data: &Path, runs: bool, is_named: bool, variable: Option<OsString>) -> Chosen {
    match variable {
        _ if runs => Chosen::Local(kubeconfig::in_data(data)),
        Some(_) if !is_named => Chosen::Usual,
        _ => Chosen::None,
    }
}

/// How a cluster is reached, and as whom.
pub async fn config(target: &Target) -> Result<kube::Config> {
    let (path, config) = match target.choose()? {
        Chosen::Local(path) | Chosen::File(path) => {
            let config = Kubeconfig::read_from(&path);
            (path.display().to_string(), config)
        }
        Chosen::Usual => (VARIABLE.to_owned(), Kubeconfig::read()),
        Chosen::None => return Err(anyhow!(Failure::new(exit::FAILED, NO_CLUSTER))),
    };
    let reading = || format!("could not read the kubeconfig {path}");
    let context = target.context.clone();
    let options = KubeConfigOptions { context, ..KubeConfigOptions::default() };
    let config = kube::Config::from_custom_kubeconfig(config.with_context(reading)?, &options);
    config.await.with_context(reading)
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
    fn what_runs_here_comes_before_the_variable_and_a_named_directory_alone() {
        let data = Path::new("/d");
        let variable = || Some(OsString::from("/k"));
        let local = Chosen::Local(kubeconfig::in_data(data));
        assert_eq!(rank(data, true, false, variable()), local);
        assert_eq!(rank(data, false, false, variable()), Chosen::Usual);
        assert_eq!(rank(data, false, true, variable()), Chosen::None);
        assert_eq!(rank(data, false, false, None), Chosen::None);
    }
}
