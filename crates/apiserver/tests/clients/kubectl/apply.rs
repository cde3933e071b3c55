//! `kubectl apply` and `diff`, on the client's side: what was applied before decides what goes.

use super::manifests::{SETTINGS, WEB};
use crate::cluster::Cluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_longer_applied_goes_and_what_others_set_stays() {
    for cluster in Cluster::for_each_kubectl().await {
        let two = SETTINGS.replace("a: '1'", "a: '1', b: '2'");
        let apply = async |text: &str| cluster.kubectl_with("apply -f -", text).await;
        assert_eq!(apply(&two).await, "configmap/settings created\n");
        assert_eq!(apply(&two).await, "configmap/settings unchanged\n");
        cluster.kubectl(r#"patch cm settings -p {"data":{"other":"x"}}"#).await;
        assert_eq!(apply(SETTINGS).await, "configmap/settings configured\n");
        let data = "get cm settings -o jsonpath={.data}";
        cluster.prints(data, r#"{"a":"1","other":"x"}"#).await;
        let last = cluster.kubectl("apply view-last-applied configmap/settings").await;
        assert!(last.contains("a: \"1\"") && !last.contains("other"), "{last}");
        // An object that was created is taken over, with a warning.
        cluster.kubectl("create configmap plain --from-literal=a=1").await;
        let text = SETTINGS.replace("name: settings", "name: plain");
        let output = cluster.run(&["apply", "-f", "-"], &text).await;
        let warning = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(warning.contains("missing the kubectl.kubernetes.io/last-applied"), "{warning}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_with_keys_are_merged_by_key() {
    for cluster in Cluster::for_each_kubectl().await {
        let side = "      - {name: main, image: nginx}\n      - {name: side, image: busybox}\n";
        let both = WEB.replace("      - {name: main, image: nginx}\n", side);
        cluster.kubectl_with("apply -f -", &both).await;
        let names = "get deploy web -o jsonpath={.spec.template.spec.containers[*].name}";
        cluster.prints(names, "main side").await;
        // Somebody else adds one; ours goes, theirs stays.
        let patch = r#"{"spec":{"template":{"spec":{"containers":[{"name":"x","image":"x"}]}}}}"#;
        cluster.kubectl(&format!("patch deploy web -p {patch}")).await;
        let applied = cluster.kubectl_with("apply -f -", WEB).await;
        assert_eq!(applied, "deployment.apps/web configured\n");
        let names = cluster.kubectl(names).await;
        let mut names: Vec<&str> = names.split(' ').collect();
        names.sort();
        assert_eq!(names, ["main", "x"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_difference_is_shown_and_is_the_exit_code() {
    for cluster in Cluster::for_each_kubectl().await {
        let missing = cluster.run(&["diff", "-f", "-"], SETTINGS).await;
        assert_eq!(missing.status.code(), Some(1), "{missing:?}");
        cluster.kubectl_with("apply -f -", SETTINGS).await;
        let same = cluster.run(&["diff", "-f", "-"], SETTINGS).await;
        assert_eq!((same.status.code(), same.stdout.len()), (Some(0), 0), "{same:?}");
        let changed = SETTINGS.replace("a: '1'", "a: '2'");
        let other = cluster.run(&["diff", "-f", "-"], &changed).await;
        let text = String::from_utf8_lossy(&other.stdout).into_owned();
        assert_eq!(other.status.code(), Some(1), "{other:?}");
        assert!(text.contains("\n-  a: \"1\"\n+  a: \"2\"\n"), "{text}");
        cluster.prints("get cm settings -o jsonpath={.data.a}", "1").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_are_applied_at_once_and_deleted_by_file() {
    for cluster in Cluster::for_each_kubectl().await {
        let both = format!("{SETTINGS}\n---\n{WEB}");
        let made = cluster.kubectl_with("apply -f -", &both).await;
        assert_eq!(made, "configmap/settings created\ndeployment.apps/web created\n");
        let dry = cluster.kubectl_with("apply --dry-run=client -f -", &both).await;
        assert!(dry.contains("configmap/settings configured (dry run)"), "{dry}");
        let dry = cluster.kubectl_with("apply --dry-run=server -f -", &both).await;
        assert!(dry.contains("configmap/settings unchanged (server dry run)"), "{dry}");
        let list = cluster.kubectl_with("get -f - -o name", &both).await;
        assert_eq!(list, "configmap/settings\ndeployment.apps/web\n");
        cluster.kubectl_with("delete -f -", &both).await;
        let text = cluster.refused("get cm settings", "").await;
        assert!(text.contains("not found"), "{text}");
    }
}
