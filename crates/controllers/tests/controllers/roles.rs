//! The controllers together, each with no more rights than its own role gives it.

use controllers::kinds::{
    CONFIG_MAP, CRON_JOB, DISRUPTION_BUDGET, JOB, NAMESPACE, POD, SERVICE_ACCOUNT,
};
use controllers::{ALL, Options};
use reconcile::plan::{Deletion, Target};
use reconcile::{Context, Kind, Object, conditions};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::cluster::until;

/// Those whose work is looked at here.
const NAMES: [&str; 10] = [
    "cronjob-controller",
    "disruption-controller",
    "generic-garbage-collector",
    "job-controller",
    "namespace-controller",
    "pod-garbage-collector",
    "replicaset-controller",
    "root-ca-cert-publisher",
    "service-account-controller",
    "ttl-after-finished-controller",
];

/// Starts them as the program does: caches in common, writes under each one's name.
async fn start() -> (Cluster, Context) {
    let mut cluster = Cluster::start().await;
    let reader = cluster.client("system:kube-controller-manager", &[]);
    let shared = cluster.context_of(reader);
    let options = Options { authority_pem: "PEM".into(), ..Options::default() };
    for entry in ALL.iter().filter(|entry| NAMES.contains(&entry.name)) {
        let user = format!("system:serviceaccount:kube-system:{}", entry.name);
        let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system"];
        let context = Context { client: cluster.client(&user, &groups), ..shared.clone() };
        cluster.run((entry.start)(context, &options));
    }
    let context = cluster.context();
    cluster.run(play(context.clone()));
    (cluster, context)
}

/// Pods that have a label succeed at once; those that go are gone.
async fn play(context: Context) {
    let cache = context.cache(POD);
    loop {
        let seen = cache.seen();
        for pod in cache.all() {
            let requests = context.requests("node", Default::default());
            let target = Target::of(POD, &pod);
            if pod.is_terminating() && pod.value["spec"].get("nodeName").is_some() {
                let now = Deletion { grace_seconds: Some(0), ..Deletion::default() };
                let _ = requests.delete(&target, &now).await;
            } else if pod.label("ends").is_some() && pod.value["status"]["phase"] == "Pending" {
                let status = json!({"status": {"phase": "Succeeded"}});
                let _ = requests.patch(&target.part("status"), &status).await;
            }
        }
        cache.reaches(seen + 1).await;
    }
}

fn of(kind: Kind, name: &str, spec: Value) -> Value {
    json!({"apiVersion": kind.api_version(), "kind": kind.kind,
        "metadata": {"namespace": "work", "name": name}, "spec": spec})
}

fn template() -> Value {
    json!({"metadata": {"labels": {"ends": "well"}}, "spec": {"restartPolicy": "Never",
        "containers": [{"name": "main", "image": "i"}]}})
}

fn has(all: &[std::sync::Arc<Object>], name: &str) -> bool {
    all.iter().any(|one| &*one.name.namespace == "work" && &*one.name.name == name)
}

#[tokio::test]
async fn each_can_do_its_work_under_its_own_role() {
    let (cluster, context) = start().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "work"}});
    let namespace = cluster.create(NAMESPACE, namespace).await;
    until(&context, SERVICE_ACCOUNT, |all| has(all, "default")).await;
    until(&context, CONFIG_MAP, |all| has(all, "kube-root-ca.crt")).await;

    let spec = json!({"completions": 2, "parallelism": 2, "template": template()});
    cluster.create(JOB, of(JOB, "stays", spec)).await;
    until(&context, JOB, |all| {
        all.iter().any(|job| conditions::is_true(&job.value["status"], "Complete"))
    })
    .await;
    let spec = json!({"ttlSecondsAfterFinished": 0, "template": template()});
    cluster.create(JOB, of(JOB, "goes", spec)).await;
    until(&context, POD, |all| all.iter().any(|pod| pod.label("job-name") == Some("goes"))).await;
    until(&context, POD, |all| all.iter().all(|pod| pod.label("job-name") != Some("goes"))).await;
    until(&context, JOB, |all| !has(all, "goes")).await;

    let spec = json!({"schedule": "@every 1s", "jobTemplate": {"spec": {"template": template()}}});
    cluster.create(CRON_JOB, of(CRON_JOB, "tick", spec)).await;
    until(&context, CRON_JOB, |all| {
        all.iter().any(|cron| cron.value["status"]["lastSuccessfulTime"].is_string())
    })
    .await;

    let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"ends": "well"}}});
    cluster.create(DISRUPTION_BUDGET, of(DISRUPTION_BUDGET, "few", spec)).await;
    until(&context, DISRUPTION_BUDGET, |all| {
        all.iter().any(|budget| budget.value["status"]["observedGeneration"] == 1)
    })
    .await;

    let spec = json!({"containers": [{"name": "main", "image": "i"}]});
    let mut held = of(POD, "held", spec);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let held = cluster.create(POD, held).await;
    let requests = context.requests("test", Default::default());
    requests.delete(&Target::of(POD, &held), &Deletion::default()).await.expect("deleted");
    until(&context, POD, |all| {
        let held = all.iter().find(|pod| &*pod.name.name == "held");
        held.is_some_and(|held| held.value["status"]["phase"] == "Failed")
    })
    .await;
    let free = json!({"metadata": {"finalizers": []}});
    requests.patch(&Target::of(POD, &held), &free).await.expect("freed");

    let target = Target::of(NAMESPACE, &namespace);
    requests.delete(&target, &Deletion::default()).await.expect("deleted");
    until(&context, NAMESPACE, |all| all.iter().all(|one| &*one.name.name != "work")).await;
    assert!(context.cache(POD).in_namespace("work").is_empty());
}
