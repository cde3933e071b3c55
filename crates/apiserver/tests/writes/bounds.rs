//! A short body that stands for a long object is refused before it costs much.

use serde_json::{Value, json};

use crate::api::{ADMIN, Api};

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn what_could_never_be_stored_is_refused_early() {
    let (api, _scratch) = Api::start().await;
    let many = |element: &str, count: usize| vec![element; count].join(",");
    let pod = |list: String| {
        format!(r#"{{"metadata": {{"name": "p"}}, "spec": {{"containers": [{list}]}}}}"#)
    };
    let named = r#"{"name":"c"}"#;
    let cases = [
        ("empty elements", "application/json", pod(many("{}", 340_000))),
        ("null elements", "application/json", pod(many("null", 200_000))),
        ("few elements that grow a lot", "application/json", pod(many("{}", 30_000))),
        ("elements with one field", "application/json", pod(many(named, 200_000))),
        ("objects in what nobody knows", "application/json", {
            format!(r#"{{"metadata": {{"name": "p"}}, "junk": [{}]}}"#, many(r#"{"a":1}"#, 300_000))
        }),
        ("a list in YAML", "application/yaml", {
            let list = "  - {}\n".repeat(300_000);
            format!("metadata:\n  name: p\nspec:\n  containers:\n{list}")
        }),
    ];
    for (what, content_type, body) in cases {
        assert!(body.len() < 3 << 20, "{what}");
        let line = format!("POST {PODS}");
        let (code, answer) = api.ask_with(ADMIN, &line, (content_type, body)).await;
        assert_eq!(code, 413, "{what}: {}", answer["message"]);
    }
    let list: Vec<Value> = vec![json!({}); 300_000];
    let patch = json!({"spec": {"template": {"spec": {"containers": list}}}});
    let template = json!({"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let path = "/apis/apps/v1/namespaces/default/deployments";
    api.admin(&format!("POST {path}"), deployment).await;
    let (code, _) = api.refused(&format!("PATCH {path}/d"), patch).await;
    assert_eq!(code, 413);
}

#[tokio::test]
async fn what_is_large_and_can_be_stored_is_stored() {
    let (api, _scratch) = Api::start().await;
    let data: serde_json::Map<String, Value> =
        (0..60_000).map(|number| (format!("k{number}"), json!("v"))).collect();
    let made = api
        .admin(
            "POST /api/v1/namespaces/default/configmaps",
            json!({"metadata": {"name": "c"}, "data": data}),
        )
        .await;
    assert_eq!(made["data"].as_object().unwrap().len(), 60_000);
    let body = json!({"metadata": {"name": "d"}, "data": {"k": "x".repeat(1_040_000)}});
    api.admin("POST /api/v1/namespaces/default/configmaps", body).await;
}
