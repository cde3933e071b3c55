//! A cluster with the training operators in it.

use std::sync::Arc;

use reconcile::plan::Target;
use reconcile::{Context, Error, Kind, Name, Object};
use serde_json::{Value, json};
use testkit::cluster::until;
use testkit::{Cluster, pods};
use training::kinds::{JOB_SET, TRAIN_JOB};
use training::runtimes::Choice;
use training::{Enabled, NAMESPACE, admission, manifests};

pub const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";
const KINDS: [Kind; 10] = [
    Kind::cluster("", "v1", "Namespace", "namespaces"),
    Kind::namespaced("", "v1", "ConfigMap", "configmaps"),
    DEFINITION,
    Kind::cluster(RBAC, "v1", "ClusterRole", "clusterroles"),
    Kind::cluster(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings"),
    Kind::namespaced(RBAC, "v1", "Role", "roles"),
    Kind::namespaced(RBAC, "v1", "RoleBinding", "rolebindings"),
    Kind::cluster(ADMISSION, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    Kind::cluster(
        ADMISSION,
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    ),
    training::kinds::CLUSTER_TRAINING_RUNTIME,
];
pub const DEFINITION: Kind = Kind::cluster(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);

pub struct World {
    /// It ends with this.
    _cluster: Cluster,
    pub context: Context,
}

/// Installs what the operators need, and has them asked.
pub async fn install(cluster: &Cluster) {
    let service = (NAMESPACE, admission::webhooks::SERVICE);
    cluster.answer(service, |context, path, review| {
        Box::pin(async move { admission::review(&context, &path, &review).await })
    });
    for manifest in manifests::all(Enabled::default(), Choice::ShippedAndLocal, "v2.3.0") {
        let kind = KINDS.iter().find(|kind| manifest["kind"] == kind.kind).expect("a known kind");
        cluster.install(*kind, &manifest).await;
    }
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
    let definitions = std::iter::once(api::job_set::definition());
    for mut definition in definitions.chain(api::training::definitions()) {
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        cluster.install(DEFINITION, &definition).await;
    }
    for role in manifests::roles(Enabled::default()) {
        let kind = KINDS.iter().find(|kind| role["kind"] == kind.kind).expect("a known kind");
        cluster.install(*kind, &role).await;
    }
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
        World { _cluster: cluster, context }
    }

    pub async fn create(&self, kind: Kind, object: Value) -> Object {
        self.try_create(kind, object).await.expect("created")
    }

    pub async fn try_create(&self, kind: Kind, object: Value) -> Result<Object, Error> {
        self.context.requests("test", Default::default()).create(kind, &object).await
    }

    pub async fn try_patch(&self, kind: Kind, name: &str, patch: Value) -> Result<Object, Error> {
        let found = self.get(kind, name).await.expect("it is there");
        let requests = self.context.requests("test", Default::default());
        requests.patch(&Target::of(kind, &found), &patch).await
    }

    pub async fn patch(&self, kind: Kind, name: &str, patch: Value) -> Object {
        self.try_patch(kind, name, patch).await.expect("changed")
    }

    pub async fn delete(&self, kind: Kind, name: &str) {
        let found = self.get(kind, name).await.expect("it is there");
        let requests = self.context.requests("test", Default::default());
        requests.delete(&Target::of(kind, &found), &Default::default()).await.expect("deleted");
    }

    pub async fn get(&self, kind: Kind, name: &str) -> Option<Object> {
        let namespace = if kind.namespaced { "default" } else { "" };
        self.context.get_live(kind, &Name::new(namespace, name)).await.expect("readable")
    }

    /// Waits until something holds of an object.
    pub async fn until(&self, kind: Kind, name: &str, holds: impl Fn(&Value) -> bool) -> Object {
        until(&self.context, kind, |all| all.iter().any(|one| is(one, name) && holds(&one.value)))
            .await;
        let found = self.context.cache(kind).all().into_iter().find(|one| is(one, name));
        Object::new(found.expect("it was there").value.clone())
    }

    pub async fn until_gone(&self, kind: Kind, name: &str) {
        until(&self.context, kind, |all| !all.iter().any(|one| is(one, name))).await;
    }

    pub async fn until_job(&self, name: &str, condition: &str) -> Object {
        self.until(TRAIN_JOB, name, |job| has_condition(job, condition)).await
    }

    pub async fn until_set(&self, name: &str, condition: &str) -> Object {
        self.until(JOB_SET, name, |set| has_condition(set, condition)).await
    }
}

fn is(object: &Arc<Object>, name: &str) -> bool {
    &*object.name.name == name
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
