//! `kubectl wait`, `rollout` and `events`.

use super::manifests::{NODE_AND_PODS, READY, WEB};
use crate::cluster::Cluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_fields_and_ends_are_waited_for() {
    for cluster in Cluster::for_each_kubectl().await {
        cluster.kubectl_with("create -f -", NODE_AND_PODS).await;
        let text = cluster.refused("wait pod/left --for=condition=Ready --timeout=1s", "").await;
        assert!(text.contains("timed out waiting for the condition on pods/left"), "{text}");
        let ready = format!("patch pod left --subresource=status --type=merge -p '{READY}'");
        let waits = [
            "wait pod/left --for=condition=Ready --timeout=20s",
            "wait pod/left --for=jsonpath={.status.phase}=Running --timeout=20s",
            "wait pod -l side=left --for=condition=Ready=true --timeout=20s",
        ];
        let [condition, field, selected] = waits.map(|line| cluster.kubectl(line));
        let (condition, field, selected, _) =
            tokio::join!(condition, field, selected, cluster.kubectl(&ready));
        for text in [condition, field, selected] {
            assert_eq!(text, "pod/left condition met\n");
        }
        let gone = cluster.kubectl("wait pod/right --for=delete --timeout=20s");
        let (_, _) = tokio::join!(gone, cluster.kubectl("delete pod right --wait=false"));
        let text = cluster.refused("wait pod/right --for=condition=Ready --timeout=1s", "").await;
        assert!(text.contains("pods \"right\" not found"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_is_told_from_the_status() {
    for cluster in Cluster::for_each_kubectl().await {
        cluster.kubectl_with("create -f -", WEB).await;
        let text = cluster.kubectl("rollout status deploy/web --watch=false").await;
        assert!(text.contains("Waiting for deployment spec update to be observed"), "{text}");
        let status = r#"{"status":{"observedGeneration":1,"replicas":2,"updatedReplicas":2,
            "readyReplicas":2,"availableReplicas":2}}"#;
        let patch = format!("patch deploy web --subresource=status --type=merge -p '{status}'");
        let rollout = cluster.kubectl("rollout status deploy/web --timeout=20s");
        let (text, _) = tokio::join!(rollout, cluster.kubectl(&patch));
        assert!(text.ends_with("deployment \"web\" successfully rolled out\n"), "{text}");
        cluster
            .shows(
                "rollout history deploy/web",
                &["deployment.apps/web", "No rollout history found."],
            )
            .await;
        cluster.prints("rollout pause deploy/web", "deployment.apps/web paused\n").await;
        cluster.prints("get deploy web -o jsonpath={.spec.paused}", "true").await;
        cluster.prints("rollout resume deploy/web", "deployment.apps/web resumed\n").await;
        cluster.prints("rollout restart deploy/web", "deployment.apps/web restarted\n").await;
        let text = cluster.refused("rollout undo deploy/web", "").await;
        assert!(text.contains("no rollout history found"), "{text}");
    }
}

const EVENT: &str = "
apiVersion: v1
kind: Event
metadata: {name: left.1, namespace: default}
involvedObject: {apiVersion: v1, kind: Pod, name: left, namespace: default}
reason: Scheduled
message: it has a place
type: Normal
count: 3
source: {component: scheduler}
firstTimestamp: '2020-01-01T00:00:00Z'
lastTimestamp: '2020-01-01T00:00:00Z'
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_shown() {
    for cluster in Cluster::for_each_kubectl().await {
        cluster.kubectl_with("create -f -", EVENT).await;
        let parts = ["LAST SEEN", "Normal", "Scheduled", "it has a place"];
        cluster.shows("events", &parts).await;
        cluster.shows("events --for pod/left", &parts).await;
        cluster.shows("get events", &parts).await;
        cluster.shows("get events -o wide", &["pod/left", "left.1", "scheduler"]).await;
        let selector = "get events -o name --field-selector=involvedObject.name=left,type=Normal";
        cluster.prints(selector, "event/left.1\n").await;
        cluster.prints(&selector.replace("Normal", "Warning"), "").await;
    }
}
