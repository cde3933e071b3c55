//! The pods that an object would have, as its controller would make them, for finding them places.

use serde_json::{Value, json};

use crate::object;

/// Pods that one object is taken to have, at most.
const PODS_MAX: i64 = 1_000;

/// Pods to come.
#[derive(Default)]
pub struct Pods {
    pub pods: Vec<Value>,
    /// The uids of pods that they come in place of.
    pub replaced: Vec<String>,
    /// Whether all pods are made again.
    pub is_anew: bool,
    /// What is not known of them, for people.
    pub message: String,
}

/// How many pods of which template.
struct Part<'a> {
    suffix: String,
    template: &'a Value,
    count: i64,
}

/// The pods that are made when an object becomes another.
pub fn of(before: &Value, after: &Value) -> Pods {
    let kind = after["kind"].as_str().unwrap_or_default();
    if kind == "Pod" {
        let pods = if before.is_null() { vec![after.clone()] } else { Vec::new() };
        return Pods { pods, ..Pods::default() };
    }
    if kind == "TrainJob" {
        return train_job(before, after);
    }
    let mut made = Pods::default();
    let old = parts(before);
    for (at, part) in parts(after).iter().enumerate() {
        let old = old.get(at);
        let is_same = old.is_some_and(|old| old.template == part.template);
        let standing = if is_same { old.map_or(0, |old| old.count) } else { 0 };
        made.is_anew |= old.is_some() && !is_same;
        for number in standing..part.count.min(PODS_MAX) {
            made.pods.push(pod(after, part, number));
        }
    }
    // The template of a Job cannot change, and its pods are not made again.
    if kind == "DaemonSet" {
        made.pods.clear();
        made.message = "one pod for each node; their places follow from the nodes".to_owned();
    }
    made
}

fn parts(object: &Value) -> Vec<Part<'_>> {
    let spec = &object["spec"];
    let number = |value: &Value| value.as_i64().unwrap_or(1);
    let one = |template, count| vec![Part { suffix: String::new(), template, count }];
    match object["kind"].as_str().unwrap_or_default() {
        _ if spec["suspend"] == true => Vec::new(),
        "Deployment" | "ReplicaSet" | "StatefulSet" | "ReplicationController" => {
            one(&spec["template"], number(&spec["replicas"]))
        }
        "Job" => {
            let completions = spec["completions"].as_i64().unwrap_or(i64::MAX);
            one(&spec["template"], number(&spec["parallelism"]).min(completions))
        }
        "JobSet" => {
            let jobs = spec["replicatedJobs"].as_array();
            let part = |job: &'_ Value| -> (String, i64) {
                let parallelism = number(&job["template"]["spec"]["parallelism"]);
                let name = job["name"].as_str().unwrap_or_default();
                (format!("-{name}"), parallelism.saturating_mul(number(&job["replicas"])))
            };
            let jobs = jobs.into_iter().flatten();
            let parts = jobs.map(|job| {
                let (suffix, count) = part(job);
                Part { suffix, template: &job["template"]["spec"]["template"], count }
            });
            parts.collect()
        }
        "LeaderWorkerSet" => {
            let template = &spec["leaderWorkerTemplate"];
            let count = number(&spec["replicas"]).saturating_mul(number(&template["size"]));
            one(&template["workerTemplate"], count)
        }
        _ => Vec::new(),
    }
}

fn pod(owner: &Value, part: &Part<'_>, number: i64) -> Value {
    let mut pod = part.template.clone();
    let name = format!("{}{}-{number}", object::name(owner), part.suffix);
    dress(&mut pod, owner, name);
    pod
}

fn dress(pod: &mut Value, owner: &Value, name: String) {
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    object::set_meta(pod, "namespace", object::namespace(owner));
    object::set_meta(pod, "uid", format!("plan-{}-{name}", object::namespace(owner)));
    object::set_meta(pod, "name", name);
    if pod["spec"]["schedulerName"].is_null() {
        pod["spec"]["schedulerName"] = json!("default-scheduler");
    }
}

/// A job of training asks for nodes itself; what its runtime adds is not looked at.
fn train_job(before: &Value, after: &Value) -> Pods {
    if !before.is_null() || after["spec"]["suspend"] == true {
        return Pods::default();
    }
    let trainer = &after["spec"]["trainer"];
    let count = trainer["numNodes"].as_i64().unwrap_or(1).min(PODS_MAX);
    let container = json!({"name": "node", "image": trainer["image"].as_str().unwrap_or("trainer"),
        "resources": trainer.get("resourcesPerNode").cloned().unwrap_or(json!({}))});
    let make = |number: i64| {
        let mut pod = json!({"spec": {"containers": [container]}});
        dress(&mut pod, after, format!("{}-node-0-{number}", object::name(after)));
        pod
    };
    let message = "pods as the trainer asks for them, without what the runtime adds".to_owned();
    Pods { pods: (0..count).map(make).collect(), message, ..Pods::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(replicas: i64, image: &str) -> Value {
        json!({"kind": "Deployment", "metadata": {"name": "d", "namespace": "a"},
            "spec": {"replicas": replicas,
                "template": {"spec": {"containers": [{"image": image}]}}}})
    }

    fn count(before: &Value, after: &Value) -> (usize, bool) {
        let pods = of(before, after);
        (pods.pods.len(), pods.is_anew)
    }

    #[test]
    fn only_pods_to_come_are_placed() {
        assert_eq!(count(&Value::Null, &set(3, "x")), (3, false));
        assert_eq!(count(&set(1, "x"), &set(3, "x")), (2, false));
        assert_eq!(count(&set(3, "x"), &set(3, "y")), (3, true));
        assert_eq!(count(&set(3, "x"), &set(1, "x")), (0, false));
        let job = json!({"kind": "TrainJob", "metadata": {"name": "t"},
            "spec": {"trainer": {"numNodes": 4}}});
        assert_eq!(count(&Value::Null, &job), (4, false));
    }
}
