//! Attacks by tenants on credentials and rights.

use apiserver::identity::User;
use serde_json::{Value, json};

use super::{account_token, ask_as, done};
use crate::bad_input::wire::{self, Identity};
use crate::world::World;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

async fn tenant(world: &World, role: &str) -> User {
    let binding = json!({"metadata": {"name": "tenant"}, "roleRef": {"kind": "ClusterRole",
        "apiGroup": "rbac.authorization.k8s.io", "name": role},
        "subjects": [{"kind": "User", "name": "tenant"}]});
    done(world, &format!("POST {RBAC}/namespaces/default/rolebindings"), binding).await;
    world.follow_roles().await;
    User::authenticated("tenant", [""; 0])
}

async fn status_of(world: &World, header: &str) -> u16 {
    let text = format!("GET /api/v1/nodes HTTP/1.1\r\nhost: localhost\r\n{header}\r\n");
    wire::send(world, &Identity::of(world, None), text.as_bytes()).await.unwrap().status
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_ends_with_its_account_and_is_not_that_of_its_successor() {
    let world = World::real().await;
    let token = account_token(&world, "default", "robot").await;
    let header = format!("authorization: Bearer {token}\r\n");
    assert_eq!(status_of(&world, &header).await, 403, "it is known and has no rights");
    done(&world, &format!("DELETE {ACCOUNTS}/robot"), Value::Null).await;
    assert_eq!(status_of(&world, &header).await, 401);
    account_token(&world, "default", "robot").await;
    assert_eq!(status_of(&world, &header).await, 401, "the successor has another UID");
}

#[tokio::test]
async fn tokens_of_other_namespaces_are_refused_and_long_ones_are_cut() {
    let world = World::real().await;
    let tenant = tenant(&world, "admin").await;
    account_token(&world, "kube-system", "robot").await;
    account_token(&world, "default", "robot").await;
    let line = "POST /api/v1/namespaces/kube-system/serviceaccounts/robot/token";
    let answer = ask_as(&world, &tenant, line, json!({"spec": {}})).await;
    assert_eq!(answer.status, 403, "{}", answer.text());
    let century = json!({"spec": {"expirationSeconds": 3_153_600_000_u64}});
    let line = format!("POST {ACCOUNTS}/robot/token");
    let answer = ask_as(&world, &tenant, &line, century).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.json()["spec"]["expirationSeconds"], 365 * 86_400);
    assert!(answer.headers["warning"].to_str().unwrap().contains("shortened"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_speaks_as_another_without_the_right_to() {
    let world = World::real().await;
    let token = account_token(&world, "default", "robot").await;
    let bearer = format!("authorization: Bearer {token}\r\n");
    let group = "impersonate-group: system:masters\r\n";
    let masters = format!("impersonate-user: root\r\n{group}");
    assert_eq!(status_of(&world, &masters).await, 403, "anonymous");
    assert_eq!(status_of(&world, &format!("{bearer}{masters}")).await, 403, "a tenant");
    assert_eq!(status_of(&world, &format!("{bearer}{group}")).await, 400, "a group alone");
    // Headers of a front proxy mean nothing.
    let front = "x-remote-user: root\r\nx-remote-group: system:masters\r\n";
    assert_eq!(status_of(&world, front).await, 403);
}

#[tokio::test]
async fn an_administrator_of_a_namespace_grants_no_more_than_they_have() {
    let world = World::real().await;
    let tenant = tenant(&world, "admin").await;
    let bind = |role: &str| {
        json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": role,
            "apiGroup": "rbac.authorization.k8s.io"},
            "subjects": [{"kind": "User", "name": "tenant"}]})
    };
    let everything = json!({"metadata": {"name": "r"},
        "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]});
    let request = json!({"metadata": {"name": "c"}, "spec": {"request": "eA==",
        "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}});
    let own = format!("{RBAC}/namespaces/default");
    for (line, body) in [
        (format!("POST {own}/rolebindings"), bind("cluster-admin")),
        (format!("POST {own}/rolebindings"), bind("system:node")),
        (format!("POST {own}/roles"), everything.clone()),
        (format!("POST {RBAC}/clusterroles"), everything),
        (format!("POST {RBAC}/clusterrolebindings"), bind("view")),
        ("POST /apis/certificates.k8s.io/v1/certificatesigningrequests".to_owned(), request),
    ] {
        let answer = ask_as(&world, &tenant, &line, body).await;
        assert_eq!(answer.status, 403, "{line}: {}", answer.text());
    }
    let other = json!({"roleRef": {"name": "cluster-admin"}});
    let line = format!("PATCH {own}/rolebindings/tenant");
    let answer = ask_as(&world, &tenant, &line, other).await;
    assert!([403, 422].contains(&answer.status), "{}", answer.text());
}
