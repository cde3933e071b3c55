//! One look at a graph that Grove starts: all its components are cliques of one set, which are
//! scheduled together, and are scaled where Grove keeps them.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/internal/controller/dgd_grove_program.go

mod name;
mod readiness;
mod render;
mod sharing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use reconcile::conditions::{self, Condition, Truth};
use reconcile::plan::{Notice, Target};
use reconcile::{Change, Context, Error, Kind, Name, Object, Plan, owners};
use serde_json::{Map, Value, json};

use super::adapters;
use super::checkpoints;
use super::facts::{Graph, Part};
use super::generate::{self, Choice};
use super::infrastructure;
use super::observe::Observed;
use super::plan::Failure;
use super::program::{Decided, NO_ANSWER, move_hash, set_or_remove};
use super::restart::{self, Restart, Seen};
use super::shared;
use super::status::{self, State};
use crate::backends::{Deployer, Role};
use crate::component::{Facts, children};
use crate::kinds::{
    GRAPH, INGRESS, POD_CLIQUE, POD_CLIQUE_SCALING_GROUP, POD_CLIQUE_SET, QUEUE, SECRET, SERVICE,
    VIRTUAL_SERVICE,
};
use crate::names;
use crate::pods::shared_weights::{self, is_between};
use crate::pods::{Given, PullSecrets};
use crate::settings::Settings;
use crate::sync_resource::{Decision, Sync};
use crate::value::{list, text};

pub use name::{excess, set_name};
use readiness::Look;

const KAI_QUEUE: &str = "dynamo";
const TOPOLOGY: &str = "TopologyLevelsAvailable";

/// What Grove and others have of a graph.
#[derive(Default)]
pub struct Found {
    pub set: Option<Arc<Object>>,
    /// By their names.
    pub cliques: BTreeMap<String, Arc<Object>>,
    pub groups: BTreeMap<String, Arc<Object>>,
    pub services: BTreeMap<String, Arc<Object>>,
    pub ingresses: BTreeMap<String, Arc<Object>>,
    pub routes: BTreeMap<String, Arc<Object>>,
    pub secrets: PullSecrets,
    /// Whether the queue of KAI that its pods wait in is there.
    pub has_queue: bool,
}

impl Found {
    pub async fn observe(
        context: &Context,
        graph: &Graph<'_>,
        settings: &Settings,
    ) -> Result<Found, Error> {
        let set_name = set_name(graph);
        let named = |kind: Kind, names: &[String]| {
            let one = |name: &String| {
                let at = Name::new(graph.namespace(), name.as_str());
                Some((name.clone(), context.cache(kind).get(&at)?))
            };
            names.iter().filter_map(one).collect::<BTreeMap<String, Arc<Object>>>()
        };
        let children: Vec<String> =
            graph.components().map(|part| child_name(&set_name, &part)).collect();
        let mut services: Vec<String> =
            graph.components().map(|part| names::service(&part.child_name(graph.name()))).collect();
        let entrances = services.clone();
        let models = graph.components().filter_map(|part| part.0["modelRef"]["name"].as_str());
        services.extend(models.map(names::model_service));
        let has_queue = match settings.gates.kai_scheduler {
            true => {
                let queue = Name::new("", queue(graph));
                context.get_live(QUEUE, &queue).await?.is_some()
            }
            false => false,
        };
        Ok(Found {
            set: context.cache(POD_CLIQUE_SET).get(&Name::new(graph.namespace(), &*set_name)),
            cliques: named(POD_CLIQUE, &children),
            groups: named(POD_CLIQUE_SCALING_GROUP, &children),
            services: named(SERVICE, &services),
            ingresses: named(INGRESS, &entrances),
            routes: match settings.ingress.gateway.is_empty() {
                true => BTreeMap::new(),
                false => named(VIRTUAL_SERVICE, &entrances),
            },
            secrets: PullSecrets::of(&context.cache(SECRET).in_namespace(graph.namespace())),
            has_queue,
        })
    }
}

/// The queue of KAI that a graph waits in.
fn queue<'a>(graph: &'a Graph<'_>) -> &'a str {
    graph.object.annotation(names::KAI_QUEUE).unwrap_or(KAI_QUEUE)
}

/// What Grove makes of a component.
pub fn child_name(set: &str, part: &Part<'_>) -> String {
    format!("{set}-0-{}", part.name().to_lowercase())
}

/// Whether the replicas of a component are groups of cliques.
fn is_group(part: &Part<'_>) -> bool {
    crate::component::nodes(part.0) > 1
        || part.0["experimental"]["grove"]["forceScalingGroup"] == true
        || is_between(part.0)
}

/// The graph of a clique that changed.
pub fn of_clique(change: &Change) -> Vec<Name> {
    let clique = change.object();
    let graph = clique.label(names::GRAPH);
    graph.map(|graph| Name::new(clique.name.namespace.clone(), graph)).into_iter().collect()
}

/// The set that a group of cliques is of.
pub fn set_of(change: &Change) -> Option<Name> {
    owners::controller_name(change.object(), POD_CLIQUE_SET)
}

pub fn run(
    settings: &Settings,
    graph: &Graph<'_>,
    observed: &Observed,
    decided: &Decided<'_>,
) -> Result<Plan, Failure> {
    let mut plan = Plan::nothing();
    let fail = |why: String| Failure::of(status::RESOURCES, why);
    let found = &observed.grove;
    shared::sync(&mut plan, settings, graph, observed).map_err(fail)?;
    let scheduler = scheduler(settings, graph, found).map_err(fail)?;
    let frozen = checkpoints::sync(&mut plan, graph, &observed.checkpoints, decided.framework);
    let servers = infrastructure::sync(&mut plan, graph, &observed.servers);
    let mut looks = readiness::look(graph, found, &frozen.waits);
    let restart = restart::resolve(graph, &seen(graph, found, &looks), false);
    let parts = components(settings, graph, (found, decided), &restart).map_err(fail)?;
    let wanted = render::set(settings, graph, &parts, (&scheduler, &frozen.waits));
    let wanted = render::as_kept(wanted, found.set.as_deref());
    let mut sync = Sync::new(&mut plan, Some((GRAPH, graph.object)));
    let decision = sync.keep(POD_CLIQUE_SET, found.set.as_deref(), wanted);
    entrances(&mut sync, settings, found, &parts);
    if matches!(decision, Decision::Create | Decision::Update) {
        // What was changed just now has not been observed yet.
        looks.values_mut().for_each(Look::begin_again);
    } else {
        scale(&mut plan, graph, found, &frozen.waits);
        let has_workers = graph.workers().next().is_some();
        if has_workers && graph.current_hash() != Some(decided.hash) {
            let message = "Rolling update of cliques is left to Grove";
            plan.notices.push(Notice::warning("RollingUpdateNotSupported", message));
            move_hash(&mut plan, graph, decided.hash);
            return Ok(plan);
        }
        if !readiness::is_seen(found) {
            looks.values_mut().for_each(Look::begin_again);
        }
    }
    if frozen.waits.is_empty() {
        adapters::sync(&mut plan, graph, observed);
    }
    plan.notices.extend(restart.notice.clone());
    let mut made = graph.status().clone();
    made["components"] = readiness::components(graph, &looks);
    set_or_remove(&mut made, "restart", restart.status.clone());
    set_or_remove(&mut made, "checkpoints", frozen.status.clone());
    let state = state(&looks, &servers, &frozen.waits);
    status::set_state(&mut made, graph.object, &state, decided.now);
    tell_topology(&mut plan, &mut made, graph, (found, decided.now));
    plan.status = Some(made);
    Ok(plan)
}

/// Who schedules the pods.
pub struct Scheduler {
    name: Option<&'static str>,
    /// A label of the pods, and an annotation of the set, where the scheduler wants them.
    label: Option<(&'static str, String)>,
    annotation: Option<(&'static str, String)>,
}

fn scheduler(settings: &Settings, graph: &Graph<'_>, found: &Found) -> Result<Scheduler, String> {
    let gates = settings.gates;
    let nobody = Scheduler { name: None, label: None, annotation: None };
    match (gates.kai_scheduler, gates.volcano_scheduler) {
        (true, true) => Err("KAI and Volcano cannot both schedule: enable one".to_owned()),
        (true, false) => {
            let queue = queue(graph);
            if !found.has_queue {
                return Err(format!("queue {queue:?} of the KAI scheduler does not exist"));
            }
            let label = Some(("kai.scheduler/queue", queue.to_owned()));
            Ok(Scheduler { name: Some("kai-scheduler"), label, ..nobody })
        }
        (false, true) => {
            let queue = graph.object.annotation(names::VOLCANO_QUEUE);
            let annotation =
                queue.map(|queue| ("scheduling.grove.io/volcano-queue", queue.to_owned()));
            Ok(Scheduler { name: Some("volcano"), annotation, ..nobody })
        }
        (false, false) => Ok(nobody),
    }
}

/// A component, rendered.
pub struct Rendered<'a> {
    pub part: Part<'a>,
    /// As an object of its own would say it.
    pub object: Object,
    pub pods: Vec<Pods>,
    service: Option<Value>,
}

/// The pods of one clique.
pub struct Pods {
    pub role: Role,
    /// Which part of a replica they are, where those of one part share GPUs.
    pub rank: Option<i64>,
    /// Whether they only hold weights for the engines of their rank.
    pub holds_weights: bool,
    pub template: Value,
}

fn components<'a>(
    settings: &Settings,
    graph: &Graph<'a>,
    (found, decided): (&Found, &Decided<'_>),
    restart: &Restart,
) -> Result<Vec<Rendered<'a>>, String> {
    let mut all = Vec::new();
    for part in graph.components() {
        let name = part.child_name(graph.name());
        let choice = Choice {
            hash: decided.hash,
            framework: decided.framework,
            restart: restart.ids.get(part.name()).map(String::as_str),
            name: Some(&name),
        };
        let object = Object::new(generate::component(graph, &part, &choice));
        let facts = Facts::of(&object);
        let lower = part.name().to_lowercase();
        let given = |role: Role, rank: Option<i64>| Given {
            settings,
            facts: &facts,
            role,
            deployer: rank
                .map_or(Deployer::Grove(&lower), |rank| Deployer::GroveRank(&lower, rank)),
            secrets: &found.secrets,
            account: "default",
            is_legacy: false,
        };
        let service = children::service(&given(Role::Main, None), false);
        let mut pods = Vec::new();
        for (role, rank) in roles(&part) {
            let template = crate::pods::template(&given(role, rank))?;
            if rank.is_some() {
                let gpus = crate::backends::gpus(facts.main()).max(1);
                let template = shared_weights::server(&template, gpus);
                pods.push(Pods { role, rank, holds_weights: true, template });
            }
            pods.push(Pods { role, rank, holds_weights: false, template });
        }
        all.push(Rendered { part, pods, service, object });
    }
    Ok(all)
}

/// The engines of a replica. Where they share GPUs with others, each rank is for itself.
fn roles(part: &Part<'_>) -> Vec<(Role, Option<i64>)> {
    let nodes = crate::component::nodes(part.0);
    let first = if nodes > 1 { Role::Leader } else { Role::Main };
    match (is_between(part.0), nodes > 1) {
        (true, _) => {
            let workers = (1..nodes).map(|rank| (Role::Worker, Some(rank)));
            std::iter::once((first, Some(0))).chain(workers).collect()
        }
        (false, true) => vec![(Role::Leader, None), (Role::Worker, None)],
        (false, false) => vec![(Role::Main, None)],
    }
}

/// Services and what leads in from outside: they are always as ready as they will be.
fn entrances(sync: &mut Sync<'_>, settings: &Settings, found: &Found, parts: &[Rendered<'_>]) {
    let of = |all: &BTreeMap<String, Arc<Object>>, name: &str| all.get(name).cloned();
    for one in parts {
        let facts = Facts::of(&one.object);
        let name = names::service(facts.own_name());
        sync.bring(SERVICE, of(&found.services, &name).as_deref(), one.service.clone());
        if let Some(model) = children::model_service(&facts) {
            let name = text(&model["metadata"]["name"]).to_owned();
            sync.keep(SERVICE, of(&found.services, &name).as_deref(), model);
        }
        let ingress = children::ingress(&facts, settings);
        sync.bring(INGRESS, of(&found.ingresses, &name).as_deref(), ingress);
        if !settings.ingress.gateway.is_empty() {
            let route = children::virtual_service(&facts, settings);
            sync.bring(VIRTUAL_SERVICE, of(&found.routes, &name).as_deref(), route);
        }
    }
}

/// Brings what Grove made to the number of replicas that is asked for.
fn scale(plan: &mut Plan, graph: &Graph<'_>, found: &Found, waits: &BTreeMap<String, String>) {
    let set = set_name(graph);
    for part in graph.components() {
        let name = child_name(&set, &part);
        let (kind, live) = match is_group(&part) {
            true => (POD_CLIQUE_SCALING_GROUP, found.groups.get(&name)),
            false => (POD_CLIQUE, found.cliques.get(&name)),
        };
        let wanted = if waits.contains_key(part.name()) { 0 } else { part.replicas() };
        // What is not there yet is scaled once it is.
        let Some(live) = live.filter(|live| live.value["spec"]["replicas"] != wanted) else {
            continue;
        };
        let patch = json!({"spec": {"replicas": wanted}});
        plan.patch(Target::of(kind, live).part("scale"), patch);
    }
}

/// How each component fares, as far as restarts ask.
fn seen(
    graph: &Graph<'_>,
    found: &Found,
    looks: &BTreeMap<String, Look>,
) -> BTreeMap<String, Seen> {
    let cliques = found.set.as_ref().map(|set| &set.value["spec"]["template"]["cliques"]);
    let mut all = BTreeMap::new();
    for part in graph.components() {
        let (Some(cliques), Some(look)) = (cliques, looks.get(part.name())) else { continue };
        let is_of = |clique: &&Value| clique["labels"][names::COMPONENT] == part.name();
        let own = list(cliques).iter().find(is_of);
        let restart = own.and_then(|one| one["annotations"][names::RESTART_AT].as_str());
        let (restart, is_settled) = (restart.map(str::to_owned), look.why.is_none());
        all.insert(part.name().to_owned(), Seen { restart, is_settled });
    }
    all
}

fn state(
    looks: &BTreeMap<String, Look>,
    servers: &[String],
    frozen: &BTreeMap<String, String>,
) -> State {
    if !frozen.is_empty() {
        return State::Freezing(frozen.clone());
    }
    let mut waits: BTreeMap<String, String> =
        servers.iter().map(|name| (name.clone(), NO_ANSWER.to_owned())).collect();
    let mut reasons: Vec<&'static str> = servers.iter().map(|_| readiness::NOT_READY).collect();
    for look in looks.values() {
        if let Some((reason, why)) = &look.why {
            reasons.push(reason);
            waits.insert(look.name.clone(), why.clone());
        }
    }
    reasons.dedup();
    match reasons[..] {
        [] => State::Successful,
        [reason] => State::Because(reason, waits),
        _ => State::Because("mixed_not_ready_reasons", waits),
    }
}

/// What Grove says of the levels of a topology that a graph asks for.
fn tell_topology(
    plan: &mut Plan,
    status: &mut Value,
    graph: &Graph<'_>,
    (found, now): (&Found, k8s_openapi::jiff::Timestamp),
) {
    let asks = graph.spec["topologyConstraint"].is_object()
        || graph.components().any(|part| part.0["topologyConstraint"].is_object());
    let mut all = list(&status["conditions"]).to_vec();
    if !asks {
        all.retain(|one| one["type"] != TOPOLOGY);
        status["conditions"] = json!(all);
        return;
    }
    let set = found.set.as_ref().map(|set| set.value["status"].clone()).unwrap_or_default();
    let said = conditions::find(&set, "TopologyLevelsUnavailable");
    let (truth, reason) = match said.map(|one| (text(&one["status"]), text(&one["reason"]))) {
        Some(("False", _)) => (Truth::True, "AllTopologyLevelsAvailable"),
        Some(("True", "ClusterTopologyNotFound")) => (Truth::False, "TopologyDefinitionNotFound"),
        Some(("True", _)) => (Truth::False, "TopologyLevelsUnavailable"),
        _ => (Truth::Unknown, "TopologyConditionPending"),
    };
    let message = said.map(|one| text(&one["message"])).unwrap_or_default().to_owned();
    let before = conditions::find(&json!({"conditions": all}), TOPOLOGY)
        .map(|one| text(&one["reason"]).to_owned());
    if truth == Truth::False && before.as_deref() != Some(reason) {
        plan.notices.push(Notice::warning(reason, message.clone()));
    }
    let condition = Condition {
        kind: TOPOLOGY,
        status: truth,
        reason,
        message: &message,
        observed_generation: Some(graph.object.generation()),
    };
    conditions::set(&mut all, &condition, now);
    status["conditions"] = json!(all);
}

/// An empty map where there is nothing to say.
fn map_of(pairs: impl IntoIterator<Item = (String, Value)>) -> Value {
    Value::Object(pairs.into_iter().collect::<Map<String, Value>>())
}
