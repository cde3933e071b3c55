//! The cluster that a command asks: one that a kubeconfig names, or what runs on this machine.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use kube::config::{KubeConfigOptions, Kubeconfig};
use reconcile::handover::Place;
use reconcile::requests::{Origin, Requests};

use crate::directories;
use crate::kubeconfig;

/// Which cluster is meant.
#[derive(Args, Clone)]
pub struct Target {
    /// The kubeconfig of the cluster. Else that of what runs on the data directory.
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The data directory of what runs. Else SETPOINT_DATA_DIR, $XDG_DATA_HOME/setpoint or
    /// ~/.local/share/setpoint.
    #[arg(long, global = true, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// The namespace of the objects.
    #[arg(short, long, global = true, default_value = "default")]
    pub namespace: String,
}

/// How a cluster is reached, and as whom.
pub async fn config(target: &Target) -> Result<kube::Config> {
    let path = match &target.kubeconfig {
        Some(path) => path.clone(),
        None => kubeconfig::in_data(&directories::data(target.data_dir.as_deref())?),
    };
    if !path.exists() {
        bail!("{} is not there; start a cluster with `setpoint up`", path.display());
    }
    let reading = || format!("could not read the kubeconfig {}", path.display());
    let config = Kubeconfig::read_from(&path).with_context(reading)?;
    let options = KubeConfigOptions::default();
    kube::Config::from_custom_kubeconfig(config, &options).await.with_context(reading)
}

/// A client that writes under a name.
pub async fn connect(target: &Target, manager: &'static str) -> Result<Requests> {
    let config = config(target).await?;
    let client = kube::Client::try_from(config).context("could not use the kubeconfig")?;
    let (origin, place) = (Origin::default(), Place::Elsewhere);
    Ok(Requests { client, manager, origin, place, is_brief: false })
}
