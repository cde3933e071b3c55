//! The components that a graph makes, as objects of their own.

use serde_json::{Map, Value, json};

use super::checkpoints;
use super::facts::{Graph, Part};
use super::infrastructure;
use super::legacy_config;
use crate::backends::{self, Framework};
use crate::component::Type;
use crate::conversion::envelope;
use crate::digest;
use crate::names;
use crate::pods::merge;
use crate::value::{find, find_mut, list_mut, object_mut, text};

/// Annotations of a graph that its pods are made by.
const PASSED_ON: [&str; 5] = [
    names::ENABLE_METRICS,
    names::DISCOVERY_BACKEND,
    names::DISCOVERY_MODE,
    names::ORIGIN_VERSION,
    names::EXECUTOR,
];
/// What of a component only the older version can say, and its pods are made by.
const PRESERVED: [&str; 5] =
    ["annotations", "dynamoNamespace", "ingress", "labels", "subComponentType"];
/// What objects are told beside their specifications.
pub const TOLD: [&str; 4] =
    [envelope::COMPONENT, names::STRATEGY, names::MAX_SURGE, names::MAX_UNAVAILABLE];
/// What may change without the workers being others.
const NO_PART_OF_HASH: [&str; 4] =
    ["replicas", "minAvailable", "scalingAdapter", "runtimeVersionOverride"];
/// Pods since this version find their workers by it.
const VERSION_IN_HASH_MIN: (u64, u64, u64) = (1, 5, 0);
const TOPOLOGY_PATH: &str = "/etc/dynamo/topology";

/// What is decided for one component besides what the graph says.
pub struct Choice<'a> {
    /// The hash of its workers.
    pub hash: &'a str,
    pub framework: Option<Framework>,
    /// The restart that its pods belong to.
    pub restart: Option<&'a str>,
    /// The name of the object, if it is not to follow from the hash.
    pub name: Option<&'a str>,
}

/// The engine of all workers: the one that was said, or the one that their commands start.
pub fn framework(graph: &Graph<'_>) -> Result<Option<Framework>, String> {
    let said = text(&graph.spec["backendFramework"]);
    let mut found: Option<Framework> = None;
    for part in graph.workers() {
        let main = find(&part.0["podTemplate"]["spec"]["containers"], "name", "main");
        let Some(main) = main else { continue };
        let own = backends::choose(main, said)?;
        match (found, own) {
            (Some(one), Some(other)) if one != other => {
                return Err(format!(
                    "multiple backend frameworks detected: {:?} and {:?}",
                    one.name(),
                    other.name()
                ));
            }
            _ => found = found.or(own),
        }
    }
    Ok(found.or(Framework::named(said)))
}

/// The object of a component.
pub fn component(graph: &Graph<'_>, part: &Part<'_>, choice: &Choice<'_>) -> Value {
    let mut spec = part.0.clone();
    let fields = object_mut(&mut spec);
    fields.remove("providerOverride");
    if let Some(framework) = choice.framework {
        fields.insert("backendFramework".to_owned(), json!(framework.name()));
    }
    fill_template(graph, part, choice, &mut spec);
    legacy_config::apply(part, &mut spec);
    if let Some(wanted) = checkpoints::wanted(part, choice.framework) {
        checkpoints::mark(&mut spec["podTemplate"], &wanted);
    }
    let name = match (choice.name, part.is_worker()) {
        (Some(name), _) => name.to_owned(),
        (None, true) => format!("{}-{}", part.child_name(graph.name()), choice.hash),
        (None, false) => part.child_name(graph.name()),
    };
    let mut labels = json!({});
    merge::deep(&mut labels, &spec["podTemplate"]["metadata"]["labels"]);
    labels[names::COMPONENT] = json!(part.name());
    labels[names::DYNAMO_NAMESPACE] = json!(graph.dynamo_namespace(part));
    labels[names::GRAPH] = json!(graph.name());
    let mut meta = json!({"namespace": graph.namespace(), "name": name, "labels": labels});
    let annotations = annotations(graph, part);
    if !annotations.is_empty() {
        meta["annotations"] = json!(annotations);
    }
    json!({"metadata": meta, "spec": spec})
}

/// What the object is told that its specification cannot say.
fn annotations(graph: &Graph<'_>, part: &Part<'_>) -> Map<String, Value> {
    let mut all = Map::new();
    let kept = &graph.preserved["services"][part.name()];
    let kept: Map<String, Value> = PRESERVED
        .into_iter()
        .filter_map(|field| Some((field.to_owned(), kept.get(field)?.clone())))
        .collect();
    if !kept.is_empty() {
        all.insert(envelope::COMPONENT.to_owned(), json!(envelope::of_kept(&json!(kept))));
    }
    for name in [names::STRATEGY, names::MAX_SURGE, names::MAX_UNAVAILABLE] {
        if let Some(value) = graph.object.annotation(name) {
            all.insert(name.to_owned(), json!(value));
        }
    }
    let policy = &graph.spec["experimental"]["kvTransferPolicy"];
    if part.is_worker() {
        for (field, name) in
            [("labelKey", names::TOPOLOGY_LABEL_KEY), ("clusterTopologyName", names::TOPOLOGY_NAME)]
        {
            if let Some(value) = policy[field].as_str() {
                all.insert(name.to_owned(), json!(value));
            }
        }
    }
    all
}

fn fill_template(graph: &Graph<'_>, part: &Part<'_>, choice: &Choice<'_>, spec: &mut Value) {
    let template = &mut spec["podTemplate"];
    object_mut(template);
    let mut annotations = json!({});
    merge::deep(&mut annotations, &graph.spec["annotations"]);
    for name in PASSED_ON {
        if let Some(value) = graph.object.annotation(name) {
            annotations[name] = json!(value);
        }
    }
    if part.kind() == Type::Picker {
        annotations[names::ISTIO_INJECT] = json!("false");
    }
    merge::deep(&mut annotations, &template["metadata"]["annotations"]);
    if let Some(id) = choice.restart {
        annotations[names::RESTART_AT] = json!(id);
    }
    let mut labels = json!({});
    merge::deep(&mut labels, &graph.spec["labels"]);
    merge::deep(&mut labels, &template["metadata"]["labels"]);
    if part.is_worker() {
        labels[names::WORKER_HASH] = json!(choice.hash);
        if graph.picker().is_some() {
            labels[names::COMPONENT_CLASS] = json!("worker");
        }
    }
    for (field, map) in [("annotations", annotations), ("labels", labels)] {
        if map.as_object().is_some_and(|map| !map.is_empty()) {
            template["metadata"][field] = map;
        }
    }
    if part.kind() == Type::Planner && template["spec"]["serviceAccountName"].is_null() {
        template["spec"]["serviceAccountName"] = json!(names::PLANNER_ACCOUNT);
    }
    fill_main(graph, part, template);
}

/// Variables of the graph and of its policies are the containers' too.
fn fill_main(graph: &Graph<'_>, part: &Part<'_>, template: &mut Value) {
    let policy = &graph.spec["experimental"]["kvTransferPolicy"];
    let moves = part.is_worker() && policy.is_object();
    let servers = json!(infrastructure::environment(graph));
    let mut env = merge::environment(&servers, &graph.spec["env"]);
    if moves {
        let mut add = |name: &str, value: String| {
            list_mut(&mut env).push(json!({"name": name, "value": value}));
        };
        add("DYN_KV_TRANSFER_DOMAIN", text(&policy["domain"]).to_owned());
        let enforcement = policy["enforcement"].as_str().unwrap_or("required");
        add("DYN_KV_TRANSFER_ENFORCEMENT", enforcement.to_owned());
        if !policy["preferredWeight"].is_null() {
            add("DYN_KV_TRANSFER_PREFERRED_WEIGHT", policy["preferredWeight"].to_string());
        }
        add("DYN_TOPOLOGY_ENABLED", "true".to_owned());
        add("DYN_TOPOLOGY_MOUNT_PATH", TOPOLOGY_PATH.to_owned());
    }
    if env.as_array().is_none_or(Vec::is_empty) {
        return;
    }
    let containers = &mut template["spec"]["containers"];
    if find(containers, "name", "main").is_none() {
        list_mut(containers).insert(0, json!({"name": "main"}));
    }
    if let Some(main) = find_mut(containers, "name", "main") {
        main["env"] = merge::environment(&env, &main["env"]);
        if moves {
            let mount = json!({"name": "topology-labels", "mountPath": TOPOLOGY_PATH,
                "readOnly": true});
            crate::value::upsert(&mut main["volumeMounts"], "name", mount);
        }
    }
    if moves {
        add_topology_volume(policy, template);
    }
}

/// A file for each level of the topology that matters.
fn add_topology_volume(policy: &Value, template: &mut Value) {
    let domain = text(&policy["domain"]);
    let label = match policy["labelKey"].as_str() {
        Some(key) => key.to_owned(),
        None => format!("nvidia.com/dynamo-topology.{domain}"),
    };
    let field = format!("metadata.labels['{label}']");
    let volume = json!({"name": "topology-labels", "downwardAPI": {"items": [
        {"path": domain, "fieldRef": {"fieldPath": field}}]}});
    crate::value::upsert(&mut template["spec"]["volumes"], "name", volume);
}

/// The hash of everything that makes workers what they are.
pub fn worker_hash(graph: &Graph<'_>, framework: Option<Framework>) -> String {
    let mut all = Map::new();
    for part in graph.workers() {
        let choice = Choice { hash: names::HASH_PLACEHOLDER, framework, restart: None, name: None };
        let mut made = component(graph, &part, &choice);
        let version = version(&made["spec"]);
        if let Some(spec) = made["spec"].as_object_mut() {
            for field in NO_PART_OF_HASH {
                spec.remove(field);
            }
        }
        let mut one = json!({
            "labels": made["metadata"]["labels"],
            "annotations": made["metadata"]["annotations"],
            "spec": made["spec"],
        });
        if let Some(version) = version.filter(|version| *version >= VERSION_IN_HASH_MIN) {
            one["runtimeVersion"] = json!(format!("{}.{}.{}", version.0, version.1, version.2));
        }
        all.insert(part.name().to_owned(), one);
    }
    digest::short(&digest::canonical(&json!(all)))
}

/// The version of what a component runs: the one that was said, or the tag of its image.
pub fn version(spec: &Value) -> Option<(u64, u64, u64)> {
    if let Some(said) = spec["runtimeVersionOverride"].as_str() {
        return parse_version(said);
    }
    let main = find(&spec["podTemplate"]["spec"]["containers"], "name", "main")?;
    let image = text(&main["image"]).split('@').next().unwrap_or_default();
    let last = image.rsplit('/').next().unwrap_or_default();
    parse_version(last.split_once(':')?.1)
}

fn parse_version(text: &str) -> Option<(u64, u64, u64)> {
    let plain = text.trim_start_matches('v').split(['-', '+']).next()?;
    let mut parts = plain.split('.').map(|part| part.parse::<u64>().ok());
    let version = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(version)
}
