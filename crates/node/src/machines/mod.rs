//! Virtual machines of this node: what is scheduled here runs, what it needs is brought in.
//!
//! ```text
//! instance/     a VirtualMachineInstance: looked at, decided about (pure), launched and ended
//! import.rs     fills the claims of DataVolumes     snapshot.rs   keeps and brings back disks
//! volumes.rs    the file behind a claim             looks.rs      when what is looked at
//! upload.rs     takes images that somebody sends    groups.rs     what machines may use
//! held.rs       which disks are being used otherwise
//! services/     has services lead to machines
//! failure.rs    why a look came to nothing  policies/     sets up what policies ask of this node
//! ```
//!
//! What runs machines is a `hypervisor::Hypervisor`; it is told by ids, which are the UIDs of
//! instances. Guests outlive this process.

mod failure;
pub mod groups;
mod held;
mod import;
mod instance;
pub mod kinds;
mod looks;
mod policies;
mod services;
mod snapshot;
pub mod upload;
mod volumes;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hypervisor::Hypervisor;
use hypervisor::images::Reach;
use reconcile::plan::Target;
use reconcile::requests::Requests;
use reconcile::{Context, Kind, Name};
use serde_json::json;
use tokio::sync::watch;

use self::held::Held;
pub use self::instance::status::guest_system;
use self::kinds::{
    ATTACHMENT, CLAIM, DATA_VOLUME, DEFINITION, ENACTMENT, INSTANCE, MACHINE, POLICY, RESTORE,
    SNAPSHOT,
};
use self::looks::Looks;
use crate::agent::SERVICE;
use crate::network::services::ENDPOINT_SLICE;
use crate::simulated::NODE;

pub const NAME: &str = "machines";
/// Who owns the fields that are written.
const MANAGER: &str = "virt-handler";
/// Nodes that run machines say so by this label.
const SCHEDULABLE: &str = "kubevirt.io/schedulable";
/// How often is looked whether the cluster knows machines.
const LOOK: Duration = Duration::from_secs(1);
/// Interval between checks that the node is registered.
const REGISTERED_CHECK: Duration = Duration::from_millis(50);

/// What the launcher is told.
#[derive(Clone)]
pub struct Options {
    pub node: String,
    pub hypervisor: Arc<dyn Hypervisor>,
    /// Where images may be read from.
    pub reach: Reach,
    /// Where copies of disks are kept.
    pub snapshots: PathBuf,
    /// Where is noted which interfaces were made here.
    pub links: PathBuf,
    /// Where services reach machines.
    pub gateway: watch::Receiver<Gateway>,
}

/// The address of the node among its pods, at which ports of machines are open for services.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gateway {
    /// It is not known yet.
    #[default]
    Unknown,
    /// The node has no network of pods.
    Nowhere,
    At(Ipv4Addr),
}

impl Gateway {
    fn address(self) -> Option<Ipv4Addr> {
        match self {
            Gateway::At(address) => Some(address),
            Gateway::Unknown | Gateway::Nowhere => None,
        }
    }
}

/// What all looks share.
struct Shared {
    context: Context,
    options: Options,
    held: Held,
    /// Claims that this process has begun to fill, by UID: others that are being filled were begun
    /// by one that is gone.
    filling: Mutex<BTreeSet<String>>,
    /// Whoever sets up interfaces does so alone.
    setting_up: Arc<Mutex<()>>,
}

impl Shared {
    fn requests(&self) -> Requests {
        self.context.requests(MANAGER, Default::default())
    }
}

/// Runs until it is dropped. Machines go on without it.
pub async fn run(context: Context, options: Options) {
    for kind in [INSTANCE, MACHINE, DATA_VOLUME, SNAPSHOT, RESTORE, ATTACHMENT, POLICY, ENACTMENT] {
        wait_for(&context, kind).await;
    }
    let shared = Arc::new(Shared {
        context: context.clone(),
        options,
        held: Held::default(),
        filling: Mutex::default(),
        setting_up: Arc::default(),
    });
    say_so(&shared).await;
    let instances = Arc::new(Looks::default());
    let volumes = Arc::new(Looks::default());
    let snapshots = Arc::new(Looks::default());
    let restores = Arc::new(Looks::default());
    let policies = Arc::new(Looks::default());
    let reached = Arc::new(Looks::default());
    follow(&context, INSTANCE, &instances);
    follow(&context, INSTANCE, &reached);
    follow(&context, DATA_VOLUME, &volumes);
    // The claim of a volume has its name.
    follow(&context, CLAIM, &volumes);
    follow(&context, SNAPSHOT, &snapshots);
    follow(&context, RESTORE, &restores);
    follow(&context, POLICY, &policies);
    instance::listen(&shared, &instances);
    services::listen(&shared, &reached);
    context.cache(INSTANCE).reaches(1).await;
    context.cache(DATA_VOLUME).reaches(1).await;
    context.cache(SNAPSHOT).reaches(1).await;
    context.cache(MACHINE).reaches(1).await;
    context.cache(POLICY).reaches(1).await;
    context.cache(SERVICE).reaches(1).await;
    context.cache(ENDPOINT_SLICE).reaches(1).await;
    context.health.set(NAME, reconcile::health::State::Running);
    if instance::end_orphans(&shared).await.is_err() {
        instances.add(instance::nobody());
    }
    snapshot::sweep(&shared);
    // What was made for a policy that went meanwhile goes too.
    policies.add(policies::everything());
    tokio::join!(
        looks::run(&context, &instances, |name| instance::look(shared.clone(), name)),
        looks::run(&context, &volumes, |name| import::look(shared.clone(), name)),
        looks::run(&context, &snapshots, |name| snapshot::keep(shared.clone(), name)),
        looks::run(&context, &restores, |name| snapshot::bring_back(shared.clone(), name)),
        looks::run(&context, &policies, |name| policies::look(shared.clone(), name)),
        looks::run(&context, &reached, |name| services::look(shared.clone(), name)),
        services::when_connected(&shared, &reached),
    );
}

/// Says of the node that it runs machines, as soon as there is one.
async fn say_so(shared: &Shared) {
    let target = Target {
        kind: NODE,
        name: Name::new("", shared.options.node.as_str()),
        uid: String::new(),
        revision: None,
        subresource: "",
    };
    let patch = json!({"metadata": {"labels": {SCHEDULABLE: "true"}}});
    let mut failures = 0;
    loop {
        let said = match shared.context.get_live(NODE, &target.name).await {
            Ok(None) => Ok(false),
            Ok(Some(node)) if node.label(SCHEDULABLE) == Some("true") => return,
            Ok(Some(_)) => shared.requests().patch(&target, &patch).await.map(|_| true),
            Err(error) => Err(error),
        };
        match said {
            Ok(true) => return,
            // The agent registers the node. Virtual machines fail until the label is there.
            Ok(false) => tokio::time::sleep(REGISTERED_CHECK).await,
            Err(error) => {
                tracing::warn!(error = %error.chain(), "this node is not said to run machines");
                failures += 1;
                let delay = looks::BACKOFF.delay(failures, shared.context.environment.random());
                tokio::time::sleep(delay.max(error.retry_after().unwrap_or_default())).await;
            }
        }
    }
}

/// Every change of an object of a kind is a reason to look.
fn follow(context: &Context, kind: Kind, looks: &Arc<Looks>) {
    let cache = context.cache(kind);
    let told = looks.clone();
    cache.subscribe(move |change| told.add(change.object().name.clone()));
    for object in cache.all() {
        looks.add(object.name.clone());
    }
}

/// Returns when the cluster knows a kind.
async fn wait_for(context: &Context, kind: Kind) {
    let name = Name::new("", format!("{}.{}", kind.plural, kind.group));
    loop {
        let found = context.get_live(DEFINITION, &name).await;
        let is_there = found.ok().flatten().is_some_and(|definition| {
            reconcile::conditions::is_true(&definition.value["status"], "Established")
        });
        if is_there {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
}
