//! Vulnerabilities of Kubernetes, replayed: each test is named after the one that it is about.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use apiserver::identity::User;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use super::{ask, ask_as, done};
use crate::bad_input::wire::Identity;
use crate::world::World;

/// Address of a pod on an unprivileged node, which is on this host.
const POD_ADDRESS: &str = "127.64.0.9";
const BOMB_MAX: Duration = Duration::from_secs(20);

/// A pod whose port answers every request with the same text; counts the requests.
async fn pod_that_answers(world: &World, answer: &'static str) -> (u16, Arc<AtomicUsize>) {
    super::account_token(world, "default", "default").await;
    let pod = json!({"metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    done(world, "POST /api/v1/namespaces/default/pods", pod).await;
    let status = json!({"status": {"podIP": POD_ADDRESS, "podIPs": [{"ip": POD_ADDRESS}]}});
    done(world, "PATCH /api/v1/namespaces/default/pods/p/status", status).await;
    let listener = TcpListener::bind((POD_ADDRESS, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    #[expect(clippy::disallowed_methods, reason = "it ends with the test")]
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let counted = counted.clone();
            tokio::spawn(async move {
                let mut bytes = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut bytes).await {
                    let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
                    counted.fetch_add(text.matches(" HTTP/1.1").count(), Ordering::SeqCst);
                    if stream.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    (port, requests)
}

/// A backend that does not switch protocols gets no tunnel: what the client sends next is a request
/// to this server, with the rights of the client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cve_2018_1002105_an_upgrade_that_was_refused_leaves_no_tunnel() {
    let world = World::real().await;
    let refusal = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno";
    let (port, requests) = pod_that_answers(&world, refusal).await;
    let stream = TcpStream::connect(world.address).await.unwrap();
    let identity = Identity::admin(&world);
    let mut stream = identity.connect(stream, b"http/1.1").await.unwrap();
    let upgrade = format!(
        "GET /api/v1/namespaces/default/pods/p:{port}/proxy/ HTTP/1.1\r\nhost: localhost\r\n\
         connection: Upgrade\r\nupgrade: x\r\n\r\n"
    );
    stream.write_all(upgrade.as_bytes()).await.unwrap();
    let mut answer = read_some(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let second = "GET /version HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(second.as_bytes()).await.unwrap();
    let mut rest = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest)).await;
    answer += &String::from_utf8_lossy(&rest);
    assert!(answer.contains("gitVersion"), "the second request is for this server: {answer}");
    assert_eq!(requests.load(Ordering::SeqCst), 1, "the backend saw one request");
}

async fn read_some(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut bytes = [0; 4096];
    let read = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut bytes)).await;
    let length = read.expect("an answer must come").unwrap();
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

/// Also CVE-2018-1002102, CVE-2020-8559 and CVE-2020-8561.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cve_2022_3172_redirects_are_not_followed() {
    let world = World::real().await;
    let redirect = "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/secret\r\n\
                    content-length: 0\r\n\r\n";
    let (port, requests) = pod_that_answers(&world, redirect).await;
    let line = format!("GET /api/v1/namespaces/default/pods/p:{port}/proxy/x");
    let answer = ask(&world, &line, Value::Null).await;
    assert_eq!(answer.status, 302, "{}", answer.text());
    assert_eq!(answer.headers["location"], "http://169.254.169.254/secret");
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn cve_2022_3294_a_node_cannot_name_an_address_of_this_host() {
    let world = World::real().await;
    done(&world, "POST /api/v1/nodes", json!({"metadata": {"name": "n"}})).await;
    for address in ["127.0.0.1", "::1", "169.254.169.254", "::ffff:127.0.0.1", "fd00:ec2::254"] {
        let status = json!({"status": {"addresses": [{"type": "InternalIP", "address": address}]}});
        done(&world, "PATCH /api/v1/nodes/n/status", status).await;
        let answer = ask(&world, "GET /api/v1/nodes/n:10250/proxy/", Value::Null).await;
        assert_eq!(answer.status, 400, "{address}: {}", answer.text());
    }
}

#[tokio::test]
async fn cve_2019_11247_a_cluster_scoped_kind_is_not_served_in_a_namespace() {
    let world = World::real().await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({"metadata": {"name": "all"},
        "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]});
    done(&world, &format!("POST {rbac}/namespaces/default/roles"), role).await;
    let binding = json!({"metadata": {"name": "all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "all"},
        "subjects": [{"kind": "User", "name": "tenant"}]});
    done(&world, &format!("POST {rbac}/namespaces/default/rolebindings"), binding).await;
    world.follow_roles().await;
    let tenant = User::authenticated("tenant", [""; 0]);
    for path in [
        "/api/v1/namespaces/default/nodes",
        "/api/v1/namespaces/default/persistentvolumes",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/clusterroles",
        "/apis/apiextensions.k8s.io/v1/namespaces/default/customresourcedefinitions",
        "/apis/storage.k8s.io/v1/namespaces/default/storageclasses",
    ] {
        let answer = ask_as(&world, &tenant, &format!("GET {path}"), Value::Null).await;
        assert!([403, 404].contains(&answer.status), "{path}: {}", answer.text());
    }
    let answer = ask_as(&world, &tenant, "GET /api/v1/namespaces/default/pods", Value::Null).await;
    assert_eq!(answer.status, 200);
}

/// Also CVE-2015-5305.
#[tokio::test]
async fn cve_2022_3162_paths_lead_nowhere_else() {
    let world = World::real().await;
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"a": "hidden-marker"}});
    done(&world, "POST /api/v1/namespaces/kube-system/secrets", secret).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    let binding = json!({"metadata": {"name": "e"}, "roleRef": {"kind": "ClusterRole",
        "apiGroup": "rbac.authorization.k8s.io", "name": "admin"},
        "subjects": [{"kind": "User", "name": "tenant"}]});
    done(&world, &format!("POST {rbac}"), binding).await;
    world.follow_roles().await;
    let tenant = User::authenticated("tenant", [""; 0]);
    for path in [
        "/api/v1/namespaces/default/secrets/../../kube-system/secrets/s",
        "/api/v1/namespaces/default/secrets/%2e%2e/%2e%2e/kube-system/secrets/s",
        "/api/v1/namespaces/default%2f..%2fkube-system/secrets/s",
        "/api/v1/namespaces/default/secrets/..%2f..%2fkube-system%2fsecrets%2fs",
        "/api/v1/namespaces/default//kube-system/secrets/s",
        "/api/v1/namespaces//secrets/s",
        "/api/v1/namespaces/default/../kube-system/secrets",
        "/api/v1/watch/namespaces/kube-system/secrets",
        "/api/v1/NAMESPACES/kube-system/secrets/s",
        "/API/v1/namespaces/kube-system/secrets/s",
        "/api/v1/namespaces/kube-system/secrets/s/",
        "/api/v1/namespaces/kube-system/secrets/s?namespace=default",
        "/api/v1/namespaces/default/namespaces/kube-system",
        "/api/v1/secrets?fieldSelector=metadata.namespace%3Dkube-system",
        "/apis/history.setpoint.dev/v1/at/1/api/v1/namespaces/kube-system/secrets/s",
        "/apis/history.setpoint.dev/v1/revisions/api/v1/namespaces/kube-system/secrets/s",
    ] {
        let answer = ask_as(&world, &tenant, &format!("GET {path}"), Value::Null).await;
        assert!((400..500).contains(&answer.status), "{path}: {}", answer.text());
        assert!(!answer.text().contains("hidden-marker"), "{path}");
        assert!(!answer.text().contains("aGlkZGVuLW1hcmtlcg"), "{path}");
    }
}

#[tokio::test]
async fn cve_2019_11248_nothing_of_the_process_is_public() {
    let world = World::real().await;
    let nobody = User::authenticated("jane", [""; 0]);
    for path in ["/debug/pprof/", "/debug/pprof/heap", "/debug/tasks", "/metrics", "/logs/", "/"] {
        for user in [&User::anonymous(), &nobody] {
            let answer = ask_as(&world, user, &format!("GET {path}"), Value::Null).await;
            assert_eq!(answer.status, 403, "{path}: {}", answer.text());
        }
    }
}

#[tokio::test]
async fn cve_2019_11253_bombs_are_refused_at_once() {
    let world = World::real().await;
    let laughs = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n\
        c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n\
        e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n\
        g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: &h [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n";
    let deep = format!("{{\"data\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let cases = [("application/yaml", laughs.to_owned()), ("application/json", deep)];
    for (content_type, body) in cases {
        let request = http::Request::post("/api/v1/namespaces/default/configmaps")
            .header("content-type", content_type)
            .body(http_body_util::Full::new(body.into()))
            .unwrap();
        let began = Instant::now();
        let answer = world.ask(&crate::world::admin(), request).await;
        assert!((400..500).contains(&answer.status), "{content_type}: {}", answer.text());
        assert!(began.elapsed() < BOMB_MAX, "{content_type}: {:?}", began.elapsed());
    }
}

/// A container of any list names a Secret that the account may not mount.
#[tokio::test]
async fn cve_2024_3177_mountable_secrets_are_enforced_in_every_container() {
    let world = World::real().await;
    let account = json!({"metadata": {"name": "strict",
        "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}});
    done(&world, "POST /api/v1/namespaces/default/serviceaccounts", account).await;
    let plain = json!({"name": "c", "image": "i"});
    let from = json!({"name": "d", "image": "i", "envFrom": [{"secretRef": {"name": "s"}}]});
    let key = json!({"name": "d", "image": "i", "env": [{"name": "A",
        "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]});
    for hidden in [from, key] {
        for spec in [
            json!({"containers": [plain, hidden]}),
            json!({"containers": [plain], "initContainers": [hidden]}),
        ] {
            let mut pod = json!({"metadata": {"name": "p"}, "spec": spec});
            pod["spec"]["serviceAccountName"] = json!("strict");
            let answer = ask(&world, "POST /api/v1/namespaces/default/pods", pod.clone()).await;
            assert_eq!(answer.status, 403, "{pod}: {}", answer.text());
        }
    }
}
