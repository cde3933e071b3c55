//! Templates of claims for GPUs that the containers of a pod share.

use reconcile::Plan;
use serde_json::{Value, json};

use super::facts::{Graph, Part};
use super::observe::Observed;
use crate::backends;
use crate::kinds::{GRAPH, RESOURCE_CLAIM_TEMPLATE};
use crate::names;
use crate::pods::shared_weights::is_between;
use crate::settings::Settings;
use crate::sync_resource::Sync;
use crate::value::{find, text};

/// The template of a component's claim.
pub fn name(graph: &str, component: &str) -> String {
    format!("{graph}-{}-gpu", component.to_lowercase())
}

pub fn sync(
    plan: &mut Plan,
    settings: &Settings,
    graph: &Graph<'_>,
    observed: &Observed,
) -> Result<(), String> {
    let mut sync = Sync::new(plan, Some((GRAPH, graph.object)));
    for part in graph.components() {
        // Where weights are held by pods of their own, Grove makes the claims.
        let service = match is_between(part.0) {
            true => &Value::Null,
            false => &part.0["experimental"]["gpuMemoryService"],
        };
        let name = name(graph.name(), part.name());
        let live = observed.claim_templates.get(&name).map(|live| &**live);
        if service.is_object() && !settings.gates.resource_claims {
            return Err(format!(
                "component {:?} asks for the GPU memory service, which needs the API \
                 resource.k8s.io/v1",
                part.name()
            ));
        }
        let wanted = service.is_object().then(|| template(graph, &part, &name));
        sync.bring(RESOURCE_CLAIM_TEMPLATE, live, wanted);
    }
    Ok(())
}

fn template(graph: &Graph<'_>, part: &Part<'_>, name: &str) -> Value {
    let main = find(&part.0["podTemplate"]["spec"]["containers"], "name", "main");
    let count = main.map_or(0, backends::gpus).max(1);
    let device = device(part, count);
    json!({
        "metadata": {"namespace": graph.namespace(), "name": name,
            "labels": {names::GRAPH: graph.name(), names::COMPONENT: part.name()}},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpus", "exactly": device}]}}},
    })
}

/// What is claimed for a component: so many GPUs of the class that it names.
pub fn device(part: &Part<'_>, count: i64) -> Value {
    let class = match text(&part.0["experimental"]["gpuMemoryService"]["deviceClassName"]) {
        "" => "gpu.nvidia.com",
        class => class,
    };
    json!({"deviceClassName": class, "allocationMode": "ExactCount", "count": count})
}
