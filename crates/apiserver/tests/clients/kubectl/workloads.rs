//! `kubectl run` and `expose`, cordon and drain.

use super::manifests::{NODE_AND_PODS, WEB};
use crate::cluster::Cluster;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_is_run() {
    for cluster in Cluster::for_each_kubectl().await {
        let line = "run shell --image=busybox --restart=Never --labels=app=shell --env=A=b -- ls";
        cluster.prints(line, "pod/shell created\n").await;
        let spec = "get pod shell -o jsonpath={.spec.restartPolicy}{.spec.containers[0].args}";
        cluster.prints(spec, r#"Never["ls"]"#).await;
        cluster.prints("get pod -l app=shell -o name", "pod/shell\n").await;
        let dry = cluster.kubectl("run other --image=nginx --dry-run=client -o yaml").await;
        assert!(dry.contains("kind: Pod"), "{dry}");
        let line = "run web --image=nginx --port=80 --expose";
        cluster.prints(line, "service/web created\npod/web created\n").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_is_exposed() {
    for cluster in Cluster::for_each_kubectl().await {
        cluster.kubectl_with("create -f -", WEB).await;
        let line = "expose deploy web --port=80 --target-port=8080";
        cluster.prints(line, "service/web exposed\n").await;
        let ports = "get svc web -o jsonpath={.spec.ports[0].targetPort}{.spec.selector}";
        cluster.prints(ports, r#"8080{"app":"web"}"#).await;
        cluster.prints("autoscale deploy web --max=5 -o name", AUTOSCALER).await;
    }
}

const AUTOSCALER: &str = "horizontalpodautoscaler.autoscaling/web\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_cordoned_and_tainted() {
    for cluster in Cluster::for_each_kubectl().await {
        cluster.kubectl_with("create -f -", NODE_AND_PODS).await;
        cluster.prints("cordon one", "node/one cordoned\n").await;
        cluster.shows("get node one", &["SchedulingDisabled"]).await;
        cluster.prints("cordon one", "node/one already cordoned\n").await;
        cluster.prints("uncordon one", "node/one uncordoned\n").await;
        cluster.prints("taint node one key=value:NoSchedule", "node/one tainted\n").await;
        let taints = "get node one -o jsonpath={.spec.taints[?(@.key==\"key\")].effect}";
        cluster.prints(taints, "NoSchedule").await;
        cluster.prints("taint node one key-", "node/one untainted\n").await;
    }
}
