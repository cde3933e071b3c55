//! No fault of a request changes where pods end up.

use std::time::Duration;

use reconcile::Context;
use reconcile::plan::{Deletion, Target};
use scheduler::Options;
use scheduler::kinds::{GROUP, NODE, POD};
use serde_json::{Value, json};
use testkit::simulation::{self, Trial};

use crate::{CRD, node, pod};

fn on(name: &str, cpu: &str, node: &str) -> Value {
    let mut pod = pod(name, cpu);
    pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": node});
    pod
}

async fn untaint(context: &Context) {
    let requests = context.requests("test", Default::default());
    context.cache(NODE).reaches(1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    for node in context.cache(NODE).all() {
        let patch = json!({"spec": {"taints": null}});
        requests.patch(&Target::of(NODE, &node), &patch).await.expect("untainted");
    }
}

/// Two pods that fit, one that never does, and one that fits when another goes.
const SINGLES: Trial = Trial {
    name: "scheduler",
    seed: 1,
    component: |context| Box::pin(scheduler::run(context, Options::default())),
    workload: |cluster, context| {
        Box::pin(async move {
            for name in ["n1", "n2"] {
                cluster.create(NODE, node(name, "4")).await;
            }
            untaint(&context).await;
            let first = cluster.create(POD, on("first", "3", "n1")).await;
            cluster.create(POD, on("second", "3", "n2")).await;
            cluster.create(POD, pod("never", "9")).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
            cluster.create(POD, on("third", "3", "n1")).await;
            tokio::time::sleep(Duration::from_secs(900)).await;
            let requests = context.requests("test", Default::default());
            let now = Deletion { grace_seconds: Some(0), ..Deletion::default() };
            requests.delete(&Target::of(POD, &first), &now).await.expect("deleted");
        })
    },
    play: |_| Box::pin(std::future::pending()),
};

#[test]
fn no_fault_of_a_request_changes_where_pods_end_up() {
    let plans = simulation::try_everything(SINGLES);
    println!("{plans} plans");
    assert!(plans > 50, "{plans}");
}

/// A gang of three that fits only when the second node comes.
const GANG: Trial = Trial {
    name: "scheduler",
    seed: 2,
    component: |context| Box::pin(scheduler::run(context, Options::default())),
    workload: |cluster, context| {
        Box::pin(async move {
            for manifest in scheduler::manifests() {
                if manifest["kind"] == "CustomResourceDefinition" {
                    cluster.create(CRD, manifest).await;
                }
            }
            cluster.create(NODE, node("n1", "2")).await;
            let group = json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
                "metadata": {"namespace": "default", "name": "g"},
                "spec": {"minMember": 3, "scheduleTimeoutSeconds": 60}});
            cluster.create(GROUP, group).await;
            for (name, node) in [("a", "n1"), ("b", "n1"), ("c", "n2")] {
                let mut pod = on(name, "1", node);
                pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = json!("g");
                cluster.create(POD, pod).await;
            }
            untaint(&context).await;
            tokio::time::sleep(Duration::from_secs(900)).await;
            cluster.create(NODE, node("n2", "1")).await;
            untaint(&context).await;
        })
    },
    play: |_| Box::pin(std::future::pending()),
};

#[test]
fn no_fault_of_a_request_tears_a_gang_apart() {
    let plans = simulation::try_everything(GANG);
    println!("{plans} plans");
    assert!(plans > 50, "{plans}");
}
