//! What happens to pods besides being written: bound, evicted, resized, looked into.

use serde_json::{Value, json};

use super::cluster::Cluster;

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

async fn create(cluster: &Cluster, name: &str, spec: Value) -> Value {
    let mut whole = json!({
        "containers": [{"name": "main", "image": "example.com/image:1",
            "resources": {"requests": {"cpu": "1"}}}],
    });
    for (key, value) in spec.as_object().unwrap() {
        whole[key.as_str()] = value.clone();
    }
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}}, "spec": whole,
    });
    cluster.done(&format!("POST {PODS}"), pod).await
}

fn binding(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": name, "annotations": {"by": "test"}},
        "target": {"kind": "Node", "name": node},
    })
}

fn eviction(name: &str) -> Value {
    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}})
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let cluster = Cluster::start().await;
    let made = create(&cluster, "a", json!({})).await;
    let bound = cluster.ask(&format!("POST {PODS}/a/binding"), binding("a", "n1")).await;
    assert_eq!((bound.code, &bound.body["status"]), (201, &json!("Success")));
    let pod = cluster.get(&format!("{PODS}/a")).await;
    assert_eq!(pod["spec"]["nodeName"], "n1");
    assert_eq!(pod["metadata"]["annotations"]["by"], "test");
    assert_eq!(pod["metadata"]["generation"], made["metadata"]["generation"]);
    let condition = &pod["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"]),
        (&json!("PodScheduled"), &json!("True"))
    );
    let selected = format!("{PODS}?fieldSelector=spec.nodeName%3Dn1");
    assert_eq!(cluster.names(&selected).await, ["a"]);

    create(&cluster, "b", json!({})).await;
    cluster.done("POST /api/v1/namespaces/default/bindings", binding("b", "n2")).await;
    assert_eq!(cluster.get(&format!("{PODS}/b")).await["spec"]["nodeName"], "n2");

    create(&cluster, "gated", json!({"schedulingGates": [{"name": "example.com/gate"}]})).await;
    let cases = [
        (
            "a",
            binding("a", "n2"),
            409,
            "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to \
             node \"n1\"",
        ),
        (
            "gated",
            binding("gated", "n1"),
            409,
            "Operation cannot be fulfilled on pods/binding \"gated\": pod gated has non-empty \
             .spec.schedulingGates",
        ),
        ("none", binding("none", "n1"), 404, "pods \"none\" not found"),
        ("a", binding("b", "n1"), 400, "name in URL does not match name in Binding object"),
        ("a", binding("a", ""), 422, "Binding \"a\" is invalid: target.name: Required value"),
    ];
    for (name, body, code, message) in cases {
        let refused = cluster.refused(&format!("POST {PODS}/{name}/binding"), body).await;
        assert_eq!(refused, (code, message.to_owned()));
    }
}

/// A pod that runs and is ready.
async fn running(cluster: &Cluster, name: &str) {
    create(cluster, name, json!({})).await;
    cluster.done(&format!("POST {PODS}/{name}/binding"), binding(name, "n1")).await;
    let status = json!({"status": {
        "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
    }});
    cluster.done(&format!("PATCH {PODS}/{name}/status"), status).await;
}

async fn budget(cluster: &Cluster, name: &str, status: Value) {
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    });
    cluster.done(&format!("POST {BUDGETS}"), budget).await;
    cluster.done(&format!("PATCH {BUDGETS}/{name}/status"), json!({"status": status})).await;
}

#[tokio::test]
async fn an_eviction_spends_the_budget_together_with_the_deletion() {
    let cluster = Cluster::start().await;
    running(&cluster, "a").await;
    running(&cluster, "b").await;
    let evict = |name: &str| format!("POST {PODS}/{name}/eviction");
    budget(&cluster, "web", json!({})).await;
    let busy = cluster.ask(&evict("a"), eviction("a")).await;
    assert_eq!(busy.code, 429);
    assert_eq!(busy.retry_after.as_deref(), Some("10"));
    let status = json!({"status": {
        "observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2,
        "desiredHealthy": 1, "expectedPods": 2,
    }});
    cluster.done(&format!("PATCH {BUDGETS}/web/status"), status).await;

    let dry = format!("{}?dryRun=All", evict("a"));
    assert_eq!(cluster.ask(&dry, eviction("a")).await.code, 201);
    let untouched = cluster.get(&format!("{BUDGETS}/web")).await;
    assert_eq!(untouched["status"]["disruptionsAllowed"], 1);

    let done = cluster.ask(&evict("a"), eviction("a")).await;
    assert_eq!((done.code, &done.body["status"]), (201, &json!("Success")));
    let pod = cluster.get(&format!("{PODS}/a")).await;
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    let target = pod["status"]["conditions"].as_array().unwrap().last().unwrap();
    assert_eq!(target["type"], "DisruptionTarget");
    assert_eq!(target["reason"], "EvictionByEvictionAPI");
    let spent = cluster.get(&format!("{BUDGETS}/web")).await;
    assert_eq!(spent["status"]["disruptionsAllowed"], 0);
    assert!(spent["status"]["disruptedPods"]["a"].is_string());
    assert_eq!(spent["status"]["conditions"][0]["reason"], "InsufficientPods");

    let refused = cluster.ask(&evict("b"), eviction("b")).await;
    assert_eq!(refused.code, 429);
    let text = "Cannot evict pod as it would violate the pod's disruption budget.";
    assert_eq!(refused.body["message"], text);
    let cause = &refused.body["details"]["causes"][0];
    assert_eq!(cause["reason"], "DisruptionBudget");
    let text = "The disruption budget web needs 1 healthy pods and has 2 currently";
    assert_eq!(cause["message"], text);

    budget(&cluster, "second", json!({})).await;
    let (code, message) = cluster.refused(&evict("b"), eviction("b")).await;
    assert_eq!(code, 500);
    assert!(message.starts_with("This pod has more than one PodDisruptionBudget"), "{message}");
}

#[tokio::test]
async fn a_pod_that_serves_nobody_is_evicted_without_a_budget() {
    let cluster = Cluster::start().await;
    create(&cluster, "waiting", json!({})).await;
    budget(&cluster, "web", json!({})).await;
    let path = format!("POST {PODS}/waiting/eviction");
    let wrong = json!({
        "metadata": {"name": "waiting"}, "deleteOptions": {"preconditions": {"uid": "other"}},
    });
    assert_eq!(cluster.refused(&path, wrong).await.0, 409);
    cluster.done(&path, eviction("waiting")).await;
    assert_eq!(cluster.refused(&path, eviction("waiting")).await.0, 404);
}

#[tokio::test]
async fn parts_of_a_pod_change_by_their_own_paths() {
    let cluster = Cluster::start().await;
    running(&cluster, "a").await;
    let debugger = json!({"name": "debug", "image": "i", "targetContainerName": "main"});
    let patch = json!({"spec": {"ephemeralContainers": [debugger], "nodeName": "other"}});
    let path = format!("{PODS}/a/ephemeralcontainers");
    let pod = cluster.done(&format!("PATCH {path}"), patch).await;
    assert_eq!(pod["spec"]["ephemeralContainers"][0]["name"], "debug");
    assert_eq!(pod["spec"]["nodeName"], "n1", "nothing else changes");
    assert_eq!(pod["metadata"]["generation"], 2);
    assert_eq!(cluster.get(&path).await["metadata"]["name"], "a");
    let gone = json!({"spec": {"ephemeralContainers": null}});
    assert_eq!(cluster.refused(&format!("PATCH {path}"), gone).await.0, 422);

    let main = json!({"name": "main", "image": "other", "resources": {"requests": {"cpu": "2"}}});
    let resize = json!({"spec": {"containers": [main]}});
    let pod = cluster.done(&format!("PATCH {PODS}/a/resize"), resize).await;
    let container = &pod["spec"]["containers"][0];
    assert_eq!(container["resources"]["requests"]["cpu"], "2");
    assert_eq!(container["image"], "example.com/image:1");
    assert_eq!(pod["metadata"]["generation"], 3);
}

#[tokio::test]
async fn what_needs_a_node_says_so() {
    let cluster = Cluster::start().await;
    create(&cluster, "alone", json!({})).await;
    let two = json!([{"name": "x", "image": "i"}, {"name": "y", "image": "i"}]);
    create(&cluster, "two", json!({"containers": two})).await;
    running(&cluster, "bound").await;
    let cases = [
        ("GET", "alone/log", 400, "pod alone does not have a host assigned"),
        ("POST", "alone/exec?command=ls", 400, "pod alone does not have a host assigned"),
        (
            "GET",
            "two/log",
            400,
            "a container name must be specified for pod two, choose one of: [x y]",
        ),
        ("GET", "two/log?container=z", 400, "container z is not valid for pod two"),
        ("GET", "bound/log", 503, "node \"n1\" is not connected to this server"),
        ("POST", "bound/portforward", 503, "node \"n1\" is not connected to this server"),
        ("GET", "http:bound:80/proxy", 400, "address not allowed: pod \"bound\" has none"),
        ("GET", "none/log", 404, "pods \"none\" not found"),
    ];
    for (method, path, code, message) in cases {
        let refused = cluster.refused(&format!("{method} {PODS}/{path}"), Value::Null).await;
        assert_eq!(refused, (code, message.to_owned()), "{path}");
    }
    let path = "/api/v1/namespaces/default/services/nobody/proxy/";
    let (code, _) = cluster.refused(&format!("GET {path}"), Value::Null).await;
    assert_eq!(code, 404);
}

#[tokio::test]
async fn a_namespace_goes_when_it_is_finalized() {
    let cluster = Cluster::start().await;
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}});
    cluster.done("POST /api/v1/namespaces", body).await;
    cluster.done("DELETE /api/v1/namespaces/mine", Value::Null).await;
    let mut namespace = cluster.get("/api/v1/namespaces/mine").await;
    assert_eq!(namespace["status"]["phase"], "Terminating");
    namespace["spec"] = json!({"finalizers": []});
    cluster.done("PUT /api/v1/namespaces/mine/finalize", namespace).await;
    let (code, _) = cluster.refused("GET /api/v1/namespaces/mine", Value::Null).await;
    assert_eq!(code, 404);
}
