//! Starts what runs beside the API server: controllers, scheduler, this machine as a node,
//! simulated nodes. Each has an identity of its own and passes the same authorizer as everybody;
//! they share their caches.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ::machines::roles;
use apiserver::identity::{GROUP_MASTERS, User};
use apiserver::local::local_client;
use apiserver::profile::Profile;
use apiserver::server::Server;
use controllers::options::Nodes;
use node::absence;
use node::machines::Gateway;
use node::register::Heartbeat;
use node::server::Served;
use node::simulated;
use reconcile::health::Health;
use reconcile::leader::{self, Candidate, Term, campaign};
use reconcile::metrics::Metrics;
use reconcile::{Caches, Context, Environment, environment, supervise::supervise};
use tokio::sync::watch;

use crate::component_states::ComponentStates;
use crate::config::{self, StoreKind};
use crate::definitions;
use crate::foresight::Foresight;
use crate::former;
use crate::installed::{self, Found, Record};
use crate::machines;
use crate::node_agent::{self, Closing, Settings};
use crate::node_listener::Listener;
use crate::operators::{Family, embedded};
use crate::podman;
use crate::private_paths;
use crate::python::{self, Python};
use crate::runtimes::{Chosen, Runtime, Wanted};
use crate::server::Plan;
use crate::shutdown::Tasks;

/// Who fills the caches, and stands for election for the controllers.
const CONTROLLERS_USER: &str = "system:kube-controller-manager";
const CONTROLLERS_LEASE: &str = "kube-controller-manager";
const SCHEDULER_USER: &str = "system:kube-scheduler";
const SCHEDULER_LEASE: &str = "kube-scheduler";
const MACHINES_LEASE: &str = "virt-controller";
/// The namespace of the controllers' service accounts.
const NAMESPACE: &str = "kube-system";

/// Which parts run.
#[derive(Clone)]
pub struct Components {
    pub controllers: bool,
    pub scheduler: bool,
    pub operators: Vec<&'static dyn Family>,
    pub fake_nodes: simulated::Options,
    /// How pods run on this machine, if it is a node.
    pub node: Option<Wanted>,
    /// What it is said to have besides what it has.
    pub node_resources: BTreeMap<String, String>,
    /// Interpreter of pods that run as processes.
    pub python: Option<Python>,
}

impl Components {
    /// Reports whether nothing runs beside the API server.
    pub fn is_api_only(&self) -> bool {
        let runs_pods = self.node.is_some() || self.fake_nodes.count > 0;
        !self.controllers && !self.scheduler && self.operators.is_empty() && !runs_pods
    }
}

/// What the components share.
struct Shared {
    server: Arc<Server>,
    /// The name of this node.
    node: String,
    caches: Arc<Caches>,
    environment: Arc<dyn Environment>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    /// The certificates of the cluster's authority.
    authority_pem: Arc<str>,
    /// What this process stands for election for.
    candidates: Mutex<Vec<Candidate>>,
    stop: watch::Receiver<bool>,
}

/// What was started, for those who tell of it.
pub struct Started {
    pub caches: Arc<Caches>,
    pub health: Arc<Health>,
    /// How many controllers.
    pub controllers: usize,
    /// Become true when what operators need is there.
    installing: Vec<watch::Receiver<bool>>,
    /// What runs the containers of this machine, once that is known.
    pub chosen: Arc<OnceLock<Chosen>>,
    /// Who speaks for the nodes that live here, and their names.
    nodes: Vec<SpokenFor>,
    candidates: Vec<Candidate>,
}

/// Who speaks for nodes, under which name, and what they are called.
type SpokenFor = (Context, &'static str, Vec<String>);

impl Started {
    /// Returns when the kinds of all operators are served.
    pub async fn installed(&self) {
        for installing in &self.installing {
            let mut installing = installing.clone();
            // Who stopped will not install it any more.
            let _ = installing.wait_for(|is_there| *is_there).await;
        }
    }

    /// Says that nobody starts pods on the nodes of this process any more.
    pub async fn leave(&self) {
        for (context, manager, names) in &self.nodes {
            absence::leave(context, manager, names.clone()).await;
        }
    }

    /// Lets other processes on the same store lead. To be called when all tasks have ended.
    pub async fn give_up(&self) {
        leader::give_up(&self.candidates).await;
    }
}

/// Spawns them; they start when the server answers.
pub fn start(
    plan: &Plan,
    tasks: &Tasks,
    (server, authority_pem, listen): (&Arc<Server>, &str, Option<SocketAddr>),
) -> Started {
    let environment: Arc<dyn Environment> = Arc::new(environment::System);
    let reader = local_client(server, User::authenticated(CONTROLLERS_USER, [""; 0]));
    let shared = Shared {
        server: server.clone(),
        node: plan.node.clone(),
        caches: Arc::new(Caches::in_process(reader, environment.clone())),
        environment,
        metrics: Arc::default(),
        health: Arc::default(),
        authority_pem: authority_pem.into(),
        candidates: Mutex::default(),
        stop: tasks.stop_handle().into_receiver(),
    };
    server.beside.set(shared.states(tasks));
    server.beside.set_running_components(running(&plan.components));
    if plan.components.controllers {
        start_controllers(plan, tasks, &shared);
    }
    let gangs = start_gangs(plan, tasks, &shared);
    if plan.components.scheduler {
        start_scheduler(plan, tasks, &shared, gangs.clone());
    }
    let families = plan.components.operators.iter();
    let families = families.map(|family| start_family(plan, tasks, &shared, *family, &gangs));
    let installing = families.chain([gangs.clone()]).collect();
    let mut nodes = Vec::new();
    let chosen: Arc<OnceLock<Chosen>> = Arc::default();
    let (gateway, reached_at) = watch::channel(Gateway::Unknown);
    if let Some(wanted) = &plan.components.node {
        let context = shared.context(User::node(&plan.node), alone());
        nodes.push((context, node::register::MANAGER, vec![plan.node.clone()]));
        let asked = Asked::of(plan, wanted, (&chosen, gateway));
        start_node(tasks, &shared, asked, node_settings(plan, listen));
    }
    let has_machines = plan.components.operators.iter().any(|it| it.name() == machines::FAMILY);
    if has_machines {
        start_machines(plan, tasks, &shared, reached_at);
    }
    if is_shared(plan) {
        answer_for_others(plan, &shared);
    }
    // Where others share the store, machines of theirs are asked for here too.
    if has_machines || is_shared(plan) {
        answer_for_machines(plan, &shared);
    }
    if plan.components.fake_nodes.count > 0 {
        nodes.push(start_simulated(plan, tasks, &shared));
    }
    let controllers = if plan.components.controllers { controllers::ALL.len() } else { 0 };
    let Shared { caches, health, candidates, .. } = shared;
    let candidates = candidates.into_inner().unwrap_or_else(PoisonError::into_inner);
    Started { caches, health, controllers, installing, nodes, chosen, candidates }
}

/// The components whose work the support table of the server speaks of.
fn running(components: &Components) -> Vec<&'static str> {
    let has_machines = components.operators.iter().any(|it| it.name() == machines::FAMILY);
    let all = [
        ("controllers", components.controllers),
        ("node", components.node.is_some()),
        ("machines", has_machines && components.node.is_some()),
    ];
    all.into_iter().filter(|(_, runs)| *runs).map(|(name, _)| name).collect()
}

/// Returns a function that makes the settings of the node agent for the runtime that was found.
fn node_settings(
    plan: &Plan,
    listen: Option<SocketAddr>,
) -> impl FnOnce(Chosen) -> Settings + Send + 'static {
    let (node, data, heartbeat) = (plan.node.clone(), plan.data.clone(), heartbeat(plan));
    let resources = plan.components.node_resources.clone();
    let domain = plan.loaded.config.cluster.domain.clone();
    let metadata = plan.loaded.config.cluster.metadata;
    let publish_container_ports = plan.loaded.config.cluster.publish_container_ports;
    let eviction = plan.loaded.config.cluster.eviction;
    let environment = python::environment(plan);
    let (private, hidden) = (private_paths::of_server(plan), private_paths::hidden(plan));
    move |runtime| Settings {
        node,
        data,
        api: listen,
        heartbeat,
        runtime,
        resources,
        domain,
        metadata,
        publish_container_ports,
        eviction,
        environment,
        private,
        hidden,
    }
}

/// What is asked of machines beside their objects.
fn answer_for_machines(plan: &Plan, shared: &Shared) {
    let context = shared.context(User::authenticated(roles::LAUNCHER, [""; 0]), alone());
    let (server, node) = (Arc::downgrade(&shared.server), plan.node.clone());
    shared.server.beside.add_extend(machines::Subresources { context, server, node });
}

/// Nodes that run nothing; answers whose they are.
fn start_simulated(plan: &Plan, tasks: &Tasks, shared: &Shared) -> SpokenFor {
    // They stand in for many machines at once; no role is for that.
    let user = User::authenticated("system:simulated-nodes", [GROUP_MASTERS]);
    let context = shared.context(user, alone());
    let options = plan.components.fake_nodes.clone();
    let names = (0..options.count).map(simulated::name).collect();
    let nodes = (context.clone(), simulated::NAME, names);
    let run = move |context| simulated::run(context, options.clone());
    tasks.spawn(simulated::NAME, supervise(simulated::NAME, context, run));
    nodes
}

fn heartbeat(plan: &Plan) -> Heartbeat {
    let cluster = &plan.loaded.config.cluster;
    match cluster.profile {
        Profile::Kubernetes => Heartbeat::Lease,
        // The documents know nothing of leases.
        Profile::Mission => Heartbeat::Status(cluster.heartbeat_interval),
    }
}

fn start_controllers(plan: &Plan, tasks: &Tasks, shared: &Shared) {
    let term = elect(plan, tasks, shared, (CONTROLLERS_USER, CONTROLLERS_LEASE));
    let cluster = &plan.loaded.config.cluster;
    let nodes = Nodes { heartbeat_interval: cluster.heartbeat_interval, ..Nodes::default() };
    let options = controllers::Options {
        deployment_match: cluster.deployment_match,
        authority_pem: shared.authority_pem.clone(),
        nodes,
        ..controllers::Options::default()
    };
    let mut running = controllers::start(
        |name| {
            let tuning = cluster.tunings.get(name).copied().unwrap_or_default();
            let user = User::service_account(NAMESPACE, name, "");
            Context { tuning, ..shared.context(user, term.clone()) }
        },
        &options,
    );
    tasks.spawn("controllers", async move { while running.join_next().await.is_some() {} });
    // The controllers' own roles are for what others make.
    let user = User::authenticated("system:first-objects", [GROUP_MASTERS]);
    let install = controllers::volume_binder::install_default_class(shared.context(user, alone()));
    tasks.spawn_until_stop("default-class", install);
}

/// Installs the kinds of gangs, which the scheduler and some operators know. What is returned
/// becomes true when they are there.
fn start_gangs(plan: &Plan, tasks: &Tasks, shared: &Shared) -> watch::Receiver<bool> {
    let Components { scheduler, operators, .. } = &plan.components;
    let installed = watch::Sender::new(!*scheduler && operators.is_empty());
    let installing = installed.subscribe();
    if *installing.borrow() {
        return installing;
    }
    let installer = shared.context(definitions::installer(), alone());
    let record = Record::of(&shared.server, &installer, "gangs", &[]);
    let server = shared.server.clone();
    tasks.spawn_until_stop("gangs", async move {
        let found = record.look().await;
        installed.send_replace(found != Found::Unknown);
        if found != Found::Unchanged {
            let manifests = scheduler::manifests();
            let named = installed::named(&manifests);
            definitions::install_within(&server, &installer, manifests).await;
            installed.send_replace(true);
            record.write(&named).await;
        }
    });
    installing
}

fn start_scheduler(plan: &Plan, tasks: &Tasks, shared: &Shared, mut gangs: watch::Receiver<bool>) {
    let term = elect(plan, tasks, shared, (SCHEDULER_USER, SCHEDULER_LEASE));
    let context = shared.context(User::authenticated(SCHEDULER_USER, [""; 0]), term);
    let policy = match plan.loaded.config.cluster.scheduler_policy {
        config::Policy::Default => scheduler::Policy::BestScore,
        config::Policy::FirstReady => scheduler::Policy::FirstReady,
    };
    let mut options = scheduler::Options::default();
    options.profiles.iter_mut().for_each(|profile| profile.policy = policy);
    let training = embedded::user(&crate::operators::training::Training);
    shared.server.beside.set_foresight(Foresight {
        client: context.client.clone(),
        runtimes: shared.context(training, alone()).client,
        verdicts: options.verdicts.clone(),
        profiles: options.profiles.clone(),
    });
    let run = move |context| scheduler::run(context, options.clone());
    tasks.spawn(SCHEDULER_LEASE, async move {
        let _ = gangs.wait_for(|is_there| *is_there).await;
        supervise(SCHEDULER_LEASE, context, run).await;
    });
}

/// The operators of a family, each with a term of its own. What is returned becomes true when all
/// that they need is installed.
fn start_family(
    plan: &Plan,
    tasks: &Tasks,
    shared: &Shared,
    family: &'static dyn Family,
    gangs: &watch::Receiver<bool>,
) -> watch::Receiver<bool> {
    let user = embedded::user(family);
    let installed = watch::Sender::new(false);
    let installing = installed.subscribe();
    let context = shared.context(user.clone(), alone());
    let elsewhere = embedded::follow_others(tasks, family, context, installing.clone());
    let contexts = family.operators().iter().map(|operator| {
        let term = elect(plan, tasks, shared, (CONTROLLERS_USER, operator.lease));
        let context = operator.reading(shared.context(user.clone(), term));
        (operator, Context { elsewhere: elsewhere.clone(), ..context })
    });
    let contexts = contexts.collect();
    let installer = shared.context(definitions::installer(), alone());
    let names: Vec<&str> = family.operators().iter().map(|operator| operator.name).collect();
    let record = Record::of(&shared.server, &installer, family.name(), &names);
    let context = shared.context(user, alone());
    embedded::connect(&shared.server, family, Context { elsewhere, ..context });
    let given = embedded::Given {
        family,
        server: shared.server.clone(),
        installer,
        contexts,
        record,
        gangs: gangs.clone(),
        authority_pem: shared.authority_pem.clone(),
        installed,
    };
    tasks.spawn_until_stop(family.name(), embedded::run(given));
    installing
}

/// Reviews what operators of other processes on the same store want reviewed: their webhooks lead
/// to the process itself, whichever it is.
fn answer_for_others(plan: &Plan, shared: &Shared) {
    for family in crate::operators::ALL {
        let runs_here = plan.components.operators.iter().any(|one| one.name() == family.name());
        if !runs_here {
            let context = shared.context(embedded::user(*family), alone());
            embedded::connect(&shared.server, *family, context);
        }
    }
}

/// What is asked to run containers, and where to say what does.
struct Asked {
    wanted: Wanted,
    data: PathBuf,
    chosen: Arc<OnceLock<Chosen>>,
    /// And where services reach machines.
    gateway: watch::Sender<Gateway>,
}

impl Asked {
    fn of(
        plan: &Plan,
        wanted: &Wanted,
        (chosen, gateway): (&Arc<OnceLock<Chosen>>, watch::Sender<Gateway>),
    ) -> Asked {
        let (wanted, chosen) = (wanted.clone(), chosen.clone());
        Asked { wanted, data: plan.data.clone(), chosen, gateway }
    }
}

/// This machine as a node. What takes time begins after the server answers.
fn start_node(
    tasks: &Tasks,
    shared: &Shared,
    asked: Asked,
    settings: impl FnOnce(Chosen) -> Settings + Send + 'static,
) {
    let node = shared.node.clone();
    let context = shared.context(User::node(&node), alone());
    let server = shared.server.clone();
    let user = User::authenticated("system:first-objects", [GROUP_MASTERS]);
    let installer = shared.context(user, alone());
    let reader = shared.context(User::authenticated(CONTROLLERS_USER, [""; 0]), alone());
    tasks.spawn_until_stop(node::agent::NAME, async move {
        let podman = podman::serve(&asked.wanted, &asked.data).await;
        let wanted = podman.as_ref().map_or(asked.wanted, podman::Service::wanted);
        let chosen = wanted.choose_after(former::of(&asked.data)).await;
        tracing::info!(runtime = %chosen, "RuntimeController({})", chosen.runtime.name());
        let _ = asked.chosen.set(chosen.clone());
        let settings = settings(chosen);
        let api = match settings.api {
            Some(api) => api,
            None => node_agent::find_api(&reader).await,
        };
        let network = node_agent::connect(&settings, (&context, &installer)).await;
        let _closing = Closing(network.clone());
        asked.gateway.send_replace(node_agent::gateway(network.as_ref()));
        let mut podman = pin!(podman::supervise(podman));
        loop {
            let mut options = match node_agent::open(&settings, api, network.clone()).await {
                Ok(options) => options,
                Err(error) => {
                    tracing::error!(error = format!("{error:#}"), "this machine is no node");
                    return;
                }
            };
            let answering = answer_servers(&server, &mut options).await;
            let is_absent = options.runtime.is_none();
            let run = move |context| node_agent::run(context, options.clone());
            let run = supervise(node::agent::NAME, context.clone(), run);
            tokio::select! {
                _ = async { tokio::join!(run, answering) } => return,
                () = node_agent::appears(&settings), if is_absent => {}
                () = &mut podman => return,
            }
        }
    });
}

/// Connects the node with the server of this process, and with those of others: what is returned
/// answers them.
async fn answer_servers(
    server: &Arc<Server>,
    options: &mut node::agent::Options,
) -> impl Future<Output = ()> + use<> {
    let runtime = options.runtime.clone();
    let (node, machines) = (options.node.clone(), server.connected.machines.clone());
    let served = runtime.map(|runtime| Served { node, runtime, machines });
    let served = served.map(|served| Arc::new(served) as Arc<dyn link::Node>);
    if let Some(served) = &served {
        server.connected.set(served.clone());
    }
    let mut listener = None;
    if let (Some(peers), Some(_)) = (server.connected.peers(), &served) {
        let bound = Listener::bind(peers, &options.node, options.address).await;
        match bound.and_then(|bound| Ok((bound.address()?, bound))) {
            Ok((address, bound)) => {
                options.port = Some(address.port());
                listener = Some(bound);
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::warn!(error, "servers of other processes cannot ask this node");
            }
        }
    }
    async move {
        if let (Some(listener), Some(served)) = (listener, served) {
            listener.serve(served).await;
        }
    }
}

/// What stands in for the add-ons that machines are made of, and runs them on this node.
fn start_machines(plan: &Plan, tasks: &Tasks, shared: &Shared, gateway: watch::Receiver<Gateway>) {
    let term = elect(plan, tasks, shared, (CONTROLLERS_USER, MACHINES_LEASE));
    let provider = shared.context(User::authenticated(roles::PROVIDER, [""; 0]), term);
    tasks.spawn_until_stop(MACHINES_LEASE, ::machines::provider::run(provider));
    if !plan.components.node.as_ref().is_some_and(|it| it.runtime != Runtime::None) {
        return;
    }
    let context = shared.context(User::authenticated(roles::LAUNCHER, [""; 0]), alone());
    let (server, node, data) = (shared.server.clone(), plan.node.clone(), plan.data.clone());
    let reach = plan.loaded.config.cluster.images;
    tasks.spawn_until_stop(node::machines::NAME, async move {
        let options = match machines::open(&node, &data, (reach, gateway)).await {
            Ok(options) => options,
            Err(error) => {
                return tracing::error!(error = error.chain(), "no machines run on this node");
            }
        };
        let hypervisor = options.hypervisor.clone();
        let here = machines::Here { context: context.clone(), node, hypervisor };
        let _ = server.connected.machines.set(Arc::new(here));
        let run = move |context| node::machines::run(context, options.clone());
        supervise(node::machines::NAME, context, run).await;
    });
}

/// Whether other processes can open the store.
fn is_shared(plan: &Plan) -> bool {
    match plan.loaded.config.storage.kind {
        StoreKind::Memory | StoreKind::Embedded => false,
        StoreKind::Mysql | StoreKind::Etcd => true,
    }
}

/// Who else may run the same components decides whether there is an election.
fn elect(
    plan: &Plan,
    tasks: &Tasks,
    shared: &Shared,
    (user, lease): (&'static str, &'static str),
) -> watch::Receiver<Term> {
    if !is_shared(plan) {
        return alone();
    }
    let (sender, term) = watch::channel(Term::Follower(None));
    let candidate = Candidate {
        client: local_client(&shared.server, User::authenticated(user, [""; 0])),
        environment: shared.environment.clone(),
        lease,
        namespace: leader::NAMESPACE.into(),
        identity: format!("{}_{:016x}", plan.node, shared.environment.random()),
    };
    let mut candidates = shared.candidates.lock().unwrap_or_else(PoisonError::into_inner);
    candidates.push(candidate.clone());
    tasks.spawn_until_stop(lease, campaign(candidate, sender));
    term
}

fn alone() -> watch::Receiver<Term> {
    watch::channel(Term::Alone).1
}

impl Shared {
    /// For the server, which tells of them.
    fn states(&self, tasks: &Tasks) -> ComponentStates {
        ComponentStates {
            metrics: self.metrics.clone(),
            health: self.health.clone(),
            caches: self.caches.clone(),
            running: tasks.running(),
        }
    }

    fn context(&self, user: User, term: watch::Receiver<Term>) -> Context {
        Context {
            client: local_client(&self.server, user),
            caches: self.caches.clone(),
            environment: self.environment.clone(),
            metrics: self.metrics.clone(),
            health: self.health.clone(),
            recorder: Arc::default(),
            tuning: Default::default(),
            elsewhere: Default::default(),
            term,
            stop: self.stop.clone(),
        }
    }
}
