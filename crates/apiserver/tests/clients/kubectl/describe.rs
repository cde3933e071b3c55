//! `kubectl describe`: it reads with typed clients, and what it needs beside the object itself.

use super::manifests::{NODE_AND_PODS, READY, SETTINGS, WEB};
use crate::cluster::Cluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_described() {
    for cluster in Cluster::for_each_kubectl().await {
        cluster.kubectl_with("create -f -", NODE_AND_PODS).await;
        cluster.kubectl_with("create -f -", SETTINGS).await;
        cluster.kubectl_with("create -f -", WEB).await;
        cluster.kubectl("create secret generic word --from-literal=password=secret").await;
        cluster.kubectl("expose deploy web --port=80 --target-port=8080").await;
        let ready = format!("patch pod left --subresource=status --type=merge -p '{READY}'");
        cluster.kubectl(&ready).await;
        for (line, parts) in DESCRIBED {
            cluster.shows(&format!("describe {line}"), parts).await;
        }
        let secret = cluster.kubectl("describe secret word").await;
        assert!(!secret.contains("secret\n") && !secret.contains("c2VjcmV0"), "{secret}");
        let text = cluster.refused("describe pod missing", "").await;
        assert!(text.contains("pods \"missing\" not found"), "{text}");
    }
}

const DESCRIBED: &[(&str, &[&str])] = &[
    (
        "pod left",
        &[
            "Name: left",
            "Node: one/",
            "Status: Running",
            "IP: 10.0.0.7",
            "Restart Count: 3",
            "MODE: fast",
            "QoS Class:",
            "Burstable",
            "Events:",
        ],
    ),
    ("service web", &["Selector:", "app=web", "TargetPort:", "8080/TCP", "Endpoints:"]),
    (
        "deployment web",
        &["2 desired | 0 updated", "StrategyType:", "RollingUpdate", "Image:", "nginx"],
    ),
    ("node one", &["Name: one", "disk=fast", "Non-terminated Pods:", "left", "100m"]),
    ("secret word", &["Type: Opaque", "password: 6 bytes"]),
    ("configmap settings", &["Name: settings", "app=web", "a:\n----\n1\n"]),
    ("namespace default", &["Status: Active", "No resource quota."]),
    ("clusterrole system:basic-user", &["PolicyRule:", "selfsubjectreviews"]),
];
