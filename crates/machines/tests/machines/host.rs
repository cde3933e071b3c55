//! A node that only says that it runs machines, and whoever binds claims there. What really ran is
//! told as events of a witness, which the oracles of the provider (`guests.rs`) judge.

use std::net::Ipv4Addr;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
/// Where services reach what runs.
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 42, 1, 1);
/// Whoever tells what really ran.
pub const WITNESS: &str = "witness";
const EVENT: Kind = Kind::namespaced("", "v1", "Event", "events");
const VOLUME: Kind = Kind::cluster("", "v1", "PersistentVolume", "persistentvolumes");
/// How often is looked for what ran.
const LOOK: Duration = Duration::from_secs(5);
/// What every disk has.
const DISK_BYTES: u64 = 1 << 20;
const DISK: &str = "disk.img";
const SNAPSHOTS: &str = "snapshots";
/// Claims whose disks are there; the last are each of one test (`kept.rs`).
const CLAIMS: [&str; 5] = ["root", "data", "told", "alone", "running"];

thread_local! {
    /// What runs machines outlives whoever asks it to; every world is a thread.
    static HYPERVISOR: Arc<Simulated> = Arc::default();
    static DISKS: Disks = Disks::make();
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

/// The disks of a world; they go with it.
struct Disks {
    /// Names of worlds are told apart as those of pods are: where they stand is not compared.
    world: String,
}

impl Disks {
    fn make() -> Disks {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        static WORLDS: AtomicUsize = AtomicUsize::new(0);
        let mut number = WORLDS.fetch_add(1, Ordering::Relaxed);
        let letter = || {
            let letter = LETTERS[number % LETTERS.len()];
            number /= LETTERS.len();
            char::from(letter)
        };
        let disks = Disks { world: std::iter::repeat_with(letter).take(5).collect() };
        for claim in CLAIMS {
            let place = disks.place(claim);
            std::fs::create_dir_all(&place).expect("a directory");
            let disk = std::fs::File::create(place.join(DISK)).expect("a disk");
            disk.set_len(DISK_BYTES).expect("its length");
        }
        disks
    }

    fn place(&self, of: &str) -> PathBuf {
        let all = std::env::temp_dir().join(format!("machines-disks-{}", std::process::id()));
        all.join(format!("{of}-{}", self.world))
    }
}

impl Drop for Disks {
    fn drop(&mut self) {
        for of in CLAIMS.into_iter().chain([SNAPSHOTS]) {
            let _ = std::fs::remove_dir_all(self.place(of));
        }
    }
}

/// Where something of this world is.
fn place(of: &str) -> PathBuf {
    DISKS.with(|disks| disks.place(of))
}

/// What the disk of a claim begins with is changed, as by a guest.
pub fn write(claim: &str, byte: u8) {
    let file = std::fs::File::options().write(true).open(place(claim).join(DISK));
    file.expect("a disk").write_all_at(&[byte], 0).expect("written");
}

/// Tells what the disks of claims begin with.
pub async fn tell_of_disks(context: &Context, claims: &[&str]) {
    let first = |claim: &&str| {
        let bytes = std::fs::read(place(claim).join(DISK)).expect("a disk");
        assert_eq!(bytes.len() as u64, DISK_BYTES, "it is whole");
        bytes[0]
    };
    let first: Vec<u8> = claims.iter().map(first).collect();
    let requests = context.requests("witness", Default::default());
    let event = event("disks", &json!({"did": "held", "bytes": first}));
    requests.create(EVENT, &event).await.expect("a witness is heard");
}

/// Tells which ports of the guest of a machine are open.
pub async fn tell_of_ports(context: &Context, machine: &str) {
    let found = context.get_live(INSTANCE, &Name::new("default", machine)).await;
    let instance = found.expect("readable").expect("it runs");
    let open = hypervisor().ports(&instance.uid);
    let open: Vec<u16> = open.iter().map(|(_, port)| port.number).collect();
    let requests = context.requests("witness", Default::default());
    let event = event("ports", &json!({"did": "served", "id": instance.uid, "ports": open}));
    requests.create(EVENT, &event).await.expect("a witness is heard");
}

fn event(name: &str, message: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Event",
        "metadata": {"namespace": "default", "name": format!("{WITNESS}-{name}")},
        "involvedObject": {"kind": "Node", "name": NODE, "namespace": "default"},
        "reason": WITNESS, "message": message.to_string(), "type": "Normal"})
}

/// Where the copies of disks are.
pub fn snapshots() -> PathBuf {
    place(SNAPSHOTS)
}

/// What runs machines on the node.
pub async fn launch(context: Context) {
    let (node, hypervisor) = (NODE.to_owned(), hypervisor());
    let (snapshots, links) = (snapshots(), snapshots().with_extension("links"));
    let reach = Reach::Others;
    let (_known, gateway) = watch::channel(node::machines::Gateway::At(GATEWAY));
    let options = node::machines::Options { node, hypervisor, reach, snapshots, links, gateway };
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
                    "hostPath": {"path": place(name)}, "claimRef": {"kind": "PersistentVolumeClaim",
                        "namespace": &*claim.name.namespace, "name": &**name, "uid": claim.uid},
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
            let heard = requests.create(EVENT, &event(&told.to_string(), &message)).await;
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
