//! The objects of a set, as it wants them.

use reconcile::{Kind, Object, owners};
use serde_json::{Value, json};

use super::labels;
use super::rollout::Step;
use super::spec::{Rollout, Spec, Subdomain, subdomain};
use super::tpu;
use crate::kinds::{LEADER_WORKER_SET, POD, SERVICE, STATEFUL_SET};
use crate::value::{object_mut, overlay, text};

/// The StatefulSet of the leaders.
pub fn leaders(spec: &Spec<'_>, key: &str, step: Step) -> Value {
    let name = spec.name();
    let template = &spec.set.value["spec"]["leaderWorkerTemplate"];
    let own = match &template["leaderTemplate"] {
        Value::Null => &template["workerTemplate"],
        own => own,
    };
    let marks = json!({labels::NAME: name, labels::REVISION: key});
    let mut pod = own.clone();
    overlay(&mut pod["metadata"], "labels", &marks);
    pod["metadata"]["labels"][labels::WORKER_INDEX] = json!(labels::LEADER);
    let annotations = annotations(spec.set, &spec.set.value["spec"]);
    overlay(&mut pod["metadata"], "annotations", &annotations);
    if spec.subdomain() == Subdomain::UniquePerReplica {
        pod["metadata"]["annotations"][labels::SUBDOMAIN] = json!("UniquePerReplica");
    }
    let mut set = owners::child(STATEFUL_SET, name, LEADER_WORKER_SET, spec.set);
    set["metadata"]["labels"] = marks;
    set["metadata"]["annotations"] = json!({labels::REPLICAS: spec.replicas.to_string()});
    set["spec"] = json!({
        "replicas": step.replicas,
        "serviceName": name,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels":
            {labels::NAME: name, labels::WORKER_INDEX: labels::LEADER}},
        "template": pod,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {
            "partition": step.partition, "maxUnavailable": together(&spec.rollout)}},
    });
    keep_claims(&mut set["spec"], template);
    set
}

/// How many leaders may be replaced at once; which ones is for the partition to say.
fn together(rollout: &Rollout) -> i64 {
    (rollout.unavailable_max + rollout.surge_max).max(1)
}

/// The StatefulSet of the workers of one group, as the revision of its leader wants it.
pub fn workers(set: &Object, leader: &Object, revised: &Value) -> Value {
    let name = &*leader.name.name;
    let template = &revised["leaderWorkerTemplate"];
    let label = |key: &str| leader.label(key).unwrap_or_default();
    let selector = json!({
        labels::NAME: &*set.name.name,
        labels::GROUP_INDEX: label(labels::GROUP_INDEX),
        labels::GROUP_KEY: label(labels::GROUP_KEY),
    });
    let mut marks = selector.clone();
    marks[labels::REVISION] = json!(label(labels::REVISION));
    let mut pod = template["workerTemplate"].clone();
    overlay(&mut pod["metadata"], "labels", &marks);
    overlay(&mut pod["metadata"], "annotations", &annotations(set, revised));
    pod["metadata"]["annotations"][labels::LEADER_NAME] = json!(name);
    if tpu::uses(&leader.value["spec"]) {
        pod["metadata"]["annotations"][labels::LEADER_USES_TPUS] = json!("true");
    }
    let service = match subdomain(revised) {
        Subdomain::Shared => &*set.name.name,
        Subdomain::UniquePerReplica => name,
    };
    let mut made = owners::child(STATEFUL_SET, name, POD, leader);
    made["metadata"]["labels"] = marks;
    made["spec"] = json!({
        "replicas": size(revised) - 1,
        "ordinals": {"start": 1},
        "serviceName": service,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": selector},
        "template": pod,
    });
    keep_claims(&mut made["spec"], template);
    made
}

/// Pods of a group, as a revision says.
pub fn size(revised: &Value) -> i64 {
    revised["leaderWorkerTemplate"]["size"].as_i64().unwrap_or(1).max(1)
}

/// The service by which the pods of all groups find each other.
pub fn shared_service(spec: &Spec<'_>) -> Value {
    let selector = json!({labels::NAME: spec.name()});
    service((LEADER_WORKER_SET, spec.set), (spec.name(), spec.name()), selector)
}

/// The service by which the pods of one group do.
pub fn group_service(set: &Object, leader: &Object) -> Value {
    let index = leader.label(labels::GROUP_INDEX).unwrap_or_default();
    let selector = json!({labels::NAME: &*set.name.name, labels::GROUP_INDEX: index});
    service((POD, leader), (&leader.name.name, &set.name.name), selector)
}

fn service((kind, owner): (Kind, &Object), (name, set): (&str, &str), selector: Value) -> Value {
    let mut service = owners::child(SERVICE, name, kind, owner);
    service["metadata"]["labels"] = json!({labels::NAME: set});
    service["spec"] = json!({
        "clusterIP": "None",
        "publishNotReadyAddresses": true,
        "selector": selector,
    });
    service
}

/// What pods of a group are told of it, for the one who completes them when they are made.
fn annotations(set: &Object, spec: &Value) -> Value {
    let mut said = json!({labels::SIZE: size(spec).to_string()});
    let policy = &spec["leaderWorkerTemplate"]["subGroupPolicy"];
    let own = &set.value["metadata"]["annotations"];
    let mut copy = |name: &str| {
        if !text(&own[name]).is_empty() {
            said[name] = own[name].clone();
        }
    };
    copy(labels::TOPOLOGY);
    if policy.is_object() {
        copy(labels::SUBGROUP_TOPOLOGY);
        let kind = policy["subGroupPolicyType"].as_str().unwrap_or("LeaderWorker");
        said[labels::SUBGROUP_TYPE] = json!(kind);
        let size = policy["subGroupSize"].as_i64().unwrap_or(1);
        said[labels::SUBGROUP_SIZE] = json!(size.to_string());
    }
    said
}

fn keep_claims(spec: &mut Value, template: &Value) {
    for field in ["volumeClaimTemplates", "persistentVolumeClaimRetentionPolicy"] {
        if !template[field].is_null() {
            object_mut(spec).insert(field.to_owned(), template[field].clone());
        }
    }
}
