//! The client without a socket: who it is, what it may do, and what a dropped caller leaves.

use apiserver::identity::User;
use futures::{FutureExt, StreamExt};
use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::{Value, json};

use super::cluster::Cluster;

pub fn config_map(name: &str) -> ConfigMap {
    let object = json!({"metadata": {"name": name, "labels": {"app": name}}, "data": {"a": "1"}});
    serde_json::from_value(object).unwrap()
}

/// The code and the message of a refusal.
pub fn refusal<T>(result: kube::Result<T>) -> (u16, String) {
    match result {
        Err(kube::Error::Api(status)) => (status.code, status.message.clone()),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it went through"),
    }
}

/// Sends headers of one's own choice, and answers what the server did.
async fn send(client: &kube::Client, path: &str, headers: &[(&str, &str)]) -> kube::Result<Value> {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    client.request(request.body(Vec::new()).unwrap()).await
}

#[tokio::test]
async fn components_may_do_what_their_roles_say() {
    let cluster = Cluster::start().await;
    let scheduler = cluster.local(User::component("system:kube-scheduler"));
    Api::<Pod>::all(scheduler.clone()).list(&ListParams::default()).await.unwrap();
    let secrets = Api::<Secret>::all(scheduler).list(&ListParams::default()).await;
    let (code, message) = refusal(secrets);
    assert_eq!(code, 403);
    assert_eq!(
        message,
        "secrets is forbidden: User \"system:kube-scheduler\" cannot list resource \"secrets\" \
         in API group \"\" at the cluster scope"
    );
    let controller = User::service_account("kube-system", "job-controller", "");
    let pods = Api::<Pod>::all(cluster.local(controller));
    pods.list(&ListParams::default()).await.unwrap();
    let manager = cluster.local(User::component("system:kube-controller-manager"));
    Api::<Secret>::all(manager).list(&ListParams::default()).await.unwrap();
    let nobody = cluster.local(User::component("nobody"));
    assert_eq!(refusal(Api::<Node>::all(nobody).list(&ListParams::default()).await).0, 403);
    let (code, _) = refusal(Api::<Node>::all(cluster.local(User::anonymous())).get("n").await);
    assert_eq!(code, 403);
}

#[tokio::test]
async fn the_identity_is_not_a_header() {
    let cluster = Cluster::start().await;
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let nodes = cluster.local(User::node("one"));
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = Request::post(review)
        .header("content-type", "application/json")
        .header("x-remote-user", "setpoint-admin")
        .header("x-remote-group", "system:masters")
        .body(body.to_string().into_bytes())
        .unwrap();
    let answer: Value = nodes.request(request).await.unwrap();
    let info = &answer["status"]["userInfo"];
    assert_eq!(info["username"], "system:node:one");
    assert_eq!(info["groups"], json!(["system:nodes", "system:authenticated"]));
}

#[tokio::test]
async fn headers_of_a_request_count_as_on_a_socket() {
    let cluster = Cluster::start().await;
    let (admin, jane) = (cluster.local_admin(), cluster.local(User::component("jane")));
    let path = "/api/v1/namespaces/default/configmaps";
    // Who may impersonate does, and then has the other's rights.
    let (code, message) = refusal(send(&admin, path, &[("Impersonate-User", "jane")]).await);
    assert_eq!(code, 403);
    assert!(message.contains("User \"jane\" cannot list resource \"configmaps\""), "{message}");
    let masters = [("Impersonate-User", "jane"), ("Impersonate-Group", "system:masters")];
    send(&admin, path, &masters).await.unwrap();
    // Who may not does not.
    let (code, message) = refusal(send(&jane, path, &masters).await);
    assert_eq!(code, 403);
    assert!(message.contains("cannot impersonate resource \"users\""), "{message}");
    assert_eq!(refusal(send(&admin, path, &[("Impersonate-Group", "g")]).await).0, 400);
    // A token that is not believed is never somebody, whatever the connection says.
    let wrong = [("Authorization", "Bearer wrong")];
    assert_eq!(refusal(send(&admin, path, &wrong).await).0, 401);
    let basic = [("Authorization", "Basic YTpi")];
    assert_eq!(refusal(send(&admin, path, &basic).await).0, 401);
}

#[tokio::test]
async fn a_part_of_the_program_manages_fields_under_a_name() {
    let cluster = Cluster::start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.local_admin());
    let mine = PostParams { field_manager: Some("mine".to_owned()), ..Default::default() };
    maps.create(&mine, &config_map("a")).await.unwrap();
    maps.create(&PostParams::default(), &config_map("b")).await.unwrap();
    for (name, manager) in [("a", "mine"), ("b", "setpoint")] {
        let fields = maps.get(name).await.unwrap().metadata.managed_fields.unwrap_or_default();
        // Whether fields are tracked is the server's affair; a wrong name is not.
        for field in fields {
            assert_eq!(field.manager.as_deref(), Some(manager));
        }
    }
}

#[tokio::test]
async fn a_refused_watch_is_a_status() {
    let cluster = Cluster::start().await;
    let nobody: Api<Pod> = Api::all(cluster.local(User::component("nobody")));
    let watch = nobody.watch(&WatchParams::default(), "0").await;
    let first = match watch {
        Ok(stream) => stream.boxed().next().await.unwrap(),
        Err(error) => Err(error),
    };
    match first {
        Ok(WatchEvent::Error(status)) => assert_eq!(status.code, 403),
        other => assert_eq!(refusal(other).0, 403),
    }
}

#[tokio::test]
async fn a_dropped_caller_leaves_a_whole_write_or_none() {
    let cluster = Cluster::start().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(cluster.local_admin());
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    // Each caller is polled a different number of times and then forgotten.
    for polls in 0..20 {
        let patch =
            Patch::Merge(json!({"data": {"a": format!("{polls}"), "b": format!("{polls}")}}));
        let parameters = PatchParams::default();
        let mut caller = Box::pin(maps.patch("a", &parameters, &patch));
        for _ in 0..polls {
            if (&mut caller).now_or_never().is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(caller);
        let data = maps.get("a").await.unwrap().data.unwrap();
        assert!(data.get("b").is_none_or(|b| *b == data["a"]), "{data:?}");
    }
}
