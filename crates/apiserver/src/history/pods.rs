//! The pods that an object would have, as its controller would make them, for finding them places.

use serde_json::{Value, json};

use crate::object;

/// Pods that one object is taken to have, at most.
const PODS_MAX: i64 = 1_000;
/// Said of pods that are not made again.
pub const LEFT: &str = "pods that run stay as they are until somebody deletes them";

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
    template: &'a Value,
    count: i64,
    /// What follows the owner's name in the name of a pod, by its number.
    suffix: Box<dyn Fn(i64) -> String + 'a>,
}

/// The pods that are made when an object becomes another.
pub fn of(before: &Value, after: &Value) -> Pods {
    let kind = kind_of(after);
    if kind == Some("Pod") {
        let pods = if before.is_null() { vec![after.clone()] } else { Vec::new() };
        return Pods { pods, ..Pods::default() };
    }
    let mut made = Pods::default();
    let old = parts(before);
    for (at, part) in parts(after).iter().enumerate() {
        let old = old.get(at);
        let is_same = old.is_some_and(|old| old.template == part.template || is_left(after));
        let standing = if is_same { old.map_or(0, |old| old.count) } else { 0 };
        made.is_anew |= old.is_some() && !is_same;
        for number in standing..part.count.min(PODS_MAX) {
            made.pods.push(pod(after, part, number));
        }
    }
    // The template of a Job cannot change, and its pods are not made again.
    if kind == Some("DaemonSet") {
        made.message = "one pod for each node; nobody here knows the nodes".to_owned();
    }
    let templates = [before, after].map(|object| &object["spec"]["template"]);
    if !before.is_null() && is_left(after) && templates[0] != templates[1] {
        made.message = LEFT.to_owned();
    }
    made
}

/// Whether pods stay as they are when what they are made of changes.
pub fn is_left(owner: &Value) -> bool {
    owner["spec"]["updateStrategy"]["type"] == "OnDelete"
}

/// The pods that are made when what another made becomes otherwise: a pod that is to be otherwise
/// is made again.
pub fn made_of(before: &Value, after: &Value) -> Pods {
    let of_template = |pod: &Value| {
        let metadata = &pod["metadata"];
        [&pod["spec"], &metadata["labels"], &metadata["annotations"]].map(Value::clone)
    };
    let is_other = kind_of(after) == Some("Pod")
        && !before.is_null()
        && of_template(before) != of_template(after);
    match is_other {
        true => Pods { is_anew: true, ..of(&Value::Null, after) },
        false => of(before, after),
    }
}

fn parts(object: &Value) -> Vec<Part<'_>> {
    let spec = &object["spec"];
    let one = |template, count| {
        vec![Part { template, count, suffix: Box::new(|number| format!("-{number}")) }]
    };
    let all = match kind_of(object).unwrap_or_default() {
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
            jobs.into_iter().flatten().map(replicated_job).collect()
        }
        "LeaderWorkerSet" => leader_worker_set(spec),
        _ => Vec::new(),
    };
    // Others may have defined the kind with anything in its place.
    let is_template = |part: &Part<'_>| {
        let [metadata, spec] = ["metadata", "spec"].map(|field| part.template.get(field));
        let is_plain =
            |value: Option<&Value>| value.is_none_or(|value| value.is_object() || value.is_null());
        part.template.is_object() && is_plain(metadata) && is_plain(spec)
    };
    all.into_iter().filter(is_template).collect()
}

/// The kind of an object whose pods are known; others may use the name in groups of their own.
fn kind_of(object: &Value) -> Option<&str> {
    let (group, _) = object["apiVersion"].as_str()?.rsplit_once('/').unwrap_or_default();
    let kind = object["kind"].as_str()?;
    let known = match kind {
        "Pod" | "ReplicationController" => "",
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => "apps",
        "Job" => "batch",
        "JobSet" => "jobset.x-k8s.io",
        "LeaderWorkerSet" => "leaderworkerset.x-k8s.io",
        _ => return None,
    };
    (group == known).then_some(kind)
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(1)
}

/// Pods are numbered within their job, jobs within their row.
fn replicated_job(row: &Value) -> Part<'_> {
    let job = &row["template"]["spec"];
    let completions = job["completions"].as_i64().unwrap_or(i64::MAX);
    let each = number(&job["parallelism"]).min(completions).max(0);
    let name = row["name"].as_str().unwrap_or_default();
    let suffix = move |at: i64| format!("-{name}-{}-{}", at / each.max(1), at % each.max(1));
    let count = each.saturating_mul(number(&row["replicas"]));
    Part { template: &job["template"], count, suffix: Box::new(suffix) }
}

/// A leader for each group, and its workers.
fn leader_worker_set(spec: &Value) -> Vec<Part<'_>> {
    let templates = &spec["leaderWorkerTemplate"];
    let worker = &templates["workerTemplate"];
    let leader = match &templates["leaderTemplate"] {
        Value::Null => worker,
        leader => leader,
    };
    let groups = number(&spec["replicas"]);
    let workers = (number(&templates["size"]) - 1).max(0);
    let of_worker = move |at: i64| format!("-{}-{}", at / workers.max(1), at % workers.max(1) + 1);
    vec![
        Part { template: leader, count: groups, suffix: Box::new(|at| format!("-{at}")) },
        Part {
            template: worker,
            count: groups.saturating_mul(workers),
            suffix: Box::new(of_worker),
        },
    ]
}

fn pod(owner: &Value, part: &Part<'_>, number: i64) -> Value {
    let mut pod = part.template.clone();
    let name = format!("{}{}", object::name(owner), (part.suffix)(number));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn set(replicas: i64, image: &str) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "d", "namespace": "a"},
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
    }

    #[test]
    fn a_pod_that_is_to_be_otherwise_is_made_again_by_who_made_it() {
        let pod = |image: &str| {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "d-n"},
                "spec": {"containers": [{"image": image}]}})
        };
        let counts = |made: Pods| (made.pods.len(), made.is_anew);
        assert_eq!(counts(made_of(&Value::Null, &pod("x"))), (1, false));
        assert_eq!(counts(made_of(&pod("x"), &pod("x"))), (0, false));
        assert_eq!(counts(made_of(&pod("x"), &pod("y"))), (1, true));
        assert_eq!(counts(of(&pod("x"), &pod("y"))), (0, false));
    }

    #[test]
    fn pods_that_wait_to_be_deleted_are_not_made_again() {
        let [mut before, mut after] = [set(3, "x"), set(3, "y")];
        for set in [&mut before, &mut after] {
            set["kind"] = json!("StatefulSet");
            set["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
        }
        assert_eq!(count(&before, &after), (0, false));
        assert!(of(&before, &after).message.contains("until somebody deletes them"));
        assert_eq!(count(&Value::Null, &after), (3, false));
    }

    #[test]
    fn what_only_has_the_name_of_a_kind_or_no_template_has_no_pods() {
        let mut other = set(3, "x");
        other["apiVersion"] = json!("example.com/v1");
        other["spec"]["template"] = json!("blue");
        assert_eq!(count(&Value::Null, &other), (0, false));
        for template in [json!("blue"), json!(["x"]), json!({"spec": "x"}), json!({"metadata": 5})]
        {
            let mut odd = set(3, "x");
            odd["spec"]["template"] = template;
            assert_eq!(count(&Value::Null, &odd), (0, false), "{odd}");
        }
    }

    #[test]
    fn pods_have_the_names_that_their_controllers_give() {
        let names = |object: &Value| -> Vec<String> {
            let pods = of(&Value::Null, object).pods;
            pods.iter().map(|pod| object::name(pod).to_owned()).collect()
        };
        let job = json!({"parallelism": 2, "completions": 2, "template": {"spec": {}}});
        let row = json!({"name": "node", "replicas": 2, "template": {"spec": job}});
        let set = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
            "metadata": {"name": "t"},
            "spec": {"replicatedJobs": [row]}});
        assert_eq!(names(&set), ["t-node-0-0", "t-node-0-1", "t-node-1-0", "t-node-1-1"]);
        let version = "leaderworkerset.x-k8s.io/v1";
        let set = json!({"apiVersion": version, "kind": "LeaderWorkerSet",
            "metadata": {"name": "l"},
            "spec": {"replicas": 2,
                "leaderWorkerTemplate": {"size": 3, "workerTemplate": {"spec": {}}}}});
        assert_eq!(names(&set), ["l-0", "l-1", "l-0-1", "l-0-2", "l-1-1", "l-1-2"]);
    }
}
