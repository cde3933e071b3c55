//! Who may know of the past, and what nobody is told.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use store::Retention;

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
            {"apiGroups": [""], "resources": ["pods", "events"],
                "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["history.setpoint.dev"], "resources": ["*"], "verbs": ["get"]},
        ],
    });
    api.admin("POST /apis/rbac.authorization.k8s.io/v1/clusterroles", role).await;
}

/// The ways to an old revision besides the group of the past: all that is said on them.
async fn ordinary(api: &Api, user: &str, list: &str, at: u64) -> Vec<(String, u16, String)> {
    let token = json!({"v": "meta.k8s.io/v1", "rv": at, "start": "default/a\0"}).to_string();
    let token = URL_SAFE_NO_PAD.encode(token);
    let mut answers = Vec::new();
    for query in [
        format!("resourceVersion={at}&resourceVersionMatch=Exact"),
        format!("resourceVersion={at}&limit=500"),
        format!("continue={token}"),
    ] {
        let line = format!("GET {list}?{query}");
        let (code, answer) = api.ask(user, &line, &Value::Null).await;
        answers.push((line, code, answer.to_string()));
    }
    let path = format!("{list}?watch=1&resourceVersion={at}&timeoutSeconds=1");
    let text = api.stream(user, &path).await.collect().await.unwrap().to_bytes();
    let text = String::from_utf8(text.to_vec()).unwrap();
    let code = if text.contains(r#""code":410"#) { 410 } else { 200 };
    answers.push((path, code, text));
    answers
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
    let list = format!("{path}/pods");
    for (line, code, answer) in ordinary(&api, "ruth", &list, at).await {
        assert_eq!(code, 410, "{line} {answer}");
    }
    for (line, code, answer) in ordinary(&api, ADMIN, &list, at).await {
        assert_eq!(code, 200, "{line} {answer}");
    }
    // Since it is there nothing is in her way.
    let newest = api.server.store.revision().0;
    for (line, code, answer) in ordinary(&api, "ruth", &list, newest).await {
        assert_eq!(code, 200, "{line} {answer}");
    }
}

#[tokio::test]
async fn ordinary_reads_reach_back_some_minutes_and_informers_go_on() {
    let (api, clock, _scratch) = Api::with_clock(Retention::default()).await;
    let first = revision(&api.admin(&format!("POST {PODS}"), pod("a", json!({}))).await);
    let ask = async |at: u64| -> Vec<u16> {
        let answers = ordinary(&api, ADMIN, PODS, at).await;
        answers.into_iter().map(|(_, code, _)| code).collect()
    };
    // Nothing followed it: however long ago it was, it is the present.
    clock.forward(Duration::from_secs(3_600));
    assert_eq!(ask(first).await, [200; 4]);
    let second = revision(&api.admin(&format!("POST {PODS}"), pod("b", json!({}))).await);
    assert_eq!(ask(first).await, [200; 4]);
    clock.forward(Duration::from_secs(300));
    assert_eq!(ask(first).await, [200; 4]);
    clock.forward(Duration::from_secs(360));
    assert_eq!(ask(second).await, [200; 4]);
    assert_eq!(ask(first).await, [410; 4]);
    let then = format!("GET {ROOT}/at/{first}{PODS}/a");
    assert_eq!(api.ask(ADMIN, &then, &Value::Null).await.0, 200);
    // Who pages too slowly is told how to go on.
    let line = format!("GET {PODS}?limit=1");
    let page = api.admin(&line, Value::Null).await;
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    api.admin(&format!("POST {PODS}"), pod("c", json!({}))).await;
    clock.forward(Duration::from_secs(700));
    let line = format!("GET {PODS}?limit=1&continue={token}");
    let (code, answer) = api.ask(ADMIN, &line, &Value::Null).await;
    assert_eq!(code, 410, "{answer}");
    let token = answer["metadata"]["continue"].as_str().unwrap();
    let rest = api.admin(&format!("GET {PODS}?continue={token}"), Value::Null).await;
    assert_eq!(rest["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn no_secret_is_in_any_answer() {
    let (api, clock, _scratch) = Api::with_clock(Retention::default()).await;
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
    clock.forward(Duration::from_secs(15 * 60));
    for (line, code, answer) in ordinary(&api, ADMIN, path, at).await {
        assert_eq!(code, 410, "{line} {answer}");
        answers.push((line, answer));
    }
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
async fn a_trace_shows_only_what_may_be_seen_by_name_and_events_need_a_right_of_their_own() {
    let (api, _scratch) = Api::start().await;
    let set = api.admin(&format!("POST {SETS}"), deployment("web", 2, "i")).await;
    for name in ["web-1", "web-2"] {
        let mut child = pod(name, json!({}));
        child["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1",
            "kind": "Deployment", "name": "web", "uid": set["metadata"]["uid"],
            "controller": true}]);
        api.admin(&format!("POST {PODS}"), child).await;
    }
    let role = json!({
        "metadata": {"name": "one-pod"},
        "rules": [
            {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["pods"], "resourceNames": ["web-2"],
                "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["events"], "verbs": ["list"]},
            {"apiGroups": ["history.setpoint.dev"], "resources": ["why"], "verbs": ["get"]},
        ],
    });
    api.admin("POST /apis/rbac.authorization.k8s.io/v1/clusterroles", role).await;
    allow(&api, "default", "ruth", "one-pod").await;
    let line = format!("GET {ROOT}/why{SETS}/web");
    let (code, trace) = api.ask("ruth", &line, &Value::Null).await;
    let text = trace.to_string();
    assert_eq!(code, 200, "{text}");
    assert!(text.contains("web-2") && !text.contains("web-1"), "{text}");
    let line = format!("GET {ROOT}/events{SETS}/web");
    assert_eq!(api.ask("ruth", &line, &Value::Null).await.0, 403);
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
