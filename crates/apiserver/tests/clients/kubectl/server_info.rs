//! What kubectl tells of the server and of its own settings.

use crate::cluster::Cluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn resources_and_versions_are_listed() {
    for cluster in Cluster::for_each_kubectl().await {
        let text = cluster.kubectl("api-resources --no-headers").await;
        let row = |name: &str| -> Vec<&str> {
            let line = text.lines().find(|line| line.split(' ').next() == Some(name));
            line.unwrap_or_else(|| panic!("{name}: {text}")).split_whitespace().collect()
        };
        assert_eq!(row("configmaps"), ["configmaps", "cm", "v1", "true", "ConfigMap"]);
        assert_eq!(row("namespaces"), ["namespaces", "ns", "v1", "false", "Namespace"]);
        let deployments = ["deployments", "deploy", "apps/v1", "true", "Deployment"];
        assert_eq!(row("deployments"), deployments);
        let named = "api-resources --namespaced=false --api-group=storage.k8s.io -o name";
        cluster.shows(named, &["storageclasses.storage.k8s.io"]).await;
        cluster.shows("api-resources --verbs=patch -o wide", &["create,delete"]).await;
        cluster.shows("api-resources --categories=all -o name", &["pods", "jobs.batch"]).await;
        let versions = cluster.kubectl("api-versions").await;
        for version in ["v1", "apps/v1", "batch/v1", "rbac.authorization.k8s.io/v1"] {
            assert!(versions.lines().any(|line| line == version), "{version}: {versions}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_are_explained() {
    for cluster in Cluster::for_each_kubectl().await {
        let parts = ["KIND:", "Pod", "VERSION:", "v1", "FIELD", "containers", "<[]Container>"];
        cluster.shows("explain pod.spec.containers", &parts).await;
        let parts = ["image\t<string>", "ports\t<[]ContainerPort>"];
        cluster.shows("explain pod.spec.containers", &parts).await;
        let parts = ["GROUP: apps", "spec\t<DeploymentSpec>", "metadata\t<ObjectMeta>"];
        cluster.shows("explain deployments", &parts).await;
        cluster.shows("explain pod.spec --recursive", &["livenessProbe", "httpGet"]).await;
        let text = cluster.refused("explain pod.spec.nothing", "").await;
        assert!(text.contains("field \"nothing\" does not exist"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_and_the_settings_are_told() {
    for cluster in Cluster::for_each_kubectl().await {
        cluster.shows("version", &["Client Version:", "Server Version:", "v1.36.4+setpoint"]).await;
        let version = cluster.kubectl("version -o json").await;
        let version: serde_json::Value = serde_json::from_str(&version).unwrap();
        assert_eq!(version["serverVersion"]["minor"], "36");
        let info = cluster.kubectl("cluster-info").await;
        assert!(info.contains("Kubernetes control plane"), "{info}");
        assert!(info.contains(&cluster.url), "{info}");
        cluster.prints("config current-context", "test\n").await;
        cluster.shows("config get-contexts", &["CURRENT", "test"]).await;
        let view = cluster.kubectl("config view").await;
        assert!(view.contains("DATA+OMITTED") && view.contains(&cluster.url), "{view}");
        cluster.kubectl("config set-context --current --namespace=kube-system").await;
        cluster.prints("get cm -o name --field-selector=metadata.name=none", "").await;
        let none = cluster.run(&["get", "pods"], "").await;
        let none = String::from_utf8_lossy(&none.stderr).into_owned();
        assert!(none.contains("No resources found in kube-system namespace"), "{none}");
        for (path, part) in [("/readyz", "ok"), ("/livez?verbose", "livez check passed")] {
            cluster.shows(&format!("get --raw {path}"), &[part]).await;
        }
    }
}
