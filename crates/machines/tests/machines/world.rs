//! A cluster with the operators in it, and with add-ons.

use std::ops::Deref;
use std::sync::LazyLock;

use machines::kinds::{STORAGE_CLASS, WUKONG};
use machines::{Bridges, NAMESPACE, Options, WEBHOOK_SERVICE, admission, manifests};
use reconcile::{Context, Object};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::manifests::bare;
use testkit::users::Users;

use crate::play::play;

/// Which add-ons are there from the start.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AddOns {
    All,
    None,
}

pub struct World {
    /// It ends with this.
    cluster: Cluster,
    users: Users,
}

impl Deref for World {
    type Target = Users;

    fn deref(&self) -> &Users {
        &self.users
    }
}

/// Installs what the operators need, and has them asked.
pub async fn install(cluster: &Cluster, add_ons: AddOns) {
    cluster.answer((NAMESPACE, WEBHOOK_SERVICE), |context, path, review| {
        Box::pin(async move { admission::review(&context, &path, &review).await })
    });
    let mut all = manifests::all();
    if add_ons == AddOns::All {
        all.extend(manifests::add_ons());
    }
    install_these(cluster, &all).await;
    classes(cluster).await;
}

pub async fn install_these(cluster: &Cluster, manifests: &[Value]) {
    cluster.install_all(&[], manifests).await;
}

/// Installs the kinds without what their schemas say, and the rights of the operators.
pub async fn install_bare(cluster: &Cluster) {
    // Made once: making them took longer than most plans.
    static BARE: LazyLock<Vec<Value>> = LazyLock::new(|| {
        let definitions = api::wukong::definitions().into_iter().chain(manifests::add_ons());
        definitions.map(bare).collect()
    });
    install_these(cluster, &BARE).await;
    install_these(cluster, &manifests::roles()).await;
    classes(cluster).await;
}

/// Storage classes: the default one grows.
async fn classes(cluster: &Cluster) {
    for (name, mode, grows) in [
        ("fast", "Immediate", true),
        ("fixed", "Immediate", false),
        ("waits", "WaitForFirstConsumer", true),
        ("never", "Immediate", true),
        ("later", "Immediate", true),
    ] {
        let mut class = json!({"metadata": {"name": name}, "provisioner": "played",
            "volumeBindingMode": mode, "allowVolumeExpansion": grows});
        if name == "fast" {
            class["metadata"]["annotations"] =
                json!({"storageclass.kubernetes.io/is-default-class": "true"});
        }
        cluster.create(STORAGE_CLASS, class).await;
    }
}

impl World {
    pub async fn start() -> World {
        World::with(AddOns::All, Bridges::ByPolicy).await
    }

    pub async fn with(add_ons: AddOns, bridges: Bridges) -> World {
        let mut cluster = Cluster::start().await;
        install(&cluster, add_ons).await;
        let context = cluster.context();
        let mut operators = machines::start(&context, &Options { bridges, ..Options::default() });
        cluster.run(async move { while operators.join_next().await.is_some() {} });
        if add_ons == AddOns::All {
            cluster.run(play(cluster.context()));
        }
        World::of(cluster, context)
    }

    /// One that somebody else has set up.
    pub fn of(cluster: Cluster, context: Context) -> World {
        World { cluster, users: Users { context } }
    }

    /// A user who is not the administrator.
    pub fn user(&self, name: &str) -> Users {
        Users { context: self.cluster.context_of(self.cluster.client(name, &[])) }
    }

    pub async fn until_phase(&self, name: &str, phase: &str) -> Object {
        self.until(WUKONG, name, |one| one["status"]["phase"] == phase).await
    }

    /// Waits for a condition such as `Ready=False` for a reason.
    pub async fn until_condition(&self, name: &str, condition: &str, reason: &str) -> Object {
        self.until(WUKONG, name, |one| says(one, condition, reason)).await
    }
}

/// Whether a status has a condition such as `Ready=False` for a reason.
pub fn says(object: &Value, condition: &str, reason: &str) -> bool {
    let (kind, status) = condition.split_once('=').expect("a condition and its status");
    let found = reconcile::conditions::find(&object["status"], kind);
    found.is_some_and(|one| one["status"] == status && one["reason"] == reason)
}

pub fn message(object: &Object, condition: &str) -> String {
    let found = reconcile::conditions::find(&object.value["status"], condition);
    found.and_then(|one| one["message"].as_str()).unwrap_or_default().to_owned()
}

/// A Wukong with one plain disk, and whatever else is said.
pub fn wukong(name: &str, more: Value) -> Value {
    let mut spec = json!({"cpu": 2, "memory": "2Gi",
        "disks": [{"name": "root", "size": "10Gi", "storageClassName": "fast"}]});
    reconcile::plan::merge(&mut spec, &more);
    json!({"apiVersion": "vm.novasphere.dev/v1alpha1", "kind": "Wukong",
        "metadata": {"namespace": "default", "name": name}, "spec": spec})
}

/// The disks of one whose first is filled from an image.
pub fn imaged(image: &str) -> Value {
    json!([{"name": "root", "size": "10Gi", "storageClassName": "fast", "boot": true,
        "image": image}, {"name": "data", "size": "5Gi", "storageClassName": "fast"}])
}
