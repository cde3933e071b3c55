//! Deployments in a cluster whose pods are played.

use std::sync::Arc;
use std::time::Duration;

use controllers::deployment::Controller;
use controllers::kinds::{DEPLOYMENT, POD, REPLICA_SET};
use controllers::options::Match;
use controllers::replica_set;
use reconcile::plan::Target;
use reconcile::{Context, Object, conditions, run};
use serde_json::{Value, json};
use testkit::cluster::until;
use testkit::simulation::{self, Trial};
use testkit::{Cluster, pods};

fn web(replicas: u32, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": "default", "name": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": image}]}}},
    })
}

fn image(image: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
}

/// A cluster with both controllers and played pods.
async fn cluster(matching: Match) -> (Cluster, Context) {
    let mut cluster = Cluster::start().await;
    let context = cluster.context();
    cluster.run(run::run(context.clone(), Controller { matching }));
    cluster.run(run::run(context.clone(), replica_set::Controller));
    cluster.run(pods::play(context.clone()));
    (cluster, context)
}

async fn change(context: &Context, object: &Object, patch: Value) {
    let requests = context.requests("test", Default::default());
    requests.patch(&Target::of(DEPLOYMENT, object), &patch).await.expect("changed");
}

/// What `kubectl rollout status` waits for.
fn is_rolled_out(deployment: &Object) -> bool {
    let status = &deployment.value["status"];
    let wanted = &deployment.value["spec"]["replicas"];
    status["observedGeneration"].as_i64() >= Some(deployment.generation())
        && status["updatedReplicas"] == *wanted
        && status["replicas"] == *wanted
        && status["availableReplicas"] == *wanted
}

async fn until_rolled_out(context: &Context, image: &str) {
    until(context, DEPLOYMENT, |all| {
        all.iter().any(|one| {
            let template = &one.value["spec"]["template"]["spec"];
            template["containers"][0]["image"] == image && is_rolled_out(one)
        })
    })
    .await;
}

fn active_sets(context: &Context) -> Vec<Arc<Object>> {
    let sets = context.cache(REPLICA_SET).all();
    sets.into_iter().filter(|set| set.value["spec"]["replicas"] != 0).collect()
}

#[tokio::test]
async fn a_deployment_rolls_forward_and_back() {
    let (cluster, context) = cluster(Match::Owners).await;
    let made = cluster.create(DEPLOYMENT, web(4, "one")).await;
    until_rolled_out(&context, "one").await;
    let first = active_sets(&context).remove(0);
    change(&context, &made, image("two")).await;
    until_rolled_out(&context, "two").await;
    assert_ne!(active_sets(&context)[0].uid, first.uid);
    // As `kubectl rollout undo` does: the template of the old ReplicaSet comes back.
    change(&context, &made, image("one")).await;
    until_rolled_out(&context, "one").await;
    let active = active_sets(&context);
    assert_eq!((active.len(), active[0].uid.as_str()), (1, first.uid.as_str()));
    assert_eq!(active[0].annotation("deployment.kubernetes.io/revision"), Some("3"));
    assert_eq!(active[0].annotation("deployment.kubernetes.io/revision-history"), Some("1"));
    until(&context, DEPLOYMENT, |all| {
        all[0].annotation("deployment.kubernetes.io/revision") == Some("3")
            && conditions::is_true(&all[0].value["status"], "Progressing")
            && conditions::is_true(&all[0].value["status"], "Available")
    })
    .await;
}

#[tokio::test]
async fn the_pods_available_never_fall_below_what_may_be_missing() {
    let (cluster, context) = cluster(Match::Owners).await;
    let made = cluster.create(DEPLOYMENT, web(8, "one")).await;
    until_rolled_out(&context, "one").await;
    let fewest = Arc::new(std::sync::atomic::AtomicI64::new(i64::MAX));
    let most = Arc::new(std::sync::atomic::AtomicI64::new(0));
    let cache = context.cache(POD);
    let (pods, least, largest) = (cache.clone(), fewest.clone(), most.clone());
    cache.subscribe(move |_| {
        let all = pods.all();
        let all: Vec<_> = all.iter().filter(|pod| !pod.is_terminating()).collect();
        let ready = all.iter().filter(|pod| conditions::is_true(&pod.value["status"], "Ready"));
        let ready = i64::try_from(ready.count()).unwrap_or(i64::MAX);
        least.fetch_min(ready, std::sync::atomic::Ordering::Relaxed);
        let total = i64::try_from(all.len()).unwrap_or(i64::MAX);
        largest.fetch_max(total, std::sync::atomic::Ordering::Relaxed);
    });
    change(&context, &made, image("two")).await;
    until_rolled_out(&context, "two").await;
    let (fewest, most) = (
        fewest.load(std::sync::atomic::Ordering::Relaxed),
        most.load(std::sync::atomic::Ordering::Relaxed),
    );
    assert!(fewest >= 6, "{fewest} were ready");
    assert!(most <= 10, "{most} were there");
}

#[tokio::test]
async fn a_paused_deployment_rolls_when_it_is_resumed() {
    let (cluster, context) = cluster(Match::Owners).await;
    let made = cluster.create(DEPLOYMENT, web(2, "one")).await;
    until_rolled_out(&context, "one").await;
    change(&context, &made, json!({"spec": {"paused": true}})).await;
    change(&context, &made, image("two")).await;
    change(&context, &made, json!({"spec": {"replicas": 3}})).await;
    until(&context, DEPLOYMENT, |all| {
        let progressing = conditions::find(&all[0].value["status"], "Progressing");
        all[0].value["status"]["availableReplicas"] == 3
            && progressing.is_some_and(|found| found["reason"] == "DeploymentPaused")
    })
    .await;
    assert_eq!(context.cache(REPLICA_SET).len(), 1);
    change(&context, &made, json!({"spec": {"paused": null}})).await;
    until_rolled_out(&context, "two").await;
}

#[tokio::test]
async fn recreating_never_runs_old_and_new_together() {
    let (cluster, context) = cluster(Match::Owners).await;
    let mut recreate = web(3, "one");
    recreate["spec"]["strategy"] = json!({"type": "Recreate"});
    let made = cluster.create(DEPLOYMENT, recreate).await;
    until_rolled_out(&context, "one").await;
    let mixed = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let cache = context.cache(POD);
    let (pods, flag) = (cache.clone(), mixed.clone());
    cache.subscribe(move |_| {
        let all = pods.all();
        let image = |pod: &Arc<Object>| pod.value["spec"]["containers"][0]["image"].clone();
        if all.iter().any(|pod| image(pod) != image(&all[0])) {
            flag.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    });
    change(&context, &made, image("two")).await;
    until_rolled_out(&context, "two").await;
    assert!(!mixed.load(std::sync::atomic::Ordering::Relaxed));
}

#[tokio::test]
async fn a_deleted_pod_is_replaced() {
    let (cluster, context) = cluster(Match::Owners).await;
    cluster.create(DEPLOYMENT, web(2, "one")).await;
    until_rolled_out(&context, "one").await;
    let victim = context.cache(POD).all().remove(0);
    let requests = context.requests("test", Default::default());
    requests.delete(&Target::of(POD, &victim), &Default::default()).await.expect("deleted");
    until(&context, POD, |all| {
        let ready = |pod: &&Arc<Object>| conditions::is_true(&pod.value["status"], "Ready");
        all.iter().all(|pod| pod.uid != victim.uid) && all.iter().filter(ready).count() == 2
    })
    .await;
}

fn bare_pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": "bare", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "one"}]},
    })
}

#[tokio::test]
async fn a_bare_pod_is_adopted_where_that_is_asked_for() {
    let (cluster, context) = cluster(Match::Adopt).await;
    let bare = cluster.create(POD, bare_pod()).await;
    until(&context, POD, |all| !all.is_empty()).await;
    cluster.create(DEPLOYMENT, web(2, "one")).await;
    until_rolled_out(&context, "one").await;
    let all = context.cache(POD).all();
    assert_eq!(all.len(), 2);
    let bare = all.iter().find(|pod| pod.uid == bare.uid).expect("it is still there");
    assert_eq!(bare.controller(), Some(active_sets(&context)[0].uid.as_str()));
}

#[tokio::test]
async fn a_bare_pod_counts_without_an_owner_where_that_is_asked_for() {
    let (cluster, context) = cluster(Match::Labels).await;
    let bare = cluster.create(POD, bare_pod()).await;
    until(&context, POD, |all| !all.is_empty()).await;
    cluster.create(DEPLOYMENT, web(2, "one")).await;
    until_rolled_out(&context, "one").await;
    let all = context.cache(POD).all();
    assert_eq!(all.len(), 2);
    let bare = all.iter().find(|pod| pod.uid == bare.uid).expect("it is still there");
    assert_eq!(bare.controller(), None);
    let requests = context.requests("test", Default::default());
    requests.delete(&Target::of(POD, bare), &Default::default()).await.expect("deleted");
    until(&context, REPLICA_SET, |sets| sets[0].value["spec"]["replicas"] == 2).await;
}

#[tokio::test]
async fn a_bare_pod_is_left_alone_by_default() {
    let (cluster, context) = cluster(Match::Owners).await;
    let bare = cluster.create(POD, bare_pod()).await;
    cluster.create(DEPLOYMENT, web(2, "one")).await;
    until_rolled_out(&context, "one").await;
    let all = context.cache(POD).all();
    assert_eq!(all.len(), 3);
    let bare = all.iter().find(|pod| pod.uid == bare.uid).expect("it is still there");
    assert_eq!((bare.controller(), bare.label("pod-template-hash")), (None, None));
}

/// A Deployment of three is scaled, given another template, and given the first again.
const ROLLED: Trial = Trial {
    name: "deployment-controller",
    seed: 1,
    component: |context| Box::pin(run::run(context, Controller::default())),
    workload: |cluster, context| {
        Box::pin(async move {
            let made = cluster.create(DEPLOYMENT, web(3, "one")).await;
            for patch in [json!({"spec": {"replicas": 2}}), image("two"), image("one")] {
                tokio::time::sleep(Duration::from_secs(1_800)).await;
                change(&context, &made, patch).await;
            }
        })
    },
    play: |context| Box::pin(play_sets(context)),
};

/// Plays the ReplicaSets: every one has at once the pods it asks for. Never returns.
async fn play_sets(context: Context) {
    let cache = context.cache(REPLICA_SET);
    let requests = context.requests("sets", Default::default());
    loop {
        let seen = cache.seen();
        for set in cache.all() {
            let wanted = &set.value["spec"]["replicas"];
            let generation = set.generation();
            let status = &set.value["status"];
            if status["replicas"] != *wanted || status["observedGeneration"] != generation {
                let patch = json!({"status": {"replicas": wanted, "readyReplicas": wanted,
                    "availableReplicas": wanted, "observedGeneration": generation}});
                let target = Target::of(REPLICA_SET, &set).part("status");
                let _ = requests.patch(&target, &patch).await;
            }
        }
        cache.reaches(seen + 1).await;
    }
}

#[test]
fn no_fault_of_a_request_changes_where_a_rollout_ends() {
    let plans = simulation::try_everything(ROLLED);
    println!("{plans} plans");
    assert!(plans > 50, "{plans}");
}
