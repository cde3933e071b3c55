//! The pods of a component: what its user says, laid over what its type needs.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/internal/dynamo/graph.go

mod defaults;
mod memory_service;
pub mod merge;
pub mod pull_secrets;
pub mod shared_weights;
mod volumes;

use serde_json::{Map, Value, json};

use crate::backends::{self, Deployer, Place, Role};
use crate::component::{Facts, Type};
use crate::digest;
use crate::names;
use crate::settings::{Discovery, Settings};
use crate::value::{list, list_mut, object_mut, text};

pub use memory_service::SERVER;
pub use pull_secrets::PullSecrets;

const GRACE_SECONDS: i64 = 60;
const PICKER_GRACE_SECONDS: i64 = 130;
/// The group that volumes belong to where the user says nothing of it.
const FILES_GROUP: i64 = 1_000;

/// What a pod is made of.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    pub settings: &'a Settings,
    pub facts: &'a Facts<'a>,
    pub role: Role,
    pub deployer: Deployer<'a>,
    pub secrets: &'a PullSecrets,
    /// The account of pods that need none in particular.
    pub account: &'a str,
    /// Whether what is there already knows prefill and decode as kinds of worker.
    pub is_legacy: bool,
}

/// The template of the pods; an error says what cannot be.
pub fn template(given: &Given<'_>) -> Result<Value, String> {
    let Given { settings, facts, role, .. } = *given;
    let user = facts.template();
    let framework = facts.framework()?;
    let mut container = defaults::main(facts, settings);
    merge::container(&mut container, facts.main());
    let mut pod = pod(given, &user["spec"]);
    volumes::add(facts, framework, &mut container, &mut pod)?;
    shared_weights::load_from(facts, &mut container)?;
    if let Some(framework) = framework {
        let wait_script = names::wait_script(facts.parent());
        let place = Place {
            nodes: facts.nodes(),
            role,
            deployer: given.deployer,
            annotations: &user["metadata"]["annotations"],
            ssh_secret: &settings.ssh_secret,
            wait_script: &wait_script,
        };
        backends::rewrite(framework, &mut container, &mut pod, &place)?;
    }
    let mut containers = vec![container];
    let sidecars = list(&user["spec"]["containers"]).iter().filter(|one| one["name"] != "main");
    containers.extend(sidecars.cloned());
    let sidecar = text(&facts.spec["frontendSidecar"]);
    if !sidecar.is_empty() {
        make_frontend(given, &mut containers, sidecar)?;
    }
    memory_service::add(facts, &mut containers, &mut pod)?;
    let mut labels = labels(given);
    if let Deployer::GroveRank(_, rank) = given.deployer {
        shared_weights::join(facts, &mut containers, &mut pod, rank);
        shared_weights::mark(facts, &mut labels);
    }
    pod["containers"] = json!(containers);
    if facts.template_annotation(names::NO_PULL_SECRETS) != Some("true") {
        given.secrets.add_to(&mut pod);
    }
    Ok(json!({
        "metadata": {"labels": labels, "annotations": annotations(facts)},
        "spec": pod,
    }))
}

/// The pod without its containers.
fn pod(given: &Given<'_>, user: &Value) -> Value {
    let facts = given.facts;
    let grace = match facts.kind() {
        Type::Picker => PICKER_GRACE_SECONDS,
        _ => GRACE_SECONDS,
    };
    let mut pod = json!({"terminationGracePeriodSeconds": grace, "restartPolicy": "Always"});
    for (field, value) in user.as_object().into_iter().flatten() {
        if field != "containers" {
            merge::deep(&mut pod[field], value);
        }
    }
    if user["securityContext"].is_null() {
        pod["securityContext"] = json!({"fsGroup": FILES_GROUP});
    }
    if text(&pod["serviceAccountName"]).is_empty() {
        pod["serviceAccountName"] = json!(account(given));
    }
    pod
}

fn account(given: &Given<'_>) -> String {
    let facts = given.facts;
    match facts.kind() {
        Type::Planner => names::PLANNER_ACCOUNT.to_owned(),
        Type::Picker => names::PICKER_ACCOUNT.to_owned(),
        _ if facts.discovery(given.settings) == Discovery::Kubernetes => {
            names::discovery_account(facts.parent())
        }
        _ => given.account.to_owned(),
    }
}

/// One of the containers is a frontend; what it does not say is as frontends are.
fn make_frontend(given: &Given<'_>, containers: &mut [Value], name: &str) -> Result<(), String> {
    let mounts = containers[0]["volumeMounts"].clone();
    let Some(found) = containers.iter_mut().find(|one| one["name"] == name) else {
        return Err(format!("frontendSidecar {name:?} matches no container of the pod template"));
    };
    let mut made = defaults::sidecar(given.facts, given.settings);
    merge::container(&mut made, found);
    made["name"] = json!(name);
    for mount in list(&mounts) {
        let own = list_mut(&mut made["volumeMounts"]);
        if !own.iter().any(|one| one["mountPath"] == mount["mountPath"]) {
            own.push(mount.clone());
        }
    }
    *found = made;
    Ok(())
}

/// What pods are found by.
pub fn labels(given: &Given<'_>) -> Value {
    let Given { settings, facts, role, .. } = *given;
    let mut labels = json!({});
    let own = &facts.object.value["metadata"]["labels"];
    let template = &facts.template()["metadata"]["labels"];
    for source in [own, &facts.preserved["labels"], template] {
        merge::deep(&mut labels, source);
    }
    let labels = object_mut(&mut labels);
    let mut set = |name: &str, value: &str| labels.insert(name.to_owned(), json!(value));
    set(names::COMPONENT, facts.name());
    set(names::COMPONENT_TYPE, type_label(given));
    set(names::DYNAMO_NAMESPACE, &facts.dynamo_namespace());
    if let Some(graph) = facts.graph() {
        set(names::GRAPH, graph);
    }
    if let Some(hash) = facts.worker_hash() {
        set(names::WORKER_HASH, hash);
    }
    if let Some(kind) = facts.sub_type() {
        set(names::SUB_COMPONENT_TYPE, kind);
    }
    if let Some(model) = facts.model() {
        set(names::BASE_MODEL_HASH, &digest::short(model));
    }
    if facts.template_annotation(names::ENABLE_METRICS) != Some("false") {
        set(names::METRICS_ENABLED, "true");
    }
    if facts.discovery(settings) == Discovery::Kubernetes {
        set(names::DISCOVERY_BACKEND, "kubernetes");
        set(names::DISCOVERY_ENABLED, "true");
    }
    match (role, given.deployer) {
        (Role::Main, _) | (_, Deployer::Grove(_) | Deployer::GroveRank(..)) => {
            set(names::SELECTOR, facts.own_name())
        }
        (Role::Leader, _) => set("role", "leader"),
        (Role::Worker, _) => set("role", "worker"),
    };
    if role != Role::Main && given.deployer == Deployer::LeaderWorkerSet {
        labels.remove(names::SELECTOR);
    }
    json!(labels)
}

/// The type that labels and selectors say.
pub fn type_label<'a>(given: &Given<'a>) -> &'a str {
    match given.facts.kind() {
        Type::Prefill | Type::Decode if given.is_legacy => "worker",
        _ => given.facts.type_name(),
    }
}

/// What pods are told of besides; where they are in a topology is not the user's to say.
pub fn annotations(facts: &Facts<'_>) -> Value {
    let mut annotations = json!({});
    merge::deep(&mut annotations, &facts.preserved["annotations"]);
    merge::deep(&mut annotations, &facts.template()["metadata"]["annotations"]);
    let annotations: &mut Map<String, Value> = object_mut(&mut annotations);
    annotations.remove(names::ORIGIN_VERSION);
    for name in [names::TOPOLOGY_LABEL_KEY, names::TOPOLOGY_NAME] {
        annotations.remove(name);
        if let Some(value) = facts.object.annotation(name) {
            annotations.insert(name.to_owned(), json!(value));
        }
    }
    if let Some(model) = facts.model() {
        annotations.insert(names::BASE_MODEL.to_owned(), json!(model));
    }
    json!(annotations)
}

/// Whether two sets of labels name the same type of component.
pub fn has_legacy_type(live: &Value, facts: &Facts<'_>) -> bool {
    matches!(facts.kind(), Type::Prefill | Type::Decode) && live[names::COMPONENT_TYPE] == "worker"
}
