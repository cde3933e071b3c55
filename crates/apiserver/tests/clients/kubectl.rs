//! kubectl at home.

use super::cluster::Cluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_version_is_told() {
    let cluster = Cluster::start().await;
    let text = cluster.kubectl("version").await;
    assert!(text.contains("v1.36.4+setpoint"), "{text}");
}

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
async fn resources_are_discovered() {
    let cluster = Cluster::start().await;
    let text = cluster.kubectl("api-resources").await;
    for word in ["configmaps", "deployments", "cronjobs", "storageclasses", "clusterroles"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let versions = cluster.kubectl("api-versions").await;
    assert!(versions.lines().any(|line| line == "apps/v1"), "{versions}");
    assert!(versions.lines().any(|line| line == "v1"), "{versions}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_config_map_is_created_read_changed_and_deleted() {
    let cluster = Cluster::start().await;
    let created = cluster.kubectl("create configmap settings --from-literal=a=1").await;
    assert_eq!(created, "configmap/settings created\n");
    let value = cluster.kubectl("get configmap settings -o jsonpath={.data.a}").await;
    assert_eq!(value, "1");
    let table = cluster.kubectl("get configmap settings").await;
    assert!(table.starts_with("NAME"), "{table}");
    assert!(table.contains("settings   1 "), "{table}");
    let again = cluster.refused("create configmap settings", "").await;
    assert!(again.contains("configmaps \"settings\" already exists"), "{again}");
    let deleted = cluster.kubectl("delete configmap settings").await;
    assert!(deleted.contains("configmap \"settings\" deleted"), "{deleted}");
    let gone = cluster.refused("get configmap settings", "").await;
    assert!(gone.contains("configmaps \"settings\" not found"), "{gone}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_created_in_a_namespace_that_is_not_there() {
    let cluster = Cluster::start().await;
    let text = cluster.refused("create configmap x -n nowhere", "").await;
    assert!(text.contains("namespaces \"nowhere\" not found"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_may_do_what_their_roles_say() {
    let cluster = Cluster::start().await;
    let line = "get configmaps --as=jane";
    let text = cluster.refused(line, "").await;
    assert!(!text.is_empty());
    let text = cluster.kubectl("get --raw /healthz").await;
    assert_eq!(text, "ok");
}
