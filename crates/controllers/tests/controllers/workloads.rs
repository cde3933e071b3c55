//! What holds of Deployments, ReplicaSets and their pods together: many pods, owners that fight,
//! and the faults that other small clusters have had.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use controllers::kinds::{DEPLOYMENT, POD, REPLICA_SET};
use controllers::{deployment, garbage_collector, replica_set};
use reconcile::plan::{Deletion, Propagation, Target};
use reconcile::{Context, Object, run};
use serde_json::{Value, json};
use testkit::cluster::until;
use testkit::{Cluster, pods};

fn web(name: &str, replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "one"}]}}},
    })
}

fn set(name: &str, replicas: i64) -> Value {
    let mut set = web(name, replicas);
    set["kind"] = json!("ReplicaSet");
    set
}

fn bare_pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "one"}]},
    })
}

async fn cluster() -> (Cluster, Context) {
    let mut cluster = Cluster::start().await;
    let context = cluster.context();
    cluster.run(run::run(context.clone(), deployment::Controller::default()));
    cluster.run(run::run(context.clone(), replica_set::Controller));
    cluster.run(pods::play(context.clone()));
    (cluster, context)
}

fn is_available(object: &Object, replicas: i64) -> bool {
    object.value["status"]["availableReplicas"] == replicas
        && object.value["status"]["replicas"] == replicas
}

/// How often a controller has looked, and how much it has written.
fn counted(context: &Context, metric: &str, controller: &str) -> u64 {
    let text = context.metrics.text();
    let line = text.lines().find(|line| line.starts_with(metric) && line.contains(controller));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn a_thousand_replicas_take_few_looks() {
    let (cluster, context) = cluster().await;
    cluster.create(DEPLOYMENT, web("web", 1_000)).await;
    until(&context, DEPLOYMENT, |all| all.iter().any(|one| is_available(one, 1_000))).await;
    assert_eq!(context.cache(POD).len(), 1_000);
    let looks = |controller| counted(&context, "reconcile_total", controller);
    let writes = |controller| counted(&context, "reconcile_writes_total", controller);
    let of_sets = "replicaset-controller";
    let of_deployments = "deployment-controller";
    println!(
        "replicaset: {} looks, {} writes; deployment: {} looks, {} writes",
        looks(of_sets),
        writes(of_sets),
        looks(of_deployments),
        writes(of_deployments)
    );
    // Each pod is made once; beyond that a look and a status stand for many pods.
    assert!(writes(of_sets) < 1_200, "{}", writes(of_sets));
    assert!(writes(of_deployments) < 200, "{}", writes(of_deployments));
}

#[tokio::test]
async fn two_owners_reach_for_one_pod_and_one_gets_it() {
    let (cluster, context) = cluster().await;
    // Both match every pod; the pods come first.
    for at in 0..6 {
        cluster.create(POD, bare_pod(&format!("bare-{at}"))).await;
    }
    until(&context, POD, |all| all.len() == 6).await;
    let first = cluster.create(REPLICA_SET, set("first", 5)).await;
    let second = cluster.create(REPLICA_SET, set("second", 5)).await;
    until(&context, REPLICA_SET, |all| {
        all.len() == 2 && all.iter().all(|set| is_available(set, 5))
    })
    .await;
    let owned = |set: &Object| context.cache(POD).owned_by(&set.uid).len();
    assert_eq!((owned(&first), owned(&second)), (5, 5));
    let references =
        |pod: &Arc<Object>| pod.value["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len);
    assert!(context.cache(POD).all().iter().all(|pod| references(pod) == 1));
}

#[tokio::test]
async fn two_deployments_of_one_selector_leave_each_other_alone() {
    let (cluster, context) = cluster().await;
    cluster.create(DEPLOYMENT, web("first", 2)).await;
    cluster.create(DEPLOYMENT, web("second", 3)).await;
    until(&context, DEPLOYMENT, |all| {
        let has = |name: &str, replicas| {
            all.iter().any(|one| &*one.name.name == name && is_available(one, replicas))
        };
        has("first", 2) && has("second", 3)
    })
    .await;
    settle(&cluster).await;
    let settled = cluster.store.revision();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(cluster.store.revision(), settled, "they go on writing");
}

#[tokio::test]
async fn a_world_at_rest_is_not_written_to() {
    // Defect 4: a status that is written on every look makes the next look.
    let (cluster, context) = cluster().await;
    cluster.create(DEPLOYMENT, web("web", 3)).await;
    until(&context, DEPLOYMENT, |all| all.iter().any(|one| is_available(one, 3))).await;
    settle(&cluster).await;
    let settled = cluster.store.revision();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(cluster.store.revision(), settled);
}

/// Returns when nothing has been written for a while.
async fn settle(cluster: &Cluster) {
    loop {
        let before = cluster.store.revision();
        tokio::time::sleep(Duration::from_millis(300)).await;
        if cluster.store.revision() == before {
            return;
        }
    }
}

#[tokio::test]
async fn no_change_is_lost_however_many_there_are() {
    // Defect 5: a hundred changes at once, and the rest was dropped. Here two hundred Deployments
    // are made while nobody looks.
    let mut cluster = Cluster::start().await;
    let context = cluster.context();
    for at in 0..200 {
        let mut made = web(&format!("web-{at}"), 1);
        let app = format!("app-{at}");
        made["spec"]["selector"]["matchLabels"]["app"] = json!(app);
        made["spec"]["template"]["metadata"]["labels"]["app"] = json!(app);
        cluster.create(DEPLOYMENT, made).await;
    }
    cluster.run(run::run(context.clone(), deployment::Controller::default()));
    cluster.run(run::run(context.clone(), replica_set::Controller));
    cluster.run(pods::play(context.clone()));
    until(&context, DEPLOYMENT, |all| {
        all.len() == 200 && all.iter().all(|one| is_available(one, 1))
    })
    .await;
}

#[tokio::test]
async fn two_writers_of_one_deployment_lose_nothing() {
    // Defect 6: the later write undid the earlier one. Users and the controller write at once.
    let (cluster, context) = cluster().await;
    let made = cluster.create(DEPLOYMENT, web("web", 1)).await;
    let requests = context.requests("test", Default::default());
    for at in 0..20 {
        let patch = json!({"spec": {"replicas": 1 + at % 3},
            "metadata": {"labels": {format!("l{at}"): "x"}}});
        requests.patch(&Target::of(DEPLOYMENT, &made), &patch).await.expect("changed");
    }
    until(&context, DEPLOYMENT, |all| {
        let labels = all[0].value["metadata"]["labels"].as_object().map_or(0, |it| it.len());
        labels == 20
            && is_available(&all[0], 2)
            && all[0].value["status"]["observedGeneration"] == all[0].generation()
    })
    .await;
}

#[tokio::test]
async fn deleting_a_deployment_deletes_its_pods_unless_they_are_to_stay() {
    // Defect 14: the pods of a deleted Deployment went on.
    for (propagation, left) in [(Propagation::Background, 0), (Propagation::Orphan, 2)] {
        let (mut cluster, context) = cluster().await;
        cluster.run(garbage_collector::run(context.clone()));
        let made = cluster.create(DEPLOYMENT, web("web", 2)).await;
        until(&context, DEPLOYMENT, |all| all.iter().any(|one| is_available(one, 2))).await;
        let requests = context.requests("test", Default::default());
        let how = Deletion { propagation: Some(propagation), ..Deletion::default() };
        requests.delete(&Target::of(DEPLOYMENT, &made), &how).await.expect("deleted");
        until(&context, DEPLOYMENT, <[_]>::is_empty).await;
        until(&context, POD, |all| all.len() == left).await;
        let sets = usize::from(left > 0);
        until(&context, REPLICA_SET, |all| {
            all.len() == sets && all.iter().all(|set| set.controller().is_none())
        })
        .await;
    }
}

#[tokio::test]
async fn an_orphaned_replica_set_is_adopted_by_the_next_deployment() {
    let (mut cluster, context) = cluster().await;
    cluster.run(garbage_collector::run(context.clone()));
    let made = cluster.create(DEPLOYMENT, web("web", 2)).await;
    until(&context, DEPLOYMENT, |all| all.iter().any(|one| is_available(one, 2))).await;
    let pods: Vec<String> = context.cache(POD).all().iter().map(|pod| pod.uid.clone()).collect();
    let requests = context.requests("test", Default::default());
    let orphan = Deletion { propagation: Some(Propagation::Orphan), ..Deletion::default() };
    requests.delete(&Target::of(DEPLOYMENT, &made), &orphan).await.expect("deleted");
    until(&context, REPLICA_SET, |all| all.iter().all(|set| set.controller().is_none())).await;
    let again = cluster.create(DEPLOYMENT, web("web", 2)).await;
    until(&context, REPLICA_SET, |all| {
        all.len() == 1 && all[0].controller() == Some(again.uid.as_str())
    })
    .await;
    until(&context, DEPLOYMENT, |all| all.iter().any(|one| is_available(one, 2))).await;
    let after: Vec<String> = context.cache(POD).all().iter().map(|pod| pod.uid.clone()).collect();
    assert_eq!(pods, after);
}

#[tokio::test]
async fn a_replica_set_that_may_make_no_pods_says_so_and_asks_rarely() {
    let (cluster, context) = cluster().await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"namespace": "default", "name": "few"}, "spec": {"hard": {"pods": "2"}},
        "status": {"hard": {"pods": "2"}, "used": {"pods": "0"}}});
    let quotas = controllers::kinds::RESOURCE_QUOTA;
    let made = cluster.create(quotas, quota.clone()).await;
    let requests = context.requests("test", Default::default());
    let status = json!({"status": quota["status"]});
    requests.patch(&Target::of(quotas, &made).part("status"), &status).await.expect("counted");
    let asked = Arc::new(AtomicUsize::new(0));
    let (cache, count) = (context.cache(POD), asked.clone());
    cache.subscribe(move |change| {
        count.fetch_add(usize::from(change.old.is_none()), Ordering::Relaxed);
    });
    cluster.create(DEPLOYMENT, web("web", 1_000)).await;
    until(&context, DEPLOYMENT, |all| {
        let failure = all.iter().find_map(|one| {
            reconcile::conditions::find(&one.value["status"], "ReplicaFailure").cloned()
        });
        failure.is_some_and(|failure| {
            let message = failure["message"].as_str().unwrap_or_default();
            failure["reason"] == "FailedCreate" && message.contains("exceeded quota")
        })
    })
    .await;
    assert_eq!(context.cache(POD).len(), 2);
    // A refusal is met after few requests, not after a thousand: they begin with one and double.
    let refused = counted(&context, "reconcile_errors_total", "replicaset-controller");
    assert!(refused < 20, "{refused} looks were refused");
    let patch = json!({"spec": {"replicas": 2}});
    let deployment = context.cache(DEPLOYMENT).all().remove(0);
    requests.patch(&Target::of(DEPLOYMENT, &deployment), &patch).await.expect("scaled");
    until(&context, DEPLOYMENT, |all| {
        let failure = reconcile::conditions::find(&all[0].value["status"], "ReplicaFailure");
        failure.is_none() && is_available(&all[0], 2)
    })
    .await;
}

#[tokio::test]
async fn a_pod_that_is_released_is_replaced_under_another_name() {
    let (cluster, context) = cluster().await;
    cluster.create(REPLICA_SET, set("web", 1)).await;
    until(&context, REPLICA_SET, |all| all.iter().any(|set| is_available(set, 1))).await;
    let released = context.cache(POD).all().remove(0);
    let requests = context.requests("test", Default::default());
    let patch = json!({"metadata": {"labels": {"app": "under-study"}}});
    requests.patch(&Target::of(POD, &released), &patch).await.expect("relabelled");
    until(&context, POD, |all| {
        all.len() == 2
            && all.iter().any(|pod| pod.uid == released.uid && pod.controller().is_none())
    })
    .await;
    until(&context, REPLICA_SET, |all| all.iter().any(|set| is_available(set, 1))).await;
}
