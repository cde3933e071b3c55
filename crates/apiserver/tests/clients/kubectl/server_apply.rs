//! `kubectl apply --server-side` and `diff --server-side`: the server knows who owns what.

use super::manifests::SETTINGS;
use crate::cluster::Cluster;

const DATA: &str = "get cm settings -o jsonpath={.data}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_are_applied_refused_forced_and_removed() {
    for cluster in Cluster::for_each_kubectl().await {
        let two = SETTINGS.replace("a: '1'", "a: '1', b: '2'");
        let apply = async |options: &str, text: &str| {
            cluster.kubectl_with(&format!("apply --server-side {options} -f -"), text).await
        };
        let applied = "configmap/settings serverside-applied\n";
        assert_eq!(apply("", &two).await, applied);
        cluster.prints(DATA, r#"{"a":"1","b":"2"}"#).await;
        let shown = cluster.kubectl("get cm settings -o yaml --show-managed-fields").await;
        assert!(shown.contains("manager: kubectl\n    operation: Apply"), "{shown}");
        let hidden = cluster.kubectl("get cm settings -o yaml").await;
        assert!(!hidden.contains("managedFields"), "{hidden}");

        let other = SETTINGS.replace("a: '1'", "a: '9'");
        let line = "apply --server-side --field-manager=other -f -";
        let text = cluster.refused(line, &other).await;
        let conflict = "Apply failed with 1 conflict: conflict with \"kubectl\": .data.a";
        assert!(text.contains(conflict), "{text}");
        assert_eq!(apply("--field-manager=other --force-conflicts", &other).await, applied);
        cluster.prints(DATA, r#"{"a":"9","b":"2"}"#).await;
        // What is no longer applied goes, unless somebody else applies it too.
        let fewer = SETTINGS.replace("a: '1'", "c: '3'");
        assert_eq!(apply("", &fewer).await, applied);
        cluster.prints(DATA, r#"{"a":"9","c":"3"}"#).await;
        let dry = apply("--dry-run=server", &two.replace("a: '1'", "a: '9'")).await;
        assert!(dry.contains("(server dry run)"), "{dry}");
        cluster.prints(DATA, r#"{"a":"9","c":"3"}"#).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_difference_is_what_the_server_would_make_of_it() {
    for cluster in Cluster::for_each_kubectl().await {
        cluster.kubectl_with("apply --server-side -f -", SETTINGS).await;
        let diff = ["diff", "--server-side", "-f", "-"];
        let same = cluster.run(&diff, SETTINGS).await;
        assert_eq!((same.status.code(), same.stdout.len()), (Some(0), 0), "{same:?}");
        let changed = SETTINGS.replace("a: '1'", "a: '2'");
        let other = cluster.run(&diff, &changed).await;
        let text = String::from_utf8_lossy(&other.stdout).into_owned();
        assert_eq!(other.status.code(), Some(1), "{other:?}");
        assert!(text.contains("\n-  a: \"1\"\n+  a: \"2\"\n"), "{text}");
        cluster.prints("get cm settings -o jsonpath={.data.a}", "1").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_applied_by_the_client_is_taken_over() {
    for cluster in Cluster::for_each_kubectl().await {
        let two = SETTINGS.replace("a: '1'", "a: '1', b: '2'");
        cluster.kubectl_with("apply -f -", &two).await;
        let fewer = SETTINGS.replace("a: '1'", "a: '3'");
        cluster.kubectl_with("apply --server-side -f -", &fewer).await;
        cluster.prints("get cm settings -o jsonpath={.data.a}", "3").await;
        let shown = cluster.kubectl("get cm settings -o yaml --show-managed-fields").await;
        assert!(shown.contains("manager: kubectl\n    operation: Apply"), "{shown}");
    }
}
