//! A cluster with the operators in it, and with add-ons.

use std::sync::Arc;

use machines::kinds::{DEFINITION, STORAGE_CLASS, WUKONG};
use machines::{Bridges, NAMESPACE, Options, WEBHOOK_SERVICE, admission, manifests};
use reconcile::plan::Target;
use reconcile::{Context, Error, Kind, Name, Object};
use serde_json::{Value, json};
use testkit::Cluster;
use testkit::cluster::until;

use crate::play::play;

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";
const KINDS: [Kind; 6] = [
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

/// Which add-ons are there from the start.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AddOns {
    All,
    None,
}

pub struct World {
    /// It ends with this.
    pub _cluster: Cluster,
    pub context: Context,
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
    for manifest in manifests {
        let kind = KINDS.iter().find(|kind| manifest["kind"] == kind.kind).expect("a known kind");
        cluster.install(*kind, manifest).await;
    }
}

/// Installs the kinds without what their schemas say, and the rights of the operators: a world for
/// each of many plans must be made quickly.
pub async fn install_bare(cluster: &Cluster) {
    for mut definition in api::wukong::definitions().into_iter().chain(manifests::add_ons()) {
        let versions = definition["spec"]["versions"].as_array_mut().expect("versions");
        for version in versions {
            version["schema"]["openAPIV3Schema"] =
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        }
        install_these(cluster, &[definition]).await;
    }
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

    pub async fn until_phase(&self, name: &str, phase: &str) -> Object {
        self.until(WUKONG, name, |one| one["status"]["phase"] == phase).await
    }

    /// Waits for `Ready=False VMFailed`: a condition, its status and its reason.
    pub async fn until_condition(&self, name: &str, condition: &str, reason: &str) -> Object {
        self.until(WUKONG, name, |one| says(one, condition, reason)).await
    }
}

fn is(object: &Arc<Object>, name: &str) -> bool {
    &*object.name.name == name
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
