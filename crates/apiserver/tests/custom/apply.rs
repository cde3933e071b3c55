//! Server-side apply of custom resources: their schema says how lists and maps are merged.

use serde_json::{Value, json};

use crate::cluster::{Answer, Cluster, WIDGETS, v1, widget};

/// A schema with a list of each type, an atomic map and a field that keeps what it is given.
fn versions() -> Value {
    let text = || json!({"type": "string"});
    let port = json!({"type": "object", "required": ["port"], "properties": {
        "port": {"type": "integer"},
        "protocol": {"type": "string", "default": "TCP"},
        "name": text(),
    }});
    json!([v1(json!({"type": "object", "properties": {
        "ports": {"type": "array", "items": port, "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"]},
        "tags": {"type": "array", "items": text(), "x-kubernetes-list-type": "set"},
        "args": {"type": "array", "items": text()},
        "limits": {"type": "object", "additionalProperties": text(),
            "x-kubernetes-map-type": "atomic"},
        "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}))])
}

async fn apply(cluster: &Cluster, manager: &str, spec: Value) -> Answer {
    let line = format!("PATCH {WIDGETS}/a?fieldManager={manager}");
    let headers = [("content-type", "application/apply-patch+yaml")];
    cluster.ask_with(&line, &headers, widget("a", spec).to_string()).await
}

async fn applied(cluster: &Cluster, manager: &str, spec: Value) -> Value {
    let answer = apply(cluster, manager, spec).await;
    assert!(answer.code < 300, "{answer:?}");
    answer.body["spec"].clone()
}

#[tokio::test]
async fn two_managers_share_lists_and_maps_as_the_schema_says() {
    let cluster = Cluster::with_widgets(versions()).await;
    let first = json!({
        "ports": [{"port": 1, "name": "one"}],
        "tags": ["x"],
        "extra": {"a": {"b": 1}},
    });
    applied(&cluster, "first", first).await;
    let second = json!({
        "ports": [{"port": 2, "protocol": "UDP"}],
        "tags": ["y"],
        "extra": {"a": {"c": 2}},
    });
    let both = applied(&cluster, "second", second).await;
    let expected = json!({
        "ports": [
            {"port": 1, "protocol": "TCP", "name": "one"},
            {"port": 2, "protocol": "UDP"},
        ],
        "tags": ["x", "y"],
        "extra": {"a": {"b": 1, "c": 2}},
    });
    assert_eq!(both, expected);
    // Who no longer wants an item takes it away, and nothing of the others.
    let fewer = applied(&cluster, "first", json!({"tags": ["x"]})).await;
    let expected = json!({
        "ports": [{"port": 2, "protocol": "UDP"}],
        "tags": ["x", "y"],
        "extra": {"a": {"c": 2}},
    });
    assert_eq!(fewer, expected);
}

#[tokio::test]
async fn what_is_owned_whole_is_a_conflict_whole() {
    let cluster = Cluster::with_widgets(versions()).await;
    applied(&cluster, "first", json!({"args": ["a"], "limits": {"cpu": "1"}})).await;
    for (spec, field) in
        [(json!({"args": ["b"]}), ".spec.args"), (json!({"limits": {"gpu": "1"}}), ".spec.limits")]
    {
        let answer = apply(&cluster, "second", spec).await;
        assert_eq!(answer.code, 409);
        let text = answer.message();
        assert!(text.contains("conflict with \"first\"") && text.contains(field), "{text}");
    }
    let line = format!("PATCH {WIDGETS}/a?fieldManager=second&force=true");
    let headers = [("content-type", "application/apply-patch+yaml")];
    let body = widget("a", json!({"args": ["b"]})).to_string();
    let forced = cluster.ask_with(&line, &headers, body).await;
    assert_eq!(forced.body["spec"], json!({"args": ["b"], "limits": {"cpu": "1"}}));
}

#[tokio::test]
async fn an_update_of_a_custom_resource_is_owned_too() {
    let cluster = Cluster::with_widgets(versions()).await;
    let request = format!("POST {WIDGETS}?fieldManager=maker");
    let object = widget("a", json!({"ports": [{"port": 1}], "tags": ["x"]}));
    let made = cluster.done(&request, object).await;
    let owned = &made["metadata"]["managedFields"][0];
    assert_eq!((&owned["manager"], &owned["operation"]), (&json!("maker"), &json!("Update")));
    let fields = &owned["fieldsV1"]["f:spec"];
    assert_eq!(fields["f:tags"], json!({".": {}, "v:\"x\"": {}}));
    let key = "k:{\"port\":1,\"protocol\":\"TCP\"}";
    assert_eq!(fields["f:ports"][key], json!({".": {}, "f:port": {}, "f:protocol": {}}));
}
