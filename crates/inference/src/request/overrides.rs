//! What a request may change of its profiling Job: a list of what is allowed, and nothing else.

use serde_json::Value;

use super::job::{OUTPUT_COPIER, PROFILER};
use crate::value::{list, list_mut, object_mut, overlay, text, upsert};

const OF_JOB: [&str; 6] = [
    "backoffLimit",
    "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
    "completions",
    "parallelism",
    "suspend",
];
/// Fields of a pod that are replaced.
const OF_POD: [&str; 10] = [
    "tolerations",
    "nodeSelector",
    "affinity",
    "priorityClassName",
    "serviceAccountName",
    "runtimeClassName",
    "dnsPolicy",
    "dnsConfig",
    "terminationGracePeriodSeconds",
    "topologySpreadConstraints",
];
/// Labels by which others know the Job.
const PROTECTED: [&str; 5] =
    ["app", "dgdr", "nvidia.com/managed-by", "dgdr.nvidia.com/name", "dgdr.nvidia.com/namespace"];
const OF_PROFILER: [&str; 3] = ["image", "resources", "securityContext"];
const OF_COPIER: [&str; 2] = ["image", "resources"];

pub fn apply(job: &mut Value, over: &Value) {
    copy(job, over, &OF_JOB);
    let (template, wanted) = (&mut job["template"], &over["template"]);
    let mut labels = wanted["metadata"]["labels"].clone();
    if let Some(labels) = labels.as_object_mut() {
        labels.retain(|name, _| !PROTECTED.contains(&name.as_str()));
    }
    overlay(&mut template["metadata"], "labels", &labels);
    overlay(&mut template["metadata"], "annotations", &wanted["metadata"]["annotations"]);
    pod(&mut template["spec"], &wanted["spec"]);
}

fn pod(pod: &mut Value, over: &Value) {
    copy(pod, over, &OF_POD);
    overlay(pod, "securityContext", &over["securityContext"]);
    for (field, key) in
        [("imagePullSecrets", "name"), ("volumes", "name"), ("initContainers", "name")]
    {
        for one in list(&over[field]) {
            list_mut(&mut pod[field]);
            upsert(&mut pod[field], key, one.clone());
        }
    }
    if over["automountServiceAccountToken"] == false {
        object_mut(pod).insert("automountServiceAccountToken".to_owned(), false.into());
        give_token(pod);
    }
    for over in list(&over["containers"]) {
        let fields: &[&str] = match text(&over["name"]) {
            PROFILER => &OF_PROFILER,
            OUTPUT_COPIER => &OF_COPIER,
            _ => continue,
        };
        let containers = list_mut(&mut pod["containers"]).iter_mut();
        let Some(own) = containers.into_iter().find(|own| own["name"] == over["name"]) else {
            continue;
        };
        copy(own, over, fields);
        if over["name"] != PROFILER {
            continue;
        }
        for (field, key) in [("env", "name"), ("volumeMounts", "mountPath")] {
            for one in list(&over[field]) {
                upsert(&mut own[field], key, one.clone());
            }
        }
        for one in list(&over["envFrom"]) {
            list_mut(&mut own["envFrom"]).push(one.clone());
        }
    }
}

/// Whoever relays the output must be able to write it, though nobody else gets a token.
fn give_token(pod: &mut Value) {
    let path = "/var/run/secrets/kubernetes.io/serviceaccount";
    let sources = serde_json::json!([
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace",
            "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]);
    let volume = serde_json::json!({"name": "copier-token", "projected": {"sources": sources}});
    upsert(&mut pod["volumes"], "name", volume);
    let mount = serde_json::json!({"name": "copier-token", "mountPath": path, "readOnly": true});
    let containers = list_mut(&mut pod["containers"]).iter_mut();
    for copier in containers.filter(|one| one["name"] == OUTPUT_COPIER) {
        upsert(&mut copier["volumeMounts"], "mountPath", mount.clone());
    }
}

fn copy(to: &mut Value, from: &Value, fields: &[&str]) {
    for field in fields.iter().filter(|field| !from[**field].is_null()) {
        to[*field] = from[*field].clone();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_allowed_is_changed() {
        let mut job = json!({"backoffLimit": 0, "template": {
            "metadata": {"labels": {"app": "dynamo-profiler"}},
            "spec": {"restartPolicy": "Never", "securityContext": {"fsGroup": 1000},
                "containers": [{"name": "profiler", "image": "a", "command": ["python"],
                    "env": [{"name": "X", "value": "1"}]}, {"name": "output-copier"}]}}});
        apply(
            &mut job,
            &json!({"backoffLimit": 3, "manualSelector": true, "template": {
            "metadata": {"labels": {"app": "mine", "team": "t"}},
            "spec": {"restartPolicy": "Always", "nodeSelector": {"gpu": "yes"},
                "automountServiceAccountToken": false,
                "securityContext": {"runAsUser": 7},
                "containers": [{"name": "profiler", "image": "b", "command": ["sh"],
                    "env": [{"name": "X", "value": "2"}, {"name": "Y", "value": "3"}]},
                    {"name": "stranger", "image": "c"}]}}}),
        );
        let pod = &job["template"]["spec"];
        assert_eq!((&job["backoffLimit"], &job["manualSelector"]), (&json!(3), &Value::Null));
        let labels = json!({"app": "dynamo-profiler", "team": "t"});
        assert_eq!(job["template"]["metadata"]["labels"], labels);
        assert_eq!(pod["restartPolicy"], "Never");
        assert_eq!(pod["securityContext"], json!({"fsGroup": 1000, "runAsUser": 7}));
        let profiler = &pod["containers"][0];
        assert_eq!((&profiler["image"], &profiler["command"]), (&json!("b"), &json!(["python"])));
        let env = json!([{"name": "X", "value": "2"}, {"name": "Y", "value": "3"}]);
        assert_eq!(profiler["env"], env);
        assert_eq!(list(&pod["containers"]).len(), 2);
        assert_eq!(pod["containers"][1]["volumeMounts"][0]["name"], "copier-token");
    }
}
