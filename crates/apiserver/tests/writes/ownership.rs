//! Who owns which fields after writes of every kind but an apply.

use serde_json::{Value, json};

use crate::api::{ADMIN, Api, pod};
use crate::owners::{owned, owners};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn deployment() -> Value {
    let template = json!({"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}]}});
    json!({"metadata": {"name": "d"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}})
}

async fn patched(api: &Api, line: &str, kind: &str, body: Value) -> Value {
    let content_type = format!("application/{kind}-patch+json");
    let (code, answer) = api.ask_with(ADMIN, line, (&content_type, body.to_string())).await;
    assert_eq!(code, 200, "{line}: {answer}");
    answer
}

#[tokio::test]
async fn whoever_changes_a_field_owns_it() {
    let (api, _scratch) = Api::start().await;
    let body = json!({"metadata": {"name": "c"}, "data": {"x": "1", "y": "1"}});
    let made = api.admin(&format!("POST {MAPS}?fieldManager=a"), body.clone()).await;
    assert_eq!(owners(&made), "a Update: .data .data.x .data.y");

    // A client that leaves the managed fields out does not lose them.
    let mut body = body;
    body["data"]["y"] = json!("2");
    let put = api.admin(&format!("PUT {MAPS}/c?fieldManager=b"), body.clone()).await;
    assert_eq!(owners(&put), "a Update: .data .data.x\nb Update: .data.y");
    let again = api.admin(&format!("PUT {MAPS}/c?fieldManager=z"), body).await;
    assert_eq!(again, put);

    let line = |manager: &str| format!("PATCH {MAPS}/c?fieldManager={manager}");
    let merged = patched(&api, &line("c"), "merge", json!({"data": {"z": "1"}})).await;
    assert_eq!(owned(&owners(&merged), "c Update"), [".data.z"]);
    let remove = json!([{"op": "remove", "path": "/data/x"}]);
    let removed = patched(&api, &line("d"), "json", remove).await;
    assert_eq!(owners(&removed), "a Update: .data\nb Update: .data.y\nc Update: .data.z");
    let label = json!({"metadata": {"labels": {"k": "v"}}});
    let labelled = patched(&api, &line("e"), "strategic-merge", label.clone()).await;
    let of_e = [".metadata.labels", ".metadata.labels.k"];
    assert_eq!(owned(&owners(&labelled), "e Update"), of_e);
    assert_eq!(patched(&api, &line("f"), "strategic-merge", label).await, labelled);

    let stored = api.admin(&format!("GET {MAPS}/c"), Value::Null).await;
    assert_eq!(stored["metadata"], labelled["metadata"]);
    let list = api.admin(&format!("GET {MAPS}"), Value::Null).await;
    assert!(list["items"][0]["metadata"]["managedFields"].is_array());
}

#[tokio::test]
async fn parts_with_a_path_of_their_own_have_owners_of_their_own() {
    let (api, _scratch) = Api::start().await;
    let made = api.admin(&format!("POST {DEPLOYMENTS}?fieldManager=a"), deployment()).await;
    let text = owners(&made);
    let of_a = owned(&text, "a Update");
    let port = ".spec.template.spec.containers[name=\"c\"].ports\
                [containerPort=80,protocol=\"TCP\"].protocol";
    for path in [".spec.replicas", ".spec.selector", port] {
        assert!(of_a.contains(&path), "{text}");
    }
    // Structs that are always there are nobody's, nor is the status of a new object.
    for path in [".spec", ".spec.template", ".spec.template.spec.containers", ".status"] {
        assert!(!of_a.contains(&path), "{text}");
    }

    let path = format!("{DEPLOYMENTS}/d");
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "d"}, "spec": {"replicas": 5}});
    api.admin(&format!("PUT {path}/scale?fieldManager=s"), scale).await;
    let status =
        json!({"status": {"replicas": 5, "observedGeneration": 2}, "spec": {"paused": true}});
    let line = format!("PATCH {path}/status?fieldManager=k");
    let seen = patched(&api, &line, "merge", status).await;
    let text = owners(&seen);
    assert_eq!(owned(&text, "s Update /scale"), [".spec.replicas"]);
    assert_eq!(
        owned(&text, "k Update /status"),
        [".status.observedGeneration", ".status.replicas"]
    );
    assert!(!owned(&text, "a Update").contains(&".spec.replicas"), "{text}");
    assert_eq!(seen["spec"].get("paused"), None);

    // What the endpoint cannot change is not owned by trying.
    let both = json!({"status": {"replicas": 9}, "spec": {"paused": true}});
    let seen = patched(&api, &format!("PATCH {path}?fieldManager=m"), "merge", both).await;
    assert_eq!(owned(&owners(&seen), "m Update"), [".spec.paused"]);
}

#[tokio::test]
async fn the_server_binds_without_owning() {
    let (api, _scratch) = Api::start().await;
    let pods = "/api/v1/namespaces/default/pods";
    let made = api.admin(&format!("POST {pods}?fieldManager=a"), pod("p", json!({}))).await;
    let before = owners(&made);
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    api.admin(&format!("POST {pods}/p/binding?fieldManager=s"), binding).await;
    let bound = api.admin(&format!("GET {pods}/p"), Value::Null).await;
    assert_eq!(bound["spec"]["nodeName"], "n");
    assert_eq!(owners(&bound), before);
    // Admission added tolerations, which are nobody's either.
    assert!(bound["spec"]["tolerations"].is_array());
    assert!(!before.contains("tolerations"), "{before}");
}

#[tokio::test]
async fn ownership_is_given_up_by_one_empty_entry_and_old_managers_are_joined() {
    let (api, _scratch) = Api::start().await;
    let body = json!({"metadata": {"name": "c"}, "data": {"x": "1"}});
    api.admin(&format!("POST {MAPS}?fieldManager=a"), body).await;
    for number in 0..12 {
        let line = format!("PATCH {MAPS}/c?fieldManager=m{number}");
        patched(&api, &line, "merge", json!({"data": {format!("k{number}"): "1"}})).await;
    }
    let stored = api.admin(&format!("GET {MAPS}/c"), Value::Null).await;
    let text = owners(&stored);
    assert_eq!(text.lines().count(), 10, "{text}");
    assert!(!owned(&text, "ancient-changes Update").is_empty(), "{text}");
    let line = format!("PATCH {MAPS}/c?fieldManager=a");
    // A list without entries is what a client sends that does not know the field.
    let kept = patched(&api, &line, "merge", json!({"metadata": {"managedFields": []}})).await;
    assert_eq!(owners(&kept), text);
    let gone = json!([{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]);
    let bare = patched(&api, &line, "json", gone).await;
    assert_eq!(bare["metadata"].get("managedFields"), None);
    let still = patched(&api, &line, "merge", json!({"data": {"x": "2"}})).await;
    assert_eq!(still["metadata"].get("managedFields"), None);
}

#[tokio::test]
async fn owners_at_other_versions_are_kept() {
    let (api, _scratch) = Api::start().await;
    let body = json!({"metadata": {"name": "h"}, "spec": {"maxReplicas": 3,
        "targetCPUUtilizationPercentage": 50,
        "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}}});
    let path = |version: &str| {
        format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers")
    };
    api.admin(&format!("POST {}?fieldManager=one", path("v1")), body).await;
    let line = format!("PATCH {}/h?fieldManager=two", path("v2"));
    let seen = patched(&api, &line, "merge", json!({"spec": {"maxReplicas": 5}})).await;
    let text = owners(&seen);
    assert_eq!(owned(&text, "two Update"), [".spec.maxReplicas"]);
    let one = owned(&text, "one Update");
    assert!(one.contains(&".spec.targetCPUUtilizationPercentage"), "{text}");
    assert!(!one.contains(&".spec.maxReplicas"), "{text}");
}
