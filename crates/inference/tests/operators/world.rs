//! A cluster with the operator for LeaderWorkerSets in it.

use std::ops::Deref;
use std::sync::LazyLock;

use inference::kinds::LEADER_WORKER_SET;
use inference::leader_worker_set::{admission, manifests};
use inference::{Enabled, NAMESPACE, Options, WEBHOOK_SERVICE};
use reconcile::{Context, Object, run};
use serde_json::{Value, json};
use testkit::manifests::{DEFINITION, bare};
use testkit::users::Users;
use testkit::{Cluster, pods};

pub struct World {
    pub cluster: Cluster,
    pub users: Users,
}

impl Deref for World {
    type Target = Users;

    fn deref(&self) -> &Users {
        &self.users
    }
}

/// Installs what the operator needs, and has it asked.
pub async fn install(cluster: &Cluster) {
    install_all(cluster, &manifests::all()).await;
}

/// The same without what the schema of the kind says: a world for each of many plans must be made
/// quickly.
pub async fn install_bare(cluster: &Cluster) {
    static BARE: LazyLock<Vec<Value>> = LazyLock::new(|| {
        let all = manifests::all().into_iter();
        all.map(|one| if one["kind"] == DEFINITION.kind { bare(one) } else { one }).collect()
    });
    install_all(cluster, &BARE).await;
}

async fn install_all(cluster: &Cluster, all: &[Value]) {
    cluster.answer((NAMESPACE, WEBHOOK_SERVICE), |_, path, review| {
        Box::pin(async move { admission::review(&path, &review) })
    });
    cluster.install_all(&[], all).await;
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
        World::of(Cluster::start().await)
    }

    pub fn of(cluster: Cluster) -> World {
        let users = Users { context: cluster.context() };
        World { cluster, users }
    }

    pub async fn install(&self, manifests: &[Value]) {
        self.cluster.install_all(&[], manifests).await;
    }

    /// Runs something for as long as the world lives.
    pub fn run(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.cluster.run(task);
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
