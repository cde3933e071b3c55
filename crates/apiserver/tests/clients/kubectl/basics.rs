//! The first things that anybody does with kubectl.

use super::manifests::{SETTINGS, WEB};
use crate::cluster::Cluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_and_roles_are_there_at_birth() {
    let cluster = Cluster::start().await;
    let names = cluster.kubectl("get namespaces -o name").await;
    let expected = [
        "namespace/default",
        "namespace/kube-node-lease",
        "namespace/kube-public",
        "namespace/kube-system",
    ];
    assert_eq!(names.lines().collect::<Vec<_>>(), expected);
    let roles = cluster.kubectl("get clusterroles -o name").await;
    assert!(roles.contains("clusterrole.rbac.authorization.k8s.io/cluster-admin"), "{roles}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_config_map_is_created_read_and_deleted() {
    let cluster = Cluster::start().await;
    let created = cluster.kubectl_with("create -f -", SETTINGS).await;
    assert_eq!(created, "configmap/settings created\n");
    let value = cluster.kubectl("get configmap settings -o jsonpath={.data.a}").await;
    assert_eq!(value, "1");
    let table = cluster.kubectl("get configmap settings").await;
    assert!(table.starts_with("NAME"), "{table}");
    assert!(table.contains("settings   1 "), "{table}");
    let again = cluster.refused("create -f -", SETTINGS).await;
    assert!(again.contains("configmaps \"settings\" already exists"), "{again}");
    let deleted = cluster.kubectl("delete configmap settings").await;
    assert!(deleted.contains("configmap \"settings\" deleted"), "{deleted}");
    let gone = cluster.refused("get configmap settings", "").await;
    assert!(gone.contains("configmaps \"settings\" not found"), "{gone}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_field_is_refused() {
    let cluster = Cluster::start().await;
    let wrong = SETTINGS.replace("data:", "date: {}\ndata:");
    let text = cluster.refused("create -f -", &wrong).await;
    assert!(text.contains("unknown field \"date\""), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_created_in_a_namespace_that_is_not_there() {
    let cluster = Cluster::start().await;
    let text = cluster.refused("create -n nowhere -f -", SETTINGS).await;
    assert!(text.contains("namespaces \"nowhere\" not found"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_is_applied_described_and_watched() {
    let cluster = Cluster::start().await;
    let dry = cluster.kubectl_with("apply --dry-run=server -f -", WEB).await;
    assert_eq!(dry, "deployment.apps/web created (server dry run)\n");
    assert!(cluster.refused("get deployment web", "").await.contains("not found"));
    cluster.kubectl_with("apply -f -", WEB).await;
    let table = cluster.kubectl("get deployments -o wide").await;
    assert!(table.contains("web    0/2     0            0"), "{table}");
    assert!(table.contains("main         nginx    app=web"), "{table}");
    let text = cluster.kubectl("describe deployment web").await;
    assert!(text.contains("Replicas:               2 desired"), "{text}");
    let two = WEB.replace("nginx", "caddy");
    let difference = cluster.run(&["diff", "-f", "-"], &two).await;
    assert_eq!(difference.status.code(), Some(1), "{difference:?}");
    assert!(String::from_utf8_lossy(&difference.stdout).contains("+      - image: caddy"));
    cluster.kubectl_with("apply -f -", &two).await;
    let image = "-o=jsonpath={.metadata.generation}{.spec.template.spec.containers[0].image}";
    assert_eq!(cluster.kubectl(&format!("get deployment web {image}")).await, "2caddy");
    let waited = cluster.kubectl("wait deployment/web --for=jsonpath={.spec.replicas}=2").await;
    assert!(waited.contains("condition met"), "{waited}");
    cluster.kubectl("delete deployment web --wait").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_deployment_is_refused_with_its_fields() {
    let cluster = Cluster::start().await;
    let wrong = WEB.replace("app: web}}\n  template", "app: api}}\n  template");
    let text = cluster.refused("create -f -", &wrong).await;
    assert!(text.contains("The Deployment \"web\" is invalid"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_is_told() {
    let cluster = Cluster::start().await;
    assert_eq!(cluster.kubectl("get --raw /healthz").await, "ok");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_may_do_what_their_roles_say() {
    let cluster = Cluster::start().await;
    let text = cluster.refused("get configmaps --as=jane", "").await;
    let expected = "User \"jane\" cannot list resource \"configmaps\" in API group \"\" in the \
                    namespace \"default\"";
    assert!(text.contains(expected), "{text}");
    let binding = "
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: jane}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
";
    cluster.kubectl_with("create -f -", binding).await;
    assert_eq!(cluster.kubectl("get configmaps --as=jane -o name").await, "");
    let text = cluster.refused("create --as=jane -f -", SETTINGS).await;
    assert!(text.contains("cannot create resource"), "{text}");
    assert_eq!(cluster.kubectl("auth can-i list pods --as=jane").await, "yes\n");
    assert!(
        cluster
            .run(&["auth", "can-i", "delete", "pods", "--as=jane"], "")
            .await
            .stdout
            .starts_with(b"no")
    );
    assert!(cluster.kubectl("auth whoami").await.contains("admin"));
}
