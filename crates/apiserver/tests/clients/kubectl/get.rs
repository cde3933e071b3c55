//! `kubectl get`: output in every form, sorted, selected, watched.

use std::io::{BufRead, BufReader};

use serde_json::Value;

use super::manifests::{NODE_AND_PODS, READY};
use crate::cluster::Cluster;

async fn with_pods(cluster: &Cluster) {
    cluster.kubectl_with("create -f -", NODE_AND_PODS).await;
    let line = format!("patch pod left --subresource=status --type=merge -p '{READY}'");
    cluster.kubectl(&line).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_comes_in_every_form() {
    for cluster in Cluster::for_each_kubectl().await {
        with_pods(&cluster).await;
        let table = cluster.kubectl("get pods").await;
        let rows: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0], ["NAME", "READY", "STATUS", "RESTARTS", "AGE"], "{table}");
        assert_eq!(rows[1][..4], ["left", "1/1", "Running", "3"], "{table}");
        assert_eq!(rows[2][..4], ["right", "0/1", "Pending", "0"], "{table}");
        let wide = cluster.kubectl("get pods -o wide").await;
        let left: Vec<&str> = wide.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(left[5..], ["10.0.0.7", "one", "<none>", "<none>"], "{wide}");
        assert!(!cluster.kubectl("get pods --no-headers").await.contains("NAME"));
        cluster.shows("get pods --show-labels", &["LABELS", "app=web,side=left"]).await;
        cluster.shows("get pods -L side", &["SIDE", "left", "right"]).await;

        cluster.prints("get pods -o name", "pod/left\npod/right\n").await;
        let json = cluster.kubectl("get pods -o json").await;
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["kind"], &json["apiVersion"]), (&"List".into(), &"v1".into()));
        assert_eq!(json["items"][1]["metadata"]["name"], "right");
        let yaml = cluster.kubectl("get pod left -o yaml").await;
        assert!(yaml.starts_with("apiVersion: v1\nkind: Pod\nmetadata:\n"), "{yaml}");
        assert!(!yaml.contains("managedFields"), "{yaml}");
        let path = "get pods -o 'jsonpath={range .items[*]}{.metadata.name}={.status.phase};{end}'";
        cluster.prints(path, "left=Running;right=Pending;").await;
        let columns = "get pods -o custom-columns=POD:.metadata.name,ON:.spec.nodeName";
        cluster.prints(columns, "POD     ON\nleft    one\nright   <none>\n").await;
        let template = "get pod left -o 'go-template={{.metadata.name}} {{len .spec.containers}}'";
        cluster.prints(template, "left 1").await;
        cluster.shows("get pods,nodes", &["pod/left", "node/one"]).await;
        cluster.shows("get pod/left node/one", &["pod/left", "node/one"]).await;
        cluster.shows("get nodes", &["NAME STATUS", "one Unknown", "<none>"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_sorted_and_selected() {
    for cluster in Cluster::for_each_kubectl().await {
        with_pods(&cluster).await;
        let sorted = "get pods -o name --sort-by=.spec.containers[0].image";
        cluster.prints(sorted, "pod/right\npod/left\n").await;
        let selected = [
            ("--field-selector=spec.nodeName=one", "pod/left\n"),
            ("--field-selector=status.phase!=Running", "pod/right\n"),
            ("--field-selector=metadata.name=right,status.phase=Pending", "pod/right\n"),
            ("-l side=left", "pod/left\n"),
            ("-l 'side in (right, up)'", "pod/right\n"),
            ("-l 'app,!side'", ""),
            ("-A -l app=web --chunk-size=1", "pod/left\npod/right\n"),
        ];
        for (selector, expected) in selected {
            cluster.prints(&format!("get pods -o name {selector}"), expected).await;
        }
        let all = cluster.kubectl("get pods -A").await;
        assert!(all.starts_with("NAMESPACE"), "{all}");
        assert!(all.contains("default     left"), "{all}");
        let text = cluster.refused("get pods --field-selector=spec.image=x", "").await;
        assert!(text.contains("field label not supported: spec.image"), "{text}");
        let text = cluster.refused("get pods missing", "").await;
        assert_eq!(text, "Error from server (NotFound): pods \"missing\" not found\n");
        cluster.prints("get pods missing --ignore-not-found", "").await;
        let text = cluster.refused("get bananas", "").await;
        assert!(text.contains("the server doesn't have a resource type \"bananas\""), "{text}");
        let none = cluster.run(&["get", "pods", "-n", "kube-public"], "").await;
        let none = String::from_utf8_lossy(&none.stderr).into_owned();
        assert_eq!(none, "No resources found in kube-public namespace.\n");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_prints_what_happens() {
    for cluster in Cluster::for_each_kubectl().await {
        with_pods(&cluster).await;
        let mut command = cluster.command();
        let words = ["get", "pods", "-l", "side=left", "--watch", "--output-watch-events"];
        let mut child = command.args(words).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut next = || lines.next().unwrap().unwrap();
        let blocking = tokio::task::block_in_place(|| [next(), next()]);
        assert!(blocking[0].starts_with("EVENT"), "{blocking:?}");
        assert!(blocking[1].starts_with("ADDED      left   1/1     Running"), "{blocking:?}");
        let failed = r#"{"status":{"phase":"Failed"}}"#;
        let line = format!("patch pod left --subresource=status --type=merge -p {failed}");
        cluster.kubectl(&line).await;
        let line = tokio::task::block_in_place(&mut next);
        assert!(line.starts_with("MODIFIED   left"), "{line}");
        cluster.kubectl("delete pod left --grace-period=0 --force").await;
        let mut line = String::new();
        while !line.starts_with("DELETED") {
            line = tokio::task::block_in_place(&mut next);
        }
        assert!(line.starts_with("DELETED    left"), "{line}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
