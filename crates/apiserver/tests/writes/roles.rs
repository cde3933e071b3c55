//! Nobody grants what they do not hold, and a right that is lost is lost at once.

use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::api::{Api, eventually};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const GROUP: &str = "rbac.authorization.k8s.io";

fn role(name: &str, rules: Value) -> Value {
    json!({"metadata": {"name": name}, "rules": rules})
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
}

fn binding(name: &str, role: &str, user: &str) -> Value {
    json!({"metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}]})
}

async fn grant(api: &Api, user: &str, rules: Value) {
    api.admin(&format!("POST {RBAC}/clusterroles"), role(user, rules)).await;
    api.admin(&format!("POST {RBAC}/clusterrolebindings"), binding(user, user, user)).await;
}

#[tokio::test]
async fn nobody_grants_what_they_do_not_hold() {
    let (api, _scratch) = Api::start().await;
    let all = |resource: &str| rule(GROUP, resource, &["get", "create", "update", "patch"]);
    let rules =
        json!([all("roles"), all("clusterroles"), all("rolebindings"), rule("", "pods", &["get"])]);
    grant(&api, "ann", rules.clone()).await;
    let mut more = rules.as_array().unwrap().clone();
    more.push(rule(GROUP, "roles", &["escalate"]));
    more.push(rule(GROUP, "clusterroles", &["bind"]));
    grant(&api, "eve", json!(more)).await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    eventually("both may write roles", || async {
        let line = format!("GET {roles}/x");
        api.ask("ann", &line, &Value::Null).await.0 == 404
            && api.ask("eve", &line, &Value::Null).await.0 == 404
    })
    .await;

    let pods = role("r", json!([rule("", "pods", &["get"])]));
    let secrets = role("r", json!([rule("", "secrets", &["get"])]));
    let why = "user \"ann\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC \
               permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], \
               Verbs:[\"get\"]}";
    let refusal = format!("roles.rbac.authorization.k8s.io \"r\" is forbidden: {why}");
    let aggregating = json!({"metadata": {"name": "g"}, "rules": [], "aggregationRule": {
        "clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}});
    let steps: Vec<(&str, String, &Value, u16, &str)> = vec![
        ("ann", format!("POST {roles}"), &secrets, 403, &refusal),
        ("ann", format!("POST {roles}?dryRun=All"), &secrets, 403, &refusal),
        // A PUT of what is not there creates it.
        ("ann", format!("PUT {roles}/r"), &secrets, 403, &refusal),
        ("ann", format!("POST {roles}"), &pods, 201, ""),
        ("ann", format!("PUT {roles}/r"), &secrets, 403, &refusal),
        ("ann", format!("PATCH {roles}/r"), &secrets, 403, &refusal),
        ("eve", format!("PUT {roles}/r"), &secrets, 200, ""),
        (
            "ann",
            format!("POST {RBAC}/clusterroles"),
            &aggregating,
            403,
            "clusterroles.rbac.authorization.k8s.io \"g\" is forbidden: must have cluster-admin \
             privileges to use the aggregationRule",
        ),
    ];
    for (user, line, body, expected, message) in steps {
        let (code, answer) = api.ask(user, &line, body).await;
        assert_eq!(code, expected, "{user} {line}: {answer}");
        if !message.is_empty() {
            assert_eq!(answer["message"], message);
        }
    }
    // What is granted already may be written by whoever may write.
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(api.ask("ann", &format!("PATCH {roles}/r"), &label).await.0, 200);

    let admin = binding("b", "cluster-admin", "ann");
    let (code, answer) = api.ask("ann", &format!("POST {bindings}"), &admin).await;
    let message = answer["message"].as_str().unwrap();
    assert!(code == 403 && message.contains("not currently held"), "{message}");
    assert_eq!(api.ask("eve", &format!("POST {bindings}"), &admin).await.0, 201);
    let (code, answer) =
        api.ask("eve", &format!("PATCH {bindings}/b"), &json!({"roleRef": {"name": "view"}})).await;
    assert_eq!(code, 422);
    assert!(answer["message"].as_str().unwrap().ends_with("cannot change roleRef"), "{answer}");
}

#[tokio::test]
async fn a_watch_ends_when_the_right_to_it_is_taken_away() {
    let (api, _scratch) = Api::start().await;
    grant(&api, "ann", json!([rule("", "pods", &["list", "watch"])])).await;
    let path = "/api/v1/namespaces/default/pods?watch=true&resourceVersion=0";
    eventually("ann may watch", || async {
        let line = "GET /api/v1/namespaces/default/pods";
        api.ask("ann", line, &Value::Null).await.0 == 200
    })
    .await;
    let mut watch = api.stream("ann", path).await;
    let soon = tokio::time::timeout(Duration::from_millis(50), watch.frame()).await;
    assert!(soon.is_err(), "it goes on while nothing changes");
    // Other changes of roles do not end it.
    grant(&api, "bob", json!([rule("", "pods", &["get"])])).await;
    let soon = tokio::time::timeout(Duration::from_millis(50), watch.frame()).await;
    assert!(soon.is_err(), "it goes on while others get rights");
    api.admin(&format!("DELETE {RBAC}/clusterrolebindings/ann"), Value::Null).await;
    let end = tokio::time::timeout(Duration::from_secs(10), watch.frame()).await;
    assert!(end.unwrap().is_none(), "it ends");
}

#[tokio::test]
async fn what_was_taken_from_a_built_in_role_is_back_after_a_start() {
    use std::sync::Arc;
    use store::{Retention, System, backends};
    let scratch = crate::api::Scratch::new();
    let store = backends::memory::open(Retention::default(), Arc::new(System));
    let line = format!("{RBAC}/clusterroles/system:basic-user");
    let api = Api::over(store.clone(), &scratch.0).await.unwrap();
    let before = api.admin(&format!("GET {line}"), Value::Null).await;
    api.admin(&format!("PATCH {line}"), json!({"rules": []})).await;
    drop(api);
    let api = Api::over(store.clone(), &scratch.0).await.unwrap();
    let after = api.admin(&format!("GET {line}"), Value::Null).await;
    assert_eq!(after["rules"], before["rules"]);
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    let kept = json!({"rules": [],
        "metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}});
    let kept = api.admin(&format!("PATCH {line}"), kept).await;
    drop(api);
    let api = Api::over(store, &scratch.0).await.unwrap();
    assert_eq!(api.admin(&format!("GET {line}"), Value::Null).await, kept);
}
