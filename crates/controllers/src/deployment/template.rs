//! The template of a Deployment, and the ReplicaSet that is made for it.

use reconcile::{Object, names, owners};
use serde_json::{Value, json};

use super::spec::Spec;
use crate::kinds::{DEPLOYMENT, REPLICA_SET};
use crate::templates;

/// Tells the pods of one ReplicaSet from those of the others.
pub const HASH_LABEL: &str = "pod-template-hash";

/// Whether a ReplicaSet has the template of the Deployment.
pub fn is_same(deployment: &Object, set: &Object) -> bool {
    normal(&deployment.value["spec"]["template"]) == normal(&set.value["spec"]["template"])
}

/// The hash of the template, as often as it was found to be another's.
pub fn hash(deployment: &Object) -> String {
    let template = normal(&deployment.value["spec"]["template"]).to_string();
    match collisions(deployment) {
        0 => names::digest(&[&template]),
        collisions => names::digest(&[&template, &collisions.to_string()]),
    }
}

pub fn collisions(deployment: &Object) -> i64 {
    deployment.value["status"]["collisionCount"].as_i64().unwrap_or(0)
}

/// The name that the ReplicaSet of the template has or would have.
pub fn set_name(deployment: &Object) -> String {
    names::child(&deployment.name.name, &hash(deployment))
}

/// A ReplicaSet for the template, without replicas and annotations.
pub fn new_set(deployment: &Object, spec: &Spec) -> Value {
    let hash = hash(deployment);
    let mut template = deployment.value["spec"]["template"].clone();
    template["metadata"]["labels"][HASH_LABEL] = json!(hash);
    let mut selector = deployment.value["spec"]["selector"].clone();
    selector["matchLabels"][HASH_LABEL] = json!(hash);
    let mut set = owners::child(REPLICA_SET, &set_name(deployment), DEPLOYMENT, deployment);
    set["metadata"]["labels"] = template["metadata"]["labels"].clone();
    set["spec"] = json!({"selector": selector, "template": template});
    if spec.min_ready_seconds > 0 {
        set["spec"]["minReadySeconds"] = json!(spec.min_ready_seconds);
    }
    set
}

/// A template as it is compared: without the label of the hash.
fn normal(template: &Value) -> Value {
    let mut template = template.clone();
    if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
        labels.remove(HASH_LABEL);
    }
    templates::normal(&template)
}
