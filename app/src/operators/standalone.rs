//! Operators against any cluster, through its API alone: certificates first, then what servers and
//! pods ask, then the operators themselves as soon as the cluster knows their kinds.
//!
//! Every replica answers; of each operator one replica does the work.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use reconcile::caches::DeclaredReads;
use reconcile::health::{Health, State};
use reconcile::leader::{Candidate, Term, campaign, give_up};
use reconcile::metrics::Metrics;
use reconcile::{Caches, Context, Elsewhere, Environment, Kind, environment};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::certificates::{self, Keeper, Served};
use super::choice::Choice;
use super::claims;
use super::cluster::{self, Access};
use super::first_objects;
use super::installation::{Installation, Reached};
use super::listeners::{self, Listeners, Told};
use super::mounted::{self, Reader};
use super::readiness::Readiness;
use super::said::{Lease, Only};
use super::{Entrance, Family, Nodes, Operator, Surroundings, Told as Knows, missing};
use crate::allocator;
use crate::definitions;
use crate::mapped;
use crate::node_name;
use crate::output::Output;
use crate::shutdown::{Signals, Tasks, exit_at_once};

pub use super::certificates::LIFE_SECONDS;
pub use super::listeners::Addresses;

/// How long the parts may take to stop.
const STOP_MAX: Duration = Duration::from_secs(10);
/// How often is looked whether the start is over.
const SETTLING: Duration = Duration::from_secs(1);
/// Who writes what belongs to the installation.
const MANAGER: &str = "setpoint-operator";

/// What to run.
pub struct Plan {
    pub choice: Choice,
    pub access: Access,
    /// Where leases and certificates are; else the namespace of this pod, or the usual one.
    pub namespace: Option<String>,
    /// Where the cluster reaches this process, if not by its service.
    pub url: Option<String>,
    pub addresses: Addresses,
    pub election: Election,
    /// Of one operator, where it is not the usual one.
    pub lease: Option<Lease>,
    pub install: Install,
    pub first_objects: FirstObjects,
    pub certificate_life_seconds: i64,
    /// Where others put certificates; else they are made here.
    pub mounted: Option<PathBuf>,
    /// The text of a file that families are configured by.
    pub file: Option<String>,
    /// The one namespace to work in, if it is one.
    pub only: Option<Only>,
    pub output: Output,
}

impl Plan {
    /// The namespace of leases, certificates and keys: the one that was chosen, that of this pod,
    /// or the usual one.
    fn home_namespace(&self, of_pod: Option<&str>) -> String {
        let usual = self.choice.first().home().namespace;
        self.namespace.as_deref().or(of_pod).unwrap_or(usual).to_owned()
    }
}

/// Whether others may run the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Election {
    ByLease,
    None,
}

/// Who brings what the operators need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Install {
    ByOthers,
    Here,
}

/// Whether objects that every installation begins with are made where they are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstObjects {
    Made,
    LeftOut,
}

/// What is said when it listens.
#[derive(Serialize)]
struct Listening {
    event: &'static str,
    cluster: String,
    namespace: String,
    operators: Vec<&'static str>,
    identity: String,
    health: SocketAddr,
    metrics: SocketAddr,
    webhooks: SocketAddr,
}

impl fmt::Display for Listening {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Listening { cluster, operators, health, metrics, webhooks, .. } = self;
        let operators = operators.join(", ");
        write!(
            formatter,
            "{operators} for {cluster} (health http://{health}, metrics https://{metrics}, \
             webhooks https://{webhooks})"
        )
    }
}

/// What the parts share.
struct Shared {
    client: kube::Client,
    installation: Installation,
    caches: Arc<Caches>,
    environment: Arc<dyn Environment>,
    /// By the prefix of their names.
    metrics: BTreeMap<&'static str, Arc<Metrics>>,
    health: Arc<Health>,
    readiness: Arc<Readiness>,
    identity: String,
    /// What others look after, by the name of the family that heeds it.
    elsewhere: BTreeMap<&'static str, Elsewhere>,
    stop: watch::Receiver<bool>,
}

/// Runs until a signal says to stop.
pub async fn run(plan: Plan) -> Result<()> {
    let mut signals = Signals::listen().context("could not listen for signals")?;
    let cluster = cluster::connect(&plan.access).await?;
    let user = cluster::user(&cluster.client).await;
    let only = plan.only.as_ref().map(|only| only.namespace.as_str());
    let namespace = plan.home_namespace(cluster.own_namespace.as_deref());
    for (family, _) in plan.choice.families() {
        let file = plan.file.as_deref();
        let told = Knows { file, user: user.as_deref(), namespace: &namespace, only };
        family.configure(&told).map_err(|why| anyhow!(why))?;
    }
    let listeners = Listeners::take(&plan.addresses).await?;
    let tasks = Tasks::new();
    let own_namespace = cluster.own_namespace.clone();
    let mut shared = Shared::new(&plan, cluster.client, own_namespace, &tasks);
    // A namespace is taken before anything is done in it.
    let context = shared.context(watch::channel(Term::Alone).1, "");
    let claims = claims::take(&plan.choice, &context, plan.only.as_ref()).await?;
    shared.follow_others(&plan, &tasks);
    let shared = Arc::new(shared);
    plan.output.print(&shared.listening(cluster.url, &listeners)?)?;
    let (told_served, served) = watch::channel(None);
    let mut candidates = Vec::new();
    let mut terms = Vec::new();
    for (_, operator) in shared.installation.choice.operators() {
        let (candidate, term) = shared.elect(&plan, &tasks, operator);
        candidates.extend(candidate);
        terms.push((operator, term));
    }
    listen(&shared, &tasks, listeners, (&terms, &served));
    keep_certificates(&plan, &shared, &tasks, told_served);
    let of = |operator: &Operator| {
        let found = terms.iter().find(|(one, _)| one.name == operator.name);
        found.map(|(_, term)| term.clone()).expect("every operator must have a term")
    };
    for (family, operator) in shared.installation.choice.operators() {
        let context = shared.context(of(operator), operator.metrics_prefix);
        let context = operator.reading(context);
        let context = Context { elsewhere: shared.elsewhere_of(family), ..context };
        let part = Part { family, operator, context, first_objects: plan.first_objects };
        tasks.spawn(operator.name, part.run(shared.clone(), served.clone()));
    }
    tasks.spawn_until_stop("settling", settle(shared.clone()));
    let ended = tokio::select! {
        signal = signals.next() => {
            info!(signal = signal.as_raw_value(), "stopping");
            Ok(())
        }
        error = claims::keep(&claims) => Err(anyhow!(error.chain())
            .context("the lease of the namespace could not be renewed; another may have it")),
    };
    let stop = async {
        tasks.stop(STOP_MAX).await;
        claims::give_back(&claims).await;
        give_up(&candidates).await;
    };
    tokio::select! {
        () = stop => info!("stopped"),
        signal = signals.next() => exit_at_once(signal),
    }
    ended
}

/// What only the start needed goes back when it is over.
async fn settle(shared: Arc<Shared>) {
    while shared.readiness.told(&shared.health).0 != 200 {
        tokio::time::sleep(SETTLING).await;
    }
    allocator::give_back_all();
    mapped::give_back();
}

type Terms = Vec<(&'static Operator, watch::Receiver<Term>)>;

fn listen(
    shared: &Arc<Shared>,
    tasks: &Tasks,
    listeners: Listeners,
    (terms, served): (&Terms, &watch::Receiver<Option<Served>>),
) {
    let told = Arc::new(Told {
        readiness: shared.readiness.clone(),
        health: shared.health.clone(),
        metrics: shared.metrics.values().cloned().collect(),
        terms: terms.clone(),
        served: served.clone(),
    });
    let stop = shared.stop.clone();
    let health = listeners::serve_health(listeners.health, told.clone(), stop.clone());
    tasks.spawn("health", health);
    tasks.spawn("metrics", listeners::serve_metrics(listeners.metrics, told, stop));
    let families = shared.installation.choice.families().map(|(family, _)| {
        let context = shared.context(watch::channel(Term::Alone).1, "");
        (family, Context { elsewhere: shared.elsewhere_of(family), ..context })
    });
    let asked = (families.collect(), shared.stop.clone());
    let questions = listeners::serve_questions(listeners.secure, asked, served.clone());
    tasks.spawn("webhooks", questions);
}

/// Installs what is needed, where that is ours to do, and keeps certificates from then on.
fn keep_certificates(
    plan: &Plan,
    shared: &Arc<Shared>,
    tasks: &Tasks,
    told: watch::Sender<Option<Served>>,
) {
    let context = shared.context(watch::channel(Term::Alone).1, "");
    let (requests, installation) =
        (context.requests(MANAGER, Default::default()), shared.installation.clone());
    let (environment, life_seconds) = (shared.environment.clone(), plan.certificate_life_seconds);
    let (shared, install, mounted) = (shared.clone(), plan.install, plan.mounted.clone());
    tasks.spawn_until_stop("certificates", async move {
        if install == Install::Here {
            definitions::install(&context, shared.installation.prerequisites()).await;
        }
        match mounted {
            Some(directory) => {
                let reader = Reader { requests, installation, directory };
                mounted::keep(reader, &shared.readiness, told).await;
            }
            None => {
                let keeper = Keeper { requests, environment, installation, life_seconds };
                certificates::keep(keeper, &shared.readiness, told).await;
            }
        }
    });
}

impl Shared {
    fn new(
        plan: &Plan,
        client: kube::Client,
        own_namespace: Option<String>,
        tasks: &Tasks,
    ) -> Shared {
        let is_within = own_namespace.is_some();
        let namespace = plan.home_namespace(own_namespace.as_deref());
        let reached = match (&plan.url, plan.install) {
            (Some(url), _) => Reached::Url(url.trim_end_matches('/').to_owned()),
            (None, Install::Here) if !is_within => {
                warn!(
                    "nobody is asked before objects are written: say with --webhook-url where the \
                     cluster reaches this process"
                );
                Reached::Nowhere
            }
            (None, _) => Reached::Service,
        };
        let environment: Arc<dyn Environment> = Arc::new(environment::System);
        let identity = format!("{}_{:016x}", node_name::of_host(), environment.random());
        let caches = Caches::new(client.clone(), environment.clone());
        let reads: Vec<DeclaredReads> =
            plan.choice.operators().map(|(_, operator)| operator.declared_reads()).collect();
        let mut metrics: BTreeMap<&'static str, Arc<Metrics>> = BTreeMap::new();
        for (_, operator) in plan.choice.operators() {
            let prefix = operator.metrics_prefix;
            metrics.entry(prefix).or_insert_with(|| Arc::new(Metrics::with_prefix(prefix)));
        }
        let readiness = Readiness::default();
        readiness.waits(certificates::WHAT, "they are not there yet".to_owned());
        for (_, operator) in plan.choice.operators() {
            readiness.waits(operator.name, "it has not started".to_owned());
        }
        Shared {
            caches: Arc::new(
                caches
                    .for_operators(&reads)
                    .packing()
                    .within(plan.only.as_ref().map(|only| only.namespace.as_str())),
            ),
            client,
            installation: Installation {
                choice: plan.choice.clone(),
                namespace,
                reached,
                only: plan.only.as_ref().map(|only| only.namespace.clone()),
                lease: plan.lease.clone(),
            },
            environment,
            metrics,
            health: Arc::default(),
            readiness: Arc::new(readiness),
            identity,
            elsewhere: BTreeMap::new(),
            stop: tasks.stop_handle().into_receiver(),
        }
    }

    /// Has each family say what others look after; whoever has one namespace need not know.
    fn follow_others(&mut self, plan: &Plan, tasks: &Tasks) {
        if plan.only.is_some() {
            return;
        }
        for (family, _) in plan.choice.families() {
            let (teller, elsewhere) = Elsewhere::told();
            let context = self.context(watch::channel(Term::Alone).1, "");
            tasks.spawn_until_stop("others", async move {
                family.follow_others(&context, teller).await;
            });
            self.elsewhere.insert(family.name(), elsewhere);
        }
    }

    fn elsewhere_of(&self, family: &dyn Family) -> Elsewhere {
        self.elsewhere.get(family.name()).cloned().unwrap_or_default()
    }

    fn listening(&self, cluster: String, listeners: &Listeners) -> Result<Listening> {
        let Addresses { health, metrics, secure } = listeners.addresses()?;
        Ok(Listening {
            event: "listening",
            cluster,
            namespace: self.installation.namespace.clone(),
            operators: self.installation.choice.names(),
            identity: self.identity.clone(),
            health,
            metrics,
            webhooks: secure,
        })
    }

    /// Stands for election, if there is one.
    fn elect(
        &self,
        plan: &Plan,
        tasks: &Tasks,
        operator: &'static Operator,
    ) -> (Option<Candidate>, watch::Receiver<Term>) {
        if plan.election == Election::None {
            return (None, watch::channel(Term::Alone).1);
        }
        let (sender, term) = watch::channel(Term::Follower(None));
        let home = self.installation.namespace.as_str();
        let (lease, namespace) = Lease::of(plan.lease.as_ref(), operator, home);
        let candidate = Candidate {
            client: self.client.clone(),
            environment: self.environment.clone(),
            lease,
            namespace: namespace.into(),
            identity: self.identity.clone(),
        };
        tasks.spawn_until_stop(lease, campaign(candidate.clone(), sender));
        (Some(candidate), term)
    }

    fn context(&self, term: watch::Receiver<Term>, prefix: &str) -> Context {
        Context {
            client: self.client.clone(),
            caches: self.caches.clone(),
            environment: self.environment.clone(),
            metrics: self.metrics.get(prefix).cloned().unwrap_or_default(),
            health: self.health.clone(),
            recorder: Arc::default(),
            tuning: Default::default(),
            elsewhere: Default::default(),
            term,
            stop: self.stop.clone(),
        }
    }
}

/// One operator of this process.
struct Part {
    family: &'static dyn Family,
    operator: &'static Operator,
    context: Context,
    first_objects: FirstObjects,
}

impl Part {
    async fn run(self, shared: Arc<Shared>, served: watch::Receiver<Option<Served>>) {
        let left = tokio::select! {
            () = self.context.stopping() => return,
            left = self.prepare(&shared) => left,
        };
        let requests = self.context.requests(MANAGER, Default::default());
        let unknown = match missing::of(&requests, self.operator.uses).await {
            Ok(unknown) => unknown,
            Err(error) => {
                // It can do without; what is there after all is found later.
                warn!(operator = self.operator.name, error = %error.chain(), "could not ask");
                self.operator.uses.to_vec()
            }
        };
        tokio::select! {
            () = self.work(&shared, unknown, served) => {}
            () = first_objects::make_rest(&requests, left) => {}
        }
    }

    /// Waits for what it needs, and returns what could not be made yet.
    async fn prepare(&self, shared: &Shared) -> Vec<Value> {
        let requests = self.context.requests(MANAGER, Default::default());
        missing::wait(&requests, (self.family, self.operator), &shared.readiness).await;
        let wanted = match self.first_objects {
            FirstObjects::LeftOut => Vec::new(),
            FirstObjects::Made => self.family.first_objects(&[self.operator.name], Nodes::Images),
        };
        first_objects::make(&requests, wanted).await
    }

    /// Runs the operator; again when what it tells pods has changed, or what the cluster knows.
    async fn work(
        &self,
        shared: &Shared,
        mut unknown: Vec<Kind>,
        mut served: watch::Receiver<Option<Served>>,
    ) {
        let requests = self.context.requests(MANAGER, Default::default());
        loop {
            let bundle = tokio::select! {
                () = self.context.stopping() => return,
                first = served.wait_for(Option::is_some) => {
                    first.ok().and_then(|first| Some(first.as_ref()?.bundle_pem.clone()))
                }
            };
            let Some(bundle) = bundle else { return };
            let entrance = shared.installation.entrance();
            let entrance = entrance.map(|url| Entrance { url, authority_pem: bundle.clone() });
            let nodes = Nodes::Images;
            let around = Surroundings { nodes, entrance, unknown: unknown.clone() };
            for controller in self.family.controllers(self.operator) {
                shared.health.set(controller, State::Starting);
            }
            let mut running = self.family.start(self.operator, &self.context, &around);
            shared.readiness.done(self.operator.name);
            let is_another = |served: &Option<Served>| {
                served.as_ref().is_some_and(|served| served.bundle_pem != bundle)
            };
            let has_changed = async { served.wait_for(is_another).await.is_ok() };
            let why = tokio::select! {
                () = drain(&mut running) => return,
                has_changed = has_changed => match has_changed {
                    true => "whom to believe has changed",
                    false => return drain(&mut running).await,
                },
                now = missing::changed(&requests, self.operator.uses, &unknown) => {
                    unknown = now;
                    "the cluster knows other kinds"
                }
            };
            info!(operator = self.operator.name, "{why}; starting again");
            running.shutdown().await;
        }
    }
}

async fn drain(running: &mut JoinSet<()>) {
    while running.join_next().await.is_some() {}
}
