//! The operator for LeaderWorkerSets on trial: under every fault that its own trace offers, with
//! what must hold of groups (DY-1 to DY-4) checked over everything that was written.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use inference::kinds::{LEADER_WORKER_SET, POD};
use reconcile::plan::Target;
use reconcile::{Context, Kind, Name};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::oracle::Check;
use testkit::simulation::{self, Also, Trial};

use crate::oracles::{self, enough_groups_serve};
use crate::world::{image, install_bare, options, play, set};

/// Trials are named after the user that the operators are.
macro_rules! concat_name {
    ($what:literal) => {
        concat!("system:serviceaccount:dynamo-system:dynamo-operator-controller-manager/", $what)
    };
}

type Workload = fn(Arc<Cluster>, Context) -> Pin<Box<dyn Future<Output = ()> + Send>>;

const fn trial(name: &'static str, workload: Workload) -> Trial {
    Trial {
        name,
        seed: 1,
        component: |context| {
            Box::pin(async move {
                let mut running = inference::start(&context, &options());
                while running.join_next().await.is_some() {}
            })
        },
        workload,
        play: |context| Box::pin(play(context)),
    }
}

/// Plans of each trial in the default suite; the long one has more.
const SAMPLES_MAX: usize = 20;

fn try_everything(trial: Trial, oracles: &'static [Check], plans_min: usize) {
    let also = Also { oracles, samples_max: SAMPLES_MAX, ..Also::default() };
    let plans = simulation::try_with(trial, also);
    println!("{plans} plans");
    assert!(plans > plans_min, "{plans}");
}

async fn change(context: &Context, kind: Kind, name: &str, patch: Value) {
    tokio::time::sleep(Duration::from_secs(1_800)).await;
    let requests = context.requests("test", Default::default());
    let found = requests.get(kind, &Name::new("default", name)).await.expect("readable");
    let target = Target::of(kind, &found.expect("it is there"));
    requests.patch(&target, &patch).await.expect("changed");
}

#[test]
fn no_fault_changes_how_a_group_begins_again() {
    let workload: Workload = |cluster, context| {
        Box::pin(async move {
            install_bare(&cluster).await;
            cluster.create(LEADER_WORKER_SET, set("s", 1, 2, json!({}))).await;
            tokio::time::sleep(Duration::from_secs(1_800)).await;
            let requests = context.requests("test", Default::default());
            let name = Name::new("default", "s-0-1");
            let worker = requests.get(POD, &name).await.expect("readable").expect("it is there");
            let target = Target::of(POD, &worker);
            requests.delete(&target, &Default::default()).await.expect("deleted");
        })
    };
    try_everything(trial(concat_name!("begins-again"), workload), oracles::GROUPS, 30);
}

#[test]
fn no_fault_changes_how_an_update_walks_over_the_groups() {
    const ROLLING: &[Check] = &[oracles::groups, enough_groups_serve];
    let workload: Workload = |cluster, context| {
        Box::pin(async move {
            install_bare(&cluster).await;
            cluster.create(LEADER_WORKER_SET, set("s", 2, 2, json!({}))).await;
            change(&context, LEADER_WORKER_SET, "s", image("two")).await;
        })
    };
    try_everything(trial(concat_name!("update"), workload), ROLLING, 50);
}
