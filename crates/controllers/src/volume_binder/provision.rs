//! Volumes that are a directory of one node, made for a claim.
//!
//! Only the object is made here. It is a `hostPath` that the node makes when it is first mounted,
//! held to its node by an affinity.

use amounts::Quantity;
use reconcile::requests::Origin;
use reconcile::{Context, Object};
use serde_json::{Value, json};

use super::observe::ForClaim;
use super::{BOUND_BY_CONTROLLER, PROVISIONED_BY, matching, text};
use crate::kinds::STORAGE_CLASS;

pub const PROVISIONER: &str = "setpoint.dev/local-path";
const CLASS: &str = "local-path";
/// Where directories are made, unless the class says another `path`.
const DIRECTORY: &str = "/var/lib/setpoint/local-path";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// The class that every cluster begins with.
pub fn default_class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true,
    })
}

/// Makes the default class, if there is none of its name; whoever removes it has it back after the
/// next start.
pub async fn install_default_class(context: Context) {
    // By then the server answers.
    context.cache(STORAGE_CLASS).reaches(1).await;
    let requests = context.requests("setpoint", Origin::default());
    match requests.create(STORAGE_CLASS, &default_class()).await {
        Err(error) if !error.is_conflict() => {
            tracing::warn!(error = %error.chain(), "the default class could not be made");
        }
        _ => {}
    }
}

/// The name of the volume that is made for a claim.
pub fn name(claim: &Object) -> String {
    format!("pvc-{}", claim.uid)
}

/// The volume for a claim, or why there cannot be one.
pub fn volume(claim: &Object, observed: &ForClaim, class: &Object) -> Result<Value, String> {
    let spec = &claim.value["spec"];
    let modes = spec["accessModes"].as_array().cloned().unwrap_or_default();
    if modes.iter().any(|mode| mode != "ReadWriteOnce" && mode != "ReadWriteOncePod") {
        let why = "only the access modes ReadWriteOnce and ReadWriteOncePod are supported";
        return Err(why.to_owned());
    }
    if spec["volumeMode"] == "Block" {
        return Err("block volumes are not supported".to_owned());
    }
    if !spec["selector"].is_null() {
        return Err("claim.Spec.Selector is not supported".to_owned());
    }
    if !spec["dataSource"].is_null() || !spec["dataSourceRef"].is_null() {
        return Err("data sources are not supported".to_owned());
    }
    let Some(node) = &observed.node else {
        let why = "no node was selected: the class needs volumeBindingMode WaitForFirstConsumer";
        return Err(why.to_owned());
    };
    let name = name(claim);
    let directory = class.value["parameters"]["path"].as_str().unwrap_or(DIRECTORY);
    let (namespace, own) = (&claim.name.namespace, &claim.name.name);
    let reclaim = class.value["reclaimPolicy"].as_str().unwrap_or("Delete");
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {
            PROVISIONED_BY: PROVISIONER, BOUND_BY_CONTROLLER: "yes",
        }},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": modes,
            "volumeMode": "Filesystem",
            "storageClassName": matching::class(claim).unwrap_or_default(),
            "persistentVolumeReclaimPolicy": reclaim,
            "hostPath": {
                "path": format!("{directory}/{name}_{namespace}_{own}"),
                "type": "DirectoryOrCreate",
            },
            "nodeAffinity": {"required": {"nodeSelectorTerms": [affinity(node)]}},
            "claimRef": super::claim::reference(claim),
        },
    });
    if !class.value["mountOptions"].is_null() {
        volume["spec"]["mountOptions"] = class.value["mountOptions"].clone();
    }
    Ok(volume)
}

/// Holds on the node alone: by its host name, or by its name if it has none.
fn affinity(node: &Object) -> Value {
    match node.label(HOSTNAME) {
        Some(host) => json!({"matchExpressions":
            [{"key": HOSTNAME, "operator": "In", "values": [host]}]}),
        None => json!({"matchFields":
            [{"key": "metadata.name", "operator": "In", "values": [&*node.name.name]}]}),
    }
}

pub fn is_ours(volume: &Object) -> bool {
    volume.annotation(PROVISIONED_BY) == Some(PROVISIONER)
}

/// The capacity that a volume of ours is to have: a directory grows by being allowed to.
pub fn grown(claim: &Object, volume: &Object, class: Option<&Object>) -> Option<Value> {
    let allowed = class.is_some_and(|class| class.value["allowVolumeExpansion"] == json!(true));
    let wanted: Quantity = matching::requested(claim);
    let grows = is_ours(volume) && allowed && wanted > matching::capacity(volume);
    let requests = &claim.value["spec"]["resources"]["requests"];
    grows.then(|| requests["storage"].clone()).filter(|size| !text(size).is_empty())
}
