//! A node that only says that it runs machines, and whoever binds claims there. What really ran is
//! told as events of a witness, which the oracles of the provider (`guests.rs`) judge.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hypervisor::images::Reach;
use hypervisor::simulated::{Deed, Simulated};
use hypervisor::{End, State};
use k8s_openapi::jiff::Timestamp;
use machines::kinds::{CLAIM, INSTANCE};
use reconcile::plan::Target;
use reconcile::{Context, Error, Kind, Name, Object, Plan, Reconciler};
use serde_json::{Value, json};
use tokio::sync::watch;

pub const NODE: &str = "n1";
/// Whoever tells what really ran.
pub const WITNESS: &str = "witness";
const EVENT: Kind = Kind::namespaced("", "v1", "Event", "events");
const VOLUME: Kind = Kind::cluster("", "v1", "PersistentVolume", "persistentvolumes");
/// How often is looked for what ran.
const LOOK: Duration = Duration::from_secs(5);
/// What every disk has.
const DISK_BYTES: u64 = 1 << 20;
/// Claims whose disks are there: all worlds of a process share their files, so nobody writes them.
/// The last are each of one test (`kept.rs`).
const CLAIMS: [&str; 5] = ["root", "data", "told", "alone", "running"];

thread_local! {
    /// What runs machines outlives whoever asks it to; every world is a thread.
    static HYPERVISOR: Arc<Simulated> = Arc::default();
    /// Whether those who stand in have their roles.
    static INSTALLED: watch::Sender<bool> = watch::Sender::new(false);
}

pub fn hypervisor() -> Arc<Simulated> {
    HYPERVISOR.with(Arc::clone)
}

pub fn installed() {
    INSTALLED.with(|installed| installed.send_modify(|is_there| *is_there = true));
}

pub async fn until_installed() {
    let mut told = INSTALLED.with(watch::Sender::subscribe);
    told.wait_for(|is_there| *is_there).await.expect("the world outlives who waits");
}

/// Where the disks are.
fn disks() -> &'static PathBuf {
    static DISKS: OnceLock<PathBuf> = OnceLock::new();
    DISKS.get_or_init(|| {
        let place = std::env::temp_dir().join(format!("machines-disks-{}", std::process::id()));
        for claim in CLAIMS {
            let directory = place.join(claim);
            std::fs::create_dir_all(&directory).expect("a directory");
            let disk = std::fs::File::create(directory.join("disk.img")).expect("a disk");
            disk.set_len(DISK_BYTES).expect("its length");
        }
        place
    })
}

/// Where the copies of disks are: what is in it and nobody knows goes, so every world has its own.
pub fn snapshots() -> PathBuf {
    disks().join(format!("snapshots-{:?}", std::thread::current().id()))
}

/// What runs machines on the node.
pub async fn launch(context: Context) {
    let (node, hypervisor) = (NODE.to_owned(), hypervisor());
    let snapshots = snapshots();
    let options = node::machines::Options { node, hypervisor, reach: Reach::Others, snapshots };
    node::machines::run(context, options).await;
}

/// Binds claims to the disks that are there.
pub struct Binder;

impl Reconciler for Binder {
    type Observed = ();
    const NAME: &'static str = "played-binder";
    const KIND: Kind = CLAIM;

    async fn observe(&self, _: &Context, _: &Arc<Object>) -> Result<(), Error> {
        Ok(())
    }

    fn plan(&self, claim: &Object, (): &(), _: Timestamp) -> Result<Plan, Error> {
        let mut plan = Plan::nothing();
        let name = &claim.name.name;
        let volume = format!("pv-{name}");
        if claim.is_terminating() {
            return Ok(plan);
        }
        let size = &claim.value["spec"]["resources"]["requests"]["storage"];
        if claim.value["spec"]["volumeName"].is_null() {
            let made = json!({"apiVersion": "v1", "kind": "PersistentVolume",
                "metadata": {"name": volume},
                "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"],
                    "hostPath": {"path": disks().join(&**name)},
                    "persistentVolumeReclaimPolicy": "Retain"}});
            plan.create(VOLUME, made);
            let patch = json!({"spec": {"volumeName": volume}});
            plan.patch(Target::of(CLAIM, claim), patch);
            return Ok(plan);
        }
        plan.status = Some(json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size}}));
        Ok(plan)
    }
}

/// Tells what really ran, as events.
pub async fn witness(context: Context) {
    let hypervisor = hypervisor();
    let requests = context.requests("witness", Default::default());
    let mut told = 0;
    loop {
        tokio::time::sleep(LOOK).await;
        for deed in hypervisor.deeds().into_iter().skip(told) {
            let message = match &deed {
                Deed::Launched { id, name } => json!({"did": "launched", "id": id, "of": name}),
                Deed::Refused { id, name } => json!({"did": "refused", "id": id, "of": name}),
                Deed::Ended { id } => json!({"did": "ended", "id": id}),
                Deed::Removed { id } => json!({"did": "removed", "id": id}),
                Deed::Disturbed { id } => json!({"did": "disturbed", "id": id}),
            };
            let event = json!({"apiVersion": "v1", "kind": "Event",
                "metadata": {"namespace": "default", "name": format!("{WITNESS}-{told}")},
                "involvedObject": {"kind": "Node", "name": NODE, "namespace": "default"},
                "reason": WITNESS, "message": message.to_string(), "type": "Normal"});
            let heard = requests.create(EVENT, &event).await;
            // A witness that begins anew says the same again.
            let refused = heard.err().and_then(|error| error.code());
            assert!(matches!(refused, None | Some(409)), "a witness is heard");
            told += 1;
        }
    }
}

/// The guest of a machine switches itself off.
pub async fn switch_off(context: &Context, machine: &str) {
    let name = Name::new("default", machine);
    let found = context.get_live(INSTANCE, &name).await.expect("readable");
    if let Some(instance) = found {
        hypervisor().play(&instance.uid, State::Ended(End::Shutdown));
    }
}

/// A node is tainted until somebody has seen that it is well, and here nobody does.
pub fn tolerations() -> Value {
    json!([{"operator": "Exists"}])
}

pub fn node() -> Value {
    json!({"metadata": {"name": NODE},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
}
