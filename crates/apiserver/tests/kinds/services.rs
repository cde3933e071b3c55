//! Services get addresses and ports, and give them back.

use std::collections::BTreeSet;
use std::sync::Arc;

use apiserver::allocation::ranges::Range;
use apiserver::start::Settings;
use serde_json::{Value, json};
use store::{KeyRange, PageRequest};
use tokio::task::JoinSet;

use super::cluster::Cluster;

const SERVICES: &str = "/api/v1/namespaces/default/services";

fn service(name: &str, mut spec: Value) -> Value {
    if spec.get("ports").is_none() {
        spec["ports"] = json!([{"port": 80}]);
    }
    if spec.get("selector").is_none() {
        spec["selector"] = json!({"app": name});
    }
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}

async fn create(cluster: &Cluster, name: &str, spec: Value) -> Value {
    cluster.done(&format!("POST {SERVICES}"), service(name, spec)).await
}

/// All that is given out, besides what the server itself has.
async fn given(cluster: &Cluster) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for prefix in ["ipaddresses/", "internal/nodeports/"] {
        let range = KeyRange::prefix(prefix);
        let page = cluster.store.list(&range, PageRequest::all(), None).await.unwrap();
        all.extend(page.entries.iter().map(|entry| entry.key.to_string()));
    }
    all.remove("ipaddresses/10.96.0.1");
    all
}

fn dual() -> Settings {
    let range = |text| Range::parse(text).unwrap();
    let service_ranges = vec![range("10.96.0.0/16"), range("fd00:10:96::/112")];
    Settings { service_ranges, ..Settings::default() }
}

#[tokio::test]
async fn a_service_gets_an_address_that_an_object_stands_for_and_gives_it_back() {
    let cluster = Cluster::start().await;
    let before = cluster.store.revision().0;
    let made = create(&cluster, "web", json!({})).await;
    assert_eq!(cluster.store.revision().0, before + 1, "all or nothing: one commit");
    let address = made["spec"]["clusterIP"].as_str().unwrap().to_owned();
    assert!(address.starts_with("10.96."), "{address}");
    assert_eq!(made["spec"]["clusterIPs"], json!([address]));
    assert_eq!(made["spec"]["ipFamilies"], json!(["IPv4"]));
    assert_eq!(made["spec"]["ipFamilyPolicy"], "SingleStack");
    let object = cluster.get(&format!("/apis/networking.k8s.io/v1/ipaddresses/{address}")).await;
    let parent = json!({"resource": "services", "namespace": "default", "name": "web"});
    assert_eq!(object["spec"]["parentRef"], parent);
    let taken = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress", "metadata": {"name": address},
        "spec": {"parentRef": {"resource": "things", "name": "mine"}},
    });
    let (code, message) =
        cluster.refused("POST /apis/networking.k8s.io/v1/ipaddresses", taken).await;
    let expected = format!("ipaddresses.networking.k8s.io {address:?} already exists");
    assert_eq!((code, message), (409, expected));
    cluster.done(&format!("DELETE {SERVICES}/web"), Value::Null).await;
    assert_eq!(cluster.store.revision().0, before + 2);
    assert!(given(&cluster).await.is_empty());
}

#[tokio::test]
async fn a_service_that_names_what_it_wants_gets_it_or_a_reason() {
    let cluster = Cluster::start().await;
    create(&cluster, "first", json!({"clusterIP": "10.96.5.5"})).await;
    create(
        &cluster,
        "ports",
        json!({
            "type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}],
        }),
    )
    .await;
    let list = json!(["10.96.5.5"]);
    let cases = [
        (
            json!({"clusterIP": "10.96.5.5"}),
            "spec.clusterIPs: Invalid value: [\"10.96.5.5\"]: failed to allocate IP 10.96.5.5: \
             provided IP is already allocated",
        ),
        (
            json!({"clusterIP": "192.0.2.1"}),
            "spec.clusterIPs: Invalid value: [\"192.0.2.1\"]: failed to allocate IP 192.0.2.1: \
             the provided network does not match the current range",
        ),
        (
            json!({"clusterIP": "10.96.5.6", "clusterIPs": list}),
            "spec.clusterIPs: Invalid value: [\"10.96.5.5\"]: first value must match `clusterIP`",
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}),
            "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated",
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}),
            "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. \
             The range of valid ports is 30000-32767",
        ),
        (
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not \
             configured for dual-stack services",
        ),
        (
            json!({"ipFamilies": ["IPv6"]}),
            "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
        (
            json!({"ipFamilies": ["IPv4", "IPv6"]}),
            "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or \
             'PreferDualStack' when multiple IP families are specified",
        ),
        (
            json!({"clusterIP": "fd00::1"}),
            "spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this \
             cluster",
        ),
    ];
    let before = given(&cluster).await;
    for (spec, expected) in cases {
        let (code, message) =
            cluster.refused(&format!("POST {SERVICES}"), service("other", spec)).await;
        assert_eq!(code, 422, "{message}");
        assert_eq!(message, format!("Service \"other\" is invalid: {expected}"));
    }
    assert_eq!(given(&cluster).await, before, "a refusal takes nothing");
}

#[tokio::test]
async fn headless_and_external_services_get_no_address() {
    let cluster = Cluster::start().await;
    let headless = create(&cluster, "headless", json!({"clusterIP": "None"})).await;
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
    assert_eq!(headless["spec"]["ipFamilies"], json!(["IPv4"]));
    let bare = create(&cluster, "bare", json!({"clusterIP": "None", "selector": {}})).await;
    assert_eq!(bare["spec"]["ipFamilyPolicy"], "RequireDualStack");
    assert_eq!(bare["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    let external = create(
        &cluster,
        "external",
        json!({
            "type": "ExternalName", "externalName": "example.com",
        }),
    )
    .await;
    assert_eq!(external["spec"].get("clusterIP"), None);
    assert_eq!(external["spec"].get("ipFamilies"), None);
    assert!(given(&cluster).await.is_empty());
}

#[tokio::test]
async fn a_change_of_type_gives_and_takes() {
    let cluster = Cluster::start().await;
    create(&cluster, "web", json!({})).await;
    let path = format!("{SERVICES}/web");
    let patch = |spec: Value| {
        let (cluster, path) = (&cluster, path.clone());
        async move { cluster.done(&format!("PATCH {path}"), json!({"spec": spec})).await }
    };
    let node = patch(json!({"type": "NodePort"})).await;
    let port = node["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
    assert!((30_000..=32_767).contains(&port));
    assert_eq!(given(&cluster).await.len(), 2);
    let balanced = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local"});
    let balanced = patch(balanced).await;
    assert_eq!(balanced["spec"]["ports"][0]["nodePort"], port, "the port is kept");
    assert!(balanced["spec"]["healthCheckNodePort"].as_u64().unwrap() > 0);
    assert_eq!(given(&cluster).await.len(), 3);
    let inside = patch(json!({"type": "ClusterIP", "externalTrafficPolicy": null})).await;
    assert_eq!(inside["spec"]["ports"][0].get("nodePort"), None);
    assert_eq!(given(&cluster).await.len(), 1);
    let external = json!({"type": "ExternalName", "externalName": "example.com"});
    let external = patch(external).await;
    assert_eq!(external["spec"].get("clusterIP"), None);
    assert!(given(&cluster).await.is_empty());
    let again = patch(json!({"type": "ClusterIP", "externalName": null})).await;
    assert!(again["spec"]["clusterIP"].as_str().unwrap().starts_with("10.96."));
    assert_eq!(given(&cluster).await.len(), 1);
    let change = json!({"spec": {"clusterIP": "10.96.7.7"}});
    let (code, message) = cluster.refused(&format!("PATCH {path}"), change).await;
    assert_eq!(code, 422);
    assert!(message.contains("may not change once set"), "{message}");
    cluster.done(&format!("DELETE {path}"), Value::Null).await;
    assert!(given(&cluster).await.is_empty());
}

#[tokio::test]
async fn a_cluster_of_both_families_gives_both_to_who_asks() {
    let cluster = Cluster::start_with(dual()).await;
    let made = create(&cluster, "web", json!({"ipFamilyPolicy": "PreferDualStack"})).await;
    assert_eq!(made["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    assert!(made["spec"]["clusterIPs"][1].as_str().unwrap().starts_with("fd00:10:96::"));
    assert_eq!(given(&cluster).await.len(), 2);
    let path = format!("{SERVICES}/web");
    let patch = json!({"spec": {"ipFamilyPolicy": "SingleStack"}});
    let single = cluster.done(&format!("PATCH {path}"), patch).await;
    assert_eq!(single["spec"]["clusterIPs"].as_array().unwrap().len(), 1);
    assert_eq!(given(&cluster).await.len(), 1);
    let patch = json!({"spec": {"ipFamilyPolicy": "RequireDualStack"}});
    let both = cluster.done(&format!("PATCH {path}"), patch).await;
    assert_eq!(both["spec"]["clusterIPs"].as_array().unwrap().len(), 2);
    assert_eq!(both["spec"]["clusterIPs"][0], single["spec"]["clusterIPs"][0]);
    let patch = json!({"spec": {"clusterIPs": [both["spec"]["clusterIP"]]}});
    let (_, message) = cluster.refused(&format!("PATCH {path}"), patch).await;
    let expected = "must be 'SingleStack' to release the secondary cluster IP";
    assert!(message.contains(expected), "{message}");
    let sixth = create(&cluster, "sixth", json!({"ipFamilies": ["IPv6"]})).await;
    assert!(sixth["spec"]["clusterIP"].as_str().unwrap().starts_with("fd00:10:96::"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_on_one_store_never_give_out_the_same() {
    let range = Range::parse("10.96.0.0/27").unwrap();
    let settings = Settings { service_ranges: vec![range], ..Settings::default() };
    let one = Arc::new(Cluster::start_with(settings.clone()).await);
    let other = Arc::new(Cluster::start_on(one.store.clone(), settings).await);
    let mut asked = JoinSet::new();
    for number in 0..29 {
        let cluster = if number % 2 == 0 { one.clone() } else { other.clone() };
        let body = service(&format!("s{number}"), json!({"type": "NodePort"}));
        asked.spawn(async move { cluster.done(&format!("POST {SERVICES}"), body).await });
    }
    let made = asked.join_all().await;
    let addresses: BTreeSet<_> =
        made.iter().map(|it| it["spec"]["clusterIP"].as_str().unwrap().to_owned()).collect();
    assert_eq!(addresses.len(), 29, "every address that there is, once");
    let (code, message) =
        one.refused(&format!("POST {SERVICES}"), service("full", json!({}))).await;
    assert_eq!(code, 500);
    let expected = "Internal error occurred: failed to allocate a serviceIP: range is full";
    assert_eq!(message, expected);
    other.done(&format!("DELETE {SERVICES}/s3"), Value::Null).await;
    create(&one, "full", json!({})).await;
}

#[tokio::test]
async fn a_dry_run_takes_nothing_and_ports_of_two_protocols_are_shared() {
    let cluster = Cluster::start().await;
    let ports = json!([
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
    ]);
    let spec = json!({"type": "NodePort", "ports": ports});
    let dry = format!("POST {SERVICES}?dryRun=All");
    let made = cluster.done(&dry, service("dns", spec.clone())).await;
    assert!(made["spec"]["clusterIP"].is_string());
    assert!(given(&cluster).await.is_empty());
    let made = create(&cluster, "dns", spec).await;
    let ports = &made["spec"]["ports"];
    assert_eq!(ports[0]["nodePort"], ports[1]["nodePort"]);
    assert_eq!(given(&cluster).await.len(), 2);
    let made = cluster
        .done(
            &format!("POST {SERVICES}"),
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"generateName": "many-"},
                "spec": {"ports": [{"port": 1}]},
            }),
        )
        .await;
    assert!(made["spec"]["clusterIP"].is_string());
}

#[tokio::test]
async fn a_service_that_waits_for_a_finalizer_keeps_its_address_until_it_is_gone() {
    let cluster = Cluster::start().await;
    let mut body = service("web", json!({"type": "NodePort"}));
    body["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cluster.done(&format!("POST {SERVICES}"), body).await;
    cluster.done(&format!("DELETE {SERVICES}/web"), Value::Null).await;
    assert_eq!(given(&cluster).await.len(), 2);
    let patch = json!({"metadata": {"finalizers": null}});
    cluster.done(&format!("PATCH {SERVICES}/web"), patch).await;
    assert!(given(&cluster).await.is_empty());
    assert_eq!(cluster.refused(&format!("GET {SERVICES}/web"), Value::Null).await.0, 404);
}

#[tokio::test]
async fn another_range_gives_out_addresses_when_the_first_is_full() {
    let range = Range::parse("10.96.0.0/30").unwrap();
    let settings = Settings { service_ranges: vec![range], ..Settings::default() };
    let cluster = Cluster::start_with(settings).await;
    create(&cluster, "last", json!({})).await;
    let full = cluster.refused(&format!("POST {SERVICES}"), service("a", json!({}))).await;
    assert_eq!(full.0, 500);
    let more = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "more"},
        "spec": {"cidrs": ["10.97.0.0/24"]},
    });
    cluster.done("POST /apis/networking.k8s.io/v1/servicecidrs", more).await;
    let made = create(&cluster, "a", json!({})).await;
    assert!(made["spec"]["clusterIP"].as_str().unwrap().starts_with("10.97.0."));
}
