//! Runs one component through a workload under every fault that its own trace offers, and compares
//! where the world ends up with where it ends up without faults.
//!
//! Every run is one thread, one seed and paused time.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use apiserver::identity::User;
use reconcile::Context;
use serde_json::Value;
use store::{KeyRange, PageRequest};

use crate::cluster::Cluster;
use crate::faults::{Fault, Faults, Made, Planned};
use crate::world::World;

/// How long nothing may be written before the world counts as settled.
const QUIET: Duration = Duration::from_secs(600);
/// How long a world may take to settle.
const SETTLE_MAX: Duration = Duration::from_secs(6 * 3_600);
/// How long a component that died stays dead.
const DEAD: Duration = Duration::from_secs(1);

/// What differs from run to run: who was told what and when, what this server's keys are, and what
/// the server keeps for itself.
const NOT_COMPARED: [&str; 4] =
    ["events/", "leases/", "configmaps/kube-system/extension-apiserver", "internal/"];
/// The volume of a pod's token has a name made by chance.
const TOKEN_VOLUME: &str = "kube-api-access-";

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What is put on trial.
#[derive(Clone, Copy)]
pub struct Trial {
    pub name: &'static str,
    pub seed: u64,
    /// Makes the component anew, as after a start of the process.
    pub component: fn(Context) -> Task,
    /// What users do, and what plays around the component.
    pub workload: fn(Arc<Cluster>, Context) -> Task,
    pub play: fn(Context) -> Task,
}

/// How a run ended.
#[derive(Debug, PartialEq)]
pub struct End {
    /// Every object, without what differs from run to run.
    pub objects: BTreeMap<String, Value>,
    pub made: Vec<Made>,
    pub is_settled: bool,
    pub is_spent: bool,
}

/// Every fault that a trace offers, one at a time.
pub fn plans(made: &[Made]) -> Vec<Planned> {
    let writes = made.iter().filter(|one| one.is_write());
    let mut plans = Vec::new();
    for one in writes {
        let faults = [
            Fault::LoseRequest,
            Fault::LoseAnswer,
            Fault::Twice,
            Fault::Delay(Duration::from_secs(20)),
            Fault::Refuse(409),
            Fault::Refuse(429),
            Fault::Refuse(500),
            Fault::Refuse(503),
            Fault::CrashBefore,
            Fault::CrashAfter,
        ];
        plans.extend(faults.map(|fault| Planned {
            sort: one.sort.clone(),
            number: one.number,
            fault,
        }));
    }
    plans
}

/// Runs a trial under planned faults, on a thread of its own.
pub fn run(trial: Trial, planned: Vec<Planned>) -> End {
    // A fresh thread has fresh keys for hash maps.
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .expect("a simulation must be set up");
        runtime.block_on(simulate(trial, planned))
    });
    thread.join().expect("a simulation must be set up")
}

async fn simulate(trial: Trial, planned: Vec<Planned>) -> End {
    let world = Arc::new(World::new(trial.seed));
    let cluster = Arc::new(Cluster::in_world(world.clone()).await);
    let faults = Faults::new(planned);
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn((trial.play)(cluster.context()));
    tasks.spawn((trial.workload)(cluster.clone(), cluster.context()));
    tasks.spawn(supervise(trial, cluster.clone(), faults.clone()));
    let is_settled = settle(&cluster).await;
    let objects = objects(&cluster).await;
    End { objects, made: faults.made(), is_settled, is_spent: faults.is_spent() }
}

/// Starts the component, and again whenever it dies; nothing but the store outlives it.
async fn supervise(trial: Trial, cluster: Arc<Cluster>, faults: Arc<Faults>) {
    loop {
        let identity = User::authenticated("component", ["system:masters"]);
        let client = faults.client(&cluster.server, identity);
        let component = (trial.component)(cluster.context_of(client));
        tokio::select! {
            () = component => {}
            () = faults.crash.notified() => {}
        }
        tokio::time::sleep(DEAD).await;
    }
}

/// Waits until nothing has been written for a while; false if that never happens.
async fn settle(cluster: &Cluster) -> bool {
    let settled = async {
        loop {
            let before = cluster.store.revision();
            tokio::time::sleep(QUIET).await;
            if cluster.store.revision() == before {
                return;
            }
        }
    };
    tokio::time::timeout(SETTLE_MAX, settled).await.is_ok()
}

/// What the store holds, without what differs from run to run.
async fn objects(cluster: &Cluster) -> BTreeMap<String, Value> {
    let page = PageRequest { limit: None, ..PageRequest::default() };
    let page = cluster
        .store
        .list(&KeyRange::all(), page, None)
        .await
        .expect("a simulation must be set up");
    let mut objects = BTreeMap::new();
    for entry in page.entries {
        let key = entry.key.as_str();
        if NOT_COMPARED.iter().any(|prefix| key.starts_with(prefix)) {
            continue;
        }
        let mut object = apiserver::persist::stored(&entry).object(entry.modified);
        mask(&mut object);
        objects.insert(key.to_owned(), object);
    }
    objects
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
            // The time of a taint has a name of its own.
            fields.remove("timeAdded");
            fields.retain(|name, _| !name.ends_with("Time") && !name.ends_with("Timestamp"));
            // The pods of a Job are labelled with its identity.
            fields.retain(|name, _| !name.ends_with("controller-uid"));
            fields.values_mut().for_each(mask);
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::String(text) if text.starts_with(TOKEN_VOLUME) => *text = TOKEN_VOLUME.to_owned(),
        _ => {}
    }
}

/// What is wrong with a run, compared with one without faults; empty if nothing.
pub fn verdict(reference: &End, end: &End) -> Vec<String> {
    let mut wrong = Vec::new();
    if !end.is_settled {
        wrong.push("the world does not come to rest".to_owned());
    }
    if !end.is_spent {
        wrong.push("the fault did not happen".to_owned());
    }
    for (key, object) in &reference.objects {
        match end.objects.get(key) {
            None => wrong.push(format!("{key} is missing")),
            Some(found) if found != object => {
                wrong.push(format!("{key} differs:\n  {object}\n  {found}"));
            }
            Some(_) => {}
        }
    }
    for key in end.objects.keys().filter(|key| !reference.objects.contains_key(*key)) {
        wrong.push(format!("{key} should not be there"));
    }
    wrong
}

/// Runs a trial without faults and then under every fault its trace offers; returns how many plans
/// there were. Panics with the first that went wrong.
pub fn try_everything(trial: Trial) -> usize {
    let reference = run(trial, Vec::new());
    assert!(reference.is_settled, "{}: without faults it does not come to rest", trial.name);
    let plans = plans(&reference.made);
    for plan in &plans {
        let end = run(trial, vec![plan.clone()]);
        let wrong = verdict(&reference, &end);
        assert!(wrong.is_empty(), "{} under {plan}: {}", trial.name, wrong.join("\n"));
    }
    plans.len()
}
