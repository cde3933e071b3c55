//! What is said when the program is ready: to whoever started it, and to other commands.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Result, anyhow};
use serde::Serialize;
use store::{Environment, System};

use crate::instance::Instance;
use crate::process;
use crate::server::Plan;

/// One line, or one object.
#[derive(Serialize)]
pub struct Ready {
    event: &'static str,
    url: String,
    data_dir: PathBuf,
    #[serde(flatten)]
    pub instance: Instance,
}

impl Ready {
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
        Ok(Ready { event: "ready", url: instance.url(), data_dir: plan.data.clone(), instance })
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Instance { store, config, ready_millis, .. } = &self.instance;
        let (url, data) = (&self.url, self.data_dir.display());
        write!(
            formatter,
            "ready in {ready_millis} ms at {url} (data {data}, store {store}, config {config})"
        )
    }
}
