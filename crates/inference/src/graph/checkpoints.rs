//! Checkpoints of a graph: made for its components where they ask for them, and let go with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use reconcile::plan::Target;
use reconcile::{Context, Name, Object, Plan};
use serde_json::{Value, json};

use super::facts::{Graph, Part};
use super::generate::{self, Choice};
use crate::backends::Framework;
use crate::checkpoint::identity;
use crate::kinds::CHECKPOINT;
use crate::names;
use crate::value::{object_mut, text};

/// How a component starts from a checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    pub name: String,
    /// Absent where the user names a checkpoint.
    pub identity: Option<Value>,
    pub policy: String,
}

/// What a component asks for, if it does.
pub fn wanted(part: &Part<'_>, framework: Option<Framework>) -> Option<Wanted> {
    let said = &part.0["experimental"]["checkpoint"];
    if said["enabled"] != true {
        return None;
    }
    let policy = said["startupPolicy"].as_str().unwrap_or("Immediate").to_owned();
    let reference = text(&said["checkpointRef"]);
    if !reference.is_empty() {
        return Some(Wanted { name: reference.to_owned(), identity: None, policy });
    }
    let identity = identity::of_component(part.0, framework);
    let name = identity::automatic_name(&identity);
    Some(Wanted { name, identity: Some(identity), policy })
}

/// Says on pods that they may start from a checkpoint.
pub fn mark(template: &mut Value, wanted: &Wanted) {
    let annotations = object_mut(&mut template["metadata"]["annotations"]);
    for (name, value) in [
        (names::RESTORE_CANDIDATE, "true"),
        (names::CHECKPOINT_NAME, wanted.name.as_str()),
        (names::STARTUP_POLICY, wanted.policy.as_str()),
    ] {
        annotations.insert(name.to_owned(), json!(value));
    }
    template["metadata"]["labels"][names::RESTORE_CANDIDATE] = json!("true");
}

/// The checkpoints that there are of those that a graph asks for or was given, by their names.
pub fn observe(context: &Context, graph: &Graph<'_>) -> BTreeMap<String, Arc<Object>> {
    let all = context.cache(CHECKPOINT).in_namespace(graph.namespace()).into_iter();
    all.map(|one| (one.name.name.to_string(), one)).collect()
}

/// The graphs of a namespace that a change of a checkpoint concerns.
pub fn concerned(checkpoint: &Object, graphs: &[Arc<Object>]) -> Vec<Name> {
    let of_label = checkpoint.label(names::GRAPH);
    let names = |object: &Arc<Object>| {
        let graph = Graph::of(object);
        let refers = graph.components().any(|part| {
            part.0["experimental"]["checkpoint"]["checkpointRef"] == *checkpoint.name.name
        });
        refers || of_label == Some(graph.name())
    };
    graphs.iter().filter(|object| names(object)).map(|object| object.name.clone()).collect()
}

/// What became of the checkpoints of a graph.
#[derive(Default)]
pub struct Outcome {
    /// What the status says of them, by component.
    pub status: Option<Value>,
    /// Components that have to wait, and for which.
    pub waits: BTreeMap<String, String>,
}

/// Makes those that are missing.
pub fn sync(
    plan: &mut Plan,
    graph: &Graph<'_>,
    found: &BTreeMap<String, Arc<Object>>,
    framework: Option<Framework>,
) -> Outcome {
    let mut outcome = Outcome::default();
    for part in graph.components() {
        let Some(wanted) = wanted(&part, framework) else { continue };
        let live = found.get(&wanted.name);
        if let (None, Some(identity)) = (live, &wanted.identity) {
            plan.create(CHECKPOINT, made(graph, &part, (&wanted, identity), framework));
        }
        let status = live.map(|live| live.value["status"].clone()).unwrap_or_default();
        let is_ready = status["phase"] == "Ready";
        let mut told = json!({"checkpointName": wanted.name, "ready": is_ready});
        for field in ["checkpointID", "identityHash"] {
            if let Some(value) = status[field].as_str() {
                told[field] = json!(value);
            }
        }
        outcome.status.get_or_insert_with(|| json!({}))[part.name()] = told;
        if wanted.policy == "WaitForCheckpoint" && !is_ready {
            outcome.waits.insert(part.name().to_owned(), wanted.name);
        }
    }
    outcome
}

fn made(
    graph: &Graph<'_>,
    part: &Part<'_>,
    (wanted, identity): (&Wanted, &Value),
    framework: Option<Framework>,
) -> Value {
    let said = &part.0["experimental"]["checkpoint"];
    let mut template = match &said["job"]["podTemplate"] {
        Value::Object(own) => json!(own),
        _ => {
            let choice = Choice { hash: "", framework, restart: None, name: None };
            generate::component(graph, part, &choice)["spec"]["podTemplate"].take()
        }
    };
    let labels = object_mut(&mut template["metadata"]["labels"]);
    labels.remove(names::RESTORE_CANDIDATE);
    labels.remove(names::WORKER_HASH);
    labels.insert(names::COMPONENT_TYPE.to_owned(), part.0["type"].clone());
    let namespace = graph.dynamo_namespace(part);
    labels.insert(names::DYNAMO_NAMESPACE.to_owned(), json!(namespace));
    let annotations = object_mut(&mut template["metadata"]["annotations"]);
    for name in [names::RESTORE_CANDIDATE, names::CHECKPOINT_NAME, names::STARTUP_POLICY] {
        annotations.remove(name);
    }
    let target = said["targetContainerName"].as_str().unwrap_or("main");
    json!({
        "apiVersion": CHECKPOINT.api_version(),
        "kind": CHECKPOINT.kind,
        "metadata": {
            "namespace": graph.namespace(),
            "name": wanted.name,
            "labels": {names::GRAPH: graph.name(), names::COMPONENT: part.name()},
            "annotations": {names::AUTO_CHECKPOINT: "true"},
        },
        "spec": {"identity": identity,
            "job": {"podTemplateSpec": template, "targetContainerName": target}},
    })
}

/// A graph that goes deletes the checkpoints that were made for it, or lets go of them.
pub fn let_go(plan: &mut Plan, graph: &Graph<'_>, found: &BTreeMap<String, Arc<Object>>) {
    for checkpoint in found.values() {
        let is_automatic = checkpoint.annotation(names::AUTO_CHECKPOINT) == Some("true");
        if !is_automatic || checkpoint.label(names::GRAPH) != Some(graph.name()) {
            continue;
        }
        let component = checkpoint.label(names::COMPONENT);
        let retains = graph.components().any(|part| {
            Some(part.name()) == component
                && part.0["experimental"]["checkpoint"]["deletionPolicy"] == "Retain"
        });
        match retains {
            true => {
                let detached = json!({"metadata": {
                    "labels": {names::GRAPH: null, names::COMPONENT: null},
                    "annotations": {names::AUTO_CHECKPOINT: null}}});
                plan.patch(Target::of(CHECKPOINT, checkpoint), detached);
            }
            false => plan.delete(Target::of(CHECKPOINT, checkpoint)),
        }
    }
}
