//! Pods get nodes.

use std::sync::Arc;

use reconcile::plan::{Deletion, Target};
use reconcile::{Context, Object};
use scheduler::kinds::{GROUP, NODE, POD};
use scheduler::{Options, Profile};
use serde_json::json;
use testkit::Cluster;
use testkit::cluster::until;

use crate::{CRD, node, pod};

async fn start() -> (Cluster, Context) {
    start_with(Options::default()).await
}

async fn start_with(options: Options) -> (Cluster, Context) {
    let mut cluster = Cluster::start().await;
    for manifest in scheduler::manifests() {
        if manifest["kind"] == "CustomResourceDefinition" {
            cluster.create(CRD, manifest).await;
        }
    }
    let context = cluster.context();
    cluster.run(scheduler::run(context.clone(), options));
    (cluster, context)
}

/// Makes a node; TaintNodesByCondition has it not ready until somebody says otherwise.
async fn ready(cluster: &Cluster, context: &Context, name: &str, cpu: &str) -> Object {
    let made = cluster.create(NODE, node(name, cpu)).await;
    let requests = context.requests("test", Default::default());
    requests
        .patch(&Target::of(NODE, &made), &json!({"spec": {"taints": null}}))
        .await
        .expect("untainted")
}

fn node_of(pods: &[Arc<Object>], name: &str) -> Option<String> {
    let pod = pods.iter().find(|pod| &*pod.name.name == name)?;
    pod.value["spec"]["nodeName"].as_str().map(str::to_owned)
}

fn message_of(pods: &[Arc<Object>], name: &str) -> Option<String> {
    let pod = pods.iter().find(|pod| &*pod.name.name == name)?;
    let conditions = pod.value["status"]["conditions"].as_array()?;
    let condition = conditions.iter().find(|it| it["type"] == "PodScheduled")?;
    condition["message"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn a_pod_is_told_why_it_waits_and_bound_when_a_node_comes() {
    let (cluster, context) = start().await;
    cluster.create(POD, pod("a", "1")).await;
    until(&context, POD, |pods| {
        message_of(pods, "a").as_deref() == Some("no nodes available to schedule pods")
    })
    .await;
    cluster.create(NODE, node("n1", "4")).await;
    until(&context, POD, |pods| {
        message_of(pods, "a").is_some_and(|message| {
            message.starts_with(
                "0/1 nodes are available: 1 node(s) had untolerated taint \
                 {node.kubernetes.io/not-ready: }. preemption: ",
            )
        })
    })
    .await;
    let requests = context.requests("test", Default::default());
    let seen = context.cache(NODE).all();
    until(&context, NODE, |nodes| nodes.len() == 1).await;
    let made = seen.first().cloned().or_else(|| context.cache(NODE).all().first().cloned());
    let target = Target::of(NODE, &made.expect("a node"));
    requests.patch(&target, &json!({"spec": {"taints": null}})).await.expect("untainted");
    until(&context, POD, |pods| node_of(pods, "a").as_deref() == Some("n1")).await;
    until(&context, reconcile::notices::EVENT, |events| {
        events.iter().any(|event| {
            event.value["reason"] == "Scheduled"
                && event.value["message"] == "Successfully assigned default/a to n1"
                && event.value["source"]["component"] == "default-scheduler"
        })
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_pods_are_bound_and_none_too_many() {
    let (cluster, context) = start().await;
    for at in 0..10 {
        ready(&cluster, &context, &format!("n{at}"), "20").await;
    }
    for at in 0..210 {
        cluster.create(POD, pod(&format!("p{at}"), "1")).await;
    }
    until(&context, POD, |pods| {
        pods.iter().filter(|pod| pod.value["spec"]["nodeName"].is_string()).count() == 200
    })
    .await;
    until(&context, POD, |pods| {
        let waiting = pods.iter().filter(|pod| !pod.value["spec"]["nodeName"].is_string());
        waiting
            .filter(|pod| message_of(std::slice::from_ref(pod), &pod.name.name).is_some())
            .count()
            == 10
    })
    .await;
    for at in 0..10 {
        let name = format!("n{at}");
        let pods = context.cache(POD).all();
        let on = pods.iter().filter(|pod| pod.value["spec"]["nodeName"] == name.as_str());
        assert_eq!(on.count(), 20);
    }
}

#[tokio::test]
async fn pods_of_unknown_schedulers_wait_and_those_of_configured_ones_do_not() {
    let options = Options {
        profiles: vec![Profile::named("default-scheduler"), Profile::named("second")],
        ..Options::default()
    };
    let (cluster, context) = start_with(options).await;
    ready(&cluster, &context, "n1", "4").await;
    for (name, scheduler) in [("a", "nobody"), ("b", "second"), ("c", "default-scheduler")] {
        let mut pod = pod(name, "1");
        pod["spec"]["schedulerName"] = json!(scheduler);
        cluster.create(POD, pod).await;
    }
    until(&context, POD, |pods| node_of(pods, "b").is_some() && node_of(pods, "c").is_some()).await;
    assert_eq!(node_of(&context.cache(POD).all(), "a"), None);
}

#[tokio::test]
async fn a_gang_starts_when_all_of_it_can() {
    let (cluster, context) = start().await;
    ready(&cluster, &context, "n1", "2").await;
    let group = json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"namespace": "default", "name": "g"},
        "spec": {"minMember": 3, "scheduleTimeoutSeconds": 10}});
    cluster.create(GROUP, group).await;
    for at in 0..3 {
        let mut pod = pod(&format!("m{at}"), "1");
        pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = json!("g");
        cluster.create(POD, pod).await;
    }
    until(&context, POD, |pods| {
        (0..3).all(|at| {
            message_of(pods, &format!("m{at}"))
                .is_some_and(|message| message.contains("Insufficient cpu"))
        })
    })
    .await;
    let is_bound = |pod: &Arc<Object>| pod.value["spec"]["nodeName"].is_string();
    assert!(!context.cache(POD).all().iter().any(is_bound));
    until(&context, GROUP, |groups| {
        groups.iter().any(|group| group.value["status"]["phase"] == "Scheduling")
    })
    .await;
    ready(&cluster, &context, "n2", "1").await;
    until(&context, POD, |pods| pods.iter().filter(|pod| is_bound(pod)).count() == 3).await;
    until(&context, GROUP, |groups| {
        groups.iter().any(|group| {
            group.value["status"]["phase"] == "Scheduled" && group.value["status"]["scheduled"] == 3
        })
    })
    .await;
}

#[tokio::test]
async fn the_less_important_goes_for_the_more_important() {
    let (cluster, context) = start().await;
    ready(&cluster, &context, "n1", "2").await;
    let class =
        reconcile::Kind::cluster("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses");
    let high = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "high"}, "value": 1000});
    cluster.create(class, high).await;
    cluster.create(POD, pod("low", "2")).await;
    until(&context, POD, |pods| node_of(pods, "low").is_some()).await;
    let mut vip = pod("vip", "2");
    vip["spec"]["priorityClassName"] = json!("high");
    cluster.create(POD, vip).await;
    until(&context, POD, |pods| {
        let of = |name: &str| pods.iter().find(|pod| &*pod.name.name == name);
        of("low").is_none_or(|pod| {
            pod.is_terminating()
                && pod.value["status"]["conditions"].as_array().is_some_and(|all| {
                    all.iter().any(|one| one["reason"] == "PreemptionByScheduler")
                })
        }) && of("vip").is_some_and(|pod| pod.value["status"]["nominatedNodeName"] == "n1")
    })
    .await;
    // The node lets go of it.
    let requests = context.requests("node", Default::default());
    let low = context.cache(POD).all().into_iter().find(|pod| &*pod.name.name == "low");
    if let Some(low) = low {
        let now = Deletion { grace_seconds: Some(0), ..Deletion::default() };
        let _ = requests.delete(&Target::of(POD, &low), &now).await;
    }
    until(&context, POD, |pods| node_of(pods, "vip").as_deref() == Some("n1")).await;
    let is_clear = |pods: &[Arc<Object>]| {
        pods.iter().all(|pod| pod.value["status"]["nominatedNodeName"].is_null())
    };
    until(&context, POD, is_clear).await;
}

#[tokio::test]
async fn the_rights_of_its_own_role_are_enough() {
    let mut cluster = Cluster::start().await;
    let admin = cluster.context();
    let rbac =
        |kind, plural| reconcile::Kind::cluster("rbac.authorization.k8s.io", "v1", kind, plural);
    for manifest in scheduler::manifests() {
        let kind = match manifest["kind"].as_str() {
            Some("CustomResourceDefinition") => CRD,
            Some("ClusterRole") => rbac("ClusterRole", "clusterroles"),
            _ => rbac("ClusterRoleBinding", "clusterrolebindings"),
        };
        cluster.create(kind, manifest).await;
    }
    let own = cluster.context_of(cluster.client("system:kube-scheduler", &[]));
    cluster.run(scheduler::run(own.clone(), Options::default()));
    ready(&cluster, &admin, "n1", "4").await;
    let group = json!({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
        "metadata": {"namespace": "default", "name": "g"}, "spec": {"minMember": 1}});
    cluster.create(GROUP, group).await;
    let mut member = pod("a", "1");
    member["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = json!("g");
    cluster.create(POD, member).await;
    cluster.create(POD, pod("big", "9")).await;
    until(&admin, POD, |pods| node_of(pods, "a").is_some() && message_of(pods, "big").is_some())
        .await;
    until(&admin, GROUP, |groups| {
        groups.iter().any(|group| group.value["status"]["phase"] == "Scheduled")
    })
    .await;
}
