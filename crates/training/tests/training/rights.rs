//! The operators under their own role, as on a cluster of others: it must suffice, and it must not
//! say more than what they ask for.

use std::collections::BTreeSet;

use reconcile::notices::EVENT;
use reconcile::{Context, Kind};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::cluster::until;
use testkit::manifests::DEFINITION;
use testkit::rights::{Right, granted};
use testkit::users::Users;
use training::kinds::{
    CLUSTER_TRAINING_RUNTIME, COSCHEDULING_GROUP, JOB, JOB_SET, PERSISTENT_VOLUME_CLAIM, SECRET,
    TRAIN_JOB, TRAINING_RUNTIME, VOLCANO_GROUP,
};
use training::plugin::{Groups, Settings, StatusServer};
use training::{Enabled, NAMESPACE, Options, SERVICE_ACCOUNT, admission, manifests, status_server};

use crate::world::{has_condition, install, job, play, runtime};

const ACCOUNT: Kind = Kind::namespaced("", "v1", "ServiceAccount", "serviceaccounts");

/// What is needed though no request here shows it: a server that enforces who may make owners wait
/// looks at it when children are made, gangs look at what is added to pods, and a Job that goes on
/// sooner than its own controller saw that it was held begins anew.
const UNSEEN: [(&str, &str, &str); 7] = [
    ("batch", "jobs/status", "update"),
    ("", "limitranges", "list"),
    ("", "limitranges", "watch"),
    ("node.k8s.io", "runtimeclasses", "list"),
    ("node.k8s.io", "runtimeclasses", "watch"),
    ("trainer.kubeflow.org", "trainjobs/finalizers", "update"),
    ("jobset.x-k8s.io", "jobsets/finalizers", "update"),
];

/// Everything that makes an operator ask for something.
async fn use_everything(users: &Users) {
    let own = runtime("own", json!({"play/ends": "Succeeded"}));
    users.create(TRAINING_RUNTIME, own.clone()).await;
    let mut good = job("good", json!({}));
    good["metadata"]["annotations"] =
        json!({"trainer.kubeflow.org/ttl-seconds-after-finished": "0"});
    users.create(TRAIN_JOB, good).await;

    let gang = |name: &str, policy: Value| {
        let mut gang = runtime(name, json!({}));
        gang["spec"]["podGroupPolicy"] = policy;
        gang
    };
    users.create(TRAINING_RUNTIME, gang("gang", json!({"coscheduling": {}}))).await;
    users.create(TRAINING_RUNTIME, gang("volcano", json!({"volcano": {}}))).await;
    for (name, kind) in [("gang", COSCHEDULING_GROUP), ("volcano", VOLCANO_GROUP)] {
        let by = json!({"runtimeRef": {"name": name, "kind": "TrainingRuntime"}});
        users.create(TRAIN_JOB, job(name, by)).await;
        users.until(kind, name, |_| true).await;
    }
    let mpi = json!({"runtimeRef": {"name": "mpi-local", "kind": "ClusterTrainingRuntime"}});
    users.create(TRAIN_JOB, job("mpi", mpi)).await;
    users.until(SECRET, "mpi-mpi-ssh-auth", |_| true).await;

    let mut failing = runtime("failing", json!({"play/ends": "Failed"}));
    failing["spec"]["template"]["spec"]["failurePolicy"] = json!({"maxRestarts": 1});
    failing["metadata"]["finalizers"] = json!(["trainer.kubeflow.org/resource-in-use"]);
    users.create(TRAINING_RUNTIME, failing).await;
    let by = json!({"runtimeRef": {"name": "failing", "kind": "TrainingRuntime"}});
    users.create(TRAIN_JOB, job("bad", by)).await;
    users.until(TRAIN_JOB, "bad", |job| has_condition(job, "Failed")).await;

    users.create(TRAIN_JOB, job("held", json!({"suspend": true}))).await;
    users.until(JOB_SET, "held", |set| set["spec"]["suspend"] == true).await;
    users.patch(TRAIN_JOB, "held", json!({"spec": {"suspend": false}})).await;
    users.until(TRAIN_JOB, "held", |job| has_condition(job, "Complete")).await;
    // The finalizer that older versions put on runtimes goes, and its warning is told twice.
    let old = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime", "spec": own["spec"], "metadata": {"name": "old",
            "finalizers": ["trainer.kubeflow.org/resource-in-use"],
            "labels": {"trainer.kubeflow.org/support": "deprecated"}}});
    users.create(CLUSTER_TRAINING_RUNTIME, old).await;
    let is_free = |one: &Value| one["metadata"]["finalizers"].is_null();
    users.until(CLUSTER_TRAINING_RUNTIME, "old", is_free).await;
    let warned = |count: i64| {
        move |all: &[std::sync::Arc<reconcile::Object>]| {
            let is_it = |event: &Value| event["reason"] == "Deprecated" && event["count"] == count;
            all.iter().any(|one| is_it(&one.value))
        }
    };
    until(&users.context, EVENT, warned(1)).await;
    let again = json!({"spec": {"mlPolicy": {"numNodes": 2}}});
    users.patch(CLUSTER_TRAINING_RUNTIME, "old", again).await;
    until(&users.context, EVENT, warned(2)).await;
    users.until_gone(TRAIN_JOB, "good").await;
    use_sets(users).await;
}

async fn use_sets(users: &Users) {
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let template = |ends: Value| {
        json!({"spec": {"backoffLimit": 0, "template": {"metadata": {"annotations": ends},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i",
                "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]}}}})
    };
    let ends = json!({"play/ends": "Succeeded"});
    let set = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"namespace": "default", "name": "set"},
        "spec": {"ttlSecondsAfterFinished": 0,
            "volumeClaimPolicies": [{"templates": [claim]}],
            "replicatedJobs": [{"name": "a", "replicas": 1, "template": template(ends)}]}});
    users.create(JOB_SET, set).await;
    users.until(PERSISTENT_VOLUME_CLAIM, "data-set", |_| true).await;
    // Its claim is protected by a finalizer of the server, and it waits for its claim.
    let goes = |set: &Value| set["metadata"]["deletionTimestamp"].is_string();
    users.until(JOB_SET, "set", goes).await;
    let jobs = json!([{"name": "a", "replicas": 1, "template": template(json!({}))}]);
    let mut held = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
        "metadata": {"namespace": "default", "name": "stays"}, "spec": {"replicatedJobs": jobs}});
    let pod = "/spec/replicatedJobs/0/template/spec/template/spec/containers/0";
    held.pointer_mut(pod).expect("a container")["volumeMounts"] = json!([]);
    users.create(JOB_SET, held).await;
    users.until(JOB, "stays-a-0", |_| true).await;
    users.patch(JOB_SET, "stays", json!({"spec": {"suspend": true}})).await;
    users.until(JOB, "stays-a-0", |job| job["spec"]["suspend"] == true).await;
}

/// What a server, and a trainer, ask of the operators.
async fn ask(users: &Users, operators: &Context) {
    let mut new =
        job("asked", json!({"runtimeRef": {"name": "volcano", "kind": "TrainingRuntime"}}));
    new["metadata"]["uid"] = json!("u");
    let review = json!({"request": {"uid": "r", "operation": "CREATE", "object": new}});
    let path = admission::webhooks::VALIDATE_TRAIN_JOB;
    let answer = admission::review(operators, path, &review).await.expect("answered");
    assert_eq!(answer["response"]["allowed"], true, "{answer}");
    let account = json!({"metadata": {"namespace": "default", "name": "trainer"}});
    users.create(ACCOUNT, account).await;
    let name = reconcile::Name::new("default", "held");
    let audience = training::plugins::progress::audience("default", "held");
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"audiences": [audience]}});
    let requests = users.context.requests("test", Default::default());
    let token = "/api/v1/namespaces/default/serviceaccounts/trainer/token";
    let token = requests.post(token, &request).await.expect("a token");
    let bearer = format!("Bearer {}", token["status"]["token"].as_str().expect("a token"));
    let report = json!({"trainerStatus": {"progressPercentage": 1,
        "lastUpdatedTime": "2026-01-01T00:00:00Z"}});
    let report = report.to_string();
    let told = status_server::take(operators, &name, Some(&bearer), report.as_bytes()).await;
    assert_eq!(told.0, 200, "{told:?}");
}

#[tokio::test]
async fn the_role_of_the_operators_says_exactly_what_they_ask_for() {
    let mut cluster = Cluster::start().await;
    install(&cluster).await;
    let (client, asked) = cluster.noted_account(NAMESPACE, SERVICE_ACCOUNT);
    let operators = cluster.context_of(client);
    let status_server =
        Some(StatusServer { url: "https://here".to_owned(), authority_pem: "pem".into() });
    let plugins = Settings { status_server, ..Settings::default() };
    let options = Options { plugins, reads_output: true, ..Options::default() };
    let mut running = training::start(&operators, &options);
    cluster.run(async move { while running.join_next().await.is_some() {} });
    cluster.run(play(cluster.context()));
    let users = Users { context: cluster.context() };
    use_everything(&users).await;
    ask(&users, &operators).await;
    let reads_log = || asked.rights().iter().any(|right| right.resource == "pods/log");
    while !reads_log() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }

    assert_eq!(asked.refused(), BTreeSet::new(), "the role must suffice");
    let mut seen = asked.rights();
    seen.extend(UNSEEN.map(|(group, resource, verb)| Right {
        group: group.to_owned(),
        resource: resource.to_owned(),
        verb: verb.to_owned(),
    }));
    let granted = granted(&manifests::roles(Enabled::default()));
    let shown =
        |rights: Vec<&Right>| -> Vec<String> { rights.iter().map(ToString::to_string).collect() };
    assert_eq!(shown(granted.difference(&seen).collect()), [""; 0], "granted and not used");
    assert_eq!(shown(seen.difference(&granted).collect()), [""; 0], "used and not granted");
}

/// On a cluster that has JobSet already.
#[tokio::test]
async fn the_role_of_the_trainer_alone_suffices_to_end_what_is_late() {
    let mut cluster = Cluster::start().await;
    let enabled = Enabled { trainer: true, job_set: false };
    cluster.install(DEFINITION, &api::job_set::definition()).await;
    cluster.install_all(&[], &api::training::definitions()).await;
    cluster.install_all(&[], &manifests::roles(enabled)).await;
    let (client, asked) = cluster.noted_account(NAMESPACE, SERVICE_ACCOUNT);
    let groups = Groups { coscheduling: false, volcano: false };
    let plugins = Settings { groups, ..Settings::default() };
    let options = Options { enabled, plugins, ..Options::default() };
    let mut running = training::start(&cluster.context_of(client), &options);
    cluster.run(async move { while running.join_next().await.is_some() {} });
    cluster.run(play(cluster.context()));
    let users = Users { context: cluster.context() };
    users.create(TRAINING_RUNTIME, runtime("own", json!({}))).await;
    users.create(TRAIN_JOB, job("late", json!({"activeDeadlineSeconds": 1}))).await;
    users.until(JOB_SET, "late", |_| true).await;
    users.until(TRAIN_JOB, "late", |job| has_condition(job, "Failed")).await;
    users.until_gone(JOB_SET, "late").await;
    assert_eq!(asked.refused(), BTreeSet::new(), "the role must suffice");
}
