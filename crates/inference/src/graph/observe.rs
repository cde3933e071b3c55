//! What a graph has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reconcile::{Context, Error, Kind, Name, Object, Selector};
use serde_json::json;

use super::checkpoints;
use super::facts::Graph;
use super::grove;
use super::infrastructure;
use super::picker;
use crate::discovery_account;
use crate::kinds::{
    ADAPTER, CLUSTER_ROLE, COMPONENT, CONFIG_MAP, DESTINATION_RULE, INFERENCE_POOL,
    PERSISTENT_VOLUME_CLAIM, POD, RESOURCE_CLAIM_TEMPLATE, ROLE, ROLE_BINDING, SERVICE_ACCOUNT,
};
use crate::multinode;
use crate::names;
use crate::settings::Settings;
use crate::value::{list, text};

#[derive(Default)]
pub struct Observed {
    /// The components that it controls.
    pub components: Vec<Arc<Object>>,
    pub adapters: Vec<Arc<Object>>,
    pub discovery: discovery_account::Found,
    /// The accounts of planners and pickers, and what binds them, by their names.
    pub accounts: BTreeMap<String, Arc<Object>>,
    pub bindings: BTreeMap<String, Arc<Object>>,
    /// The roles of everybody that there are, of those that are asked for.
    pub roles: BTreeSet<String>,
    /// The claims that there are, of those that are asked for.
    pub claims: BTreeSet<String>,
    pub servers: infrastructure::Found,
    /// What the picker of the graph has.
    pub picker_config: Option<Arc<Object>>,
    pub pool: Option<Arc<Object>>,
    pub mesh_rule: Option<Arc<Object>>,
    /// Templates of claims, and checkpoints, by their names.
    pub claim_templates: BTreeMap<String, Arc<Object>>,
    pub checkpoints: BTreeMap<String, Arc<Object>>,
    /// What replicas of many pods need.
    pub multinode: multinode::Found,
    /// What Grove has of it, where Grove is.
    pub grove: grove::Found,
    /// How many pods of each component have not ended.
    pub pods: BTreeMap<String, usize>,
}

pub async fn observe(
    context: &Context,
    object: &Arc<Object>,
    settings: &Settings,
) -> Result<Observed, Error> {
    let graph = Graph::of(object);
    let namespace = object.name.namespace.clone();
    let find =
        |kind: Kind, name: &str| context.cache(kind).get(&Name::new(namespace.clone(), name));
    let named = |kind: Kind, names: &[&str]| {
        let found = names.iter().filter_map(|name| Some(((*name).to_owned(), find(kind, name)?)));
        found.collect::<BTreeMap<String, Arc<Object>>>()
    };
    // Who does not manage roles may not read them either.
    let has_role = |name: &&str| {
        settings.manages_roles && context.cache(CLUSTER_ROLE).get(&Name::new("", *name)).is_some()
    };
    let roles = [settings.roles.planner.as_str(), settings.roles.picker.as_str()];
    let existing_claims = context.owned_cache(PERSISTENT_VOLUME_CLAIM);
    let claims = list(&graph.preserved["pvcs"]).iter().map(|claim| text(&claim["name"]));
    let account = discovery_account::names_of(graph.name());
    let mut observed = Observed {
        components: context.cache(COMPONENT).owned_by(&object.uid),
        adapters: context.cache(ADAPTER).owned_by(&object.uid),
        discovery: discovery_account::Found {
            account: find(SERVICE_ACCOUNT, &account[0]),
            role: find(ROLE, &account[1]),
            binding: find(ROLE_BINDING, &account[2]),
        },
        accounts: named(SERVICE_ACCOUNT, &[names::PLANNER_ACCOUNT, names::PICKER_ACCOUNT]),
        bindings: named(
            ROLE_BINDING,
            &["planner-serviceaccount-binding", "epp-serviceaccount-binding"],
        ),
        roles: roles.iter().filter(|role| has_role(role)).map(|role| (*role).to_owned()).collect(),
        claims: claims
            .filter(|name| existing_claims.contains(&Name::new(namespace.clone(), *name)))
            .map(str::to_owned)
            .collect(),
        servers: infrastructure::Found::observe(context, &graph),
        pods: pods(context, &graph),
        ..Observed::default()
    };
    observe_optional(context, &graph, settings, &mut observed).await?;
    if graph.is_multinode() {
        let keys = multinode::Keys::Wanted;
        observed.multinode = multinode::Found::observe(context, settings, &object.name, keys)?;
    }
    Ok(observed)
}

/// What there is only on clusters that know more.
async fn observe_optional(
    context: &Context,
    graph: &Graph<'_>,
    settings: &Settings,
    observed: &mut Observed,
) -> Result<(), Error> {
    let find =
        |kind: Kind, name: &str| context.cache(kind).get(&Name::new(graph.namespace(), name));
    let gates = settings.gates;
    if let Some(service) = picker::service_name(graph) {
        observed.picker_config = find(CONFIG_MAP, &picker::config_name(graph.name()));
        if gates.inference_pools {
            observed.pool = find(INFERENCE_POOL, &picker::pool_name(graph.name()));
        }
        if gates.istio {
            observed.mesh_rule = find(DESTINATION_RULE, &service);
        }
    }
    if gates.resource_claims {
        let all = context.cache(RESOURCE_CLAIM_TEMPLATE).owned_by(&graph.object.uid).into_iter();
        observed.claim_templates = all.map(|one| (one.name.name.to_string(), one)).collect();
    }
    if gates.grove {
        observed.grove = grove::Found::observe(context, graph, settings).await?;
    }
    if gates.checkpoints {
        observed.checkpoints = checkpoints::observe(context, graph);
    }
    Ok(())
}

/// Pods that have not ended, by the objects that they are of.
fn pods(context: &Context, graph: &Graph<'_>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    let own = Selector::of_labels(&json!({names::GRAPH: graph.name()}));
    for pod in context.cache(POD).selected(graph.namespace(), &own) {
        let has_ended =
            matches!(pod.value["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        if has_ended {
            continue;
        }
        if let Some(of) = pod.label(names::SELECTOR) {
            *counts.entry(of.to_owned()).or_default() += 1;
        }
    }
    counts
}
