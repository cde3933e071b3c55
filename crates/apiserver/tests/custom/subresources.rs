//! `status` and `scale` of custom objects.

use serde_json::{Value, json};

use crate::cluster::{Cluster, WIDGETS, v1, widget};

async fn cluster() -> Cluster {
    let mut version = v1(json!({
        "type": "object", "properties": {"replicas": {"type": "integer", "minimum": 0}},
    }));
    version["schema"]["openAPIV3Schema"]["properties"]["status"] = json!({
        "type": "object",
        "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}},
    });
    version["subresources"] = json!({"status": {}, "scale": {
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }});
    Cluster::with_widgets(json!([version])).await
}

#[tokio::test]
async fn status_is_written_alone_and_by_nothing_else() {
    let cluster = cluster().await;
    let mut body = widget("a", json!({"replicas": 1}));
    body["status"] = json!({"replicas": 9});
    let made = cluster.done(&format!("POST {WIDGETS}"), body).await;
    assert!(made.get("status").is_none());
    let change = json!({"status": {"replicas": 5}});
    let same = cluster.done(&format!("PATCH {WIDGETS}/a"), change.clone()).await;
    assert!(same.get("status").is_none());
    assert_eq!(same["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    let mut mixed = change;
    mixed["spec"] = json!({"replicas": 7});
    mixed["metadata"] = json!({"labels": {"a": "b"}});
    let told = cluster.done(&format!("PATCH {WIDGETS}/a/status"), mixed).await;
    assert_eq!(told["status"], json!({"replicas": 5}));
    assert_eq!(told["spec"], json!({"replicas": 1}));
    assert_eq!(told["metadata"]["generation"], 1);
    assert!(told["metadata"].get("labels").is_none());
    let wrong = json!({"status": {"replicas": "x"}});
    assert_eq!(cluster.refused(&format!("PATCH {WIDGETS}/a/status"), wrong).await.0, 422);
    let changed = json!({"spec": {"replicas": 2}});
    let changed = cluster.done(&format!("PATCH {WIDGETS}/a"), changed).await;
    assert_eq!(changed["metadata"]["generation"], 2);
    assert_eq!(changed["status"], json!({"replicas": 5}));
}

#[tokio::test]
async fn scale_is_where_the_definition_says() {
    let cluster = cluster().await;
    cluster.done(&format!("POST {WIDGETS}"), widget("a", json!({}))).await;
    let path = format!("{WIDGETS}/a/scale");
    let (code, text) = cluster.refused(&format!("GET {path}"), Value::Null).await;
    assert_eq!(code, 500);
    assert!(text.ends_with("the spec replicas field \".spec.replicas\" does not exist"), "{text}");
    let scaled = cluster.done(&format!("PATCH {path}"), json!({"spec": {"replicas": 3}})).await;
    assert_eq!(scaled["kind"], "Scale");
    assert_eq!(scaled["spec"], json!({"replicas": 3}));
    assert_eq!(cluster.get(&format!("{WIDGETS}/a")).await["spec"], json!({"replicas": 3}));
    let status = json!({"status": {"replicas": 2, "selector": "a=b"}});
    cluster.done(&format!("PATCH {WIDGETS}/a/status"), status).await;
    let scale = cluster.get(&path).await;
    assert_eq!(scale["status"], json!({"replicas": 2, "selector": "a=b"}));
}

#[tokio::test]
async fn without_a_subresource_the_status_is_a_field_like_any_other() {
    let version = v1(json!({"type": "object"}));
    let cluster = Cluster::with_widgets(json!([version])).await;
    let mut body = widget("a", json!({}));
    body["status"] = json!({"phase": "x"});
    let made = cluster.done(&format!("POST {WIDGETS}"), body).await;
    assert_eq!(made["status"]["phase"], "x");
    let change = json!({"status": {"phase": "y"}});
    let changed = cluster.done(&format!("PATCH {WIDGETS}/a"), change).await;
    assert_eq!(changed["metadata"]["generation"], 2);
    let missing = cluster.ask(&format!("GET {WIDGETS}/a/status"), Value::Null).await;
    assert_eq!(missing.code, 404);
}
