//! A cluster with the operator for LeaderWorkerSets in it.

use std::sync::Arc;

use inference::kinds::LEADER_WORKER_SET;
use inference::leader_worker_set::{admission, manifests};
use inference::{Enabled, NAMESPACE, Options, WEBHOOK_SERVICE};
use reconcile::plan::Target;
use reconcile::{Context, Error, Kind, Name, Object, run};
use serde_json::{Value, json};
use testkit::cluster::until;
use testkit::{Cluster, pods};

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";
pub const DEFINITION: Kind = Kind::cluster(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);
pub const KINDS: [Kind; 6] = [
    Kind::cluster("", "v1", "Namespace", "namespaces"),
    DEFINITION,
    Kind::cluster(RBAC, "v1", "ClusterRole", "clusterroles"),
    Kind::cluster(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings"),
    Kind::cluster(ADMISSION, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    Kind::cluster(
        ADMISSION,
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    ),
];

pub struct World {
    pub cluster: Cluster,
    pub context: Context,
}

/// Installs what the operator needs, and has it asked.
pub async fn install(cluster: &Cluster) {
    install_all(cluster, manifests::all()).await;
}

/// The same without what the schema of the kind says: a world for each of many plans must be made
/// quickly.
pub async fn install_bare(cluster: &Cluster) {
    let mut all = manifests::all();
    let definition = all.iter_mut().find(|one| one["kind"] == DEFINITION.kind);
    definition.expect("a definition")["spec"]["versions"][0]["schema"]["openAPIV3Schema"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    install_all(cluster, all).await;
}

async fn install_all(cluster: &Cluster, all: Vec<Value>) {
    cluster.answer((NAMESPACE, WEBHOOK_SERVICE), |_, path, review| {
        Box::pin(async move { admission::review(&path, &review) })
    });
    for manifest in all {
        let kind = KINDS.iter().find(|kind| manifest["kind"] == kind.kind).expect("a known kind");
        cluster.install(*kind, &manifest).await;
    }
}

/// What makes pods of StatefulSets, and collects what has lost its owner.
pub async fn play(context: Context) {
    tokio::join!(
        run::run(context.clone(), controllers::stateful_set::Controller),
        controllers::garbage_collector::run(context.clone()),
        pods::play(context),
    );
}

/// The operator alone.
pub fn options() -> Options {
    let enabled = Enabled { dynamo: false, leader_worker_set: true };
    Options { enabled, ..Options::default() }
}

impl World {
    /// With LeaderWorkerSets.
    pub async fn start() -> World {
        let mut world = World::bare().await;
        install(&world.cluster).await;
        let mut operators = inference::start(&world.context, &options());
        world.run(async move { while operators.join_next().await.is_some() {} });
        world.run(play(world.cluster.context()));
        world
    }

    /// With nothing of ours.
    pub async fn bare() -> World {
        let cluster = Cluster::start().await;
        let context = cluster.context();
        World { cluster, context }
    }

    pub async fn install(&self, manifests: &[Value]) {
        for manifest in manifests {
            let kind = KINDS.iter().find(|kind| manifest["kind"] == kind.kind);
            self.cluster.install(*kind.expect("a known kind"), manifest).await;
        }
    }

    /// Runs something for as long as the world lives.
    pub fn run(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.cluster.run(task);
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

    /// Why there are events about objects of a name.
    pub async fn reasons(&self, name: &str) -> Vec<String> {
        let requests = self.context.requests("test", Default::default());
        let all = requests.read("/api/v1/namespaces/default/events").await.expect("readable");
        let all = all["items"].as_array().cloned().unwrap_or_default();
        let own = all.iter().filter(|event| event["involvedObject"]["name"] == name);
        own.filter_map(|event| event["reason"].as_str().map(str::to_owned)).collect()
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

    /// Waits until all groups serve and are of what the set says.
    pub async fn until_available(&self, name: &str) -> Object {
        self.until(LEADER_WORKER_SET, name, is_available).await
    }
}

pub fn is_available(set: &Value) -> bool {
    let is_seen = set["status"]["observedGeneration"] == set["metadata"]["generation"];
    is_seen && reconcile::conditions::is_true(&set["status"], "Available")
}

fn is(object: &Arc<Object>, name: &str) -> bool {
    &*object.name.name == name
}

/// A set of groups; what its pods do is written on them.
pub fn set(name: &str, replicas: i64, size: i64, more: Value) -> Value {
    let mut set = json!({
        "apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"replicas": replicas, "leaderWorkerTemplate": {"size": size, "workerTemplate": {
            "metadata": {"annotations": {"play/grace": "2"}},
            "spec": {"containers": [{"name": "c", "image": "one"}]}}}},
    });
    reconcile::plan::merge(&mut set, &more);
    set
}

/// The change that makes all pods new ones.
pub fn image(name: &str) -> Value {
    json!({"spec": {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": [
        {"name": "c", "image": name}]}}}}})
}
