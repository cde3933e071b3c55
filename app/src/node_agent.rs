//! Runs this machine as a node of the cluster, beside the API server.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use node::agent::Options;
use node::devices::{self, Devices};
use node::image::ImageStore;
use node::machine;
use node::machines::Gateway;
use node::network::rootless::Start;
use node::network::services::MetadataAccess;
use node::network::{self, Connected, DOMAIN, Network};
use node::pod::host_environment::HostEnvironment;
use node::pressure::{self, Pressure, Thresholds};
use node::register::Heartbeat;
use node::runtime::{PodRuntime, START_MAX};
use node::runtimes::cri::{self, Cri};
use node::runtimes::docker;
use node::runtimes::process::{self, Process};
use node::simulated::NODE;
use reconcile::{Context, Kind, Name};

use crate::former::{self, Engine};
use crate::kvm;
use crate::listener;
use crate::podman;
use crate::preload;
use crate::runtimes::{self, Chosen, Runtime};

const ENDPOINTS: Kind = Kind::namespaced("", "v1", "Endpoints", "endpoints");
/// In the data directory: records of containers, their logs, volumes.
pub const DIRECTORY: &str = "node";
/// In the node's directory: which images were loaded at the start.
const PRELOADED: &str = "preloaded.json";
/// What containers get to end when all are asked to.
const STOP_GRACE: Duration = Duration::from_secs(30);
/// How long until a runtime that did not answer is asked again.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long the objects of DNS may take to be written.
const INSTALL_MAX: Duration = Duration::from_secs(5);
/// The argument that makes this program the shim of a container.
const SHIM: &str = "container-shim";
/// The file of this program, even when another has taken its place.
const PROGRAM: &str = "/proc/self/exe";

/// Summary of the resources of this machine.
pub fn describe(data: &Path, resources: &BTreeMap<String, String>) -> String {
    let capacity = machine::capacity(data);
    let processors = capacity["cpu"].as_str().unwrap_or_default();
    let kibibytes = capacity["memory"].as_str().and_then(|text| text.strip_suffix("Ki"));
    let kibibytes: u64 = kibibytes.and_then(|text| text.parse().ok()).unwrap_or_default();
    let gpus = devices::count_gpus(resources);
    let kvm = kvm::summary(data);
    format!("{processors} cpu · {} Gi · {gpus} gpu · kvm {kvm}", kibibytes >> 20)
}

/// What the agent is told at the start.
#[derive(Clone, Debug)]
pub struct Settings {
    pub node: String,
    pub data: PathBuf,
    /// Where this process serves the API, if it does.
    pub api: Option<SocketAddr>,
    pub heartbeat: Heartbeat,
    pub runtime: Chosen,
    /// What the node is said to have besides what it has.
    pub resources: BTreeMap<String, String>,
    /// Of the names that DNS answers for.
    pub domain: String,
    /// Access of pods and guests to the metadata service of a cloud.
    pub metadata: MetadataAccess,
    pub publish_container_ports: bool,
    /// Amounts of resources below which pods are evicted.
    pub eviction: Thresholds,
    /// Environment of pods that run as processes.
    pub environment: Arc<HostEnvironment>,
    /// Directories that no `hostPath` volume may name.
    pub private: Vec<PathBuf>,
    /// Paths that pods that run as processes do not see.
    pub hidden: Vec<PathBuf>,
}

/// Does the work of a container's shim or of a rootless network, if this process was started for
/// that.
pub fn shim_if_asked() -> Option<std::process::ExitCode> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match arguments.first() {
        Some(first) if first == SHIM => process::shim::main_if_asked(),
        Some(_) => network::rootless::main_if_asked(&arguments),
        None => None,
    }
}

/// Opens the runtime; containers that run are found again.
pub async fn open(
    settings: &Settings,
    api: SocketAddr,
    network: Option<Connected>,
) -> Result<Options> {
    let directory = settings.data.join(DIRECTORY);
    let of_pods = network.as_ref().map(|connected| connected.network.clone());
    let (runtime, absence) = match open_runtime(settings, of_pods).await {
        Ok(runtime) => (Some(runtime), String::new()),
        Err(Unopened::Absent(why)) => {
            tracing::warn!(why, "container runtime is not available");
            (None, why)
        }
        Err(Unopened::Failed(error)) => return Err(error),
    };
    let (kept, resources) = (directory.clone(), settings.resources.clone());
    // It asks a program.
    let devices = tokio::task::spawn_blocking(move || Devices::open(&kept, &resources)).await?;
    let pressure = pressure::Settings { thresholds: settings.eviction, ..Default::default() };
    Ok(Options {
        node: settings.node.clone(),
        directory,
        api,
        address: machine::address(),
        port: None,
        heartbeat: settings.heartbeat,
        runtime,
        absence,
        devices: Arc::new(devices),
        network,
        publish_container_ports: settings.publish_container_ports,
        environment: settings.environment.clone(),
        pressure: Arc::new(Pressure::new(pressure)),
        private: settings.private.clone(),
    })
}

/// Why there is no runtime.
enum Unopened {
    /// It does not answer, or there is to be none; the rest works on.
    Absent(String),
    Failed(anyhow::Error),
}

async fn open_runtime(
    settings: &Settings,
    network: Option<Arc<Network>>,
) -> Result<Arc<dyn PodRuntime>, Unopened> {
    let directory = settings.data.join(DIRECTORY);
    let Chosen { runtime, socket, .. } = &settings.runtime;
    let absent = |why: String| Unopened::Absent(format!("{}: {why}", runtime.name()));
    if *runtime != Runtime::None {
        let left = former::leave(&settings.data, &settings.runtime, network.clone()).await;
        left.map_err(|error| Unopened::Absent(format!("{error:#}")))?;
    }
    match (runtime, socket) {
        (Runtime::Process | Runtime::Auto, _) => {
            let hidden = settings.hidden.clone();
            open_process(&directory, network, hidden).map_err(Unopened::Failed)
        }
        (Runtime::Docker | Runtime::Podman, Some(socket)) => {
            let options = docker::Options { directory, socket: socket.clone(), network };
            let opened = docker::Docker::open(options).await.map_err(absent)?;
            former::keep(&settings.data.join(DIRECTORY), &settings.runtime);
            preload(settings, &docker::images(socket)).await;
            Ok(opened)
        }
        (Runtime::Containerd | Runtime::CriO, Some(socket)) => {
            let options = of_cri(&directory, socket, network);
            let opened = Cri::open(options).await.map_err(absent)?;
            former::keep(&directory, &settings.runtime);
            if let Some(store) = opened.image_store() {
                preload(settings, store).await;
            }
            Ok(Arc::new(opened))
        }
        (_, None) => Err(Unopened::Absent("runtime is none".to_owned())),
        (Runtime::None, Some(_)) => Err(Unopened::Absent("runtime is none".to_owned())),
    }
}

/// What marks the containers of this node among those of a runtime: the same for as long as its
/// data are where they are.
fn mark(directory: &Path) -> String {
    let _ = std::fs::create_dir_all(directory);
    let place = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    reconcile::names::digest(&[&place.to_string_lossy()])
}

fn of_cri(directory: &Path, socket: &Path, network: Option<Arc<Network>>) -> cri::Options {
    cri::Options {
        socket: socket.to_owned(),
        directory: directory.to_owned(),
        cluster: mark(directory),
        start_max: START_MAX,
        network,
    }
}

/// Gives a runtime the images of an archive; their names.
pub async fn load_image(chosen: &Chosen, archive: &Path) -> Result<Vec<String>> {
    let store = image_store(chosen).await?;
    let loaded = store.load(archive).await.map_err(anyhow::Error::msg);
    loaded.with_context(|| format!("could not load {}", archive.display()))
}

async fn image_store(chosen: &Chosen) -> Result<Box<dyn ImageStore>> {
    match (chosen.runtime, &chosen.socket) {
        (Runtime::Docker | Runtime::Podman, Some(socket)) => Ok(Box::new(docker::images(socket))),
        (Runtime::Containerd | Runtime::CriO, Some(socket)) => {
            cri::images(socket).await.map_err(anyhow::Error::msg)
        }
        _ => bail!(
            "the runtime {chosen} has no images; name one that has with --runtime, such as docker"
        ),
    }
}

/// Loads what lies in the directory of images to begin with.
async fn preload(settings: &Settings, store: &dyn ImageStore) {
    let record = settings.data.join(DIRECTORY).join(PRELOADED);
    preload::load(&settings.data, &record, store).await;
}

/// How many containers of a data directory run. Nothing is changed.
pub async fn count_containers(data: &Path) -> usize {
    let directory = data.join(DIRECTORY);
    let recorded = former::recorded(&directory);
    let _podman = match &recorded {
        Some(engine) => podman::serve_again(engine, &directory).await,
        None => None,
    };
    let of_engine = match recorded {
        Some(engine) if speaks_cri(&engine) => {
            cri::count_running(&of_cri(&directory, &engine.socket, None)).await
        }
        Some(engine) => docker::count_running(&directory, &engine.socket).await,
        None => 0,
    };
    process::count_running(&directory) + of_engine
}

/// Ends all containers of a data directory whose program has stopped; how many there were.
pub async fn stop_containers(data: &Path) -> Result<usize> {
    let directory = data.join(DIRECTORY);
    if !directory.exists() {
        return Ok(0);
    }
    let options = network::Options {
        directory: directory.clone(),
        node: String::new(),
        range: None,
        domain: DOMAIN.to_owned(),
        metadata: MetadataAccess::default(),
        rootless: Some(rootless(Start::Never)),
    };
    let network = Network::open(options).map(Arc::new).ok();
    let mut count = stop_all(&*open_process(&directory, network.clone(), Vec::new())?).await?;
    if let Some(engine) = former::recorded(&directory) {
        let _podman = podman::serve_again(&engine, &directory).await;
        let opened = open_engine(&engine, &directory, network.clone()).await;
        let opened = opened.with_context(|| former::silence(&engine, &directory))?;
        count += stop_all(&*opened).await?;
        for pod in opened.containers().into_keys() {
            opened.remove_pod(&pod).await;
        }
        if speaks_cri(&engine) {
            cri::clear(&of_cri(&directory, &engine.socket, None)).await;
        }
        former::forget(&directory);
    }
    if let Some(network) = network {
        network.remove_all();
    }
    node::unmount_all(&directory).context("a volume was not unmounted")?;
    Ok(count)
}

pub async fn stop_all(runtime: &dyn PodRuntime) -> Result<usize> {
    let all = runtime.containers().into_values().flatten();
    let running: Vec<_> = all.filter(|container| container.is_running()).collect();
    let stops = running.iter().map(|container| runtime.stop(&container.id, STOP_GRACE));
    for stopped in futures::future::join_all(stops).await {
        stopped.context("a container was not stopped")?;
    }
    Ok(running.len())
}

fn speaks_cri(engine: &Engine) -> bool {
    matches!(engine.runtime, Runtime::Containerd | Runtime::CriO)
}

/// Opens an engine that has containers of a node.
pub async fn open_engine(
    engine: &Engine,
    directory: &Path,
    network: Option<Arc<Network>>,
) -> Result<Arc<dyn PodRuntime>> {
    if speaks_cri(engine) {
        let options = of_cri(directory, &engine.socket, network);
        let opened = Cri::open(options).await.map_err(anyhow::Error::msg)?;
        return Ok(Arc::new(opened));
    }
    let (directory, socket) = (directory.to_owned(), engine.socket.clone());
    let options = docker::Options { directory, socket, network };
    let opened = docker::Docker::open(options).await.map_err(anyhow::Error::msg)?;
    Ok(opened)
}

/// Opens the network of pods, and what answers for names in it. What cannot be had is done without:
/// pods then share the network of the machine.
pub async fn connect(
    settings: &Settings,
    (own, installer): (&Context, &Context),
) -> Option<Connected> {
    if settings.runtime.runtime == Runtime::None {
        return None;
    }
    match try_connect(settings, (own, installer)).await {
        Ok(connected) => Some(connected),
        Err(error) => {
            tracing::warn!(error = format!("{error:#}"), "pods share the network of the machine");
            None
        }
    }
}

async fn try_connect(
    settings: &Settings,
    (own, installer): (&Context, &Context),
) -> Result<Connected> {
    let domain = settings.domain.as_str();
    // Engines of containers have networks of their own.
    let is_process = settings.runtime.runtime == Runtime::Process;
    let requests = own.requests("kubelet", Default::default());
    let node = requests.get(NODE, &Name::new("", settings.node.as_str())).await.ok().flatten();
    let range = node.and_then(|node| node.value["spec"]["podCIDR"].as_str()?.parse().ok());
    let options = network::Options {
        directory: settings.data.join(DIRECTORY),
        node: settings.node.clone(),
        range,
        domain: domain.to_owned(),
        metadata: settings.metadata,
        rootless: is_process.then(|| rootless(Start::IfMissing)),
    };
    let network = tokio::task::spawn_blocking(move || Network::open(options)).await?;
    let network = Arc::new(network.context("could not open the records of the network")?);
    if network.rootless().is_some() {
        link::dial::set_connector(|address| Box::pin(network::dial::connect(address)));
        inference::model::call::set_connector(|to| Box::pin(network::dial::connect(to)));
    }
    let dns = network::dns::Server::bind(&network).await;
    let dns = Arc::new(dns.context("could not listen for DNS")?);
    let address = dns.address().context("could not tell the address of DNS")?;
    // Pods need not wait for names for ever.
    let install = network::install::run(installer, &settings.node, address);
    let service = tokio::time::timeout(INSTALL_MAX, install).await.ok().flatten();
    let server = match network.mode {
        network::Mode::Namespaces => service,
        // A resolver knows no other port.
        network::Mode::Loopback => (address.port() == 53).then(|| address.ip().to_string()),
    };
    Ok(Connected { network, dns, server })
}

fn rootless(start: Start) -> network::rootless::Options {
    network::rootless::Options { program: vec![PROGRAM.into()], start }
}

/// Where services reach virtual machines of this node.
pub fn gateway(network: Option<&Connected>) -> Gateway {
    match network.map(|connected| connected.network.host_gateway()) {
        Some(IpAddr::V4(address)) => Gateway::At(address),
        Some(IpAddr::V6(_)) | None => Gateway::Nowhere,
    }
}

/// Takes the network away when the node ends, unless pods need it.
pub struct Closing(pub Option<Connected>);

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some(connected) = &self.0 {
            connected.network.close();
        }
    }
}

/// Opens the process runtime. Containers that it starts do not see the hidden paths.
pub fn open_process(
    directory: &Path,
    network: Option<Arc<Network>>,
    hidden: Vec<PathBuf>,
) -> Result<Arc<dyn PodRuntime>> {
    let shim = vec![PROGRAM.into(), SHIM.into()];
    let options = process::Options {
        directory: directory.to_owned(),
        shim,
        start_max: START_MAX,
        network,
        hidden,
    };
    let process = Process::open(options)
        .with_context(|| format!("could not open the records in {}", directory.display()))?;
    Ok(Arc::new(process))
}

/// Returns when a runtime that did not answer does: the chosen one, or one that was used before and
/// has to be left first.
pub async fn appears(settings: &Settings) {
    let chosen = &settings.runtime;
    if chosen.runtime == Runtime::None {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(LOOK_AGAIN).await;
        let other = former::other(&settings.data, chosen);
        let other = other.map(|engine| (engine.runtime, engine.socket));
        let own = || chosen.socket.clone().map(|socket| (chosen.runtime, socket));
        let Some((runtime, socket)) = other.or_else(own) else { return };
        if runtimes::ask(runtime, socket).await.is_ok() {
            return;
        }
    }
}

/// Where the servers of this cluster say they are, for a process that serves nobody itself.
pub async fn find_api(context: &Context) -> SocketAddr {
    let requests = context.requests(node::agent::NAME, Default::default());
    let found = requests.get(ENDPOINTS, &Name::new("default", "kubernetes")).await;
    let address = found.ok().flatten().and_then(|endpoints| {
        let subset = &endpoints.value["subsets"][0];
        let host = subset["addresses"][0]["ip"].as_str()?.parse().ok()?;
        let port = u16::try_from(subset["ports"][0]["port"].as_u64()?).ok()?;
        Some(SocketAddr::new(host, port))
    });
    address.unwrap_or(listener::USUAL)
}

/// Runs the agent until it is dropped.
pub async fn run(context: Context, options: Options) {
    node::agent::run(context, options).await;
}
