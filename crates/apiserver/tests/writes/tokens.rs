//! Tokens end with what they are for.

use std::sync::Arc;

use apiserver::console::sessions::Holder;
use apiserver::identity::User;
use serde_json::{Value, json};

use crate::api::{Api, pod};

const NAMESPACE: &str = "/api/v1/namespaces/default";

#[tokio::test]
async fn a_token_ends_with_its_account_its_pod_and_its_secret() {
    let (api, _scratch) = Api::start().await;
    for kind in ["account", "pod", "secret"] {
        let account = json!({"metadata": {"name": "a"}});
        api.admin(&format!("POST {NAMESPACE}/serviceaccounts"), account).await;
        let (path, reference) = match kind {
            "pod" => {
                api.admin(
                    &format!("POST {NAMESPACE}/pods"),
                    pod("p", json!({"serviceAccountName": "a"})),
                )
                .await;
                ("pods/p", json!({"apiVersion": "v1", "kind": "Pod", "name": "p"}))
            }
            "secret" => {
                let secret = json!({"metadata": {"name": "s"}});
                api.admin(&format!("POST {NAMESPACE}/secrets"), secret).await;
                ("secrets/s", json!({"apiVersion": "v1", "kind": "Secret", "name": "s"}))
            }
            _ => ("serviceaccounts/a", Value::Null),
        };
        let request = json!({"spec": {"boundObjectRef": reference}});
        let line = format!("POST {NAMESPACE}/serviceaccounts/a/token");
        let granted = api.admin(&line, request).await;
        let token = granted["status"]["token"].as_str().unwrap();
        let (code, _) = api.ask_bearing(token, "GET /version").await;
        assert_eq!(code, 200, "{kind}");
        api.admin(&format!("DELETE {NAMESPACE}/{path}"), Value::Null).await;
        let (code, answer) = api.ask_bearing(token, "GET /version").await;
        assert_eq!((code, &answer["reason"]), (401, &json!("Unauthorized")), "{kind}");
        if kind != "account" {
            api.admin(&format!("DELETE {NAMESPACE}/serviceaccounts/a"), Value::Null).await;
        }
    }
}

#[tokio::test]
async fn a_session_of_the_console_ends_with_the_right_to_impersonate() {
    const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
    let (api, _scratch) = Api::start().await;
    let rule = json!({"apiGroups": [""], "resources": ["users"], "resourceNames": ["bob"],
        "verbs": ["impersonate"]});
    api.admin(
        &format!("POST {RBAC}/clusterroles"),
        json!({"metadata": {"name": "as-bob"}, "rules": [rule]}),
    )
    .await;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({"metadata": {"name": "ann-as-bob"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "as-bob"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "ann"}]});
    api.admin(&format!("POST {RBAC}/clusterrolebindings"), binding).await;
    let user = |name: &str| Arc::new(User::authenticated(name, [""; 0]));
    let holder = Holder { user: user("bob"), impersonator: Some(user("ann")), token: None };
    let sessions = &api.server.sessions;
    let code = sessions.new_code(holder, api.server.now()).unwrap();
    let (token, _) = sessions.exchange(&code, api.server.now()).unwrap().unwrap();
    let ask = async || api.ask_bearing(&token, "GET /api").await.0;
    crate::api::eventually("the session is known", async || ask().await == 200).await;
    api.admin(&format!("DELETE {RBAC}/clusterrolebindings/ann-as-bob"), Value::Null).await;
    crate::api::eventually("the session ends", async || ask().await == 401).await;
}
