//! Every kubectl that the machine has does the everyday things, whichever test runs in long form.

use super::manifests::SETTINGS;
use super::run::installed;
use crate::cluster::Cluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kubectl_does_the_everyday_things() {
    let mut cluster = Cluster::start().await;
    for (minor, kubectl) in installed() {
        cluster.kubectl = kubectl;
        let space = format!("minor-{minor}");
        let at = |line: &str| format!("{line} -n {space}");
        cluster.kubectl(&format!("create namespace {space}")).await;
        let apply = at("apply -f -");
        let created = cluster.kubectl_with(&apply, SETTINGS).await;
        assert_eq!(created, "configmap/settings created\n", "1.{minor}");
        let changed = SETTINGS.replace("a: '1'", "b: '2'");
        let configured = cluster.kubectl_with(&apply, &changed).await;
        assert_eq!(configured, "configmap/settings configured\n", "1.{minor}");
        cluster.prints(&at("get cm settings -o jsonpath={.data}"), r#"{"b":"2"}"#).await;
        cluster.kubectl(&at("create deployment web --image=nginx --replicas=2")).await;
        cluster.shows(&at("get deploy"), &["web 0/2"]).await;
        cluster.shows(&at("describe deploy web"), &["2 desired"]).await;
        cluster.kubectl(&at("scale deploy web --replicas=3")).await;
        cluster.kubectl(&at("set image deploy/web nginx=caddy")).await;
        let patch = r#"{"metadata":{"labels":{"a":"b"}}}"#;
        cluster.kubectl(&at(&format!("patch deploy web -p {patch}"))).await;
        cluster.prints(&at("get deploy -l a=b -o name"), "deployment.apps/web\n").await;
        cluster.shows("explain configmap.data", &["ConfigMap", "<map[string]string>"]).await;
        cluster.prints(&at("auth can-i get pods"), "yes\n").await;
        cluster.shows(&at("delete deploy web"), &["deleted"]).await;
    }
}
