//! Credentials: what is not believed, what anonymous clients may read, and what tokens say.

use serde_json::{Value, json};

use apiserver::identity::User;
use apiserver::identity::claims::{Bound, Claims, Reference};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use store::{Environment, System};

use super::{account_token, ask, ask_as, done};
use crate::bad_input::wire::{self, Identity};
use crate::world::World;

async fn status_with(world: &World, identity: &Identity, path: &str, header: &str) -> u16 {
    let text = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{header}\r\n");
    wire::send(world, identity, text.as_bytes()).await.unwrap().status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_credential_of_an_unknown_scheme_is_unauthorized_and_not_anonymous() {
    let world = World::real().await;
    let identities = [Identity::of(&world, None), Identity::admin(&world)];
    for identity in &identities {
        for value in ["Basic YTpi", "Digest username=a", "Negotiate abc", "Bearer", "x"] {
            let header = format!("authorization: {value}\r\n");
            assert_eq!(status_with(&world, identity, "/version", &header).await, 401, "{value}");
        }
    }
}

/// Attack: read when objects of the cluster changed.
#[tokio::test]
async fn anonymous_clients_read_health_and_version_only() {
    let world = World::real().await;
    let anonymous = User::anonymous();
    for path in ["/livez", "/readyz", "/healthz", "/version"] {
        assert_eq!(
            ask_as(&world, &anonymous, &format!("GET {path}"), Value::Null).await.status,
            200
        );
    }
    let history = "/apis/history.setpoint.dev/v1";
    let mut paths: Vec<String> =
        ["timeline", "changes", "at/1/api/v1/pods", "revisions/api/v1/pods/p"]
            .map(|path| format!("GET {history}/{path}"))
            .to_vec();
    paths.extend(["plan", "undo/api/v1/nodes/n"].map(|path| format!("POST {history}/{path}")));
    let closed =
        ["/", "/api", "/apis", "/metrics", "/openapi/v2", "/openid/v1/jwks", "/debug/tasks"];
    paths.extend(closed.map(|path| format!("GET {path}")));
    paths.push("GET /.well-known/openid-configuration".to_owned());
    for line in paths {
        let answer = ask_as(&world, &anonymous, &line, Value::Null).await;
        assert_eq!(answer.status, 403, "{line}: {}", answer.text());
    }
    let known = User::authenticated("jane", [""; 0]);
    let timeline = format!("GET {history}/timeline");
    assert_eq!(ask_as(&world, &known, &timeline, Value::Null).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_believed_for_a_minute_around_their_time() {
    let world = World::real().await;
    account_token(&world, "default", "robot").await;
    let path = "/api/v1/namespaces/default/serviceaccounts/robot";
    let account = done(&world, &format!("GET {path}"), Value::Null).await;
    let now = System.now().0 / 1_000_000;
    let issuer = world.server.tokens.issuer.clone();
    let anonymous = Identity::of(&world, None);
    for (from, until, expected) in [
        (now + 30, now + 3_600, 403),
        (now - 3_600, now - 30, 403),
        (now + 600, now + 3_600, 401),
        (now - 3_600, now - 600, 401),
    ] {
        let claims = Claims {
            issuer: issuer.clone(),
            namespace: "default".to_owned(),
            account: Reference::of(&account),
            bound: Bound::Account,
            audiences: vec![issuer.clone()],
            issued_at: from,
            not_before: from,
            expires_at: until,
            id: "id".to_owned(),
        };
        let token = world.server.tokens.issue(&claims).unwrap();
        let header = format!("authorization: Bearer {token}\r\n");
        let status = status_with(&world, &anonymous, "/api/v1/nodes", &header).await;
        assert_eq!(status, expected, "valid from {} until {}", from - now, until - now);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn service_accounts_discover_the_keys_of_their_tokens() {
    let world = World::real().await;
    let robot = User::service_account("default", "robot", "u");
    let line = "GET /.well-known/openid-configuration";
    let document = ask_as(&world, &robot, line, Value::Null).await;
    assert_eq!(document.status, 200, "{}", document.text());
    assert_eq!(document.headers["content-type"], "application/json");
    let document = document.json();
    assert_eq!(document["issuer"], world.server.tokens.issuer.as_str());
    let path = document["jwks_uri"].as_str().unwrap();
    let path = path.strip_prefix(&world.server.tokens.issuer).unwrap();
    let keys = ask_as(&world, &robot, &format!("GET {path}"), Value::Null).await;
    assert_eq!(keys.headers["content-type"], "application/jwk-set+json");
    let keys = keys.json();
    let token = account_token(&world, "default", "robot").await;
    let header = URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap();
    let header: Value = serde_json::from_slice(&header).unwrap();
    let found = keys["keys"].as_array().unwrap().iter().find(|key| key["kid"] == header["kid"]);
    assert_eq!(found.unwrap()["alg"], header["alg"]);
    let person = User::authenticated("jane", [""; 0]);
    assert_eq!(ask_as(&world, &person, line, Value::Null).await.status, 403);
}

#[tokio::test]
async fn a_token_of_a_pod_names_the_node_with_the_uid_of_the_node() {
    let world = World::real().await;
    account_token(&world, "default", "robot").await;
    let node = done(&world, "POST /api/v1/nodes", json!({"metadata": {"name": "n"}})).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"serviceAccountName": "robot",
        "nodeName": "n", "containers": [{"name": "c", "image": "i"}]}});
    let pod = done(&world, "POST /api/v1/namespaces/default/pods", pod).await;
    let claims = async |kind: &str, name: &str| {
        let bound = json!({"kind": kind, "apiVersion": "v1", "name": name});
        let line = "POST /api/v1/namespaces/default/serviceaccounts/robot/token";
        let made = done(&world, line, json!({"spec": {"boundObjectRef": bound}})).await;
        let token = made["status"]["token"].as_str().unwrap().to_owned();
        let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
        serde_json::from_slice::<Value>(&payload).unwrap()["kubernetes.io"].clone()
    };
    let of_pod = claims("Pod", "p").await;
    assert_eq!(of_pod["pod"]["uid"], pod["metadata"]["uid"]);
    assert_eq!(of_pod["node"], json!({"name": "n", "uid": node["metadata"]["uid"]}));
    let of_node = claims("Node", "n").await;
    assert_eq!(of_node["node"]["uid"], node["metadata"]["uid"]);
}

#[tokio::test]
async fn bootstrap_roles_have_no_status_and_can_be_applied() {
    let world = World::real().await;
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let roles = done(&world, &format!("GET {path}"), Value::Null).await;
    for role in roles["items"].as_array().unwrap() {
        assert!(role.get("status").is_none(), "{role}");
    }
    let apply = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "view", "labels": {"mine": "yes"}}});
    let applied = || {
        http::Request::patch(format!("{path}/view?fieldManager=me"))
            .header("content-type", "application/apply-patch+yaml")
            .body(http_body_util::Full::new(apply.to_string().into()))
            .unwrap()
    };
    let answer = world.ask(&crate::world::admin(), applied()).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    // A store of an earlier version has such roles; the next start heals them.
    let mut old = done(&world, &format!("GET {path}/edit"), Value::Null).await;
    old["status"] = json!({"conditions": null});
    super::put(&world, "clusterroles/edit", &old).await;
    let again = world.restart().await;
    let healed = done(&again, &format!("GET {path}/edit"), Value::Null).await;
    assert!(healed.get("status").is_none(), "{healed}");
    assert_eq!(healed["metadata"]["uid"], old["metadata"]["uid"]);
    assert_eq!(ask(&again, &format!("GET {path}/admin"), Value::Null).await.status, 200);
}
