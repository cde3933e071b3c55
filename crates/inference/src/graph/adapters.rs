//! What lets others scale a component: an adapter for each component that asks for one.

use reconcile::plan::{Notice, Target};
use reconcile::{Plan, owners};
use serde_json::json;

use super::facts::Graph;
use super::observe::Observed;
use crate::kinds::{ADAPTER, GRAPH};
use crate::names;

pub fn sync(plan: &mut Plan, graph: &Graph<'_>, observed: &Observed) {
    let mut wanted = Vec::new();
    for part in graph.components().filter(|part| part.has_adapter()) {
        let name = part.child_name(graph.name());
        let reference = json!({"name": graph.name(), "componentName": part.name()});
        match observed.adapters.iter().find(|adapter| *adapter.name.name == *name) {
            None => {
                let mut made = owners::child(ADAPTER, &name, GRAPH, graph.object);
                made["metadata"]["labels"] =
                    json!({names::GRAPH: graph.name(), names::COMPONENT: part.name()});
                // From here on what it says is what is wanted.
                made["spec"] = json!({"replicas": part.replicas(), "dgdRef": reference});
                plan.create(ADAPTER, made);
                say(plan, "AdapterCreated", format!("Created scaling adapter {name}"));
            }
            Some(live) if live.value["spec"]["dgdRef"] != reference => {
                let patch = json!({"spec": {"dgdRef": reference}});
                plan.patch(Target::of(ADAPTER, live), patch);
                say(plan, "AdapterUpdated", format!("Updated scaling adapter {name}"));
            }
            Some(_) => {}
        }
        wanted.push(name);
    }
    for adapter in &observed.adapters {
        let name = adapter.name.name.to_string();
        if !wanted.contains(&name) && !adapter.is_terminating() {
            plan.delete(Target::of(ADAPTER, adapter));
            say(plan, "AdapterDeleted", format!("Deleted scaling adapter {name}"));
        }
    }
}

fn say(plan: &mut Plan, reason: &'static str, message: String) {
    plan.notices.push(Notice::normal(reason, message));
}
