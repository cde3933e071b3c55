//! Who may know of the past, and what nobody is told.

use serde_json::{Value, json};

use crate::api::{ADMIN, Api, pod};
use crate::{PODS, ROOT, SETS, deployment, revision};

/// Twelve bytes that must not be seen, and others in their place, plain and in base64.
const SECRETS: [&str; 4] = ["hunter2-x9Qz", "aHVudGVyMi14OVF6", "other3-y8Pw", "b3RoZXIzLXk4UHc="];

async fn allow(api: &Api, namespace: &str, user: &str, role: &str) {
    let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings");
    let binding = json!({
        "metadata": {"name": format!("{user}-{role}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    });
    api.admin(&format!("POST {path}"), binding).await;
}

/// The roles that others are made of are not followed in this test: one that says it itself.
async fn viewer(api: &Api) {
    let role = json!({
        "metadata": {"name": "viewer"},
        "rules": [
            {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["get", "list"]},
            {"apiGroups": ["history.setpoint.dev"], "resources": ["*"], "verbs": ["get"]},
        ],
    });
    api.admin("POST /apis/rbac.authorization.k8s.io/v1/clusterroles", role).await;
}

#[tokio::test]
async fn a_tenant_sees_only_its_own_past() {
    let (api, _scratch) = Api::start().await;
    viewer(&api).await;
    for namespace in ["red", "blue"] {
        api.admin("POST /api/v1/namespaces", json!({"metadata": {"name": namespace}})).await;
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        api.admin(&format!("POST {path}"), pod("p", json!({}))).await;
    }
    allow(&api, "red", "ruth", "viewer").await;
    let newest = api.server.store.revision().0;
    let ask =
        async |path: &str| api.ask("ruth", &format!("GET {ROOT}/{path}"), &Value::Null).await.0;
    for what in ["revisions", "why", "events", "at/-0s"] {
        assert_eq!(ask(&format!("{what}/api/v1/namespaces/red/pods/p")).await, 200, "{what}");
        assert_eq!(ask(&format!("{what}/api/v1/namespaces/blue/pods/p")).await, 403, "{what}");
    }
    assert_eq!(ask(&format!("at/{newest}/api/v1/pods")).await, 403);
    assert_eq!(ask(&format!("at/{newest}/api/v1/namespaces/red/secrets")).await, 403);
    assert_eq!(ask("changes").await, 403);
    // Before the namespace was there, another of its name may have been somebody else's.
    assert_eq!(ask("at/1/api/v1/namespaces/red/pods").await, 403);
    let undo = format!("POST {ROOT}/undo/api/v1/namespaces/red/pods/p");
    assert_eq!(api.ask("ruth", &undo, &Value::Null).await.0, 403);
    let plan = format!("POST {ROOT}/plan?namespace=red");
    let mut wanted = pod("q", json!({}));
    wanted["apiVersion"] = json!("v1");
    wanted["kind"] = json!("Pod");
    assert_eq!(api.ask("ruth", &plan, &wanted).await.0, 403);
}

#[tokio::test]
async fn a_namespace_that_is_made_again_hides_what_was_in_the_other() {
    let (api, _scratch) = Api::start().await;
    viewer(&api).await;
    let path = "/api/v1/namespaces/red";
    api.admin("POST /api/v1/namespaces", json!({"metadata": {"name": "red"}})).await;
    let old = api.admin(&format!("POST {path}/pods"), pod("p", json!({}))).await;
    api.admin(&format!("DELETE {path}/pods/p"), json!({"gracePeriodSeconds": 0})).await;
    api.admin(&format!("DELETE {path}"), Value::Null).await;
    let mut namespace = api.admin(&format!("GET {path}"), Value::Null).await;
    namespace["spec"]["finalizers"] = json!([]);
    api.admin(&format!("PUT {path}/finalize"), namespace).await;
    api.admin("POST /api/v1/namespaces", json!({"metadata": {"name": "red"}})).await;
    allow(&api, "red", "ruth", "viewer").await;
    let at = revision(&old);
    let read = format!("GET {ROOT}/at/{at}{path}/pods/p");
    assert_eq!(api.ask("ruth", &read, &Value::Null).await.0, 403);
    assert_eq!(api.ask(ADMIN, &read, &Value::Null).await.0, 200);
    let told = format!("GET {ROOT}/revisions{path}/pods/p");
    assert_eq!(api.ask("ruth", &told, &Value::Null).await.0, 404);
    assert_eq!(api.ask(ADMIN, &told, &Value::Null).await.0, 200);
}

#[tokio::test]
async fn no_secret_is_in_any_answer() {
    let (api, _scratch) = Api::start().await;
    let path = "/api/v1/namespaces/default/secrets";
    let applied = json!({"kubectl.kubernetes.io/last-applied-configuration":
        format!("{{\"data\":{{\"password\":{:?}}}}}", SECRETS[1])});
    let secret = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "s", "annotations": applied}, "data": {"password": SECRETS[1]}});
    let made = api.admin(&format!("POST {path}"), secret.clone()).await;
    let change = json!({"data": {"password": SECRETS[3], "user": SECRETS[1]},
        "metadata": {"annotations":
            {"kubectl.kubernetes.io/last-applied-configuration": SECRETS[3]}}});
    api.admin(&format!("PATCH {path}/s"), change).await;
    let at = revision(&made);
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let mut answers = Vec::new();
    for line in [
        format!("GET {ROOT}/at/{at}{path}/s"),
        format!("GET {ROOT}/at/{at}{path}"),
        format!("GET {ROOT}/at/{at}{path}?includeObject=Object"),
        format!("GET {ROOT}/revisions{path}/s"),
        format!("GET {ROOT}/why{path}/s"),
        format!("GET {ROOT}/events{path}/s"),
        format!("GET {ROOT}/changes?after=0"),
        format!("POST {ROOT}/undo{path}/s?dryRun=All"),
        format!("POST {ROOT}/undo{path}/s"),
    ] {
        for headers in [&table[..0], &table[..]] {
            let (code, answer) = api.ask_saying(&line, headers, &Value::Null).await;
            assert!(code < 300, "{line} {answer}");
            answers.push((line.clone(), answer.to_string()));
        }
    }
    let (code, plan) = api.ask(ADMIN, &format!("POST {ROOT}/plan"), &secret).await;
    assert_eq!(code, 200);
    answers.push(("plan".to_owned(), plan.to_string()));
    for (line, answer) in &answers {
        for secret in SECRETS {
            assert!(!answer.contains(secret), "{line} {answer}");
        }
    }
    let told = api.admin(&format!("GET {ROOT}/revisions{path}/s"), Value::Null).await.to_string();
    assert!(told.contains("data.password") && told.contains("(hidden)"), "{told}");
    // What was undone twice is as it was changed: the real values were written.
    let now = api.admin(&format!("GET {path}/s"), Value::Null).await;
    assert!([SECRETS[1], SECRETS[3]].contains(&now["data"]["password"].as_str().unwrap()));
}

#[tokio::test]
async fn an_export_of_changes_names_all_objects() {
    let (api, _scratch) = Api::start().await;
    api.admin(&format!("POST {SETS}"), deployment("web", 1, "a")).await;
    api.admin(&format!("POST {PODS}"), pod("p", json!({}))).await;
    let mut after = "0".to_owned();
    let mut names = Vec::new();
    loop {
        let page = api.admin(&format!("GET {ROOT}/changes?after={after}"), Value::Null).await;
        for item in page["items"].as_array().unwrap() {
            for change in item["changes"].as_array().unwrap() {
                names.push(format!("{} {}", change["kind"], change["name"]));
            }
        }
        match page["metadata"]["continue"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    for wanted in ["\"Deployment\" \"web\"", "\"Pod\" \"p\"", "\"Namespace\" \"default\""] {
        assert!(names.iter().any(|name| name == wanted), "{wanted}");
    }
}
