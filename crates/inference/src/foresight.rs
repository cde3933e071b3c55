//! What would be made of a graph that is not there yet, for whoever plans: the same functions that
//! make it, look after look, until its components are workloads.

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::merge;
use reconcile::{Kind, Object, Plan, Step};
use serde_json::Value;

use crate::kinds::{COMPONENT, DEPLOYMENT, LEADER_WORKER_SET};
use crate::settings::Settings;
use crate::{component, conversion, graph};

/// A new graph is looked at a few times before all of it is made: it keeps its books first.
const LOOKS_MAX: usize = 8;
const VERSION: &str = "nvidia.com/v1beta1";

/// The workloads that a graph would have.
pub fn made_of(settings: &Settings, graph: &Value) -> Result<Vec<Value>, String> {
    let mut object = current(graph)?;
    let roles = [settings.roles.planner.clone(), settings.roles.picker.clone()];
    let observed = graph::Observed { roles: roles.into(), ..Default::default() };
    for _ in 0..LOOKS_MAX {
        let now = Object::new(object.clone());
        let plan = graph::plan::plan(settings, &now, &observed, Timestamp::UNIX_EPOCH);
        let components = made(&plan, COMPONENT);
        if !components.is_empty() {
            return components.into_iter().map(|one| workload(settings, one)).collect();
        }
        let patches = plan.steps.iter().filter_map(|step| match step {
            Step::Patch { patch, .. } => Some(patch),
            _ => None,
        });
        let before = object.clone();
        patches.for_each(|patch| merge(&mut object, patch));
        if object == before {
            let why = plan.notices.first().map(|notice| notice.message.clone());
            return Err(why.unwrap_or_else(|| "nothing would be made of the graph".to_owned()));
        }
    }
    Err("the graph needs more looks than a plan takes".to_owned())
}

/// The Deployment or LeaderWorkerSet of a component.
pub fn workload(settings: &Settings, component: Value) -> Result<Value, String> {
    let mut object = current(&component)?;
    object["metadata"]["uid"] = object["metadata"]["name"].clone();
    let observed =
        component::Observed { account: "default".to_owned(), ..component::Observed::default() };
    for _ in 0..LOOKS_MAX {
        let now = Object::new(object.clone());
        let plan = component::plan_of(settings, &now, &observed);
        let workloads = [DEPLOYMENT, LEADER_WORKER_SET].map(|kind| made(&plan, kind));
        if let Some(workload) = workloads.into_iter().flatten().next() {
            return Ok(workload);
        }
        let before = object.clone();
        for step in &plan.steps {
            if let Step::Patch { patch, .. } = step {
                merge(&mut object, patch);
            }
        }
        if object == before {
            let why = plan.notices.first().map(|notice| notice.message.clone());
            return Err(why.unwrap_or_else(|| "nothing would be made of a component".to_owned()));
        }
    }
    Err("a component needs more looks than a plan takes".to_owned())
}

/// In the version that the operators know.
fn current(object: &Value) -> Result<Value, String> {
    match object["apiVersion"] == VERSION {
        true => Ok(object.clone()),
        false => conversion::convert(object, VERSION),
    }
}

fn made(plan: &Plan, kind: Kind) -> Vec<Value> {
    let made = plan.steps.iter().filter_map(|step| match step {
        Step::Create { kind: own, object } | Step::Apply { kind: own, object } if *own == kind => {
            Some(object.clone())
        }
        _ => None,
    });
    made.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_graph_is_made_of_a_workload_for_each_component() {
        let pod = json!({"spec": {"containers": [{"name": "main", "image": "i:1.6.1",
            "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}});
        let graph = json!({
            "apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment",
            "metadata": {"namespace": "ns", "name": "g", "uid": "u", "generation": 1},
            "spec": {"components": [
                {"name": "Frontend", "type": "frontend", "replicas": 1},
                {"name": "decode", "type": "decode", "replicas": 2, "podTemplate": pod},
            ]},
        });
        let made = made_of(&Settings::default(), &graph).unwrap();
        let told: Vec<_> = made
            .iter()
            .map(|one| (one["kind"].as_str().unwrap_or_default(), one["spec"]["replicas"].clone()))
            .collect();
        assert_eq!(told, [("Deployment", json!(1)), ("Deployment", json!(2))]);
        let containers = &made[1]["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(containers["resources"]["limits"]["nvidia.com/gpu"], "1");
    }
}
