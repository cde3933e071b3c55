//! Models on trial: under every fault that the operator's own trace offers, with what must hold of
//! their lists of servers (DY-9) checked over everything that was written.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use inference::kinds::{ENDPOINT_SLICE, MODEL};
use inference::{Enabled, manifests, model};
use reconcile::plan::Target;
use reconcile::{Context, run};
use serde_json::json;
use testkit::Cluster;
use testkit::oracle::Check;
use testkit::simulation::{self, Also, Trial};

use crate::models::{base, slice};
use crate::oracles::lists_who_is_there;

type Workload = fn(Arc<Cluster>, Context) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Between what happens: longer than any fault lasts that does not last.
const WHILE: Duration = Duration::from_secs(1_800);
const SAMPLES_MAX: usize = 16;

#[test]
fn no_fault_changes_which_servers_a_model_lists() {
    const ORACLES: &[Check] = &[lists_who_is_there];
    let workload: Workload = |cluster, context| {
        Box::pin(async move {
            let enabled = Enabled { dynamo: true, leader_worker_set: false };
            let all = [vec![api::dynamo_model::definition()], manifests::roles(enabled)].concat();
            cluster.install_all(&[], &all).await;
            let addresses = ["127.77.9.1", "127.77.9.2", "127.77.9.3"];
            let made = cluster.create(ENDPOINT_SLICE, slice(&addresses[..2])).await;
            let model = cluster.create(MODEL, base("m")).await;
            let other = cluster.create(MODEL, base("goes")).await;
            let requests = context.requests("test", Default::default());
            // One comes, one is lost.
            for left in [&addresses[..], &addresses[1..]] {
                tokio::time::sleep(WHILE).await;
                let endpoints = json!({"endpoints": slice(left)["endpoints"]});
                let target = Target::of(ENDPOINT_SLICE, &made);
                requests.patch(&target, &endpoints).await.expect("changed");
            }
            let target = Target::of(MODEL, &other);
            requests.delete(&target, &Default::default()).await.expect("deleted");
            assert_eq!(model.value["spec"]["modelType"], "base");
        })
    };
    let trial = Trial {
        name: "system:serviceaccount:dynamo-system:dynamo-operator-controller-manager/model",
        seed: 1,
        component: |context| Box::pin(run::run(context, model::Controller::default())),
        workload,
        play: |context| Box::pin(controllers::garbage_collector::run(context)),
    };
    let also = Also { oracles: ORACLES, samples_max: SAMPLES_MAX, ..Also::default() };
    let plans = simulation::try_with(trial, also);
    println!("{plans} plans");
    assert!(plans > 30, "{plans}");
}
