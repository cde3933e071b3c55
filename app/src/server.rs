//! Puts the parts together, runs them, and takes them apart in the opposite order.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use store::{Store, System, backends};
use tokio::time::Instant;
use tracing::{info, warn};

use crate::config::Loaded;
use crate::health::Health;
use crate::instance::Claim;
use crate::listener;
use crate::output::Output;
use crate::ready::Ready;
use crate::shutdown::{Signals, Tasks, exit_at_once};

/// How long the parts may take to stop.
const STOP_MAX: Duration = Duration::from_secs(10);

/// What to run.
pub struct Plan {
    /// When the program began.
    pub began: Instant,
    pub data: PathBuf,
    pub listen: SocketAddr,
    pub node: String,
    pub loaded: Loaded,
    pub output: Output,
}

/// Runs until a signal says to stop.
pub async fn run(plan: Plan) -> Result<()> {
    let mut signals = Signals::listen().context("could not listen for signals")?;
    let mut claim = Claim::take(&plan.data)?;
    let listener = listener::bind(plan.listen).await?;
    let listen = listener.local_addr().context("could not tell the address")?;
    let store = tokio::select! {
        store = open_store(&plan) => store?,
        _ = signals.next() => return Ok(()),
    };

    let tasks = Tasks::new();
    let health = Health { store: store.clone(), stop: tasks.stop_handle() };
    tasks.spawn("http", listener::serve(listener, Arc::new(health), tasks.stop_handle()));
    let ready = Ready::of(&plan, listen)?;
    claim.announce(&ready.instance)?;
    if let Err(error) = plan.output.print(&ready) {
        // Whoever reads the output may be gone; that is no reason not to serve.
        warn!(%error, "could not say that it is ready");
    }

    let signal = signals.next().await;
    info!(signal = signal.as_raw_value(), "stopping");
    let stop = async {
        tasks.stop(STOP_MAX).await;
        store.close().await;
    };
    tokio::select! {
        () = stop => info!("stopped"),
        signal = signals.next() => exit_at_once(signal),
    }
    Ok(())
}

async fn open_store(plan: &Plan) -> Result<Arc<dyn Store>> {
    let storage = &plan.loaded.config.storage;
    let settings = storage.settings(&plan.data);
    let store = backends::open(&settings, storage.retention(), Arc::new(System)).await;
    store.with_context(|| match &settings {
        backends::Settings::Embedded(settings) => {
            format!("could not open the embedded store in {}", settings.directory.display())
        }
        _ => format!("could not open the {} store", storage.kind),
    })
}
