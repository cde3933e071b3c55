//! What is there at birth, and stays as it was.

use apiserver::start::Settings;
use serde_json::{Value, json};

use super::cluster::Cluster;

#[tokio::test]
async fn the_server_is_a_service_with_its_address() {
    let cluster = Cluster::start().await;
    let service = cluster.get("/api/v1/namespaces/default/services/kubernetes").await;
    let spec = &service["spec"];
    assert_eq!(spec["clusterIP"], "10.96.0.1");
    assert_eq!(spec["sessionAffinity"], "None");
    assert_eq!(spec["internalTrafficPolicy"], "Cluster");
    let port = json!({"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443});
    assert_eq!(spec["ports"], json!([port]));
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    assert_eq!(service["metadata"]["labels"], labels);
    let endpoints = cluster.get("/api/v1/namespaces/default/endpoints/kubernetes").await;
    assert_eq!(endpoints["subsets"][0]["addresses"], json!([{"ip": "192.0.2.7"}]));
    let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
    let slice = cluster.get(path).await;
    assert_eq!(slice["addressType"], "IPv4");
    assert_eq!(slice["endpoints"][0]["addresses"], json!(["192.0.2.7"]));
    let selected = "/api/v1/services?fieldSelector=spec.clusterIP%3D10.96.0.1";
    assert_eq!(cluster.names(selected).await, ["kubernetes"]);
    let address = cluster.get("/apis/networking.k8s.io/v1/ipaddresses/10.96.0.1").await;
    assert_eq!(address["spec"]["parentRef"]["name"], "kubernetes");
}

#[tokio::test]
async fn what_clients_look_for_is_there() {
    let cluster = Cluster::start().await;
    let cases = [
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
            "/value",
            json!(2_000_001_000),
        ),
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses/system-cluster-critical",
            "/value",
            json!(2_000_000_000),
        ),
        (
            "/apis/networking.k8s.io/v1/servicecidrs/kubernetes",
            "/spec/cidrs/0",
            json!("10.96.0.0/16"),
        ),
        (
            "/apis/networking.k8s.io/v1/servicecidrs/kubernetes",
            "/status/conditions/0/status",
            json!("True"),
        ),
        (
            "/apis/apiregistration.k8s.io/v1/apiservices/v1.",
            "/status/conditions/0/reason",
            json!("Local"),
        ),
        (
            "/apis/apiregistration.k8s.io/v1/apiservices/v2.autoscaling",
            "/spec/version",
            json!("v2"),
        ),
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/catch-all",
            "/spec/matchingPrecedence",
            json!(10_000),
        ),
        (
            "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations/exempt",
            "/spec/type",
            json!("Exempt"),
        ),
        (
            "/api/v1/namespaces/default/serviceaccounts/default",
            "/metadata/namespace",
            json!("default"),
        ),
        (
            "/api/v1/namespaces/kube-system/serviceaccounts/default",
            "/metadata/name",
            json!("default"),
        ),
    ];
    for (path, pointer, expected) in cases {
        let object = cluster.get(path).await;
        assert_eq!(object.pointer(pointer), Some(&expected), "{path}: {object}");
    }
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let data = cluster.get(path).await["data"].to_string();
    assert!(data.contains("BEGIN CERTIFICATE"), "{data}");
    let services = cluster.names("/apis/apiregistration.k8s.io/v1/apiservices").await;
    assert!(services.len() >= 20, "{services:?}");
    assert!(services.contains(&"v1.apps".to_owned()));
}

#[tokio::test]
async fn a_second_start_changes_nothing_but_where_the_server_is() {
    let cluster = Cluster::start().await;
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical";
    let patch = json!({"metadata": {"labels": {"mine": "yes"}}});
    cluster.done(&format!("PATCH {path}"), patch).await;
    let endpoints = "/api/v1/namespaces/default/endpoints/kubernetes";
    let moved = json!({"subsets": [{
        "addresses": [{"ip": "198.51.100.1"}], "ports": [{"port": 1, "name": "https"}],
    }]});
    cluster.done(&format!("PATCH {endpoints}"), moved).await;
    let uid = cluster.get(endpoints).await["metadata"]["uid"].clone();
    let again = Cluster::start_on(cluster.store.clone(), Settings::default()).await;
    assert_eq!(again.get(path).await["metadata"]["labels"]["mine"], "yes");
    let found = again.get(endpoints).await;
    assert_eq!(found["subsets"][0]["addresses"][0]["ip"], "192.0.2.7");
    assert_eq!(found["metadata"]["uid"], uid);
    assert_ne!(found["metadata"]["uid"], Value::Null);
}

#[tokio::test]
async fn the_first_objects_are_few_commits_and_a_second_start_is_none() {
    let cluster = Cluster::start().await;
    let first = cluster.store.revision().0;
    assert!(first <= 6, "{first} commits");
    let again = Cluster::start_on(cluster.store.clone(), Settings::default()).await;
    // It has an authority of its own, which a config map tells of.
    assert!(again.store.revision().0 <= first + 1);
}
