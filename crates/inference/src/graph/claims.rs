//! Templates of claims for GPUs that the containers of a pod share.

use reconcile::Plan;
use serde_json::{Value, json};

use super::facts::{Graph, Part};
use super::observe::Observed;
use crate::backends;
use crate::kinds::{GRAPH, RESOURCE_CLAIM_TEMPLATE};
use crate::names;
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
        let service = &part.0["experimental"]["gpuMemoryService"];
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
    let class = match text(&part.0["experimental"]["gpuMemoryService"]["deviceClassName"]) {
        "" => "gpu.nvidia.com",
        class => class,
    };
    let device = json!({"deviceClassName": class, "allocationMode": "ExactCount", "count": count});
    json!({
        "metadata": {"namespace": graph.namespace(), "name": name,
            "labels": {names::GRAPH: graph.name(), names::COMPONENT: part.name()}},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpus", "exactly": device}]}}},
    })
}
