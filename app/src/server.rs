//! Puts the parts together, runs them, and takes them apart in the opposite order.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use apiserver::registry::custom::follow::follow;
use apiserver::serve::serve;
use apiserver::server::Server;
use apiserver::start::{self, Admin};
use store::{Store, System, backends};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::components::{self, Components};
use crate::config::Loaded;
use crate::health::Health;
use crate::instance::Claim;
use crate::kubeconfig;
use crate::listener;
use crate::node_name;
use crate::output::Output;
use crate::ready::Ready;
use crate::shutdown::{Signals, Tasks, exit_at_once};
use crate::socket::Socket;

/// Where keys and certificates are, in the data directory.
const KEYS_DIRECTORY: &str = "pki";
/// How long the parts may take to stop.
const STOP_MAX: Duration = Duration::from_secs(10);

/// What to run.
pub struct Plan {
    /// When the program began.
    pub began: Instant,
    pub data: PathBuf,
    pub listen: SocketAddr,
    /// Another place for the kubeconfig.
    pub kubeconfig_out: Option<PathBuf>,
    pub node: String,
    pub loaded: Loaded,
    pub components: Components,
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
    let (api, admin) = serve_api(&plan, &tasks, store.clone(), listener).await?;
    components::start(&plan, &tasks, (&api, &admin.authority_pem, listen));
    let (_socket, local) = Socket::listen(&plan.data)?;
    let beside = api.beside.clone();
    let health = Health { store: store.clone(), stop: tasks.stop_handle(), beside };
    tasks.spawn("socket", listener::serve(local, Arc::new(health), tasks.stop_handle()));
    kubeconfig::write(&kubeconfig::in_data(&plan.data), &admin, listen)?;
    if let Some(path) = &plan.kubeconfig_out {
        kubeconfig::write(path, &admin, listen)?;
    }
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

/// Spawns what serves the API; answers with it and the credential of its administrator.
async fn serve_api(
    plan: &Plan,
    tasks: &Tasks,
    store: Arc<dyn Store>,
    listener: TcpListener,
) -> Result<(Arc<Server>, Admin)> {
    let listen = listener.local_addr().context("could not tell the address")?;
    let options = start::Options {
        directory: plan.data.join(KEYS_DIRECTORY),
        listen,
        host: node_name::of_host(),
        stop: tasks.stop_handle().into_receiver(),
    };
    let settings =
        start::Settings { profile: plan.loaded.config.cluster.profile, ..Default::default() };
    let handle = start::start_with(options, settings, store, Arc::new(System)).await?;
    let admin = handle.keys.admin()?;
    tasks.spawn_until_stop("definitions", follow(handle.server.clone()));
    tasks.spawn("api", serve(handle.server.clone(), listener, handle.tls));
    tasks.spawn_until_stop("roles", handle.roles.follow());
    tasks.spawn_until_stop("webhooks", handle.configurations.follow());
    let places: Vec<PathBuf> = std::iter::once(kubeconfig::in_data(&plan.data))
        .chain(plan.kubeconfig_out.clone())
        .collect();
    let publish = move |admin: &Admin| {
        places.iter().all(|path| match kubeconfig::write(path, admin, listen) {
            Ok(()) => true,
            Err(error) => {
                warn!(error = format!("{error:#}"), "a kubeconfig was not renewed");
                false
            }
        })
    };
    tasks.spawn_until_stop("certificates", handle.keys.renew_and_publish(publish));
    tasks.spawn_until_stop("expiry", handle.expiry.run());
    Ok((handle.server, admin))
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
