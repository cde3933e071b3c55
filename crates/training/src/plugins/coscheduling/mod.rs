//! Pods that start together: the PodGroup of the scheduler plugins.

use reconcile::{Kind, Watches};
use serde_json::json;

use super::groups;
use crate::blueprint::Blueprint;
use crate::kinds::COSCHEDULING_GROUP;
use crate::plugin::{Make, Plugin, Settings, Unless, Wanted};
use crate::train_job::TrainJob;

const LABEL: &str = "scheduling.x-k8s.io/pod-group";

pub struct Coscheduling;

impl Plugin for Coscheduling {
    fn name(&self) -> &'static str {
        "CoScheduling"
    }

    fn makes(&self, job: &str) -> Vec<(Kind, String)> {
        vec![(COSCHEDULING_GROUP, job.to_owned())]
    }

    fn watches(&self, settings: &Settings, watches: &mut Watches) {
        if settings.groups.coscheduling {
            groups::watch(watches);
        }
    }

    fn enforce_pod_group(&self, job: &TrainJob<'_>, blueprint: &mut Blueprint) {
        if blueprint.group_policy["coscheduling"].is_object() {
            blueprint.pod_labels[LABEL] = json!(job.name());
        }
    }

    fn objects(&self, make: &Make<'_>) -> Result<Vec<Wanted>, String> {
        let (job, blueprint) = (make.job, make.blueprint);
        let policy = &blueprint.group_policy["coscheduling"];
        if !policy.is_object() {
            return Ok(Vec::new());
        }
        if !make.settings.groups.coscheduling {
            return Err(format!("the cluster has no {COSCHEDULING_GROUP}"));
        }
        let (count, resources) = groups::members(blueprint, make.surroundings);
        let mut group = job.child(COSCHEDULING_GROUP, job.name());
        group["spec"] = json!({"minMember": count, "minResources": resources});
        if let Some(seconds) = policy["scheduleTimeoutSeconds"].as_i64() {
            group["spec"]["scheduleTimeoutSeconds"] = json!(seconds);
        }
        let unless = Unless::Running;
        Ok(vec![Wanted { kind: COSCHEDULING_GROUP, object: group, unless }])
    }
}
