//! StatefulSets in a cluster whose pods are played.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use controllers::kinds::{CONTROLLER_REVISION, PERSISTENT_VOLUME_CLAIM, POD, STATEFUL_SET};
use controllers::stateful_set::Controller;
use reconcile::plan::Target;
use reconcile::{Context, Object, conditions, run};
use serde_json::{Value, json};
use testkit::cluster::until;
use testkit::simulation::{self, Trial};
use testkit::{Cluster, pods};

fn db(replicas: u32, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"namespace": "default", "name": "db"},
        "spec": {"replicas": replicas, "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "persistentVolumeClaimRetentionPolicy":
                {"whenScaled": "Delete", "whenDeleted": "Delete"},
            "volumeClaimTemplates": [{"metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}}}}],
            "template": {"metadata": {"labels": {"app": "db"}},
                "spec": {"containers": [{"name": "main", "image": image}]}}},
    })
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

async fn cluster() -> (Cluster, Context) {
    let mut cluster = Cluster::start().await;
    let context = cluster.context();
    cluster.run(run::run(context.clone(), Controller));
    cluster.run(pods::play(context.clone()));
    (cluster, context)
}

async fn change(context: &Context, object: &Object, patch: Value) {
    let requests = context.requests("test", Default::default());
    requests.patch(&Target::of(STATEFUL_SET, object), &patch).await.expect("changed");
}

/// What `kubectl rollout status` waits for.
async fn until_rolled_out(context: &Context, image: &str) {
    until(context, STATEFUL_SET, |all| {
        all.iter().any(|set| {
            let (status, wanted) = (&set.value["status"], &set.value["spec"]["replicas"]);
            set.value["spec"]["template"]["spec"]["containers"][0]["image"] == image
                && status["observedGeneration"] == set.generation()
                && status["readyReplicas"] == *wanted
                && status["updatedReplicas"] == *wanted
                && status["replicas"] == *wanted
                && status["currentRevision"] == status["updateRevision"]
        })
    })
    .await;
}

#[tokio::test]
async fn pods_come_one_after_another_and_are_updated_from_the_last() {
    let (cluster, context) = cluster().await;
    let is_out_of_order = Arc::new(AtomicBool::new(false));
    let cache = context.cache(POD);
    let (pods, flag) = (cache.clone(), is_out_of_order.clone());
    cache.subscribe(move |change| {
        // A pod that is made finds every other one ready.
        let others = pods.all();
        let others = others.iter().filter(|pod| pod.name != change.object().name);
        let is_ready = |pod: &Arc<Object>| conditions::is_true(&pod.value["status"], "Ready");
        if change.old.is_none() && !others.clone().all(is_ready) {
            flag.store(true, Ordering::Relaxed);
        }
    });
    let set = cluster.create(STATEFUL_SET, db(3, "one")).await;
    until_rolled_out(&context, "one").await;
    let names: Vec<String> = cache.all().iter().map(|pod| pod.name.name.to_string()).collect();
    assert_eq!(names, ["db-0", "db-1", "db-2"]);
    until(&context, PERSISTENT_VOLUME_CLAIM, |all| {
        all.len() == 3 && all.iter().all(|claim| claim.controller() == Some(set.uid.as_str()))
    })
    .await;
    change(&context, &set, image("two")).await;
    until_rolled_out(&context, "two").await;
    assert!(!is_out_of_order.load(Ordering::Relaxed));
    until(&context, CONTROLLER_REVISION, |all| all.len() == 2).await;
    // As `kubectl rollout undo` does.
    change(&context, &set, image("one")).await;
    until_rolled_out(&context, "one").await;
    assert_eq!(context.cache(CONTROLLER_REVISION).len(), 2);
    let newest = context.cache(CONTROLLER_REVISION).all();
    assert_eq!(newest.iter().filter_map(|one| one.value["revision"].as_i64()).max(), Some(3));
}

#[tokio::test]
async fn the_claims_of_pods_that_are_scaled_away_belong_to_them() {
    let (cluster, context) = cluster().await;
    let set = cluster.create(STATEFUL_SET, db(2, "one")).await;
    until_rolled_out(&context, "one").await;
    let last = context.cache(POD).all().remove(1);
    change(&context, &set, json!({"spec": {"replicas": 1}})).await;
    until(&context, PERSISTENT_VOLUME_CLAIM, |all| {
        all.iter().any(|claim| claim.controller() == Some(last.uid.as_str()))
    })
    .await;
    until(&context, POD, |all| all.len() == 1).await;
}

#[tokio::test]
async fn a_pod_that_failed_comes_back_under_its_name() {
    let (cluster, context) = cluster().await;
    cluster.create(STATEFUL_SET, db(1, "one")).await;
    until_rolled_out(&context, "one").await;
    let failed = context.cache(POD).all().remove(0);
    let requests = context.requests("test", Default::default());
    let status = json!({"status": {"phase": "Failed", "conditions": null}});
    requests.patch(&Target::of(POD, &failed).part("status"), &status).await.expect("failed");
    until(&context, POD, |all| {
        all.iter().any(|pod| {
            pod.name == failed.name
                && pod.uid != failed.uid
                && conditions::is_true(&pod.value["status"], "Ready")
        })
    })
    .await;
}

/// A set of two is scaled to three, given another template, and scaled to one.
const ROLLED: Trial = Trial {
    name: "statefulset-controller",
    seed: 1,
    component: |context| Box::pin(run::run(context, Controller)),
    workload: |cluster, context| {
        Box::pin(async move {
            let made = cluster.create(STATEFUL_SET, db(2, "one")).await;
            for patch in
                [json!({"spec": {"replicas": 3}}), image("two"), json!({"spec": {"replicas": 1}})]
            {
                tokio::time::sleep(Duration::from_secs(1_800)).await;
                change(&context, &made, patch).await;
            }
        })
    },
    play: |context| Box::pin(pods::play(context)),
};

#[test]
fn no_fault_of_a_request_changes_where_a_set_ends() {
    let plans = simulation::try_everything(ROLLED);
    println!("{plans} plans");
    assert!(plans > 50, "{plans}");
}
