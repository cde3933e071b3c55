//! Pods of simulated nodes, as data and in a cluster.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::{Object, Plan, Wake};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::cluster::until;

use super::pods::next;
use super::{NODE, Options, POD, Resources, run};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn pod(annotations: Value, policy: &str, status: Value) -> Object {
    Object::new(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "a", "name": "p", "uid": "u", "annotations": annotations},
        "spec": {"nodeName": "fake-0", "restartPolicy": policy,
            "containers": [{"name": "main", "image": "web"}]},
        "status": status,
    }))
}

fn after(pod: &Object, plan: &Plan) -> Object {
    let mut value = pod.value.clone();
    value["status"] = plan.status.clone().expect("a status");
    Object::new(value)
}

#[test]
fn a_pod_runs_and_is_ready_at_once() {
    let plan = next(&pod(json!({}), "Always", json!({"phase": "Pending"})), at(100));
    let status = plan.status.unwrap();
    assert_eq!(status["phase"], "Running");
    assert_eq!(status["containerStatuses"][0]["ready"], true);
    let ready = status["conditions"].as_array().unwrap().iter().all(|one| one["status"] == "True");
    assert!(ready, "{status}");
    assert_eq!(plan.wake, Wake::OnChange);
}

#[test]
fn a_pod_takes_the_time_that_it_says() {
    let annotations = json!({"simulated.setpoint.dev/start": "5s",
        "simulated.setpoint.dev/ready": "3s"});
    let pending = pod(annotations, "Always", json!({"phase": "Pending"}));
    let plan = next(&pending, at(100));
    assert_eq!(plan.wake, Wake::After(Duration::from_secs(5)));
    let created = after(&pending, &plan);
    let waiting = &created.value["status"]["containerStatuses"][0]["state"]["waiting"];
    assert_eq!(waiting["reason"], "ContainerCreating");
    assert_eq!(next(&created, at(102)).wake, Wake::After(Duration::from_secs(3)));
    let plan = next(&created, at(105));
    let running = after(&created, &plan);
    assert_eq!(running.value["status"]["phase"], "Running");
    assert_eq!(running.value["status"]["containerStatuses"][0]["ready"], false);
    assert_eq!(plan.wake, Wake::After(Duration::from_secs(3)));
    let ready = after(&running, &next(&running, at(108)));
    assert_eq!(ready.value["status"]["containerStatuses"][0]["ready"], true);
    assert!(next(&ready, at(109)).status.is_none());
}

#[test]
fn a_pod_ends_as_it_says_and_restarts_as_its_policy_says() {
    let annotations = json!({"simulated.setpoint.dev/exit-after": "2s",
        "simulated.setpoint.dev/exit-code": "3"});
    for (policy, phase, restarts) in
        [("Never", "Failed", 0), ("OnFailure", "Running", 1), ("Always", "Running", 1)]
    {
        let pending = pod(annotations.clone(), policy, json!({"phase": "Pending"}));
        let running = after(&pending, &next(&pending, at(100)));
        assert!(next(&running, at(101)).status.is_none());
        let ended = after(&running, &next(&running, at(102)));
        assert_eq!(ended.value["status"]["phase"], phase, "{policy}");
        let container = &ended.value["status"]["containerStatuses"][0];
        assert_eq!(container["restartCount"], restarts, "{policy}");
    }
}

#[test]
fn a_pod_that_never_starts_says_why_once() {
    let annotations = json!({"simulated.setpoint.dev/waiting": "ImagePullBackOff"});
    let pending = pod(annotations, "Always", json!({"phase": "Pending"}));
    let stuck = after(&pending, &next(&pending, at(100)));
    let waiting = &stuck.value["status"]["containerStatuses"][0]["state"]["waiting"];
    assert_eq!(waiting["reason"], "ImagePullBackOff");
    assert!(next(&stuck, at(101)).status.is_none());
}

#[test]
fn a_deleted_pod_goes_after_its_stop_time() {
    let mut value =
        pod(json!({"simulated.setpoint.dev/stop": "4s"}), "Always", json!({})).value.clone();
    value["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:02:10Z");
    value["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    let pod = Object::new(value);
    assert_eq!(next(&pod, at(101)).wake, Wake::After(Duration::from_secs(3)));
    let gone: Vec<String> = next(&pod, at(104)).steps.iter().map(ToString::to_string).collect();
    assert_eq!(gone, ["delete v1 Pod a/p"]);
}

#[tokio::test]
async fn nodes_register_and_their_pods_run() {
    let mut cluster = Cluster::start().await;
    let context = cluster.context();
    let options = Options { count: 3, resources: Resources::default() };
    cluster.run(run(context.clone(), options));
    until(&context, NODE, |nodes| {
        nodes.len() == 3 && nodes.iter().all(|node| node.value["status"]["capacity"]["cpu"] == "32")
    })
    .await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": "p"},
        "spec": {"nodeName": "fake-1", "containers": [{"name": "main", "image": "web"}]}});
    cluster.create(POD, pod).await;
    until(&context, POD, |pods| pods.iter().any(|pod| pod.value["status"]["phase"] == "Running"))
        .await;
}
