//! `kubectl delete`: one, several, all, selected, with what depends on it or without.

use super::manifests::{NODE_AND_PODS, SETTINGS, WEB};
use crate::cluster::Cluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_deleted_by_name_by_label_and_all_at_once() {
    for cluster in Cluster::for_each_kubectl().await {
        for name in ["a", "b", "c", "d"] {
            let labels = if name < "c" { "first" } else { "second" };
            cluster.kubectl(&format!("create configmap {name}")).await;
            cluster.kubectl(&format!("label cm {name} half={labels}")).await;
        }
        cluster.shows("delete cm a", &["configmap \"a\" deleted"]).await;
        let text = cluster.refused("delete cm a", "").await;
        assert_eq!(text, "Error from server (NotFound): configmaps \"a\" not found\n");
        cluster.kubectl("delete cm a --ignore-not-found").await;
        let dry = "delete cm b --dry-run=server";
        cluster.shows(dry, &["configmap \"b\" deleted", "(server dry run)"]).await;
        cluster.prints("get cm -l half=first -o name", "configmap/b\n").await;
        cluster.shows("delete cm -l half=second", &["\"c\" deleted", "\"d\" deleted"]).await;
        cluster.shows("delete cm --all", &["configmap \"b\" deleted"]).await;
        cluster.prints("get cm -l half -o name", "").await;
        cluster.shows("delete cm --all --wait=false -o name -n kube-public", &[]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_held_by_a_finalizer_is_waited_for() {
    for cluster in Cluster::for_each_kubectl().await {
        let finalizers = "name: settings, finalizers: [example.com/hold]";
        let held = SETTINGS.replace("name: settings", finalizers);
        cluster.kubectl_with("create -f -", &held).await;
        let text = cluster.refused("delete cm settings --timeout=1s", "").await;
        assert!(text.contains("timed out waiting for the condition"), "{text}");
        cluster.kubectl("delete cm settings --wait=false").await;
        let free = r#"patch cm settings --type=merge -p {"metadata":{"finalizers":null}}"#;
        let waiting = cluster.kubectl("wait cm/settings --for=delete --timeout=20s");
        let (waited, _) = tokio::join!(waiting, cluster.kubectl(free));
        assert!(waited.contains("condition met") || waited.is_empty(), "{waited}");
        let text = cluster.refused("get cm settings", "").await;
        assert!(text.contains("not found"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dependents_are_left_or_wanted_gone() {
    for cluster in Cluster::for_each_kubectl().await {
        let finalizers = "get deploy web -o jsonpath={.metadata.finalizers}";
        let marked = "get deploy web -o jsonpath={.metadata.deletionTimestamp}";
        let free = r#"patch deploy web --type=merge -p {"metadata":{"finalizers":null}}"#;
        for (policy, expected) in
            [("orphan", r#"["orphan"]"#), ("foreground", r#"["foregroundDeletion"]"#)]
        {
            cluster.kubectl_with("create -f -", WEB).await;
            cluster.kubectl(&format!("delete deploy web --cascade={policy} --wait=false")).await;
            cluster.prints(finalizers, expected).await;
            assert_ne!(cluster.kubectl(marked).await, "");
            cluster.kubectl(free).await;
        }
        cluster.kubectl_with("create -f -", WEB).await;
        cluster.kubectl("delete deploy web --cascade=background").await;
        assert!(cluster.refused("get deploy web", "").await.contains("not found"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_on_a_node_is_given_time_unless_it_is_forced() {
    for cluster in Cluster::for_each_kubectl().await {
        cluster.kubectl_with("create -f -", NODE_AND_PODS).await;
        // Nobody runs it: it goes at once.
        cluster.kubectl("delete pod right").await;
        cluster.kubectl("delete pod left --wait=false --grace-period=20").await;
        let grace = "get pod left -o jsonpath={.metadata.deletionGracePeriodSeconds}";
        cluster.prints(grace, "20").await;
        cluster.shows("get pod left", &["Terminating"]).await;
        let output =
            cluster.run(&["delete", "pod", "left", "--grace-period=0", "--force"], "").await;
        assert!(output.status.success(), "{output:?}");
        assert!(cluster.refused("get pod left", "").await.contains("not found"));
    }
}
