//! Tokens end with what they are for.

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
