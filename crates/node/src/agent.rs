//! Runs this machine as a node: registers it, and has a worker for every pod that is bound to it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use reconcile::health::State;
use reconcile::{Change, Context, Kind, Name};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;

use crate::devices::Devices;
use crate::image::Garbage;
use crate::network::Connected;
use crate::pod::admission::Ledger;
use crate::pod::cache_directories;
use crate::pod::follow::Followers;
use crate::pod::host_environment::HostEnvironment;
use crate::pod::images;
use crate::pod::prepare;
use crate::pod::worker::{self, Rest, Shared};
use crate::pressure::{self, Pressure};
use crate::register::{self, Heartbeat};
use crate::runtime::PodRuntime;
use crate::simulated::{NODE, POD};
use crate::volumes::{local_path, reclaim};

pub const NAME: &str = "node";
pub const SERVICE: Kind = Kind::namespaced("", "v1", "Service", "services");
/// Containers that are started at the same time.
const STARTS_MAX: usize = 16;
/// Pods that have a worker; the rest waits until one ends.
const WORKERS_MAX: usize = 1_024;
/// How long a pod whose worker broke off is left alone.
const BROKEN_PAUSE: Duration = Duration::from_secs(5);

/// What the agent is told.
#[derive(Clone)]
pub struct Options {
    /// The name of the node.
    pub node: String,
    /// Where volumes are kept.
    pub directory: PathBuf,
    /// Where pods find the API server.
    pub api: SocketAddr,
    /// How others reach this machine.
    pub address: IpAddr,
    /// Where it answers servers of other processes there, if it does.
    pub port: Option<u16>,
    /// How the node says that it lives.
    pub heartbeat: Heartbeat,
    /// Without one the node is there, but not ready.
    pub runtime: Option<Arc<dyn PodRuntime>>,
    /// Why there is none, for people.
    pub absence: String,
    /// What is given to containers one by one.
    pub devices: Arc<Devices>,
    /// Without one pods share the network of the machine.
    pub network: Option<Connected>,
    /// Every port that a container names is reached by some port of the machine.
    pub publish_container_ports: bool,
    /// Environment of containers that run as processes.
    pub environment: Arc<HostEnvironment>,
    pub pressure: Arc<Pressure>,
    /// Directories of the server that no `hostPath` volume may name.
    pub private: Vec<PathBuf>,
}

/// The workers there are, and the pods that need one.
#[derive(Default)]
pub struct Workers {
    held: Mutex<Held>,
    changed: Notify,
}

#[derive(Default)]
struct Held {
    /// By UID.
    running: BTreeMap<String, Arc<Notify>>,
    wanted: BTreeSet<(String, Name)>,
}

impl Workers {
    /// A pod changed: its worker looks again, or it gets one.
    fn pod_changed(&self, node: &str, change: &Change) {
        let pod = change.object();
        if pod.value["spec"]["nodeName"] != node {
            return;
        }
        let mut held = self.lock();
        if let Some(wake) = held.running.get(&pod.uid) {
            return wake.notify_one();
        }
        held.wanted.insert((pod.uid.clone(), pod.name.clone()));
        self.changed.notify_one();
    }

    /// Something happened to a container of a pod.
    fn wake(&self, uid: &str) {
        if let Some(wake) = self.lock().running.get(uid) {
            wake.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// A worker has nothing more to do. If its pod changed since it looked, it gets another.
    fn rest(&mut self, (uid, name): (String, Name), rest: Rest) {
        let Some(wake) = self.running.remove(&uid) else { return };
        let is_woken = wake.notified().now_or_never().is_some();
        if rest == Rest::Broken || (rest == Rest::Parked && is_woken) {
            self.wanted.insert((uid, name));
        }
    }
}

/// Runs until it is dropped. What runs on the machine then goes on without it.
pub async fn run(context: Context, options: Options) {
    register::register(&context, &options).await;
    context.health.set(NAME, State::Running);
    let Some(runtime) = options.runtime.clone() else {
        return register::beat(&context, &options).await;
    };
    if let Err(error) = prepare::make_private(&options.directory) {
        tracing::warn!(%error, "directory of volumes not restricted to its owner");
    }
    let workers = Arc::new(Workers::default());
    let told = workers.clone();
    runtime.listen(Arc::new(move |pod| told.wake(pod)));
    let shared = Arc::new(Shared {
        context: context.clone(),
        runtime,
        options: options.clone(),
        starts: Semaphore::new(STARTS_MAX),
        pulls: Semaphore::new(images::PULLS_MAX),
        garbage: Garbage::open(&options.directory),
        ledger: Ledger::default(),
        followers: Followers::default(),
    });
    let network = async {
        if let Some(network) = &options.network {
            network.serve(&context).await;
        }
    };
    let pods = look_after_pods(&shared, &workers);
    let garbage = images::collect_garbage(&shared);
    let pressure = pressure::monitor(&shared, |uid| workers.wake(uid));
    let volumes = local_path::restrict_existing(&context, &options.node);
    let caches = cache_directories::follow(&context, &options.directory);
    let beat = register::beat(&context, &options);
    tokio::join!(beat, pods, network, garbage, pressure, volumes, caches);
}

async fn look_after_pods(shared: &Arc<Shared>, workers: &Arc<Workers>) {
    let Shared { context, options, runtime, .. } = &**shared;
    context.cache(NODE).reaches(1).await;
    reclaim::follow(context, &options.node);
    context.cache(SERVICE).reaches(1).await;
    let pods = context.cache(POD);
    let (told, node) = (Arc::downgrade(workers), options.node.clone());
    pods.subscribe(move |change| {
        if let Some(workers) = told.upgrade() {
            workers.pod_changed(&node, change);
        }
    });
    pods.reaches(1).await;
    {
        let mut held = workers.lock();
        for pod in pods.all().iter().filter(|pod| pod.value["spec"]["nodeName"] == options.node) {
            // Those that were taken before come first, whoever is looked at first.
            if pod.value["status"]["startTime"].is_string() {
                let _ = shared.ledger.admit(pod, None);
            }
            held.wanted.insert((pod.uid.clone(), pod.name.clone()));
        }
        // What runs or was made for a pod that is gone gets a worker too, which ends it.
        let known: BTreeSet<String> = held.wanted.iter().map(|(uid, _)| uid.clone()).collect();
        options.devices.retain(&known);
        let left = runtime.containers().into_keys().chain(prepare::found(shared));
        let orphans = left.filter(|uid| !known.contains(uid));
        let orphans = orphans.map(|uid| (uid, Name::new("", "")));
        held.wanted.extend(orphans.collect::<Vec<_>>());
    }
    let mut tasks = JoinSet::new();
    loop {
        start_workers(shared, workers, &mut tasks);
        tokio::select! {
            () = workers.changed.notified() => {}
            Some(ended) = tasks.join_next() => {
                if let Ok((pod, rest)) = ended {
                    workers.lock().rest(pod, rest);
                }
            }
        }
    }
}

fn start_workers(
    shared: &Arc<Shared>,
    workers: &Arc<Workers>,
    tasks: &mut JoinSet<((String, Name), Rest)>,
) {
    let mut held = workers.lock();
    while held.running.len() < WORKERS_MAX {
        let Some((uid, name)) = held.wanted.pop_first() else { return };
        if held.running.contains_key(&uid) {
            continue;
        }
        let wake = Arc::new(Notify::new());
        held.running.insert(uid.clone(), wake.clone());
        let shared = shared.clone();
        tasks.spawn(async move {
            let work = AssertUnwindSafe(worker::run(&shared, &uid, &name, &wake));
            let rest = match work.catch_unwind().await {
                Ok(rest) => rest,
                Err(_) => {
                    tracing::error!(pod = %name, uid, "the worker of a pod broke off");
                    // Whatever broke it may do so again, and again.
                    tokio::time::sleep(BROKEN_PAUSE).await;
                    Rest::Broken
                }
            };
            ((uid, name), rest)
        });
    }
}
