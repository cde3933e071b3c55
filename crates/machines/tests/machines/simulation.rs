//! The operators on trial: under every fault that their own traces offer, with what must hold of
//! machines (`oracles.rs`) checked over everything that was written.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use machines::kinds::{MACHINE, WUKONG, WUKONG_SNAPSHOT};
use machines::{Bridges, Options};
use reconcile::plan::Target;
use reconcile::{Context, Kind, Name};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::simulation::{self, Also, Trial};

use crate::oracles;
use crate::play::{play, play_add_ons};
use crate::world::{imaged, install_bare, wukong};

/// Trials are named after the user that the operators are.
macro_rules! concat_name {
    ($what:literal) => {
        concat!("system:serviceaccount:novasphere-system:novasphere-controller-manager/", $what)
    };
}

pub type Workload = fn(Arc<Cluster>, Context) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Between what users do: longer than any fault lasts that does not last.
pub const WHILE: Duration = Duration::from_secs(1_900);
/// Plans of each trial in the default suite; the long one has more.
const SAMPLES_MAX: usize = 8;

/// Both operators, as the user that their role is bound to.
pub const fn trial(name: &'static str, workload: Workload) -> Trial {
    Trial {
        name,
        seed: 1,
        component: |context| Box::pin(operators(context)),
        workload,
        play: |context| Box::pin(play_when_served(context)),
    }
}

/// They do not ask what there is: before users install it, there is nothing.
async fn operators(context: Context) {
    let options = Options { bridges: Bridges::ByPolicy, ..Options::default() };
    let mut running =
        reconcile::entry::start(machines::ALL, |_| context.clone(), (options.enabled, &options));
    while running.join_next().await.is_some() {}
}

/// The kinds of the add-ons come with what users do.
async fn when_served(context: &Context) {
    let requests = context.requests("test", Default::default());
    while machines::add_ons::AddOns::find(&requests).await.ok() != Some(Default::default()) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn play_when_served(context: Context) {
    when_served(&context).await;
    play_add_ons(context).await;
}

/// With somebody who collects what has lost its owner.
async fn play_all_when_served(context: Context) {
    when_served(&context).await;
    play(context).await;
}

fn try_everything(trial: Trial, plans_min: usize) {
    let also = Also { oracles: oracles::ALL, samples_max: SAMPLES_MAX, ..Also::default() };
    let plans = simulation::try_with(trial, also);
    println!("{plans} plans");
    assert!(plans > plans_min, "{plans}");
}

pub async fn change(context: &Context, kind: Kind, name: &str, patch: Value) {
    let found = context.get_live(kind, &Name::new("default", name)).await.expect("readable");
    let target = Target::of(kind, &found.expect("it is there"));
    let requests = context.requests("test", Default::default());
    requests.patch(&target, &patch).await.expect("changed");
}

async fn delete(context: &Context, kind: Kind, name: &str) {
    let found = context.get_live(kind, &Name::new("default", name)).await.expect("readable");
    let target = Target::of(kind, &found.expect("it is there"));
    let requests = context.requests("test", Default::default());
    requests.delete(&target, &Default::default()).await.expect("deleted");
}

/// One with everything: a network of its own, a disk with an image, one without.
fn whole(name: &str) -> Value {
    wukong(
        name,
        json!({
            "networks": [{"name": "default"},
                {"name": "lan", "type": "bridge", "physicalInterface": "ens192"}],
            "disks": imaged("http://images/a.img"),
            "cloudInitUser": {"name": "me", "password": "secret"},
        }),
    )
}

#[test]
fn no_fault_changes_how_a_machine_is_made() {
    let workload: Workload = |cluster, _| {
        Box::pin(async move {
            install_bare(&cluster).await;
            cluster.create(WUKONG, whole("w")).await;
        })
    };
    try_everything(trial(concat_name!("made"), workload), 50);
}

#[test]
fn no_fault_changes_how_a_machine_goes() {
    let workload: Workload = |cluster, context| {
        Box::pin(async move {
            install_bare(&cluster).await;
            cluster.create(WUKONG, whole("w")).await;
            tokio::time::sleep(WHILE).await;
            delete(&context, WUKONG, "w").await;
            tokio::time::sleep(WHILE).await;
        })
    };
    try_everything(trial(concat_name!("deleted"), workload), 50);
}

/// It is deleted while its image is being fetched.
#[test]
fn no_fault_changes_how_one_goes_that_was_never_whole() {
    let workload: Workload = |cluster, context| {
        Box::pin(async move {
            install_bare(&cluster).await;
            let mut slow = whole("w");
            slow["spec"]["disks"] = imaged("http://images/slow.img");
            cluster.create(WUKONG, slow).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
            delete(&context, WUKONG, "w").await;
            tokio::time::sleep(WHILE).await;
        })
    };
    let usual = trial(concat_name!("early"), workload);
    let play = |context| {
        Box::pin(play_all_when_served(context)) as Pin<Box<dyn Future<Output = ()> + Send>>
    };
    try_everything(Trial { play, ..usual }, 50);
}

#[test]
fn no_fault_starts_a_machine_that_was_stopped() {
    let workload: Workload = |cluster, context| {
        Box::pin(async move {
            install_bare(&cluster).await;
            cluster.create(WUKONG, wukong("w", json!({}))).await;
            tokio::time::sleep(WHILE).await;
            change(&context, MACHINE, "w-vm", json!({"spec": {"runStrategy": "Halted"}})).await;
            tokio::time::sleep(WHILE).await;
            let more = json!({"spec": {"cpu": 4, "disks": [{"name": "root", "size": "20Gi",
                "storageClassName": "fast"}]}});
            change(&context, WUKONG, "w", more).await;
        })
    };
    try_everything(trial(concat_name!("stopped"), workload), 50);
}

#[test]
fn no_fault_changes_what_a_machine_is_brought_back_to() {
    let workload: Workload = |cluster, context| {
        Box::pin(async move {
            install_bare(&cluster).await;
            cluster.create(WUKONG, wukong("w", json!({}))).await;
            tokio::time::sleep(WHILE).await;
            let snapshot = json!({"metadata": {"namespace": "default", "name": "s"},
                "spec": {"wukongName": "w"}});
            cluster.create(WUKONG_SNAPSHOT, snapshot).await;
            tokio::time::sleep(WHILE).await;
            for spec in [
                json!({"restoreFromSnapshot": "s"}),
                json!({"startStrategy": {"autoStart": false}}),
                json!({"startStrategy": {"autoStart": true}}),
                json!({"restoreFromSnapshot": null}),
            ] {
                change(&context, WUKONG, "w", json!({"spec": spec})).await;
                tokio::time::sleep(WHILE).await;
            }
        })
    };
    try_everything(trial(concat_name!("restored"), workload), 50);
}
