//! A cluster with the training operators in it.

use std::ops::Deref;
use std::sync::LazyLock;

use reconcile::{Context, Kind, Object};
use serde_json::{Value, json};
use testkit::manifests::{DEFINITION, bare};
use testkit::users::Users;
use testkit::{Cluster, pods};
use training::kinds::{JOB_SET, TRAIN_JOB};
use training::runtimes::Choice;
use training::train_job::Controller;
use training::{Enabled, NAMESPACE, admission, manifests};

pub const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");

/// What installations of training bring besides.
const RUNTIMES: [Kind; 1] = [training::kinds::CLUSTER_TRAINING_RUNTIME];

pub struct World {
    /// It ends with this.
    _cluster: Cluster,
    users: Users,
}

impl Deref for World {
    type Target = Users;

    fn deref(&self) -> &Users {
        &self.users
    }
}

/// Installs what the operators need, and has them asked.
pub async fn install(cluster: &Cluster) {
    let service = (NAMESPACE, admission::webhooks::SERVICE);
    cluster.answer(service, |context, path, review| {
        Box::pin(async move { admission::review(&context, &path, &review).await })
    });
    let all = manifests::all(Enabled::default(), Choice::ShippedAndLocal, "v2.3.0");
    cluster.install_all(&RUNTIMES, &all).await;
    install_groups(cluster).await;
}

pub async fn install_groups(cluster: &Cluster) {
    for group in groups() {
        cluster.install(DEFINITION, &group).await;
    }
}

/// Installs the kinds without what their schemas say, and the rights of the operators: a world for
/// each of many plans must be made quickly.
pub async fn install_bare(cluster: &Cluster) {
    install_bare_for(cluster, Enabled::default()).await;
}

/// The same with the rights of these operators alone.
pub async fn install_bare_for(cluster: &Cluster, enabled: Enabled) {
    // Made once: making them took longer than most plans.
    static BARE: LazyLock<Vec<Value>> = LazyLock::new(|| {
        let definitions = std::iter::once(api::job_set::definition());
        definitions.chain(api::training::definitions()).map(bare).collect()
    });
    cluster.install_all(&[], &BARE).await;
    cluster.install_all(&[], &manifests::roles(enabled)).await;
}

/// The definitions of PodGroups, as far as tests look at them.
fn groups() -> [Value; 2] {
    [("scheduling.x-k8s.io", "v1alpha1"), ("scheduling.volcano.sh", "v1beta1")].map(
        |(group, version)| {
            json!({"metadata": {"name": format!("podgroups.{group}"), "annotations":
                    {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements"}},
                "spec": {"group": group, "scope": "Namespaced", "names": {"kind": "PodGroup",
                    "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"},
                "versions": [{"name": version, "served": true, "storage": true, "schema":
                    {"openAPIV3Schema": {"type": "object",
                        "x-kubernetes-preserve-unknown-fields": true}}}]}})
        },
    )
}

/// What makes something of Jobs, and collects what has lost its owner.
pub async fn play(context: Context) {
    tokio::join!(
        controllers::job::run(context.clone()),
        controllers::garbage_collector::run(context.clone()),
        pods::play(context),
    );
}

impl World {
    pub async fn start() -> World {
        let mut cluster = Cluster::start().await;
        install(&cluster).await;
        let context = cluster.context();
        let mut operators = training::start(&context, &training::Options::default());
        cluster.run(async move { while operators.join_next().await.is_some() {} });
        cluster.run(play(cluster.context()));
        World { _cluster: cluster, users: Users { context } }
    }

    /// With the operator of TrainJobs alone, as a program makes it that has watchers of its own.
    pub async fn start_with(controller: Controller) -> World {
        let mut cluster = Cluster::start().await;
        install(&cluster).await;
        let context = cluster.context();
        cluster.run(reconcile::run::run(cluster.context(), controller));
        World { _cluster: cluster, users: Users { context } }
    }

    pub async fn until_job(&self, name: &str, condition: &str) -> Object {
        self.until(TRAIN_JOB, name, |job| has_condition(job, condition)).await
    }

    pub async fn until_set(&self, name: &str, condition: &str) -> Object {
        self.until(JOB_SET, name, |set| has_condition(set, condition)).await
    }
}

/// `Suspended=False`; without a status, true is meant.
pub fn has_condition(object: &Value, condition: &str) -> bool {
    let (kind, status) = condition.split_once('=').unwrap_or((condition, "True"));
    let found = reconcile::conditions::find(&object["status"], kind);
    found.is_some_and(|one| one["status"] == status)
}

/// What pods of a runtime of our own do is written on them.
pub fn runtime(name: &str, annotations: Value) -> Value {
    json!({
        "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainingRuntime",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {
            "replicatedJobs": [{"name": "node", "template": {
                "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
                "spec": {"backoffLimit": 0, "template": {
                    "metadata": {"annotations": annotations},
                    "spec": {"restartPolicy": "Never",
                        "containers": [{"name": "node", "image": "i"}]}}}}}]}}},
    })
}

pub fn job(name: &str, spec: Value) -> Value {
    let mut whole = json!({"runtimeRef": {"name": "own", "kind": "TrainingRuntime"}});
    reconcile::plan::merge(&mut whole, &spec);
    json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
        "metadata": {"namespace": "default", "name": name}, "spec": whole})
}
