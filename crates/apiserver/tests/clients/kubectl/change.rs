//! Ways to change an object: edit, patch, replace, label, annotate, scale, set.

use std::os::unix::fs::PermissionsExt;

use super::manifests::{SETTINGS, WEB};
use crate::cluster::Cluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_is_edited() {
    for cluster in Cluster::for_each_kubectl().await {
        cluster.kubectl_with("create -f -", SETTINGS).await;
        let edit = async |script: &str| {
            let editor = cluster.directory.join("editor");
            std::fs::write(&editor, format!("#!/bin/sh\nexec sed -i '{script}' \"$1\"\n")).unwrap();
            std::fs::set_permissions(&editor, PermissionsExt::from_mode(0o755)).unwrap();
            let mut command = cluster.command();
            command.args(["edit", "cm", "settings"]).env("KUBE_EDITOR", &editor);
            tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
        };
        let edited = edit(r#"s/a: "1"/a: "7"/"#).await;
        assert_eq!(edited.stdout, b"configmap/settings edited\n", "{edited:?}");
        cluster.prints("get cm settings -o jsonpath={.data.a}", "7").await;
        let same = edit("s/nothing/else/").await;
        let text = String::from_utf8_lossy(&same.stderr).into_owned();
        assert!(text.contains("Edit cancelled, no changes made."), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_is_patched_in_three_ways() {
    for cluster in Cluster::for_each_kubectl().await {
        cluster.kubectl_with("create -f -", WEB).await;
        let containers = |name: &str| {
            format!(r#"{{"spec":{{"template":{{"spec":{{"containers":[{name}]}}}}}}}}"#)
        };
        let side = containers(r#"{"name":"side","image":"busybox"}"#);
        let patched = cluster.kubectl(&format!("patch deploy web -p {side}")).await;
        assert_eq!(patched, "deployment.apps/web patched\n");
        let count = "get deploy web -o go-template={{len .spec.template.spec.containers}}";
        let count = count.replace("-o go", "-o 'go") + "'";
        cluster.prints(&count, "2").await;
        let again = cluster.kubectl(&format!("patch deploy web -p {side}")).await;
        assert_eq!(again, "deployment.apps/web patched (no change)\n");
        cluster.kubectl(&format!("patch deploy web --type=merge -p {side}")).await;
        cluster.prints(&count, "1").await;
        let json = r#"[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]"#;
        cluster.kubectl(&format!("patch deploy web --type=json -p {json}")).await;
        cluster.prints("get deploy -l a=b -o name", "deployment.apps/web\n").await;
        let wrong = r#"[{"op":"remove","path":"/spec/nothing"}]"#;
        let line = format!("patch deploy web --type=json -p {wrong}");
        let text = cluster.refused(&line, "").await;
        assert!(text.contains("remove operation does not apply"), "{text}");
        let status = r#"{"status":{"replicas":4}}"#;
        cluster
            .kubectl(&format!("patch deploy web --subresource=status --type=merge -p {status}"))
            .await;
        cluster.prints("get deploy web -o jsonpath={.status.replicas}", "4").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_is_replaced() {
    for cluster in Cluster::for_each_kubectl().await {
        let text = cluster.refused("replace -f -", SETTINGS).await;
        assert!(text.contains("configmaps \"settings\" not found"), "{text}");
        cluster.kubectl_with("create -f -", SETTINGS).await;
        let uid = cluster.kubectl("get cm settings -o jsonpath={.metadata.uid}").await;
        let other = SETTINGS.replace("a: '1'", "z: '9'");
        let replaced = cluster.kubectl_with("replace -f -", &other).await;
        assert_eq!(replaced, "configmap/settings replaced\n");
        cluster.prints("get cm settings -o jsonpath={.data}", r#"{"z":"9"}"#).await;
        cluster.prints("get cm settings -o jsonpath={.metadata.uid}", &uid).await;
        let forced = cluster.kubectl_with("replace --force -f -", SETTINGS).await;
        assert!(forced.contains("configmap/settings replaced"), "{forced}");
        assert_ne!(cluster.kubectl("get cm settings -o jsonpath={.metadata.uid}").await, uid);
        // From an older state.
        let stale = SETTINGS.replace("name: settings", "name: settings, resourceVersion: '1'");
        let text = cluster.refused("replace -f -", &stale).await;
        assert!(text.contains("the object has been modified"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_and_annotations_are_set_and_taken_off() {
    for cluster in Cluster::for_each_kubectl().await {
        cluster.kubectl_with("create -f -", SETTINGS).await;
        cluster.prints("label cm settings tier=front", "configmap/settings labeled\n").await;
        let text = cluster.refused("label cm settings tier=back", "").await;
        assert!(text.contains("already has a value (front), and --overwrite is false"), "{text}");
        cluster.kubectl("label cm settings tier=back --overwrite").await;
        let labels = "get cm settings -o jsonpath={.metadata.labels}";
        cluster.prints(labels, r#"{"app":"web","tier":"back"}"#).await;
        cluster.prints("label cm settings tier-", "configmap/settings unlabeled\n").await;
        cluster.prints(labels, r#"{"app":"web"}"#).await;
        let text = cluster.refused("label cm settings 'bad key=1'", "").await;
        assert!(text.contains("name part must consist of alphanumeric"), "{text}");
        // Older ones leave out the last letter.
        let annotated = ["configmap/settings annotate"];
        cluster.shows("annotate cm settings example.com/note=hello", &annotated).await;
        let note = r"get cm settings -o jsonpath={.metadata.annotations.example\.com/note}";
        cluster.prints(note, "hello").await;
        cluster.shows("annotate cm settings example.com/note-", &annotated).await;
        cluster.prints(note, "").await;
        cluster.kubectl("label cm --all many=yes").await;
        cluster.shows("get cm -l many=yes -o name", &["configmap/settings"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_is_scaled_and_its_parts_set() {
    for cluster in Cluster::for_each_kubectl().await {
        cluster.kubectl_with("create -f -", WEB).await;
        cluster.prints("scale deploy web --replicas=5", "deployment.apps/web scaled\n").await;
        cluster.prints("get deploy web -o jsonpath={.spec.replicas}", "5").await;
        let image = "get deploy web -o jsonpath={.spec.template.spec.containers[0].image}";
        let set = "deployment.apps/web image updated\n";
        cluster.prints("set image deploy/web main=caddy:2", set).await;
        cluster.prints(image, "caddy:2").await;
        cluster.kubectl("set env deploy/web MODE=slow").await;
        cluster.prints("set env deploy/web --list", ENVIRONMENT).await;
        cluster.kubectl("set resources deploy/web --requests=cpu=100m,memory=64Mi").await;
        let requests =
            "get deploy web -o jsonpath={.spec.template.spec.containers[0].resources.requests}";
        cluster.prints(requests, r#"{"cpu":"100m","memory":"64Mi"}"#).await;
        cluster.kubectl("set serviceaccount deploy/web robot").await;
        let account = "get deploy web -o jsonpath={.spec.template.spec.serviceAccountName}";
        cluster.prints(account, "robot").await;
    }
}

const ENVIRONMENT: &str = "# Deployment web, container main\nMODE=slow\n";
