//! What is said when the program is ready: to whoever started it, and to other commands.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use serde::Serialize;
use store::{Environment, System};

use crate::instance::Instance;
use crate::kubeconfig;
use crate::process;
use crate::server::Plan;

/// One line, or one object.
#[derive(Serialize)]
pub struct Ready {
    event: &'static str,
    url: String,
    kubeconfig: PathBuf,
    data_dir: PathBuf,
    #[serde(flatten)]
    pub instance: Instance,
}

impl Ready {
    /// Measures the time until now.
    pub fn of(plan: &Plan, listen: SocketAddr) -> Result<Ready> {
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
        };
        let kubeconfig = match &plan.kubeconfig_out {
            Some(path) => path.clone(),
            None => kubeconfig::in_data(&plan.data),
        };
        let (url, data_dir) = (instance.url(), plan.data.clone());
        Ok(Ready { event: "ready", url, kubeconfig, data_dir, instance })
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Instance { store, config, ready_millis, .. } = &self.instance;
        let (url, data) = (&self.url, self.data_dir.display());
        let kubeconfig = self.kubeconfig.display();
        write!(
            formatter,
            "ready in {ready_millis} ms at {url} (kubeconfig {kubeconfig}, data {data}, \
             store {store}, config {config})"
        )
    }
}
