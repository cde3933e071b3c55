//! One run: a world, a server, the component with its faults, and what came of it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use apiserver::identity::User;
use reconcile::leader::{Candidate, Term, campaign};
use serde_json::Value;
use store::{KeyRange, Revision};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{Task, Trial};
use crate::cluster::{self, Cluster};
use crate::faults::{Fault, Faults, Planned, Role};
use crate::record::{self, Change, Event, Made};
use crate::world::World;

/// How long nothing may be written before the world counts as settled.
pub const QUIET: Duration = Duration::from_secs(600);
/// How long a world may take to settle after the last thing that users did.
const SETTLE_MAX: Duration = Duration::from_secs(6 * 3_600);
/// How long what users do may take.
const WORKLOAD_MAX: Duration = Duration::from_secs(24 * 3_600);
/// How long a component that died stays dead.
const DEAD: Duration = Duration::from_secs(1);
/// The lease that rivals stand for.
const LEASE: &str = "simulation";
/// How long rivals go on standing for election after one of them stood still.
const ELECTION: Duration = Duration::from_secs(30);
/// Tests without optimisation need more than the usual.
const STACK_BYTES: usize = 64 << 20;

/// What differs from run to run: who was told what and when, what this server's keys are, and what
/// the server keeps for itself.
const NOT_COMPARED: [&str; 4] =
    ["events/", "leases/", "configmaps/kube-system/extension-apiserver", "internal/"];
/// The volume of a pod's token has a name made by chance.
const TOKEN_VOLUME: &str = "kube-api-access-";
/// The type of secrets with a key that is made by chance.
const KEY_OF_ITS_OWN: &str = "kubernetes.io/ssh-auth";

/// How a run went.
#[derive(Debug, Default, PartialEq)]
pub struct Run {
    /// The user that the component is.
    pub actor: String,
    pub planned: Vec<Planned>,
    pub made: Vec<Made>,
    /// What a rival did, where there was one.
    pub rival: Vec<Made>,
    pub events: Vec<Event>,
    /// Everything that was written since the beginning.
    pub history: Vec<Change>,
    /// Every object at the end, without what differs from run to run.
    pub objects: BTreeMap<String, Value>,
    pub is_settled: bool,
    /// Whether every planned fault happened.
    pub is_spent: bool,
    pub is_runaway: bool,
    /// What was written after the component was started once more at the end, where it was.
    pub after_restart: Vec<Made>,
}

impl Run {
    /// One number for everything that happened.
    pub fn hash(&self) -> u64 {
        record::hash(&self.made, &self.events)
    }
}

/// Runs a trial under planned faults, on a thread of its own: a fresh thread has fresh keys for
/// hash maps.
pub fn run(trial: Trial, seed: u64, planned: Vec<Planned>) -> Run {
    start(Trial { seed, ..trial }, planned, |_| Box::pin(std::future::ready(())))
}

/// The same without faults, with more that users do at the end.
pub fn run_with(trial: Trial, more: impl FnOnce(Arc<Cluster>) -> Task + Send + 'static) -> Run {
    start(trial, Vec::new(), more)
}

fn start(
    trial: Trial,
    planned: Vec<Planned>,
    more: impl FnOnce(Arc<Cluster>) -> Task + Send + 'static,
) -> Run {
    announce(&trial);
    let simulated = move || {
        cluster::set_patience(WORKLOAD_MAX);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a runtime must start");
        runtime.block_on(simulate(trial, planned, more))
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(simulated);
    match thread.expect("a thread must start").join() {
        Ok(run) => run,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Marks the output of a test as that of a simulation: one that fails is not run again, because
/// it fails every time.
fn announce(trial: &Trial) {
    thread_local!(static IS_ANNOUNCED: Cell<bool> = const { Cell::new(false) });
    if !IS_ANNOUNCED.replace(true) {
        println!("simulation: {}, seed {}", trial.name, trial.seed);
    }
}

async fn simulate(
    trial: Trial,
    planned: Vec<Planned>,
    more: impl FnOnce(Arc<Cluster>) -> Task,
) -> Run {
    let world = Arc::new(World::new(trial.seed));
    let cluster = Arc::new(Cluster::in_world(world.clone()).await);
    let begin = cluster.store.revision();
    let faults = Faults::new(world.clone(), cluster.store.clone(), planned.clone());
    let rival = Faults::new(world, cluster.store.clone(), Vec::new());
    let mut tasks = JoinSet::new();
    tasks.spawn((trial.play)(cluster.context()));
    if planned.iter().any(|one| matches!(one.fault, Fault::Pause(_))) {
        tasks.spawn(rivals(trial, cluster.clone(), faults.clone(), rival.clone()));
    } else {
        let (_, term) = watch::channel(Term::Alone);
        tasks.spawn(supervise(trial, cluster.clone(), faults.clone(), term));
    }
    let mut workload = JoinSet::new();
    let (usual, more) =
        ((trial.workload)(cluster.clone(), cluster.context()), more(cluster.clone()));
    workload.spawn(async move {
        usual.await;
        more.await;
    });
    let done = tokio::time::timeout(WORKLOAD_MAX, workload.join_next()).await;
    if let Ok(Some(Err(error))) = done
        && error.is_panic()
    {
        std::panic::resume_unwind(error.into_panic());
    }
    let is_done = workload.is_empty();
    let is_settled = is_done && settle(&cluster, [&faults, &rival]).await;
    let is_runaway = faults.is_runaway();
    let history = history(&cluster, begin).await;
    let objects = objects(&history);
    let (made, events) = (faults.made(), faults.events());
    let mut after_restart = Vec::new();
    if planned.is_empty() {
        after_restart = restarted(trial, &cluster, tasks).await;
    }
    Run {
        actor: identity(trial).name.to_string(),
        is_spent: faults.is_spent(),
        planned,
        made,
        rival: rival.made(),
        events,
        history,
        objects,
        is_settled,
        is_runaway,
        after_restart,
    }
}

/// Who a component is: what it may do is part of what is on trial.
fn identity(trial: Trial) -> User {
    if trial.name.starts_with("system:") {
        let name = trial.name.split('/').next().unwrap_or(trial.name);
        return User::authenticated(name, [] as [&str; 0]);
    }
    let name = trial.name.split(['/', ':']).next().unwrap_or(trial.name);
    User::service_account("kube-system", name, "")
}

/// Starts the component, and again whenever it dies; nothing but the store outlives it.
async fn supervise(
    trial: Trial,
    cluster: Arc<Cluster>,
    faults: Arc<Faults>,
    term: watch::Receiver<Term>,
) {
    loop {
        let life = faults.begin_life();
        let server = &cluster.server;
        let client = faults.client(&life, server, (Role::Acts, identity(trial)));
        // Caches are shared by all controllers, so they are filled by the program itself.
        let reader = User::authenticated("system:kube-controller-manager", [] as [&str; 0]);
        let filler = faults.client(&life, server, (Role::Fills, reader));
        let component = (trial.component)(cluster.context_with(client, filler, term.clone()));
        tokio::select! {
            biased;
            () = life.ended() => {}
            () = component => {}
        }
        tokio::time::sleep(DEAD).await;
        if faults.is_runaway() {
            // It has shown what it is; there is no need to see more of it.
            return;
        }
    }
}

/// Two of the component, of which one leads at a time. When the first has stood still for longer
/// than its lease and is back, the second leads for good.
async fn rivals(trial: Trial, cluster: Arc<Cluster>, first: Arc<Faults>, second: Arc<Faults>) {
    let mut tasks = JoinSet::new();
    let mut campaigns = JoinSet::new();
    let mut terms = Vec::new();
    for (faults, name) in [(&first, "first"), (&second, "second")] {
        let (term, told) = watch::channel(Term::Follower(None));
        let life = faults.begin_life();
        let admin = User::authenticated("admin", ["system:masters"]);
        let client = faults.client(&life, &cluster.server, (Role::Stands, admin));
        let environment = cluster.environment();
        let identity = name.to_owned();
        let namespace = reconcile::leader::NAMESPACE.into();
        let candidate = Candidate { client, environment, lease: LEASE, namespace, identity };
        let told_by = term.clone();
        campaigns.spawn(async move { campaign(candidate, told_by).await });
        tasks.spawn(supervise(trial, cluster.clone(), faults.clone(), told));
        terms.push(term);
        // The first is to be the first leader.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut was_paused = first.was_paused.subscribe();
    let _ = was_paused.wait_for(|was| *was).await;
    tokio::time::sleep(ELECTION).await;
    drop(campaigns);
    terms[0].send_modify(|term| *term = term.lost());
    while tasks.join_next().await.is_some() {}
}

/// Waits until nothing has been written, or tried to be, for a while; false if that never happens.
async fn settle(cluster: &Cluster, faults: [&Arc<Faults>; 2]) -> bool {
    let begin = Instant::now();
    let tries = || faults.map(|faults| faults.last_write());
    let mut before = (written(cluster, Revision::ZERO).await, tries());
    let mut since = Instant::now();
    while begin.elapsed() < SETTLE_MAX && !faults.iter().any(|faults| faults.is_runaway()) {
        tokio::time::sleep(QUIET / 10).await;
        let after = (written(cluster, before.0).await, tries());
        if after != before {
            (before, since) = (after, Instant::now());
        } else if since.elapsed() >= QUIET {
            return true;
        }
    }
    false
}

/// The newest revision that is more than the renewal of a lease.
async fn written(cluster: &Cluster, after: Revision) -> Revision {
    let head = cluster.store.revision();
    let changes = cluster.store.changes(&KeyRange::all(), after, head).await;
    let batches = changes.map(|changes| changes.batches).unwrap_or_default();
    let is_more = |batch: &&Arc<store::Batch>| {
        batch.changes.iter().any(|change| !change.key.as_str().starts_with("leases/"))
    };
    batches.iter().rev().find(is_more).map_or(after, |batch| batch.revision)
}

/// What the component writes when it is started in a world where all is done.
async fn restarted(trial: Trial, cluster: &Arc<Cluster>, tasks: JoinSet<()>) -> Vec<Made> {
    drop(tasks);
    let world = Arc::new(World::new(trial.seed));
    let faults = Faults::new(world, cluster.store.clone(), Vec::new());
    let (_, term) = watch::channel(Term::Alone);
    let mut tasks = JoinSet::new();
    tasks.spawn((trial.play)(cluster.context()));
    tasks.spawn(supervise(trial, cluster.clone(), faults.clone(), term));
    tokio::time::sleep(QUIET).await;
    faults.made().into_iter().filter(Made::is_write).collect()
}

/// What was written and is still there, without what differs from run to run. What nobody wrote is
/// as it was at the beginning of every world.
fn objects(history: &[Change]) -> BTreeMap<String, Value> {
    let mut objects = BTreeMap::new();
    for change in history {
        match &change.new {
            Some(new) => objects.insert(change.key.clone(), new),
            None => objects.remove(&change.key),
        };
    }
    objects.retain(|key, _| !NOT_COMPARED.iter().any(|prefix| key.starts_with(prefix)));
    let masked = |(key, object): (String, &Value)| {
        let mut object = object.clone();
        mask(&mut object);
        (key, object)
    };
    objects.into_iter().map(masked).collect()
}

async fn history(cluster: &Cluster, begin: Revision) -> Vec<Change> {
    let head = cluster.store.revision();
    let mut history = Vec::new();
    let mut position = begin;
    while position < head {
        let changes = cluster.store.changes(&KeyRange::all(), position, head).await;
        let changes = changes.expect("a store must keep its history");
        position = changes.through;
        for batch in &changes.batches {
            let object = |entry: &Arc<store::Entry>| {
                apiserver::persist::stored(entry).object(entry.modified)
            };
            history.extend(batch.changes.iter().map(|change| Change {
                revision: batch.revision.0,
                actor: batch.provenance.actor.to_string(),
                key: change.key.as_str().to_owned(),
                old: change.previous.as_ref().map(object),
                new: change.entry.as_ref().map(object),
            }));
        }
    }
    history
}

/// Takes out identities, times and revisions.
fn mask(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for field in
                ["uid", "resourceVersion", "managedFields", "generation", "observedGeneration"]
            {
                fields.remove(field);
            }
            // It follows from the name, and which of its like is left is nobody's promise.
            fields.retain(|name, _| !name.starts_with("podIP"));
            // Taints have a name of their own for their time.
            fields.remove("timeAdded");
            let ends = ["Time", "Timestamp", "At", "-trigger-time"];
            fields.retain(|name, _| !ends.iter().any(|end| name.ends_with(end)));
            // The pods of a Job are labelled with its identity, and with that of its JobSet;
            // digests are of identities, too.
            let identities = [
                "controller-uid",
                "jobset-uid",
                "last-applied-generation",
                "last-applied-hash",
                "setpoint.dev/members",
            ];
            fields.retain(|name, _| !identities.iter().any(|end| name.ends_with(end)));
            if fields.get("type").is_some_and(|kind| kind == KEY_OF_ITS_OWN)
                && let Some(keys) = fields.get_mut("data").and_then(Value::as_object_mut)
            {
                keys.values_mut().for_each(|key| *key = Value::Null);
            }
            fields.values_mut().for_each(mask);
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::String(text) if is_identity(text) => text.clear(),
        Value::String(text) if text.starts_with(TOKEN_VOLUME) => *text = TOKEN_VOLUME.to_owned(),
        // An object that another one keeps, as YAML.
        Value::String(text) if text.contains("\n  uid: ") => {
            let differs = |line: &&str| {
                ["uid:", "resourceVersion:"].iter().any(|of| line.trim_start().starts_with(of))
            };
            *text = text.lines().filter(|line| !differs(line)).collect();
        }
        _ => {}
    }
}

/// Whether a text is the identity of some object.
fn is_identity(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    let is_hex = |part: &&str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    lengths == [8, 4, 4, 4, 12] && parts.iter().all(is_hex)
}
