//! What is said when the program is ready: to whoever started it, and to other commands.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use serde::Serialize;
use store::{Environment, System};

use crate::instance::Instance;
use crate::kubeconfig;
use crate::parts::Parts;
use crate::process;
use crate::server::Plan;

/// One line, or one object.
#[derive(Serialize)]
pub struct Ready {
    event: &'static str,
    /// Where the API is served, if it is, and who may use it.
    url: Option<String>,
    kubeconfig: Option<PathBuf>,
    data_dir: PathBuf,
    #[serde(flatten)]
    pub instance: Instance,
}

impl Ready {
    /// Measures the time until now.
    pub fn of(plan: &Plan, listen: Option<SocketAddr>, parts: Parts) -> Result<Ready> {
        let pid = std::process::id();
        let began = process::began(pid);
        let instance = Instance {
            pid,
            process_began_ticks: began.ok_or_else(|| anyhow!("could not read /proc; mount it"))?,
            listen,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            store: plan.loaded.config.storage.kind.to_string(),
            node: plan.node.clone(),
            config: plan.loaded.source.to_string(),
            started_micros: System.now().0,
            ready_millis: u64::try_from(plan.began.elapsed().as_millis()).unwrap_or(u64::MAX),
            parts: parts.list,
            python: plan.components.python.clone(),
        };
        let given = plan.kubeconfig_out.clone();
        let kubeconfig = listen.map(|_| given.unwrap_or_else(|| kubeconfig::in_data(&plan.data)));
        let (url, data_dir) = (instance.url(), plan.data.clone());
        Ok(Ready { event: "ready", url, kubeconfig, data_dir, instance })
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Instance { store, config, ready_millis, .. } = &self.instance;
        write!(formatter, "ready in {ready_millis} ms")?;
        if let Some(url) = &self.url {
            write!(formatter, " at {url}")?;
        }
        let kubeconfig =
            self.kubeconfig.iter().map(|path| format!("kubeconfig {}, ", path.display()));
        let (kubeconfig, data) = (kubeconfig.collect::<String>(), self.data_dir.display());
        write!(formatter, " ({kubeconfig}data {data}, store {store}, config {config})")
    }
}
