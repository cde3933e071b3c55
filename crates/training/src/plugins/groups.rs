//! What the two kinds of PodGroup share: how large a gang is, and whom that concerns.

use amounts::pod::{self, Amounts};
use reconcile::{Object, Watches};
use serde_json::{Map, Value, json};

use crate::blueprint::Blueprint;
use crate::kinds::{
    CLUSTER_TRAINING_RUNTIME, LIMIT_RANGE, RUNTIME_CLASS, TRAIN_JOB, TRAINING_RUNTIME,
};
use crate::plugin::Surroundings;
use crate::train_job::{TrainJob, runtime_kind};
use crate::value::{list, overlay, text};

/// How many pods must be able to start together, and what they request.
pub fn members(blueprint: &Blueprint, surroundings: &Surroundings) -> (i64, Value) {
    let sets = 0..blueprint.pod_sets.len();
    let count = sets.clone().map(|set| blueprint.gang_members(set)).sum();
    let mut sum = Amounts::new();
    for set in sets.filter(|set| blueprint.is_in_gang(*set)) {
        let pods = &blueprint.pod_sets[set];
        let times = pods.count * pods.replicas;
        let pod = admitted(blueprint.template(set), surroundings);
        let requests = pod::of(&pod, "requests").into_iter();
        pod::add(&mut sum, &requests.map(|(name, amount)| (name, amount.times(times))).collect());
    }
    let sum: Map<String, Value> =
        sum.into_iter().map(|(name, amount)| (name, json!(amount.to_string()))).collect();
    (count, Value::Object(sum))
}

/// A template as its pods will be: with the requests that the namespace gives to containers that
/// say none, and the overhead of their class of runtime.
fn admitted(template: &Value, surroundings: &Surroundings) -> Value {
    let mut pod = template.clone();
    for place in ["containers", "initContainers"] {
        let containers = pod["spec"].get_mut(place).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            for range in &surroundings.limit_ranges {
                request(container, range);
            }
        }
    }
    let class = text(&template["spec"]["runtimeClassName"]);
    let class = surroundings.runtime_classes.iter().find(|one| &*one.name.name == class);
    if let Some(class) = class.filter(|_| template["spec"]["overhead"].is_null()) {
        pod["spec"]["overhead"] = class.value["overhead"]["podFixed"].clone();
    }
    pod
}

/// Fills in what a container does not request. A limit of its own counts as a request.
fn request(container: &mut Value, range: &Object) {
    for limit in list(&range.value["spec"]["limits"]) {
        if limit["type"] != "Container" {
            continue;
        }
        let said = container["resources"].clone();
        let is_missing =
            |name: &String| said["requests"][name].is_null() && said["limits"][name].is_null();
        let given = limit["defaultRequest"].as_object().cloned().unwrap_or_default();
        let given = given.into_iter().filter(|(name, _)| is_missing(name));
        let given = Value::Object(given.collect());
        overlay(&mut container["resources"], "requests", &given);
    }
}

/// Only jobs that are held: the gang of one that runs stays as it is.
pub fn watch(watches: &mut Watches) {
    let jobs = watches.cache(TRAIN_JOB);
    watches.by(LIMIT_RANGE, move |change| {
        let namespace = &change.object().name.namespace;
        let is_concerned = |job: &Object| job.name.namespace == *namespace && is_held(job);
        let all = jobs.all();
        all.iter().filter(|job| is_concerned(job)).map(|job| job.name.clone()).collect()
    });
    let jobs = watches.cache(TRAIN_JOB);
    let runtimes = [TRAINING_RUNTIME, CLUSTER_TRAINING_RUNTIME].map(|kind| watches.cache(kind));
    watches.by(RUNTIME_CLASS, move |change| {
        let class = &change.object().name.name;
        let is_concerned = |object: &Object| {
            let job = TrainJob::of(object);
            let kind = runtime_kind(&job.runtime_key());
            let of_kind = runtimes.iter().flat_map(|cache| cache.all());
            let mut own = of_kind.filter(|runtime| {
                &*runtime.name.name == job.runtime_name()
                    && kind.is_some_and(|kind| {
                        kind.namespaced != runtime.name.namespace.is_empty()
                            && (!kind.namespaced || runtime.name.namespace == object.name.namespace)
                    })
            });
            own.any(|runtime| has_class(&runtime.value, class))
        };
        let all = jobs.all();
        let held = all.iter().filter(|job| is_held(job) && is_concerned(job));
        held.map(|job| job.name.clone()).collect()
    });
}

fn is_held(object: &Object) -> bool {
    let job = TrainJob::of(object);
    job.is_suspended() && !job.is_finished()
}

fn has_class(runtime: &Value, class: &str) -> bool {
    let jobs = list(&runtime["spec"]["template"]["spec"]["replicatedJobs"]).iter();
    let mut pods = jobs.map(|job| &job["template"]["spec"]["template"]["spec"]);
    pods.any(|pod| pod["runtimeClassName"] == class)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_gang_requests_what_its_pods_will() {
        let range = json!({"metadata": {"name": "r"}, "spec": {"limits": [
            {"type": "Pod", "max": {"cpu": "9"}},
            {"type": "Container", "defaultRequest": {"cpu": "2", "memory": "1Gi"}}]}});
        let class = json!({"metadata": {"name": "vm"},
            "overhead": {"podFixed": {"memory": "64Mi"}}});
        let surroundings = Surroundings {
            limit_ranges: vec![Arc::new(Object::new(range))],
            runtime_classes: vec![Arc::new(Object::new(class))],
        };
        let template = json!({"spec": {"runtimeClassName": "vm", "containers": [
            {"name": "a", "resources": {"requests": {"cpu": "1"}}},
            {"name": "b", "resources": {"limits": {"memory": "2Gi"}}}]}});
        let pod = admitted(&template, &surroundings);
        let requests = |at: usize| pod["spec"]["containers"][at]["resources"]["requests"].clone();
        assert_eq!(requests(0), json!({"cpu": "1", "memory": "1Gi"}));
        assert_eq!(requests(1), json!({"cpu": "2"}));
        assert_eq!(pod["spec"]["overhead"], json!({"memory": "64Mi"}));
        assert_eq!(admitted(&template, &Surroundings::default()), template);
        assert!(has_class(
            &json!({"spec": {"template": {"spec": {"replicatedJobs":
            [{"template": {"spec": {"template": template}}}]}}}}),
            "vm"
        ));
    }
}
