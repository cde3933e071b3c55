//! Definitions with several versions.

use serde_json::{Value, json};

use crate::cluster::{Cluster, DEFINITIONS, WIDGETS, version, widget};

const BETA: &str = "/apis/example.com/v1beta1/namespaces/default/widgets";

fn both() -> Value {
    let schema = |extra: Value| {
        let mut properties = json!({"size": {"type": "integer"}});
        properties.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": properties},
        }})
    };
    let mut beta = version("v1beta1", schema(json!({})));
    beta["storage"] = json!(false);
    beta["deprecated"] = json!(true);
    let colour = json!({"colour": {"type": "string", "default": "red"}});
    json!([beta, version("v1", schema(colour))])
}

#[tokio::test]
async fn an_object_is_served_in_every_version_with_the_schema_of_that_version() {
    let cluster = Cluster::with_widgets(both()).await;
    let mut body = widget("a", json!({"size": 1}));
    body["apiVersion"] = json!("example.com/v1beta1");
    let made = cluster.ask(&format!("POST {BETA}"), body).await;
    assert_eq!(made.warnings, ["299 - \"example.com/v1beta1 Widget is deprecated\""]);
    assert_eq!(made.body["apiVersion"], "example.com/v1beta1");
    assert_eq!(made.body["spec"], json!({"size": 1}));
    for (path, version, spec) in [
        (BETA, "example.com/v1beta1", json!({"size": 1})),
        (WIDGETS, "example.com/v1", json!({"size": 1, "colour": "red"})),
    ] {
        let one = cluster.get(&format!("{path}/a")).await;
        assert_eq!((&one["apiVersion"], &one["spec"]), (&json!(version), &spec));
        let list = cluster.get(path).await;
        let item = &list["items"][0];
        assert_eq!((&item["apiVersion"], &item["spec"]), (&json!(version), &spec));
        let mut watch = cluster.watch(&format!("{path}?watch=true")).await;
        let event = watch.next().await.unwrap();
        assert_eq!(
            (&event["object"]["apiVersion"], &event["object"]["spec"]),
            (&json!(version), &spec)
        );
    }
    let group = cluster.get("/apis/example.com").await;
    assert_eq!(group["preferredVersion"]["version"], "v1");
}

#[tokio::test]
async fn a_version_that_was_stored_cannot_be_removed() {
    let cluster = Cluster::with_widgets(both()).await;
    let mut versions = both();
    versions[0]["storage"] = json!(true);
    versions[1]["storage"] = json!(false);
    let path = format!("PATCH {DEFINITIONS}/widgets.example.com");
    let changed = cluster.done(&path, json!({"spec": {"versions": versions}})).await;
    assert_eq!(changed["status"]["storedVersions"], json!(["v1", "v1beta1"]));
    let only = json!({"spec": {"versions": [versions[0]]}});
    let (code, text) = cluster.refused(&path, only).await;
    assert_eq!(code, 422);
    let expected = "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; \
                    v1 was previously a storage version, and must remain in spec.versions";
    assert!(text.contains(expected), "{text}");
}

#[tokio::test]
async fn a_version_that_is_not_served_is_not_there() {
    let mut versions = both();
    versions[0]["served"] = json!(false);
    let cluster = Cluster::with_widgets(versions).await;
    assert_eq!(cluster.refused(&format!("GET {BETA}"), Value::Null).await.0, 404);
    cluster.get(WIDGETS).await;
}

/// In one version the parts are one whole, in the other each has its own owner.
#[tokio::test]
async fn fields_that_were_written_through_another_version_are_told_by_its_schema() {
    let schema = |list: Value| {
        let name = json!({"type": "string"});
        let items = json!({"type": "object", "required": ["name"], "properties": {"name": name}});
        let mut parts = json!({"type": "array", "items": items});
        parts.as_object_mut().unwrap().extend(list.as_object().unwrap().clone());
        json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"parts": parts}},
        }})
    };
    let mut beta = version("v1beta1", schema(json!({})));
    beta["storage"] = json!(false);
    let keyed = json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]});
    let cluster = Cluster::with_widgets(json!([beta, version("v1", schema(keyed))])).await;
    let mut applied = widget("a", json!({"parts": [{"name": "x"}]}));
    applied["apiVersion"] = json!("example.com/v1beta1");
    let line = format!("PATCH {BETA}/a?fieldManager=early");
    let content = [("content-type", "application/apply-patch+yaml")];
    let made = cluster.ask_with(&line, &content, applied.to_string()).await;
    let owned = |object: &Value, manager: &str| {
        let entries = object["metadata"]["managedFields"].as_array().unwrap().iter();
        let mut mine = entries.filter(|entry| entry["manager"] == manager);
        mine.next().map(|entry| (entry["apiVersion"].clone(), entry["fieldsV1"].clone()))
    };
    let whole = (json!("example.com/v1beta1"), json!({"f:spec": {"f:parts": {}}}));
    assert_eq!(owned(&made.body, "early"), Some(whole));

    let more = json!({"spec": {"parts": [{"name": "x"}, {"name": "y"}]}});
    let line = format!("PATCH {WIDGETS}/a?fieldManager=late");
    let changed = cluster.done(&line, more).await;
    assert_eq!(owned(&changed, "early"), None, "the whole was changed by somebody else");
    let (version, fields) = owned(&changed, "late").unwrap();
    assert_eq!(version, "example.com/v1");
    assert!(fields["f:spec"]["f:parts"]["k:{\"name\":\"y\"}"].is_object(), "{fields}");
}
