//! From what the profiler wrote to the graph that serves the model.

use api::dynamo::GROUP;
use reconcile::Object;
use serde_json::{Value, json};

use super::{NAME_LABEL, NAMESPACE_LABEL, UID, graph_override};
use crate::conversion::request::preserved;
use crate::names::{MANAGED_BY, OPERATOR};
use crate::value::{list, object_mut, overlay, text};

const GRAPH_KIND: &str = "DynamoGraphDeployment";
/// Documents that are kept beside the graph.
const DOCUMENTS_MAX: usize = 64;

/// What was generated.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    pub graph: Value,
    /// The other documents.
    pub others: Vec<Value>,
}

/// Reads the documents; there must be one graph among them.
pub fn read(request: &Object, documents: &str) -> Result<Generated, String> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(documents)
        .map_err(|error| format!("the profiler's output is no YAML: {error}"))?;
    let documents: Vec<Value> = documents.into_iter().filter(Value::is_object).collect();
    if documents.len() > DOCUMENTS_MAX {
        return Err(format!("the profiler wrote more than {DOCUMENTS_MAX} documents"));
    }
    let is_graph = |one: &Value| {
        one["kind"] == GRAPH_KIND && text(&one["apiVersion"]).starts_with(&format!("{GROUP}/"))
    };
    let (mut graphs, others): (Vec<Value>, Vec<Value>) = documents.into_iter().partition(is_graph);
    let Some(mut graph) = graphs.pop().filter(|_| graphs.is_empty()) else {
        return Err("the profiler's output must have exactly one DynamoGraphDeployment".to_owned());
    };
    graph_override::apply(&mut graph, &request.value["spec"]["overrides"]["dgd"])?;
    name(request, &mut graph);
    fill_versions(request, &mut graph);
    Ok(Generated { graph, others })
}

/// The name of the graph of a request.
pub fn graph_name(request: &Object) -> String {
    let preserved = preserved(&request.value);
    let older = text(&preserved["deploymentOverrides"]["name"]);
    match text(&request.value["spec"]["overrides"]["dgd"]["metadata"]["name"]) {
        "" if older.is_empty() => format!("{}-dgd", request.name.name),
        "" => older.to_owned(),
        named => named.to_owned(),
    }
}

fn name(request: &Object, graph: &mut Value) {
    let meta = object_mut(&mut graph["metadata"]);
    meta.insert("name".to_owned(), json!(graph_name(request)));
    meta.insert("namespace".to_owned(), json!(&*request.name.namespace));
    // What a graph of another cluster says of itself is not true of this one.
    for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
        meta.remove(field);
    }
    object_mut(graph).remove("status");
}

/// Components run the version that the request names, unless they say another.
fn fill_versions(request: &Object, graph: &mut Value) {
    let version = &request.value["spec"]["runtimeVersionOverride"];
    if text(version).is_empty() {
        return;
    }
    let fill = |component: &mut Value| {
        if text(&component["runtimeVersionOverride"]).is_empty() {
            component["runtimeVersionOverride"] = version.clone();
        }
    };
    let spec = &mut graph["spec"];
    if let Some(components) = spec["components"].as_array_mut() {
        components.iter_mut().for_each(fill);
    }
    if let Some(services) = spec.get_mut("services").and_then(Value::as_object_mut) {
        services.values_mut().filter(|one| one.is_object()).for_each(fill);
    }
}

/// By which whatever a request made is found again.
pub fn tracking(request: &Object) -> Value {
    json!({
        NAME_LABEL: &*request.name.name,
        NAMESPACE_LABEL: &*request.name.namespace,
        MANAGED_BY: OPERATOR,
    })
}

/// And as which of those that had its name.
fn identity(request: &Object) -> Value {
    json!({UID: request.uid})
}

/// The graph as it is made: it outlives its request, so nobody owns it.
pub fn graph(request: &Object, yaml: &str) -> Result<Value, String> {
    let mut graph: Value = serde_saphyr::from_str(yaml)
        .map_err(|error| format!("the generated spec is no YAML: {error}"))?;
    name(request, &mut graph);
    let older = preserved(&request.value);
    for field in ["annotations", "labels"] {
        overlay(&mut graph["metadata"], field, &older["deploymentOverrides"][field]);
    }
    overlay(&mut graph["metadata"], "labels", &tracking(request));
    overlay(&mut graph["metadata"], "annotations", &identity(request));
    Ok(graph)
}

/// The ConfigMaps among the other documents, as they are made.
pub fn config_maps(request: &Object, others: &[Value]) -> Vec<Value> {
    let maps = others.iter().filter(|one| one["kind"] == "ConfigMap" && one["apiVersion"] == "v1");
    let made = maps.map(|map| {
        let mut map = map.clone();
        let meta = object_mut(&mut map["metadata"]);
        meta.insert("namespace".to_owned(), json!(&*request.name.namespace));
        meta.remove("ownerReferences");
        overlay(&mut map["metadata"], "labels", &tracking(request));
        overlay(&mut map["metadata"], "annotations", &identity(request));
        map
    });
    made.collect()
}

/// How many pods the components of a graph are to have and have.
pub fn replicas(graph: &Object) -> (i64, i64) {
    let sum = |field: &str| {
        let components = graph.value["status"]["components"].as_object().into_iter().flatten();
        components.filter_map(|(_, one)| one[field].as_i64()).sum::<i64>()
    };
    let ready = sum("readyReplicas");
    let available = sum("availableReplicas");
    let asked: i64 = list(&graph.value["spec"]["components"])
        .iter()
        .map(|one| one["replicas"].as_i64().unwrap_or(1))
        .sum();
    (asked, if available > 0 { available } else { ready })
}
