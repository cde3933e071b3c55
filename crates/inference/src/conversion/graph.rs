//! Graphs: services by name become components in a list.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Way;
use super::component::{self, GROUPS, HUB_GROUPS};
use super::envelope::{self, Kept};
use super::status;
use crate::value::{list, object_mut, text};

const STATUS: [[&str; 2]; 2] = [
    ["services", "components"],
    ["rollingUpdate/updatedServices", "rollingUpdate/updatedComponents"],
];

pub fn convert(object: &Value, way: Way) -> Value {
    let (plain, envelope) = envelope::open(object, envelope::GRAPH);
    let mut made = plain.clone();
    if plain["spec"].is_object() {
        match way {
            Way::ToHub => {
                made["spec"] = hub_of(&plain["spec"], &envelope);
                let back = spoke_of(&made["spec"], &Value::Null);
                let content = spoke_losses(&plain["spec"], &back);
                envelope::close(&mut made, envelope::GRAPH, content);
            }
            Way::ToSpoke => {
                made["spec"] = spoke_of(&plain["spec"], &envelope);
                let back = hub_of(&made["spec"], &Value::Null);
                let content = hub_losses(&plain["spec"], &back);
                envelope::close(&mut made, envelope::GRAPH, content);
            }
        }
    }
    status::convert(&plain, &mut made, way, envelope::GRAPH_STATUS, &STATUS);
    made
}

/// Fields of the graph itself by the names that the other version gives them.
fn rename(spec: &Value, way: Way) -> Value {
    let mut made = spec.clone();
    let fields = object_mut(&mut made);
    fields.remove("services");
    fields.remove("components");
    let (from, to) = match way {
        Way::ToHub => ("envs", "env"),
        Way::ToSpoke => ("env", "envs"),
    };
    if let Some(env) = fields.remove(from) {
        fields.insert(to.to_owned(), env);
    }
    let (from, to) = match way {
        Way::ToHub => ("topologyProfile", "clusterTopologyName"),
        Way::ToSpoke => ("clusterTopologyName", "topologyProfile"),
    };
    if let Some(Value::Object(topology)) = fields.get_mut("topologyConstraint")
        && let Some(name) = topology.remove(from)
    {
        topology.insert(to.to_owned(), name);
    }
    if way == Way::ToHub {
        // Claims beside the services have no place there.
        fields.remove("pvcs");
    }
    made
}

fn hub_of(spec: &Value, envelope: &Value) -> Value {
    let mut made = rename(spec, Way::ToHub);
    let (said, live) = (&envelope["hub"], &envelope["hubLive"]);
    restore_top(&mut made, said, live, "components");
    let services = spec["services"].as_object();
    let Some(services) = services else { return made };
    let sorted: BTreeMap<&String, &Value> = services.iter().collect();
    let mut components: Vec<Value> = Vec::new();
    for (name, service) in sorted.into_iter().filter(|(_, service)| !service.is_null()) {
        let mut component = component::hub_of(service, name);
        let kept = Kept::read(&said["components"][name], &live["components"][name]);
        kept.restore(&mut component, HUB_GROUPS);
        component["name"] = json!(name);
        components.push(component);
    }
    let order: Vec<&str> = list(&envelope["order"]).iter().map(text).collect();
    let place = |component: &Value| {
        order.iter().position(|name| component["name"] == *name).unwrap_or(order.len())
    };
    components.sort_by_key(place);
    made["components"] = json!(components);
    made
}

fn spoke_of(spec: &Value, envelope: &Value) -> Value {
    let mut made = rename(spec, Way::ToSpoke);
    let (said, live) = (&envelope["spec"], &envelope["live"]);
    restore_top(&mut made, said, live, "services");
    let mut services = Map::new();
    for component in list(&spec["components"]) {
        let name = text(&component["name"]);
        let mut service = component::spoke_of(component);
        object_mut(&mut service).remove("serviceName");
        let kept = Kept::read(&said["services"][name], &live["services"][name]);
        kept.restore(&mut service, GROUPS);
        services.insert(name.to_owned(), service);
    }
    for (name, service) in said["services"].as_object().into_iter().flatten() {
        if service.is_null() && !services.contains_key(name) {
            services.insert(name.clone(), Value::Null);
        }
    }
    if spec["components"].is_array() && (!services.is_empty() || envelope["empty"] != true) {
        made["services"] = Value::Object(services);
    }
    made
}

/// Puts back fields of the graph itself.
fn restore_top(made: &mut Value, said: &Value, live: &Value, children: &str) {
    let mut kept = Kept::read(said, live);
    kept.said.remove(children);
    kept.live.remove(children);
    kept.restore(made, &[]);
}

/// What the newer version cannot say.
fn spoke_losses(spec: &Value, back: &Value) -> Map<String, Value> {
    let top = Kept::of(&without(spec, "services"), &without(back, "services"), &[]);
    let (mut said, mut live) = (top.said, top.live);
    let mut services = (Map::new(), Map::new());
    for (name, service) in spec["services"].as_object().into_iter().flatten() {
        if service.is_null() {
            services.0.insert(name.clone(), Value::Null);
            continue;
        }
        let kept = Kept::of(service, &back["services"][name], GROUPS);
        if !kept.is_empty() {
            services.0.insert(name.clone(), Value::Object(kept.said));
            services.1.insert(name.clone(), Value::Object(kept.live));
        }
    }
    if !services.0.is_empty() {
        said.insert("services".to_owned(), Value::Object(services.0));
        live.insert("services".to_owned(), Value::Object(services.1));
    }
    let mut content = Map::new();
    if !said.is_empty() || !live.is_empty() {
        content.insert("spec".to_owned(), Value::Object(said));
        content.insert("live".to_owned(), Value::Object(live));
    }
    content
}

/// What the older version cannot say.
fn hub_losses(spec: &Value, back: &Value) -> Map<String, Value> {
    let top = Kept::of(&without(spec, "components"), &without(back, "components"), &[]);
    let (mut said, mut live) = (top.said, top.live);
    let mut components = (Map::new(), Map::new());
    for component in list(&spec["components"]) {
        let name = text(&component["name"]);
        let found = crate::value::find(&back["components"], "name", name);
        let kept = Kept::of(component, found.unwrap_or(&Value::Null), HUB_GROUPS);
        if !kept.is_empty() {
            components.0.insert(name.to_owned(), Value::Object(kept.said));
            components.1.insert(name.to_owned(), Value::Object(kept.live));
        }
    }
    if !components.1.is_empty() {
        said.insert("components".to_owned(), Value::Object(components.0));
        live.insert("components".to_owned(), Value::Object(components.1));
    }
    let mut content = Map::new();
    if !said.is_empty() || !live.is_empty() {
        content.insert("hub".to_owned(), Value::Object(said));
        content.insert("hubLive".to_owned(), Value::Object(live));
    }
    let names: Vec<&str> = list(&spec["components"]).iter().map(|one| text(&one["name"])).collect();
    if !names.is_sorted() {
        content.insert("order".to_owned(), json!(names));
    }
    content
}

fn without(spec: &Value, field: &str) -> Value {
    let mut spec = spec.clone();
    object_mut(&mut spec).remove(field);
    spec
}
