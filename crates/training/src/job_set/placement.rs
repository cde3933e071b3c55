//! Exclusive placement: a Job has a part of the topology to itself.
//!
//! All pods of a Job attract each other within the topology and keep those of other Jobs out, which
//! is written on the template; no pod has to wait for a leader, and nobody has to rewrite pods.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use serde_json::{Value, json};

use super::build::JOB_KEY;
use super::spec::{ReplicatedJob, Spec};
use crate::value::{list_mut, text};

const TOPOLOGY: &str = "alpha.jobset.sigs.k8s.io/exclusive-topology";
const NODE_SELECTOR: &str = "alpha.jobset.sigs.k8s.io/node-selector";
const NAMESPACED_JOB: &str = "alpha.jobset.sigs.k8s.io/namespaced-job";
const NO_SCHEDULE: &str = "alpha.jobset.sigs.k8s.io/no-schedule";

/// What is said of placement, on the set or on the template of its Jobs.
pub fn annotations(spec: &Spec<'_>, of: &ReplicatedJob<'_>) -> Value {
    let mut said = json!({});
    for name in [TOPOLOGY, NODE_SELECTOR] {
        let own = &of.template["metadata"]["annotations"][name];
        let value =
            if own.is_string() { own } else { &spec.set.value["metadata"]["annotations"][name] };
        if value.is_string() {
            said[name] = value.clone();
        }
    }
    said
}

/// A short text that stands for a Job: `hex(sha1("namespace/name"))`.
pub fn job_key(namespace: &str, name: &str) -> String {
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{namespace}/{name}").as_bytes());
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn place(spec: &Spec<'_>, of: &ReplicatedJob<'_>, name: &str, pod: &mut Value) {
    let said = annotations(spec, of);
    let topology = text(&said[TOPOLOGY]);
    if topology.is_empty() {
        return;
    }
    let namespace = &spec.set.name.namespace;
    if said[NODE_SELECTOR].is_string() {
        pod["nodeSelector"][NAMESPACED_JOB] = json!(format!("{namespace}_{name}"));
        list_mut(&mut pod["tolerations"])
            .push(json!({"key": NO_SCHEDULE, "operator": "Exists", "effect": "NoSchedule"}));
        return;
    }
    let key = job_key(namespace, name);
    let term = |expressions: Value| {
        json!({"labelSelector": {"matchExpressions": expressions}, "topologyKey": topology,
            "namespaceSelector": {}})
    };
    let together = term(json!([{"key": JOB_KEY, "operator": "In", "values": [key]}]));
    let apart = term(json!([
        {"key": JOB_KEY, "operator": "Exists"},
        {"key": JOB_KEY, "operator": "NotIn", "values": [key]},
    ]));
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    list_mut(&mut pod["affinity"]["podAffinity"][required]).push(together);
    list_mut(&mut pod["affinity"]["podAntiAffinity"][required]).push(apart);
}
