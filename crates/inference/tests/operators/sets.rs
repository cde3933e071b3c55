//! What users of LeaderWorkerSets see: row 54 of the feature table.

use std::collections::BTreeMap;
use std::sync::Arc;

use inference::kinds::{CONTROLLER_REVISION, LEADER_WORKER_SET, POD, SERVICE, STATEFUL_SET};
use reconcile::Object;
use serde_json::{Value, json};
use testkit::cluster::until;

use crate::world::{World, image, is_available, set};

fn names(objects: &[Arc<Object>]) -> Vec<String> {
    objects.iter().map(|one| one.name.name.to_string()).collect()
}

/// The UIDs of pods by their names.
async fn pods(world: &World, count: usize) -> BTreeMap<String, String> {
    let here =
        |pods: &[Arc<Object>]| pods.len() == count && pods.iter().all(|pod| !pod.is_terminating());
    until(&world.context, POD, here).await;
    let all = world.context.cache(POD).all();
    all.iter().map(|pod| (pod.name.name.to_string(), pod.uid.clone())).collect()
}

#[tokio::test]
async fn groups_have_names_by_which_their_pods_find_each_other() {
    let world = World::start().await;
    let made = world.create(LEADER_WORKER_SET, set("s", 2, 3, json!({}))).await;
    assert_eq!(made.value["spec"]["startupPolicy"], "LeaderCreated");
    assert_eq!(made.value["spec"]["networkConfig"]["subdomainPolicy"], "Shared");
    let set = world.until_available("s").await;
    let all = names(&world.context.cache(POD).all());
    assert_eq!(all, ["s-0", "s-0-1", "s-0-2", "s-1", "s-1-1", "s-1-2"]);
    let sets = names(&world.context.cache(STATEFUL_SET).all());
    assert_eq!(sets, ["s", "s-0", "s-1"]);
    let worker = world.get(POD, "s-1-2").await.expect("a worker");
    let env = worker.value["spec"]["containers"][0]["env"].clone();
    let expected = json!([
        {"name": "LWS_LEADER_ADDRESS", "value": "s-1.s.default"},
        {"name": "LWS_GROUP_SIZE", "value": "3"},
        {"name": "LWS_WORKER_INDEX", "value": "2"},
    ]);
    assert_eq!(env, expected);
    assert_eq!(worker.value["spec"]["subdomain"], "s");
    let label = |name: &str| worker.label(&format!("leaderworkerset.sigs.k8s.io/{name}"));
    assert_eq!((label("group-index"), label("worker-index")), (Some("1"), Some("2")));
    let leader = world.get(POD, "s-1").await.expect("a leader");
    let key = "leaderworkerset.sigs.k8s.io/group-key";
    assert_eq!(leader.label(key), worker.label(key));
    let service = world.get(SERVICE, "s").await.expect("a service");
    assert_eq!(service.value["spec"]["clusterIP"], "None");
    assert_eq!(service.value["spec"]["publishNotReadyAddresses"], true);
    let status = &set.value["status"];
    let selector = "leaderworkerset.sigs.k8s.io/name=s,leaderworkerset.sigs.k8s.io/worker-index=0";
    assert_eq!(status["hpaPodSelector"], selector);
    let numbers = ["replicas", "readyReplicas", "updatedReplicas"].map(|field| &status[field]);
    assert_eq!(numbers, [&json!(2), &json!(2), &json!(2)]);
}

#[tokio::test]
async fn an_update_replaces_whole_groups_and_keeps_one_revision() {
    let world = World::start().await;
    world.create(LEADER_WORKER_SET, set("s", 2, 2, json!({}))).await;
    world.until_available("s").await;
    let before = pods(&world, 4).await;
    world.patch(LEADER_WORKER_SET, "s", image("two")).await;
    world.until_available("s").await;
    let is_new = |pods: &[Arc<Object>]| {
        let image = |pod: &Object| pod.value["spec"]["containers"][0]["image"].clone();
        pods.len() == 4 && pods.iter().all(|pod| image(pod) == "two")
    };
    until(&world.context, POD, is_new).await;
    let after = pods(&world, 4).await;
    assert!(before.iter().all(|(name, uid)| after[name] != *uid));
    until(&world.context, CONTROLLER_REVISION, |all| {
        let of_set = |one: &&Arc<Object>| one.name.name.ends_with("-2");
        let own = all.iter().filter(|one| {
            one.label("leaderworkerset.sigs.k8s.io/name").is_some()
                && one.controller().is_some()
                && one.value["data"]["spec"]["leaderWorkerTemplate"].is_object()
        });
        let own: Vec<_> = own.collect();
        own.len() == 1 && own.iter().any(of_set)
    })
    .await;
}

#[tokio::test]
async fn an_update_may_stop_at_a_partition_and_be_taken_back() {
    let world = World::start().await;
    world.create(LEADER_WORKER_SET, set("s", 3, 2, json!({}))).await;
    world.until_available("s").await;
    let before = pods(&world, 6).await;
    let held = json!({"spec": {"rolloutStrategy": {"rollingUpdateConfiguration":
        {"partition": 2}}}});
    world.patch(LEADER_WORKER_SET, "s", held).await;
    world.patch(LEADER_WORKER_SET, "s", image("two")).await;
    let is_updated = |set: &Value| is_available(set) && set["status"]["updatedReplicas"] == 1;
    world.until(LEADER_WORKER_SET, "s", is_updated).await;
    let half = pods(&world, 6).await;
    for name in ["s-0", "s-0-1", "s-1", "s-1-1"] {
        assert_eq!(before[name], half[name], "{name}");
    }
    assert!(before["s-2"] != half["s-2"] && before["s-2-1"] != half["s-2-1"]);
    // What was not reached is not touched on the way back either.
    world.patch(LEADER_WORKER_SET, "s", image("one")).await;
    let is_back = |set: &Value| is_available(set) && set["status"]["updatedReplicas"] == 3;
    world.until(LEADER_WORKER_SET, "s", is_back).await;
    let back = pods(&world, 6).await;
    for name in ["s-0", "s-0-1", "s-1", "s-1-1"] {
        assert_eq!(before[name], back[name], "{name}");
    }
    assert_ne!(half["s-2"], back["s-2"]);
}

#[tokio::test]
async fn more_groups_stand_in_during_an_update_and_go_afterwards() {
    let world = World::start().await;
    let surge = json!({"spec": {"rolloutStrategy": {"rollingUpdateConfiguration":
        {"maxUnavailable": 0, "maxSurge": 1}}}});
    world.create(LEADER_WORKER_SET, set("s", 2, 2, surge)).await;
    world.until_available("s").await;
    world.patch(LEADER_WORKER_SET, "s", image("two")).await;
    world.until(POD, "s-2", |_| true).await;
    world.until_available("s").await;
    world.until_gone(POD, "s-2").await;
    world.until_gone(POD, "s-2-1").await;
    assert_eq!(pods(&world, 4).await.len(), 4);
}

#[tokio::test]
async fn a_pod_that_goes_takes_its_group_and_no_other_with_it() {
    let world = World::start().await;
    world.create(LEADER_WORKER_SET, set("s", 2, 3, json!({}))).await;
    world.until_available("s").await;
    let before = pods(&world, 6).await;
    world.delete(POD, "s-0-2").await;
    let is_new = |pods: &[Arc<Object>]| {
        let new = pods.iter().filter(|pod| before.get(&*pod.name.name) != Some(&pod.uid));
        pods.len() == 6 && new.count() == 3
    };
    until(&world.context, POD, is_new).await;
    world.until_available("s").await;
    let after = pods(&world, 6).await;
    for (name, uid) in &before {
        assert_eq!(after[name] == *uid, name.starts_with("s-1"), "{name}");
    }
    // Each for itself, if they are to be.
    let alone = json!({"spec": {"leaderWorkerTemplate": {"restartPolicy": "None"}}});
    world.create(LEADER_WORKER_SET, set("alone", 1, 2, alone)).await;
    world.until_available("alone").await;
    let leader = world.get(POD, "alone-0").await.expect("a leader").uid;
    let worker = world.get(POD, "alone-0-1").await.expect("a worker").uid;
    world.delete(POD, "alone-0-1").await;
    let is_new = |pod: &Value| pod["metadata"]["uid"] != worker.as_str();
    world.until(POD, "alone-0-1", is_new).await;
    assert_eq!(world.get(POD, "alone-0").await.expect("a leader").uid, leader);
}

#[tokio::test]
async fn a_set_is_scaled_through_its_subresource() {
    let world = World::start().await;
    world.create(LEADER_WORKER_SET, set("s", 1, 2, json!({}))).await;
    world.until_available("s").await;
    for replicas in [3, 0] {
        let found = world.get(LEADER_WORKER_SET, "s").await.expect("the set");
        let target = reconcile::plan::Target::of(LEADER_WORKER_SET, &found).part("scale");
        let requests = world.context.requests("test", Default::default());
        let patch = json!({"spec": {"replicas": replicas}});
        requests.patch(&target, &patch).await.expect("scaled");
        let is_there = |set: &Value| is_available(set) && set["status"]["replicas"] == replicas;
        world.until(LEADER_WORKER_SET, "s", is_there).await;
        assert_eq!(pods(&world, replicas as usize * 2).await.len(), replicas as usize * 2);
    }
    world.delete(LEADER_WORKER_SET, "s").await;
    world.until_gone(SERVICE, "s").await;
    world.until_gone(STATEFUL_SET, "s").await;
}

#[tokio::test]
async fn a_group_may_have_a_service_of_its_own_and_wait_for_its_leader() {
    let world = World::start().await;
    let own = json!({"spec": {"startupPolicy": "LeaderReady",
        "networkConfig": {"subdomainPolicy": "UniquePerReplica"},
        "leaderWorkerTemplate": {"leaderTemplate": {
            "metadata": {"annotations": {"play/ready-after": "1"}},
            "spec": {"containers": [{"name": "c", "image": "one"}]}}}}});
    world.create(LEADER_WORKER_SET, set("s", 1, 2, own)).await;
    let workers = world.until(STATEFUL_SET, "s-0", |_| true).await;
    let leader = world.get(POD, "s-0").await.expect("a leader");
    assert!(reconcile::conditions::is_true(&leader.value["status"], "Ready"));
    assert_eq!(workers.value["spec"]["serviceName"], "s-0");
    assert_eq!(leader.value["spec"]["subdomain"], "s-0");
    let service = world.until(SERVICE, "s-0", |_| true).await;
    assert_eq!(service.controller(), Some(leader.uid.as_str()));
    assert!(world.get(SERVICE, "s").await.is_none());
    let worker = world.until(POD, "s-0-1", |_| true).await;
    let address = &worker.value["spec"]["containers"][0]["env"][0]["value"];
    assert_eq!(address, "s-0.s-0.default");
}

#[tokio::test]
async fn what_cannot_work_is_refused_with_its_field() {
    let world = World::start().await;
    let rolling = |value: Value| {
        json!({"spec": {"rolloutStrategy": {
        "rollingUpdateConfiguration": value}}})
    };
    for (more, why) in [
        (json!({"spec": {"replicas": -1}}), "spec.replicas"),
        (json!({"metadata": {"name": "1s"}}), "metadata.name"),
        (rolling(json!({"maxUnavailable": 0})), "must not be 0 when `maxSurge` is 0"),
        (json!({"spec": {"startupPolicy": "Never"}}), "startupPolicy"),
    ] {
        let error = world.try_create(LEADER_WORKER_SET, set("s", 1, 2, more)).await;
        let error = error.expect_err("refused");
        assert_eq!(error.code(), Some(422), "{}", error.said());
        assert!(error.said().contains(why), "{}", error.said());
    }
}
