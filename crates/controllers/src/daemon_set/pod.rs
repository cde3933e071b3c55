//! The pod of a DaemonSet for one node.

use std::collections::BTreeSet;

use reconcile::{Object, names};
use serde_json::{Value, json};

use super::node_affinity::NAME_FIELD;
use super::placement;
use crate::kinds::DAEMON_SET;
use crate::pods;
use crate::revisions;

/// Counts the templates that a set has had; the server keeps it.
const GENERATION: &str = "deprecated.daemonset.template.generation";
const GENERATION_LABEL: &str = "pod-template-generation";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// A pod for a node, which the scheduler puts there because it fits nowhere else.
pub fn made(set: &Object, name: &str, node: &str, hash: &str) -> Value {
    let mut pod = pods::from_template(&set.value["spec"]["template"], name, DAEMON_SET, set);
    pod["metadata"]["labels"][revisions::POD_LABEL] = json!(hash);
    if let Some(generation) = set.annotation(GENERATION) {
        pod["metadata"]["labels"][GENERATION_LABEL] = json!(generation);
    }
    placement::add_tolerations(&mut pod["spec"]);
    let field = json!({"key": NAME_FIELD, "operator": "In", "values": [node]});
    pod["spec"]["affinity"]["nodeAffinity"][REQUIRED] =
        json!({"nodeSelectorTerms": [{"matchFields": [field]}]});
    pod
}

/// The node that a pod runs on or is meant for.
pub fn node(pod: &Object) -> &str {
    let bound = pods::node(pod);
    if !bound.is_empty() {
        return bound;
    }
    let terms = &pod.value["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"];
    let fields = terms
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|term| term["matchFields"].as_array().into_iter().flatten());
    let mut names = fields.filter(|field| field["key"] == NAME_FIELD && field["operator"] == "In");
    names.next().and_then(|field| field["values"][0].as_str()).unwrap_or_default()
}

/// Whether a pod is of the set's present template.
pub fn is_updated(set: &Object, pod: &Object, hash: &str) -> bool {
    let generation = set.annotation(GENERATION);
    pod.label(revisions::POD_LABEL) == Some(hash)
        || generation.is_some() && pod.label(GENERATION_LABEL) == generation
}

/// A name that follows from the set, its template, the node and how often pods have failed there;
/// those that are taken are passed over.
pub fn free_name(
    set: &Object,
    node: &str,
    (hash, failures): (&str, u32),
    taken: &mut BTreeSet<String>,
) -> String {
    let name = |attempt: u32| {
        let digest = names::digest(&[&set.uid, hash, node, &attempt.to_string()]);
        names::child(&set.name.name, &digest[..5])
    };
    let mut names = (failures..).map(name).filter(|name| taken.insert(name.clone()));
    names.next().expect("there are more numbers than pods")
}
