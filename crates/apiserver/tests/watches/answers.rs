//! Answers as clients want them: compressed, as YAML, as tables, or not at all.

use std::io::Read;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use super::client::{Version, config_map};
use super::cluster::Cluster;

const PLACE: &str = "/api/v1/namespaces/default/configmaps";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_list_is_compressed_for_those_who_ask() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client(Version::One).await;
    for number in 0..4 {
        let mut object = config_map(&format!("a{number}"), "x");
        object["data"]["long"] = "x".repeat(60_000).into();
        client.done("POST", PLACE, object).await;
    }
    let plain = client.ask("GET", PLACE, &[], &Value::Null).await;
    assert!(!plain.headers().contains_key("content-encoding"));
    let packed = client.ask("GET", PLACE, &[("accept-encoding", "gzip")], &Value::Null).await;
    assert_eq!(packed.headers()["content-encoding"], "gzip");
    assert!(packed.body().len() < plain.body().len() / 10);
    let mut unpacked = Vec::new();
    GzDecoder::new(&packed.body()[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain.body()[..]);
    let short = format!("{PLACE}/kube-root-ca.crt");
    let short = client.ask("GET", &short, &[("accept-encoding", "gzip")], &Value::Null).await;
    assert!(!short.headers().contains_key("content-encoding"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_comes_as_what_was_asked_for() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client(Version::Two).await;
    client.done("POST", PLACE, config_map("a", "x")).await;
    let path = format!("{PLACE}/a");
    let yaml = client.ask("GET", &path, &[("accept", "application/yaml")], &Value::Null).await;
    assert_eq!(yaml.headers()["content-type"], "application/yaml");
    assert!(yaml.body().starts_with(b"apiVersion: v1\n"), "{:?}", yaml.body());
    let missing = format!("{PLACE}/none");
    let yaml = client.ask("GET", &missing, &[("accept", "application/yaml")], &Value::Null).await;
    assert_eq!(yaml.status(), 404);
    assert!(yaml.body().starts_with(b"apiVersion: v1\n"), "{:?}", yaml.body());
    let pretty = format!("{path}?pretty=true");
    let pretty = client.ask("GET", &pretty, &[], &Value::Null).await;
    assert!(pretty.body().starts_with(b"{\n  \"apiVersion\": \"v1\","), "{:?}", pretty.body());
    let metadata = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let list = client.ask("GET", PLACE, &[("accept", metadata)], &Value::Null).await;
    let list: Value = serde_json::from_slice(list.body()).unwrap();
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][0]["data"], Value::Null);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_carries_as_much_of_an_object_as_was_asked_for() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client(Version::Two).await;
    client.done("POST", PLACE, config_map("a", "x")).await;
    for (include, kind, has_data) in [
        ("", json!("PartialObjectMetadata"), false),
        ("?includeObject=Metadata", json!("PartialObjectMetadata"), false),
        ("?includeObject=Object", json!("ConfigMap"), true),
        ("?includeObject=None", Value::Null, false),
    ] {
        let path = format!("{PLACE}/a{include}");
        let table = client.ask("GET", &path, &[("accept", TABLE)], &Value::Null).await;
        let table: Value = serde_json::from_slice(table.body()).unwrap();
        assert_eq!(table["kind"], "Table");
        let object = &table["rows"][0]["object"];
        assert_eq!(object["kind"], kind, "{include}");
        assert_eq!(object["data"].is_object(), has_data, "{include}");
    }
    let bad = format!("{PLACE}/a?includeObject=All");
    assert_eq!(client.ask("GET", &bad, &[("accept", TABLE)], &Value::Null).await.status(), 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_columns_of_a_watched_table_come_once() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client(Version::One).await;
    for name in ["a", "b"] {
        client.done("POST", PLACE, config_map(name, "x")).await;
    }
    let path = format!("{PLACE}?watch=1");
    let mut events = client.watch_as(&path, &[("accept", TABLE)]).await;
    let first = events.some().await;
    assert_eq!(first["object"]["columnDefinitions"][0]["name"], "Name");
    assert_eq!(first["object"]["rows"][0]["cells"][0], "a");
    let second = events.some().await;
    assert_eq!(second["object"]["columnDefinitions"], Value::Null);
    assert_eq!(second["object"]["rows"][0]["cells"][0], "b");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_no_table_is_not_acceptable_as_one() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client(Version::Two).await;
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let refused = client.ask("POST", path, &[("accept", TABLE)], &review).await;
    assert_eq!(refused.status(), 406);
    let status: Value = serde_json::from_slice(refused.body()).unwrap();
    let text = "only the following media types are accepted: application/json, application/yaml";
    assert_eq!((&status["reason"], &status["message"]), (&"NotAcceptable".into(), &text.into()));
    let watch = format!("{PLACE}?watch=1");
    let refused = client.ask("GET", &watch, &[("accept", "application/yaml")], &Value::Null).await;
    assert_eq!(refused.status(), 406);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_are_counted() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client(Version::Two).await;
    client.done("GET", PLACE, Value::Null).await;
    let _events = client.watch(&format!("{PLACE}?watch=1")).await;
    let metrics = client.ask("GET", "/metrics", &[], &Value::Null).await;
    let text = String::from_utf8(metrics.body().to_vec()).unwrap();
    let labels = "group=\"\",version=\"v1\",resource=\"configmaps\",subresource=\"\"";
    for line in [
        format!("apiserver_request_total{{{labels},verb=\"LIST\",code=\"200\"}} 1\n"),
        "apiserver_longrunning_requests{verb=\"WATCH\"} 1\n".to_owned(),
        "\nprocess_open_fds ".to_owned(),
        "\nsetpoint_store_revision ".to_owned(),
    ] {
        assert!(text.contains(&line), "{line}\n{text}");
    }
}
