//! What a graph does next.

use k8s_openapi::jiff::Timestamp;
use reconcile::act::finalizer_patch;
use reconcile::plan::{Notice, Target};
use reconcile::{Object, Plan, Wake};
use serde_json::{Map, Value, json};

use super::checkpoints;
use super::facts::Graph;
use super::generate;
use super::generations::{hash_of, of_component};
use super::grove;
use super::observe::Observed;
use super::program;
use super::status;
use crate::kinds::{COMPONENT, GRAPH};
use crate::names;
use crate::settings::Settings;

/// When what others have to give is looked for again.
const RETRY: std::time::Duration = std::time::Duration::from_secs(15);

/// Why a graph cannot be made.
pub struct Failure {
    pub reason: &'static str,
    pub message: String,
    /// Whether only a change of the graph can help.
    pub is_terminal: bool,
}

impl Failure {
    pub fn of(reason: &'static str, message: impl Into<String>) -> Failure {
        Failure { reason, message: message.into(), is_terminal: false }
    }

    fn terminal(reason: &'static str, message: impl Into<String>) -> Failure {
        Failure { reason, message: message.into(), is_terminal: true }
    }
}

pub fn plan(settings: &Settings, object: &Object, observed: &Observed, now: Timestamp) -> Plan {
    if object.is_terminating() {
        let mut plan = Plan::nothing();
        checkpoints::let_go(&mut plan, &Graph::of(object), &observed.checkpoints);
        if let Some(patch) = finalizer_patch(object, names::FINALIZER, false) {
            plan.patch(Target::unchanged(GRAPH, object), patch);
        }
        return plan;
    }
    let graph = Graph::of(object);
    match decide(settings, &graph, observed, now) {
        Ok(plan) => plan,
        Err(failure) => {
            let status = status::failed(object, failure.reason, &failure.message, now);
            let wake = match failure.is_terminal {
                true => Wake::OnChange,
                false => Wake::After(RETRY),
            };
            let notices = vec![Notice::failure(status::FAILED, failure.message)];
            Plan { status: Some(status), wake, notices, ..Plan::nothing() }
        }
    }
}

fn decide(
    settings: &Settings,
    graph: &Graph<'_>,
    observed: &Observed,
    now: Timestamp,
) -> Result<Plan, Failure> {
    let provider = provider(settings, graph, observed)?;
    match graph.provider() {
        None | Some(names::PROVIDER_COMPONENT) => {}
        Some(names::PROVIDER_GROVE) if settings.gates.grove => {}
        Some(names::PROVIDER_GROVE) => {
            let message = "workload provider \"grove\" is selected but its API is not served";
            return Err(Failure::terminal(status::PROVIDER_UNAVAILABLE, message));
        }
        Some(other) => {
            let message = format!("unsupported workload provider {other:?}");
            return Err(Failure::terminal(status::PROVIDER_UNSUPPORTED, message));
        }
    }
    let framework = generate::framework(graph);
    let framework = framework.map_err(|why| Failure::terminal(status::RESOURCES, why))?;
    let hash = generate::worker_hash(graph, framework);
    if let Some(plan) = keep_books(graph, observed, (&hash, provider)) {
        return Ok(plan);
    }
    let decided = program::Decided { framework, hash: &hash, now };
    match provider {
        names::PROVIDER_GROVE => grove::run(settings, graph, observed, &decided),
        _ => program::run(settings, graph, observed, &decided),
    }
}

/// Who makes the workloads of a graph: whoever did, or else whoever is preferred.
fn provider(
    settings: &Settings,
    graph: &Graph<'_>,
    observed: &Observed,
) -> Result<&'static str, Failure> {
    if let Some(said) = graph.provider() {
        let is_grove = said == names::PROVIDER_GROVE;
        return Ok(if is_grove { names::PROVIDER_GROVE } else { names::PROVIDER_COMPONENT });
    }
    let has_set = observed
        .grove
        .set
        .as_ref()
        .is_some_and(|set| set.controller() == Some(graph.object.uid.as_str()));
    match (!observed.components.is_empty(), has_set) {
        (true, true) => Err(Failure::of(status::RESOURCES, "conflicting workload providers")),
        (true, false) => Ok(names::PROVIDER_COMPONENT),
        (false, true) => Ok(names::PROVIDER_GROVE),
        (false, false) => Ok(preferred(settings, graph.object.annotation(names::ENABLE_GROVE))),
    }
}

/// Who makes the workloads of a new graph.
pub fn preferred(settings: &Settings, said: Option<&str>) -> &'static str {
    let is_refused = said.is_some_and(|said| said.eq_ignore_ascii_case("false"));
    match settings.gates.grove && !is_refused {
        true => names::PROVIDER_GROVE,
        false => names::PROVIDER_COMPONENT,
    }
}

/// What a graph must say of itself before anything is made for it.
fn keep_books(
    graph: &Graph<'_>,
    observed: &Observed,
    (hash, provider): (&str, &str),
) -> Option<Plan> {
    let mut plan = Plan::nothing();
    let mut annotations = Map::new();
    if graph.provider().is_none() {
        annotations.insert(names::PROVIDER.to_owned(), json!(provider));
    }
    if graph.current_hash().is_none() && graph.workers().next().is_some() {
        let current = adopted_hash(&mut plan, graph, observed, hash);
        annotations.insert(names::CURRENT_HASH.to_owned(), json!(current));
    }
    let mut patch = finalizer_patch(graph.object, names::FINALIZER, true).unwrap_or(Value::Null);
    if !annotations.is_empty() {
        patch["metadata"]["annotations"] = json!(annotations);
    }
    if patch.is_null() {
        return None;
    }
    plan.patch(Target::unchanged(GRAPH, graph.object), patch);
    Some(plan)
}

/// The form of the workers that are there. A graph may have lost its note of it, or never had one.
fn adopted_hash(plan: &mut Plan, graph: &Graph<'_>, observed: &Observed, hash: &str) -> String {
    let mut found: Option<(&Object, &str)> = None;
    let mut has_legacy = false;
    for part in graph.workers() {
        for object in of_component(observed, &part) {
            let Some(own) = hash_of(object) else {
                has_legacy = true;
                let labels = json!({"metadata": {"labels": {names::WORKER_HASH: names::LEGACY}}});
                plan.patch(Target::of(COMPONENT, object), labels);
                continue;
            };
            // Of many the newest that is not wanted: it is what served last.
            let is_newer =
                |other: &Object| other.meta("creationTimestamp") < object.meta("creationTimestamp");
            if own != hash && found.is_none_or(|(other, _)| is_newer(other)) {
                found = Some((object, own));
            }
        }
    }
    if has_legacy {
        let message = "Workers made before hashes were kept are replaced";
        plan.notices.push(Notice::normal("LegacyMigrationStarted", message));
        return names::LEGACY.to_owned();
    }
    found.map_or(hash, |(_, own)| own).to_owned()
}
