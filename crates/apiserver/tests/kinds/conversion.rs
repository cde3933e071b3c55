//! One object in two versions: every verb shows it as it was asked for.

use serde_json::{Value, json};

use super::cluster::Cluster;

const CORE: &str = "/api/v1/namespaces/default/events";
const NEW: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
const V1: &str = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
const V2: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";

fn core_event(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "message": "hello", "reason": "Because", "type": "Normal", "count": 2,
    })
}

#[tokio::test]
async fn an_event_is_the_same_in_both_groups() {
    let cluster = Cluster::start().await;
    let made = cluster.done(&format!("POST {CORE}"), core_event("a")).await;
    assert_eq!(made["apiVersion"], "v1");
    let new = cluster.get(&format!("{NEW}/a")).await;
    assert_eq!(new["apiVersion"], "events.k8s.io/v1");
    assert_eq!(new["note"], "hello");
    assert_eq!(new["regarding"]["name"], "p");
    assert_eq!(new["deprecatedCount"], 2);
    assert_eq!(new["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(new["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    let made = cluster
        .done(
            &format!("POST {NEW}"),
            json!({
                "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "b"},
                "regarding": {"kind": "Pod", "name": "q", "namespace": "default"},
                "note": "there", "reason": "Because", "type": "Normal", "action": "Do",
                "reportingController": "example.com/c", "reportingInstance": "i",
                "eventTime": "2026-01-01T00:00:00.000000Z",
            }),
        )
        .await;
    assert_eq!(made["note"], "there");
    let core = cluster.get(&format!("{CORE}/b")).await;
    assert_eq!(core["message"], "there");
    assert_eq!(core["involvedObject"]["name"], "q");
    let list = cluster.get(NEW).await;
    assert_eq!(list["kind"], "EventList");
    assert_eq!(list["apiVersion"], "events.k8s.io/v1");
    assert_eq!(list["items"][0]["note"], "hello");
    assert_eq!(list["items"][1]["note"], "there");
    let by_field = format!("{NEW}?fieldSelector=regarding.name%3Dp");
    assert_eq!(cluster.names(&by_field).await, ["a"]);
    let (code, _) = cluster
        .refused(
            &format!("POST {NEW}"),
            json!({
                "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "c"},
            }),
        )
        .await;
    assert_eq!(code, 422, "the new group knows what it wants");
}

#[tokio::test]
async fn an_event_is_patched_watched_and_deleted_in_either_group() {
    let cluster = Cluster::start().await;
    let made = cluster.done(&format!("POST {CORE}"), core_event("a")).await;
    let patch = json!({"deprecatedCount": 3, "series": null});
    let new = cluster.done(&format!("PATCH {NEW}/a"), patch).await;
    assert_eq!(new["deprecatedCount"], 3);
    assert_eq!(cluster.get(&format!("{CORE}/a")).await["count"], 3);
    let since = made["metadata"]["resourceVersion"].as_str().unwrap();
    let deleted = cluster.done(&format!("DELETE {NEW}/a"), Value::Null).await;
    assert_eq!(deleted["status"], "Success");
    let watch = format!("{NEW}?watch=1&resourceVersion={since}&timeoutSeconds=1");
    let lines = lines(&cluster, &watch).await;
    let types: Vec<_> = lines.iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["MODIFIED", "DELETED"]);
    for line in &lines {
        assert_eq!(line["object"]["apiVersion"], "events.k8s.io/v1");
        assert_eq!(line["object"]["note"], "hello");
    }
    let initial = format!("{CORE}?watch=1&resourceVersion={since}&timeoutSeconds=1");
    let lines = self::lines(&cluster, &initial).await;
    assert_eq!(lines[0]["object"]["message"], "hello", "the stored version is sent as it is");
}

/// The lines of a watch that ends.
async fn lines(cluster: &Cluster, path: &str) -> Vec<Value> {
    use http_body_util::{BodyExt, Full};
    let request = http::Request::get(path).body(Full::new(bytes::Bytes::new())).unwrap();
    let user = apiserver::identity::User::authenticated("admin", ["system:masters"]);
    let response = cluster.server.handle(request, Some(std::sync::Arc::new(user))).await;
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn an_autoscaler_is_the_same_in_both_versions() {
    let cluster = Cluster::start().await;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let first = json!({
        "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target},
    });
    let made = cluster.done(&format!("POST {V1}"), first).await;
    assert_eq!(made["apiVersion"], "autoscaling/v1");
    assert_eq!(made["spec"]["targetCPUUtilizationPercentage"], 80);
    assert_eq!(made["spec"]["minReplicas"], 1);
    assert_eq!(made["status"], json!({"currentReplicas": 0, "desiredReplicas": 0}));
    let second = cluster.get(&format!("{V2}/web")).await;
    assert_eq!(second["apiVersion"], "autoscaling/v2");
    let metric = &second["spec"]["metrics"][0];
    assert_eq!(metric["resource"]["target"]["averageUtilization"], 80);
    let patch = json!({"spec": {"targetCPUUtilizationPercentage": 50, "maxReplicas": 5}});
    cluster.done(&format!("PATCH {V1}/web"), patch).await;
    let second = cluster.get(&format!("{V2}/web")).await;
    let metric = &second["spec"]["metrics"][0];
    assert_eq!(metric["resource"]["target"]["averageUtilization"], 50);
    assert_eq!(second["spec"]["maxReplicas"], 5);
    let memory = json!({"type": "Resource", "resource": {
        "name": "memory", "target": {"type": "Utilization", "averageUtilization": 70},
    }});
    let patch = json!({"spec": {"metrics": [metric, memory]}});
    cluster.done(&format!("PATCH {V2}/web"), patch).await;
    let first = cluster.get(&format!("{V1}/web")).await;
    assert_eq!(first["spec"]["targetCPUUtilizationPercentage"], 50);
    let notes = first["metadata"]["annotations"].to_string();
    assert!(notes.contains("memory"), "{notes}");
    assert_eq!(cluster.get(V1).await["items"][0]["apiVersion"], "autoscaling/v1");
    assert_eq!(cluster.get(V2).await["items"][0]["apiVersion"], "autoscaling/v2");
    let bad = json!({"spec": {"maxReplicas": 0}});
    let (code, message) = cluster.refused(&format!("PATCH {V1}/web"), bad).await;
    assert_eq!(code, 422);
    assert!(message.contains("spec.maxReplicas"), "{message}");
}
