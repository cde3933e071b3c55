//! Puts the parts together, runs them, and takes them apart in the opposite order.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use apiserver::admission::{self, pod_security};
use apiserver::audit::{self, Audit};
use apiserver::registry::custom::follow::follow;
use apiserver::serve::serve;
use apiserver::server::Server;
use apiserver::start::{self, Admin};
use apiserver::webhooks::addresses::LoopbackWebhooks;
use store::{Store, System, backends};
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use crate::allocator;
use crate::components::{self, Components, Started};
use crate::config::{self, Loaded, PodSecurityDefault, Source, StoreKind};
use crate::console;
use crate::database::{self, Databases};
use crate::docs;
use crate::health::Health;
use crate::instance::Claim;
use crate::kubeconfig;
use crate::listener::{self, Listen};
use crate::log_file;
use crate::mapped;
use crate::node_agent;
use crate::node_name;
use crate::notify;
use crate::operators;
use crate::output::{Output, one_line};
use crate::page;
use crate::parts::Parts;
use crate::pod_network::PodNetwork;
use crate::python;
use crate::ready::Ready;
use crate::runtimes::Runtime;
use crate::shutdown::{Asked, Signals, Tasks, exit_at_once};
use crate::socket::Socket;
use crate::telemetry;
use crate::traces;
use crate::upgrade;
use crate::watchdog;

/// How long the parts may take to stop.
const STOP_MAX: Duration = Duration::from_secs(10);
/// How long operators and the node are waited for before it is said that the rest is ready.
const OPERATORS_MAX: Duration = Duration::from_secs(10);
const NODE_MAX: Duration = Duration::from_secs(10);
/// How long it may take to say that nodes were stopped; their leases tell it too.
const LEAVE_MAX: Duration = Duration::from_secs(1);
/// How long a server that was just started may refuse us, and how often it is asked.
const CONNECT_MAX: Duration = Duration::from_secs(45);
const CONNECT_AGAIN: Duration = Duration::from_millis(800);
/// The version of the API that is served.
pub const API_VERSION: &str = "Kubernetes v1.36";

/// What to run.
pub struct Plan {
    /// When the program began.
    pub began: Instant,
    pub data: PathBuf,
    /// Where keys and certificates are.
    pub keys: PathBuf,
    pub listen: Listen,
    /// Where the page for people is, if it is served.
    pub page: Option<SocketAddr>,
    /// Another place for the kubeconfig.
    pub kubeconfig_out: Option<PathBuf>,
    pub node: String,
    pub loaded: Loaded,
    pub components: Components,
    /// Whether the server of the store may be started.
    pub databases: Databases,
    /// True if `setpoint up` started it, and not a service manager.
    pub is_interactive: bool,
    /// How long it answers yet when it was told to stop.
    pub shutdown_delay: Duration,
    pub output: Output,
}

/// Runs until a signal says to stop.
pub async fn run(plan: Plan) -> Result<()> {
    allocator::keep_for_now();
    let mut signals = Signals::listen().context("could not listen for signals")?;
    let mut database = None;
    let ended = run_with(&plan, &mut signals, &mut database).await;
    // The last to go: everything else may still write.
    if let Some(database) = database {
        tokio::select! {
            () = database.stop() => {}
            signal = signals.next() => exit_at_once(signal),
        }
    }
    ended
}

async fn run_with(
    plan: &Plan,
    signals: &mut Signals,
    database: &mut Option<database::Started>,
) -> Result<()> {
    let mut parts = Parts::since(plan.began);
    let mut claim = Claim::take(&plan.data)?;
    let (listener, note) = listener::take(plan.listen).await?.unzip();
    let listen = match &listener {
        Some(listener) => Some(listener.local_addr().context("could not tell the address")?),
        None => None,
    };
    let page_listener = match plan.page {
        Some(address) => Some(listener::bind(address, "--web-listen").await?),
        None => None,
    };
    let store = tokio::select! {
        store = open_with_server(plan, database) => store?,
        _ = signals.next() => return Ok(()),
    };
    parts.add("store", describe_store(plan, &*store));

    let tasks = Tasks::new();
    let (api, admin) = serve_api(plan, &tasks, store.clone(), listener).await?;
    if let Some(listen) = listen {
        let note = note.unwrap_or_default();
        parts.add("api", format!("{}   {API_VERSION}{note}", listener::url(listen)));
    }
    api.beside.set_pages(console::Files);
    api.beside.set_documentation(docs::Site);
    api.beside.set_traces(traces::Joined);
    let started = components::start(plan, &tasks, (&api, &admin.authority_pem, listen));
    let (_socket, local) = Socket::listen(&plan.data)?;
    let (stop, beside) = (tasks.stop_handle(), api.beside.clone());
    let health =
        Health { store: store.clone(), stop, beside, caches: Some(started.caches.clone()) };
    let health = Arc::new(health);
    tasks.spawn("socket", listener::serve(local, health.clone(), tasks.stop_handle()));
    if let Some(page) = page_listener {
        let address = page.local_addr().context("could not tell the address of the page")?;
        parts.add("page", format!("http://{address}"));
        let api = listen.map(listener::url).unwrap_or_default();
        tasks.spawn("page", page::serve(page, api, health.clone(), tasks.stop_handle()));
    }
    if let Some(listen) = listen {
        write_kubeconfigs(plan, &admin, listen)?;
    }
    let wait = async {
        wait_for_operators(plan, &started, &mut parts).await;
        wait_for_node(plan, &started, &mut parts).await;
    };
    tokio::select! {
        () = wait => {}
        _ = signals.next() => {
            stop_all(&tasks, &started, (&*store, &mut *signals)).await;
            return Ok(());
        }
    }
    let ready = Ready::of(plan, listen, parts)?;
    claim.announce(&ready.instance)?;
    tell(plan, &ready);

    tasks.spawn_until_stop("watchdog", watchdog::keep(health));
    tasks.spawn_until_stop("log", log_file::rotate(plan.data.clone()));
    until_asked_to_stop(plan, signals).await;
    leave(plan, &api, signals).await;
    let _ = timeout(LEAVE_MAX, started.leave()).await;
    stop_all(&tasks, &started, (&*store, &mut *signals)).await;
    api.audit.flush();
    Ok(())
}

fn write_kubeconfigs(plan: &Plan, admin: &Admin, listen: SocketAddr) -> Result<()> {
    kubeconfig::write(&kubeconfig::in_data(&plan.data), admin, listen)?;
    match &plan.kubeconfig_out {
        Some(path) => kubeconfig::write(path, admin, listen),
        None => Ok(()),
    }
}

async fn until_asked_to_stop(plan: &Plan, signals: &mut Signals) {
    let signal = loop {
        match signals.next_asked().await {
            Asked::Stop(signal) => break signal,
            Asked::Reload => reload(plan),
        }
    };
    info!(signal = signal.as_raw_value(), "stopping");
    notify::tell(notify::STOPPING);
}

/// Says that it is not ready any more, and answers for a while yet.
async fn leave(plan: &Plan, api: &Server, signals: &mut Signals) {
    if plan.shutdown_delay.is_zero() {
        return;
    }
    api.beside.leave();
    tokio::select! {
        () = tokio::time::sleep(plan.shutdown_delay) => {}
        signal = signals.next() => exit_at_once(signal),
    }
}

/// Reads the configuration again. What is written to the log follows it at once; everything else
/// holds from the next start on. Certificates are renewed without being asked.
fn reload(plan: &Plan) {
    notify::tell(notify::RELOADING);
    let (Source::File(path) | Source::Example(path)) = &plan.loaded.source else {
        info!("there is no configuration file to read again");
        return notify::tell(notify::READY);
    };
    match config::load(Some(path)) {
        Ok(loaded) => {
            telemetry::follow(loaded.config.log_level);
            let is_other = loaded.config.differs_beyond_the_log(&plan.loaded.config);
            let rest =
                if is_other { "other changes need a restart" } else { "nothing else changed" };
            info!(file = %path.display(), rest, "configuration read again");
        }
        Err(error) => warn!("the configuration stays as it was: {}", one_line(&error)),
    }
    notify::tell(notify::READY);
}

/// Says that it is ready. What only the start needed goes back.
fn tell(plan: &Plan, ready: &Ready) {
    if let Err(error) = plan.output.print(ready) {
        // Whoever reads the output may be gone; that is no reason not to serve.
        warn!(%error, "could not say that it is ready");
    }
    notify::tell(notify::READY);
    allocator::give_back_all();
    mapped::give_back();
}

async fn stop_all(tasks: &Tasks, started: &Started, (store, signals): (&dyn Store, &mut Signals)) {
    let stop = async {
        tasks.stop(STOP_MAX).await;
        started.give_up().await;
        store.close().await;
    };
    tokio::select! {
        () = stop => info!("stopped"),
        signal = signals.next() => exit_at_once(signal),
    }
}

fn describe_store(plan: &Plan, store: &dyn Store) -> String {
    let storage = &plan.loaded.config.storage;
    let new = if store.revision().0 <= 1 { "   (new)" } else { "" };
    match storage.settings(&plan.data) {
        backends::Settings::Embedded(settings) => {
            format!("embedded   {}{new}", settings.directory.display())
        }
        _ if storage.kind == StoreKind::Memory => "memory   gone when it stops".to_owned(),
        _ => format!("{}{new}", storage.kind),
    }
}

fn describe_control(plan: &Plan, started: &Started, parts: &mut Parts) {
    let mut names = Vec::new();
    if started.controllers > 0 {
        names.push(format!("{} controllers", started.controllers));
    }
    if plan.components.scheduler {
        names.push("scheduler".to_owned());
    }
    let families = plan.components.operators.iter();
    let operators = families.flat_map(|family| family.operators());
    names.extend(operators.map(|operator| operator.name.to_owned()));
    match plan.components.fake_nodes.count {
        0 => {}
        count => names.push(format!("{count} simulated nodes")),
    }
    if !names.is_empty() {
        parts.add("control", names.join(" · "));
    }
}

/// Ready means that objects of the operators' kinds can be made.
async fn wait_for_operators(plan: &Plan, started: &Started, parts: &mut Parts) {
    if timeout(OPERATORS_MAX, started.installed()).await.is_err() {
        return parts.add_unwell("control", "the kinds of some operators are not served yet");
    }
    describe_control(plan, started, parts);
}

/// Ready means that a pod can run: the node is there, and known to be.
async fn wait_for_node(plan: &Plan, started: &Started, parts: &mut Parts) {
    if plan.components.node.is_none() {
        return;
    }
    let is_up = started.health.reaches(node::agent::NAME, &reconcile::health::State::Running);
    let node = &plan.node;
    if timeout(NODE_MAX, is_up).await.is_err() {
        return parts.add_unwell("node", format!("{node}   not registered yet; see the log"));
    }
    let Some(chosen) = started.chosen.get() else { return };
    parts.add("runtime", chosen.to_string());
    if chosen.runtime == Runtime::Process {
        parts.add("python", python::describe(plan.components.python.as_ref()));
    }
    match (chosen.runtime, chosen.version.is_some()) {
        (Runtime::Process, _) | (_, true) => {
            let told = node_agent::describe(&plan.data, &plan.components.node_resources);
            parts.add("node", format!("{node}   Ready   {told}"));
            if chosen.runtime == Runtime::Process {
                describe_network(parts);
            }
        }
        _ => parts.add_unwell("node", format!("{node}   NotReady")),
    }
}

/// Says what pods lack when the program does not run as root.
fn describe_network(parts: &mut Parts) {
    match PodNetwork::detect() {
        PodNetwork::Privileged => {}
        PodNetwork::Rootless => parts.add("network", "rootless, through slirp4netns"),
        PodNetwork::Loopback { reason, remedy } => parts.add(
            "network",
            format!("pods share this host's ports (not root, and {reason}); {remedy}"),
        ),
    }
}

/// Spawns what serves the API; answers with it and the credential of its administrator.
async fn serve_api(
    plan: &Plan,
    tasks: &Tasks,
    store: Arc<dyn Store>,
    listener: Option<TcpListener>,
) -> Result<(Arc<Server>, Admin)> {
    let listen = match &listener {
        Some(listener) => listener.local_addr().context("could not tell the address")?,
        None => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
    };
    let options = start::Options {
        directory: plan.keys.clone(),
        listen,
        host: node_name::of_host(),
        stop: tasks.stop_handle().into_receiver(),
    };
    let settings = start::Settings {
        profile: plan.loaded.config.cluster.profile,
        domain: plan.loaded.config.cluster.domain.clone(),
        is_advertised: listener.is_some(),
        is_shared: matches!(plan.loaded.config.storage.kind, StoreKind::Mysql | StoreKind::Etcd),
        admission: admission_settings(plan),
        loopback_webhooks: loopback_webhooks(plan),
        ..Default::default()
    };
    let handle = start::start_with(options, settings, store, Arc::new(System)).await?;
    write_audit(&plan.loaded.config.audit, &handle.server.audit)?;
    let admin = handle.keys.admin()?;
    tasks.spawn_until_stop("definitions", follow(handle.server.clone()));
    tasks.spawn_until_stop("roles", handle.roles.follow());
    tasks.spawn_until_stop("webhooks", handle.configurations.follow());
    tasks.spawn_until_stop("expiry", handle.expiry.run());
    let Some(listener) = listener else { return Ok((handle.server, admin)) };
    tasks.spawn("api", serve(handle.server.clone(), listener, handle.tls));
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
    Ok((handle.server, admin))
}

/// Programs that a user develops on this host have webhooks at loopback addresses.
fn loopback_webhooks(plan: &Plan) -> LoopbackWebhooks {
    let by_command = match plan.is_interactive {
        true => LoopbackWebhooks::Allow,
        false => LoopbackWebhooks::Deny,
    };
    plan.loaded.config.cluster.loopback_webhooks.unwrap_or(by_command)
}

fn admission_settings(plan: &Plan) -> admission::Settings {
    let cluster = &plan.loaded.config.cluster;
    // Who runs the API alone has controllers and nodes of kube-apiserver's clusters beside it.
    let by_components = match plan.components.is_api_only() {
        true => PodSecurityDefault::Privileged,
        false => PodSecurityDefault::Baseline,
    };
    let enforce = cluster.pod_security.unwrap_or(by_components).level();
    let homes = operators::ALL.iter().map(|family| family.home().namespace.to_owned());
    let pod_security = pod_security::Defaults { enforce, exempt: homes.collect() };
    admission::Settings { external_ips: cluster.external_ips, pod_security }
}

/// Has the audit log written, where the configuration names one.
fn write_audit(wanted: &config::Audit, audit: &Audit) -> Result<()> {
    let Some(path) = &wanted.log else { return Ok(()) };
    let opening = || format!("could not open the audit log {}", path.display());
    let (log, writer) = audit::open(path).with_context(opening)?;
    let thread = thread::Builder::new().name("audit".to_owned());
    thread.spawn(|| writer.run()).with_context(opening)?;
    audit.set(wanted.policy, log);
    info!(file = %path.display(), "requests are written to the audit log");
    Ok(())
}

/// Opens the store, and starts its server first where that is missing and may be started.
async fn open_with_server(
    plan: &Plan,
    started: &mut Option<database::Started>,
) -> Result<Arc<dyn Store>> {
    database::start_if_missing(&plan.loaded.config.storage, &plan.databases, started).await;
    let began = Instant::now();
    loop {
        match open_store(plan).await {
            // It listens before it lets anybody in.
            Err(_) if started.is_some() && began.elapsed() < CONNECT_MAX => {
                tokio::time::sleep(CONNECT_AGAIN).await;
            }
            opened => return opened,
        }
    }
}

async fn open_store(plan: &Plan) -> Result<Arc<dyn Store>> {
    let storage = &plan.loaded.config.storage;
    let settings = storage.settings(&plan.data);
    if let backends::Settings::Embedded(settings) = &settings {
        upgrade::prepare(&settings.directory)?;
    }
    let store = backends::open(&settings, storage.retention(), Arc::new(System)).await;
    store.with_context(|| match &settings {
        backends::Settings::Embedded(settings) => {
            format!("could not open the embedded store in {}", settings.directory.display())
        }
        _ => format!("could not open the {} store", storage.kind),
    })
}
