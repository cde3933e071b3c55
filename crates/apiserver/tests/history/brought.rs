//! What comes with an import, and moments before there was anything.

use serde_json::{Value, json};

use crate::api::{ADMIN, Api, pod};
use crate::{PODS, ROOT, SETS, deployment};

fn window() -> Value {
    json!({"items": [
        {"revision": 70, "time": "2026-01-02T00:00:00Z", "type": "Changed", "user": "ada",
            "manager": "kubectl", "changes": [{"path": "spec.replicas", "from": 1, "to": 2}]},
        {"revision": 60, "time": "2026-01-01T00:00:00Z", "type": "Created", "user": "ada"},
    ]})
}

#[tokio::test]
async fn what_happened_elsewhere_is_told_behind_what_happened_here() {
    let (api, _scratch) = Api::start().await;
    api.admin(&format!("POST {SETS}"), deployment("web", 2, "a")).await;
    let bring = format!("POST {ROOT}/imported{SETS}/web");
    let kept = api.admin(&bring, window()).await;
    assert_eq!(kept["items"], 2);
    // Telling it again changes nothing.
    api.admin(&bring, window()).await;
    api.admin(&format!("PATCH {SETS}/web"), json!({"spec": {"replicas": 3}})).await;
    let told = api.admin(&format!("GET {ROOT}/revisions{SETS}/web"), Value::Null).await;
    let items = told["items"].as_array().unwrap();
    let brief: Vec<_> = items
        .iter()
        .map(|item| (item["type"].as_str().unwrap(), item["source"]["revision"].as_u64()))
        .collect();
    let expected =
        [("Changed", None), ("Created", None), ("Changed", Some(70)), ("Created", Some(60))];
    assert_eq!(brief, expected);
    assert!(items[2]["revision"].is_null(), "its number means nothing here");
    assert_eq!(items[2]["changes"][0]["to"], 2);
    // Page by page it comes last.
    let first = api.admin(&format!("GET {ROOT}/revisions{SETS}/web?limit=1"), Value::Null).await;
    assert_eq!(first["items"].as_array().unwrap().len(), 1);
    let go_on = first["metadata"]["continue"].as_str().unwrap();
    let line = format!("GET {ROOT}/revisions{SETS}/web?limit=1&continue={go_on}");
    let second = api.admin(&line, Value::Null).await;
    assert_eq!(second["items"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn what_was_brought_goes_with_its_object() {
    let (api, _scratch) = Api::start().await;
    api.admin(&format!("POST {SETS}"), deployment("web", 2, "a")).await;
    api.admin(&format!("POST {ROOT}/imported{SETS}/web"), window()).await;
    api.admin(&format!("DELETE {SETS}/web"), json!({"propagationPolicy": "Background"})).await;
    api.admin(&format!("POST {SETS}"), deployment("web", 1, "b")).await;
    let told = api.admin(&format!("GET {ROOT}/revisions{SETS}/web"), Value::Null).await;
    let is_elsewhere = |item: &Value| item["source"]["revision"].is_u64();
    assert!(!told["items"].as_array().unwrap().iter().any(is_elsewhere), "{told}");
}

#[tokio::test]
async fn what_is_brought_is_checked_and_for_few() {
    let (api, _scratch) = Api::start().await;
    let bring = format!("POST {ROOT}/imported{SETS}/web");
    assert_eq!(api.ask(ADMIN, &bring, &window()).await.0, 404, "there is no object");
    api.admin(&format!("POST {SETS}"), deployment("web", 2, "a")).await;
    let revision = api.server.store.revision();
    for wrong in [
        json!({}),
        json!({"items": 5}),
        json!({"items": [{"type": "Changed"}]}),
        json!({"items": [{"time": "2026-01-02T00:00:00Z", "type": "Invented"}]}),
    ] {
        assert_eq!(api.ask(ADMIN, &bring, &wrong).await.0, 400, "{wrong}");
    }
    assert_eq!(api.ask("ruth", &bring, &window()).await.0, 403);
    assert_eq!(api.server.store.revision(), revision, "nothing changed");
    let secrets = "/api/v1/namespaces/default/secrets";
    api.admin(&format!("POST {secrets}"), json!({"metadata": {"name": "s"}})).await;
    let leak = json!({"items": [{"time": "2026-01-02T00:00:00Z", "type": "Changed", "changes": [
        {"path": "data.password", "from": "aHVudGVyMg==", "to": "eDlReg=="}]}]});
    api.admin(&format!("POST {ROOT}/imported{secrets}/s"), leak).await;
    let told = api.admin(&format!("GET {ROOT}/revisions{secrets}/s"), Value::Null).await;
    let told = told.to_string();
    assert!(told.contains("(hidden)") && !told.contains("aHVudGVyMg"), "{told}");
}

#[tokio::test]
async fn before_the_cluster_began_there_was_nothing_and_that_is_said() {
    let (api, _scratch) = Api::start().await;
    api.admin(&format!("POST {PODS}"), pod("p", json!({}))).await;
    for moment in ["-2h", "2020-01-01T00:00:00Z"] {
        let list = api.admin(&format!("GET {ROOT}/at/{moment}{PODS}"), Value::Null).await;
        assert_eq!(list["items"], json!([]), "{moment}");
        assert_eq!(list["metadata"]["resourceVersion"], "0");
        let one = api.ask(ADMIN, &format!("GET {ROOT}/at/{moment}{PODS}/p"), &Value::Null).await;
        let message = one.1["message"].as_str().unwrap();
        assert_eq!(one.0, 404, "{message}");
        assert!(message.contains("this cluster began later, at 20"), "{message}");
    }
    // Once something was forgotten nobody can say what there was.
    let newest = api.server.store.revision();
    api.server.store.compact(newest).await.unwrap();
    let old = api.ask(ADMIN, &format!("GET {ROOT}/at/-2h{PODS}"), &Value::Null).await;
    assert_eq!(old.0, 410, "{}", old.1);
    assert!(old.1["message"].as_str().unwrap().contains("begins at revision"));
}
