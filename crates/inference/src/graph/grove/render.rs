//! The set of cliques that a graph is to Grove.

use std::collections::BTreeMap;

use reconcile::Object;
use serde_json::{Value, json};

use super::{Pods, Rendered, Scheduler, is_group, map_of, set_name, sharing};
use crate::backends::{Framework, Role};
use crate::component::Facts;
use crate::graph::facts::{Graph, Part};
use crate::names;
use crate::pods::merge;
use crate::pods::shared_weights::engines;
use crate::settings::Settings;
use crate::value::{find, list, text};

pub fn set(
    settings: &Settings,
    graph: &Graph<'_>,
    parts: &[Rendered<'_>],
    (scheduler, waits): (&Scheduler, &BTreeMap<String, String>),
) -> Value {
    let replicas = |part: &Part<'_>| {
        if waits.contains_key(part.name()) { 0 } else { part.replicas() }
    };
    let mut cliques = Vec::new();
    let mut groups = Vec::new();
    let mut claims = Vec::new();
    let before = predecessors(graph, parts);
    for one in parts {
        let count = replicas(&one.part);
        let mut own: Vec<Value> =
            one.pods.iter().map(|pods| clique(graph, one, pods, (count, scheduler))).collect();
        for clique in &mut own {
            start_after(clique, before.get(one.part.name()).map_or(&[], Vec::as_slice));
        }
        if is_group(&one.part) {
            groups.push(group(graph, one, &own, count));
        }
        claims.extend(sharing::templates(one));
        cliques.extend(own);
    }
    let has_order = cliques.iter().any(|clique| clique["spec"]["startsAfter"].is_array());
    let startup = match has_order {
        true => "CliqueStartupTypeExplicit",
        false => "CliqueStartupTypeAnyOrder",
    };
    let mut template = json!({
        "cliques": cliques,
        "cliqueStartupType": startup,
        "headlessServiceConfig": {"publishNotReadyAddresses": true},
        "terminationDelay": settings.termination_delay,
    });
    if !groups.is_empty() {
        template["podCliqueScalingGroups"] = json!(groups);
    }
    if !claims.is_empty() {
        template["resourceClaimTemplates"] = json!(claims);
    }
    let priority = text(&graph.spec["priorityClassName"]);
    if !priority.is_empty() {
        template["priorityClassName"] = json!(priority);
    }
    if let Some(constraint) = constraint(graph, &graph.spec["topologyConstraint"]) {
        template["topologyConstraint"] = constraint;
    }
    let mut spec = json!({"replicas": 1, "template": template});
    if let Some(strategy) = graph.object.annotation(names::GROVE_UPDATE) {
        spec["updateStrategy"] = json!({"type": strategy});
    }
    merge::deep(&mut spec, &graph.spec["providerOverride"]["value"]);
    let annotations =
        map_of(scheduler.annotation.iter().map(|(name, value)| ((*name).to_owned(), json!(value))));
    let mut meta = json!({"namespace": graph.namespace(), "name": set_name(graph),
        "labels": {names::GRAPH: graph.name()}});
    if annotations != json!({}) {
        meta["annotations"] = annotations;
    }
    json!({"metadata": meta, "spec": spec})
}

/// The cliques that those of a component start after, by the component's name.
fn predecessors<'a>(
    graph: &'a Graph<'_>,
    parts: &[Rendered<'_>],
) -> BTreeMap<&'a str, Vec<String>> {
    let cliques = |part: &Part<'_>| {
        let one = parts.iter().find(|one| one.part.name() == part.name())?;
        Some(one.pods.iter().map(|pods| name_of(part, pods)).collect())
    };
    let order = graph.start_order();
    let pairs = order.windows(2).filter_map(|pair| Some((pair[1].name(), cliques(&pair[0])?)));
    pairs.collect()
}

fn start_after(clique: &mut Value, names: &[String]) {
    let mut all = list(&clique["spec"]["startsAfter"]).to_vec();
    all.extend(names.iter().map(|name| json!(name)));
    if !all.is_empty() {
        clique["spec"]["startsAfter"] = json!(all);
    }
}

/// Where pods are to be near each other.
fn constraint(graph: &Graph<'_>, said: &Value) -> Option<Value> {
    let topology = &graph.spec["topologyConstraint"]["clusterTopologyName"];
    let mut made = json!({});
    if said.is_object() && !topology.is_null() {
        made["topologyName"] = topology.clone();
    }
    if let Some(domain) = said["packDomain"].as_str() {
        made["packDomain"] = json!(domain);
    }
    (made != json!({})).then_some(made)
}

fn clique_name(part: &Part<'_>, role: Role) -> String {
    let lower = part.name().to_lowercase();
    match role {
        Role::Main => lower,
        Role::Leader => format!("{lower}-ldr"),
        Role::Worker => format!("{lower}-wkr"),
    }
}

/// The same where each rank has cliques of its own.
fn name_of(part: &Part<'_>, pods: &Pods) -> String {
    match (pods.rank, pods.role) {
        (Some(rank), _) if pods.holds_weights => weights_name(part, rank),
        (Some(rank), Role::Worker) => format!("{}-{rank}", clique_name(part, Role::Worker)),
        (_, role) => clique_name(part, role),
    }
}

/// The clique that holds the weights of a rank.
fn weights_name(part: &Part<'_>, rank: i64) -> String {
    format!("{}-gms-{rank}", part.name().to_lowercase())
}

fn clique(
    graph: &Graph<'_>,
    one: &Rendered<'_>,
    pods: &Pods,
    (count, scheduler): (i64, &Scheduler),
) -> Value {
    let part = &one.part;
    let facts = Facts::of(&one.object);
    let (role, template) = (pods.role, &pods.template);
    let name = name_of(part, pods);
    let (replicas, least) = match role {
        _ if pods.holds_weights => (1, 1),
        // Those that stand by may be missing.
        _ if pods.rank.is_some() => (engines(part.0), 1),
        // A replica of a group has one of each.
        Role::Main if is_group(part) => (1, 1),
        Role::Main => (count, part.0["minAvailable"].as_i64().unwrap_or(1)),
        Role::Leader => (1, 1),
        Role::Worker => (facts.nodes() - 1, facts.nodes() - 1),
    };
    let mut pod = template["spec"].clone();
    if let Some(scheduler) = scheduler.name
        && text(&pod["schedulerName"]).is_empty()
    {
        pod["schedulerName"] = json!(scheduler);
    }
    let mut spec = json!({"roleName": name, "replicas": replicas, "minAvailable": least,
        "podSpec": pod});
    if role == Role::Leader && facts.framework() == Ok(Some(Framework::Trtllm)) {
        // The leader starts everything on its workers, over SSH.
        spec["startsAfter"] = json!([clique_name(part, Role::Worker)]);
    }
    if let Some(rank) = pods.rank.filter(|_| !pods.holds_weights) {
        spec["startsAfter"] = json!([weights_name(part, rank)]);
    }
    let mut labels = template["metadata"]["labels"].clone();
    if let Some((name, value)) = &scheduler.label {
        labels[*name] = json!(value);
    }
    let mut annotations = template["metadata"]["annotations"].clone();
    if let Some(origin) = facts.template_annotation(names::ORIGIN_VERSION) {
        annotations[names::ORIGIN_VERSION] = json!(origin);
    }
    let mut made =
        json!({"name": name, "labels": labels, "annotations": annotations, "spec": spec});
    if let Some(constraint) = constraint(graph, &part.0["topologyConstraint"])
        && !is_group(part)
    {
        made["topologyConstraint"] = constraint;
    }
    let own = match role {
        Role::Main => &part.0["providerOverride"],
        Role::Leader => &part.0["multinode"]["leader"]["providerOverride"],
        Role::Worker => &part.0["multinode"]["worker"]["providerOverride"],
    };
    merge::deep(&mut made, &own["value"]);
    made
}

fn group(graph: &Graph<'_>, one: &Rendered<'_>, cliques: &[Value], count: i64) -> Value {
    let part = &one.part;
    let members: Vec<&Value> = cliques.iter().map(|clique| &clique["name"]).collect();
    let mut made = json!({
        "name": part.name().to_lowercase(),
        "cliqueNames": members,
        "replicas": count,
        "minAvailable": part.0["minAvailable"].as_i64().unwrap_or(1),
    });
    if let Some(constraint) = constraint(graph, &part.0["topologyConstraint"]) {
        made["topologyConstraint"] = constraint;
    }
    let shares = sharing::shares(one, |pods| name_of(part, pods));
    if !shares.is_empty() {
        made["resourceSharing"] = json!(shares);
    }
    if crate::component::nodes(part.0) > 1 {
        merge::deep(&mut made, &part.0["providerOverride"]["value"]);
    }
    made
}

/// The set with the order and the numbers of replicas that it has: they are changed where Grove
/// keeps what it made of them.
pub fn as_kept(mut wanted: Value, live: Option<&Object>) -> Value {
    let Some(live) = live else { return wanted };
    let kept = &live.value["spec"]["template"];
    for (field, count) in [("cliques", "/spec/replicas"), ("podCliqueScalingGroups", "/replicas")] {
        let before = &kept[field];
        let Some(now) = wanted["spec"]["template"][field].as_array_mut() else { continue };
        let place = |one: &Value| {
            let at = list(before).iter().position(|other| other["name"] == one["name"]);
            at.unwrap_or(usize::MAX)
        };
        now.sort_by_key(place);
        for one in now {
            let was = find(before, "name", text(&one["name"])).and_then(|was| was.pointer(count));
            if let (Some(was), Some(place)) = (was.cloned(), one.pointer_mut(count)) {
                *place = was;
            }
        }
    }
    wanted
}
