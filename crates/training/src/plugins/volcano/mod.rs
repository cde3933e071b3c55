//! Pods that start together: the PodGroup of Volcano.

use reconcile::{Kind, Watches};
use serde_json::{Value, json};

use super::groups;
use crate::blueprint::Blueprint;
use crate::field_error::FieldError;
use crate::kinds::VOLCANO_GROUP;
use crate::plugin::{Make, Plugin, Review, Settings, Unless, Wanted};
use crate::train_job::TrainJob;
use crate::value::text;

const ANNOTATION: &str = "scheduling.k8s.io/group-name";
const QUEUE: &str = "scheduling.volcano.sh/queue-name";
/// Classes that are always there.
const SYSTEM_CLASSES: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

pub struct Volcano;

impl Plugin for Volcano {
    fn name(&self) -> &'static str {
        "Volcano"
    }

    fn makes(&self, job: &str) -> Vec<(Kind, String)> {
        vec![(VOLCANO_GROUP, job.to_owned())]
    }

    fn watches(&self, settings: &Settings, watches: &mut Watches) {
        // Once is enough where there are both kinds.
        if settings.groups.volcano && !settings.groups.coscheduling {
            groups::watch(watches);
        }
    }

    fn validate(&self, review: &Review<'_>) -> Vec<FieldError> {
        let blueprint = review.blueprint;
        if !blueprint.group_policy["volcano"].is_object() {
            return Vec::new();
        }
        let mut errors = Vec::new();
        if blueprint.annotations[QUEUE] == "" {
            let field = format!("spec.annotations[{QUEUE}]");
            let detail = "Volcano queue name must not be empty";
            errors.push(FieldError::invalid(field, "", detail));
        }
        for class in classes(blueprint).filter(|class| !SYSTEM_CLASSES.contains(class)) {
            if !review.priority_classes.iter().any(|one| one == class) {
                let detail = format!("PriorityClass {class:?} does not exist");
                let field = "spec.templateSpec.priorityClassName";
                errors.push(FieldError::invalid(field, class, detail));
            }
        }
        errors
    }

    fn enforce_pod_group(&self, job: &TrainJob<'_>, blueprint: &mut Blueprint) {
        if blueprint.group_policy["volcano"].is_object() {
            blueprint.pod_annotations[ANNOTATION] = json!(job.name());
        }
    }

    fn objects(&self, make: &Make<'_>) -> Result<Vec<Wanted>, String> {
        let (job, blueprint) = (make.job, make.blueprint);
        let policy = &blueprint.group_policy["volcano"];
        if !policy.is_object() {
            return Ok(Vec::new());
        }
        if !make.settings.groups.volcano {
            return Err(format!("the cluster has no {VOLCANO_GROUP}"));
        }
        let (count, resources) = groups::members(blueprint, make.surroundings);
        let mut group = job.child(VOLCANO_GROUP, job.name());
        group["spec"] = json!({"minMember": count, "minResources": resources});
        if let Value::String(queue) = &blueprint.annotations[QUEUE] {
            group["spec"]["queue"] = json!(queue);
        }
        if let Some(class) = classes(blueprint).last() {
            group["spec"]["priorityClassName"] = json!(class);
        }
        if policy["networkTopology"].is_object() {
            group["spec"]["networkTopology"] = policy["networkTopology"].clone();
        }
        Ok(vec![Wanted { kind: VOLCANO_GROUP, object: group, unless: Unless::Running }])
    }
}

/// The priority classes that pods name.
fn classes(blueprint: &Blueprint) -> impl Iterator<Item = &str> {
    let pods = (0..blueprint.pod_sets.len()).map(|set| &blueprint.template(set)["spec"]);
    pods.map(|pod| text(&pod["priorityClassName"])).filter(|class| !class.is_empty())
}
