//! One look at a graph whose components are objects of their own.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::time;
use reconcile::plan::{Notice, Target};
use reconcile::{Object, Plan};
use serde_json::{Value, json};

use super::adapters;
use super::checkpoints;
use super::facts::{Graph, Part};
use super::generate::{self, Choice};
use super::generations::{generation, has_old, hash_of, of_component, pace};
use super::infrastructure;
use super::observe::Observed;
use super::plan::Failure;
use super::restart::{self, Restart, Seen};
use super::rollout::{self, Generation};
use super::shared;
use super::status::{self, State};
use crate::backends::Framework;
use crate::kinds::{COMPONENT, GRAPH};
use crate::names;
use crate::settings::Settings;
use crate::sync_resource::{Decision, Sync};
use crate::value::text;

/// Said of a server beside the components.
pub const NO_ANSWER: &str = "server does not answer yet";

/// What was decided before.
pub struct Decided<'a> {
    pub framework: Option<Framework>,
    /// The hash of the workers that are wanted.
    pub hash: &'a str,
    pub now: Timestamp,
}

pub fn run(
    settings: &Settings,
    graph: &Graph<'_>,
    observed: &Observed,
    decided: &Decided<'_>,
) -> Result<Plan, Failure> {
    let mut plan = Plan::nothing();
    let shared = shared::sync(&mut plan, settings, graph, observed);
    shared.map_err(|why| Failure::of(status::RESOURCES, why))?;
    let frozen = checkpoints::sync(&mut plan, graph, &observed.checkpoints, decided.framework);
    let servers = infrastructure::sync(&mut plan, graph, &observed.servers);
    if graph.is_multinode() && !settings.gates.leader_worker_set {
        let message = "no multinode orchestrator available";
        return Err(Failure::of(status::MULTINODE, message));
    }
    let is_current = graph.workers().next().is_none() || graph.current_hash() == Some(decided.hash);
    if graph.is_multinode() && !is_current {
        // The sets below replace their pods themselves.
        let message = "Rolling update of multinode components is left to their orchestrator";
        plan.notices.push(Notice::warning("RollingUpdateNotSupported", message));
        move_hash(&mut plan, graph, decided.hash);
        return Ok(plan);
    }
    let is_rolling =
        !graph.is_multinode() && (!is_current || has_old(graph, observed, decided.hash));
    let restart = restart::resolve(graph, &seen(graph, observed, decided.hash), is_rolling);
    let mut look = Look {
        graph,
        observed,
        decided,
        restart: &restart,
        frozen: &frozen,
        is_rolling,
        waits: servers.into_iter().map(|name| (name, NO_ANSWER.to_owned())).collect(),
        updated: BTreeSet::new(),
        has_all: true,
    };
    let kept = look.sync_components(&mut plan);
    if is_rolling && look.has_all {
        finish(&mut plan, graph, observed, &kept);
        move_hash(&mut plan, graph, decided.hash);
        return Ok(plan);
    }
    drop_orphans(&mut plan, &look, &kept);
    if frozen.waits.is_empty() {
        adapters::sync(&mut plan, graph, observed);
    }
    plan.notices.extend(restart.notice.clone());
    report(&mut plan, &look);
    Ok(plan)
}

/// Notes which form of the workers serves. After an update that was taken back it is known.
pub fn move_hash(plan: &mut Plan, graph: &Graph<'_>, hash: &str) {
    if graph.current_hash() == Some(hash) {
        return;
    }
    let patch = json!({"metadata": {"annotations": {names::CURRENT_HASH: hash}}});
    plan.patch(Target::unchanged(GRAPH, graph.object), patch);
}

/// Deletes the forms of workers that have been replaced.
fn finish(plan: &mut Plan, graph: &Graph<'_>, observed: &Observed, kept: &BTreeSet<String>) {
    for part in graph.workers() {
        for object in of_component(observed, &part) {
            if !kept.contains(&*object.name.name) {
                plan.delete(Target::of(COMPONENT, object));
            }
        }
    }
}

/// Deletes what the graph does not ask for any more.
fn drop_orphans(plan: &mut Plan, look: &Look<'_>, kept: &BTreeSet<String>) {
    for object in &look.observed.components {
        let is_old = look.is_rolling && hash_of(object).is_some();
        if !kept.contains(&*object.name.name) && !is_old && !object.is_terminating() {
            plan.delete(Target::of(COMPONENT, object));
        }
    }
}

/// How each component fares, as far as restarts ask.
fn seen(graph: &Graph<'_>, observed: &Observed, hash: &str) -> BTreeMap<String, Seen> {
    let mut all = BTreeMap::new();
    for part in graph.components() {
        let mut forms = of_component(observed, &part);
        let form = forms.find(|form| !part.is_worker() || hash_of(form) == Some(hash));
        let Some(form) = form else { continue };
        let annotations = &form.value["spec"]["podTemplate"]["metadata"]["annotations"];
        let restart = annotations[names::RESTART_AT].as_str().map(str::to_owned);
        let is_settled = status::not_ready(form).is_none();
        all.insert(part.name().to_owned(), Seen { restart, is_settled });
    }
    all
}

/// One look, and what it found.
struct Look<'a> {
    graph: &'a Graph<'a>,
    observed: &'a Observed,
    decided: &'a Decided<'a>,
    restart: &'a Restart,
    frozen: &'a checkpoints::Outcome,
    is_rolling: bool,
    /// What is not ready, and why.
    waits: BTreeMap<String, String>,
    /// Workers that have been replaced.
    updated: BTreeSet<String>,
    /// Whether all have.
    has_all: bool,
}

impl Look<'_> {
    /// Keeps every component as it is to be; returns the names of their objects.
    fn sync_components(&mut self, plan: &mut Plan) -> BTreeSet<String> {
        let mut kept = BTreeSet::new();
        let held_back = held_back(self.graph, self.observed, self.decided.hash);
        let has_servers = self.waits.is_empty();
        let parts: Vec<Part<'_>> = self.graph.components().collect();
        for part in parts {
            let wanted = self.wanted(&part);
            let name = text(&wanted["metadata"]["name"]).to_owned();
            kept.insert(name.clone());
            let live = self.observed.components.iter().find(|one| *one.name.name == *name);
            if live.is_none() && (!has_servers || held_back.contains(part.name())) {
                let why = match has_servers {
                    true => "waits for the component before it to be ready",
                    false => "waits for the servers that the graph asks for",
                };
                self.waits.insert(name, why.to_owned());
                self.has_all = false;
                continue;
            }
            self.sync_component(plan, &part, wanted, live.map(|live| &**live));
        }
        kept
    }

    fn sync_component(
        &mut self,
        plan: &mut Plan,
        part: &Part<'_>,
        mut wanted: Value,
        live: Option<&Object>,
    ) {
        let name = text(&wanted["metadata"]["name"]).to_owned();
        let mut old_targets = BTreeMap::new();
        if self.is_rolling && part.is_worker() {
            let old: Vec<Generation> = of_component(self.observed, part)
                .filter(|object| *object.name.name != *name)
                .map(|object| generation(object, self.observed))
                .collect();
            let new = live.map(|live| generation(live, self.observed));
            let new =
                new.unwrap_or_else(|| Generation { name: name.clone(), ..Default::default() });
            let (pace, desired) = (pace(&wanted, part), part.replicas());
            let targets = rollout::targets(desired, pace, &old, &new);
            let is_settled = live.is_some_and(|live| status::not_ready(live).is_none());
            let is_updated = is_settled && rollout::is_updated(desired, pace, &old, &new);
            match is_updated {
                true => self.updated.insert(part.name().to_owned()),
                false => std::mem::replace(&mut self.has_all, false),
            };
            wanted["spec"]["replicas"] = json!(targets.new);
            old_targets = targets.old;
        }
        let told = wanted["metadata"]["annotations"].clone();
        // It would be its first write; said at once, it costs none.
        wanted["metadata"]["finalizers"] = json!([names::FINALIZER]);
        let mut sync = Sync::new(plan, Some((GRAPH, self.graph.object)));
        let decision = sync.keep(COMPONENT, live, wanted);
        if let (Decision::Skip, Some(live)) = (decision, live) {
            tell(plan, live, &told);
        }
        if matches!(decision, Decision::Create | Decision::Update) {
            self.has_all = false;
        }
        let why = match (decision, live) {
            (Decision::Create, _) | (_, None) => Some(status::NOT_AVAILABLE.to_owned()),
            (Decision::Update, Some(live)) => Some(format!(
                "spec not yet processed: generation={}, observedGeneration={}",
                live.generation() + 1,
                live.value["status"]["observedGeneration"].as_i64().unwrap_or(0)
            )),
            (_, Some(live)) => status::not_ready(live),
        };
        if let Some(why) = why {
            self.waits.insert(name, why);
        }
        for object in of_component(self.observed, part) {
            let Some(target) = old_targets.get(&*object.name.name) else { continue };
            if object.value["spec"]["replicas"].as_i64() != Some(*target) {
                let patch = json!({"spec": {"replicas": target}});
                plan.patch(Target::of(COMPONENT, object), patch);
            }
        }
    }

    /// The object of a component as it is to be.
    fn wanted(&self, part: &Part<'_>) -> Value {
        // Where one component has many pods, nobody hands over from one form to the next: sets and
        // Deployments replace their pods in place.
        let existing = match part.is_worker() && self.graph.is_multinode() {
            true => of_component(self.observed, part).next(),
            false => None,
        };
        let name = existing.map(|object| object.name.name.to_string());
        let choice = Choice {
            hash: self.decided.hash,
            framework: self.decided.framework,
            restart: self.restart.ids.get(part.name()).map(String::as_str),
            name: name.as_deref(),
        };
        let mut wanted = generate::component(self.graph, part, &choice);
        if self.frozen.waits.contains_key(part.name()) {
            wanted["spec"]["replicas"] = json!(0);
        }
        let own = text(&wanted["metadata"]["name"]);
        let live = self.observed.components.iter().find(|one| *one.name.name == *own);
        if let Some(said) = live.and_then(|live| live.value["spec"].get("backendFramework")) {
            wanted["spec"]["backendFramework"] = said.clone();
        }
        wanted
    }
}

/// Keeps what an object is told beside its specification: what only the older version can say, and
/// how its pods are replaced.
fn tell(plan: &mut Plan, live: &Object, told: &Value) {
    let differing =
        generate::TOLD.iter().filter(|name| live.annotation(name) != told[**name].as_str());
    let patch: serde_json::Map<String, Value> =
        differing.map(|name| ((*name).to_owned(), told[*name].clone())).collect();
    if !patch.is_empty() && !live.is_terminating() {
        plan.patch(Target::of(COMPONENT, live), json!({"metadata": {"annotations": patch}}));
    }
}

/// Components that are not to start before another is ready.
fn held_back(graph: &Graph<'_>, observed: &Observed, hash: &str) -> BTreeSet<String> {
    let is_ready = |part: &Part<'_>| {
        of_component(observed, part).any(|form| {
            let is_form = !part.is_worker() || hash_of(form) == Some(hash);
            is_form && status::not_ready(form).is_none()
        })
    };
    let behind = graph.start_order().into_iter().skip_while(is_ready).skip(1);
    behind.map(|part| part.name().to_owned()).collect()
}

fn report(plan: &mut Plan, look: &Look<'_>) {
    let Look { graph, observed, decided, .. } = look;
    let mut made = graph.status().clone();
    made["components"] = status::components(graph, observed, decided.hash);
    set_or_remove(&mut made, "restart", look.restart.status.clone());
    let rolling = rolling_update(plan, look);
    set_or_remove(&mut made, "rollingUpdate", rolling);
    set_or_remove(&mut made, "checkpoints", look.frozen.status.clone());
    let state = match (look.is_rolling, look.waits.is_empty()) {
        _ if !look.frozen.waits.is_empty() => State::Freezing(look.frozen.waits.clone()),
        (true, _) => State::Rolling,
        (false, true) => State::Successful,
        (false, false) => State::Waiting(look.waits.clone()),
    };
    status::set_state(&mut made, graph.object, &state, decided.now);
    plan.status = Some(made);
}

pub fn set_or_remove(status: &mut Value, field: &str, value: Option<Value>) {
    match (value, status.as_object_mut()) {
        (Some(value), _) => status[field] = value,
        (None, Some(status)) => {
            status.remove(field);
        }
        (None, None) => {}
    }
}

/// What the status says of the rollout.
fn rolling_update(plan: &mut Plan, look: &Look<'_>) -> Option<Value> {
    let before = look.graph.status()["rollingUpdate"].clone();
    let now = time(look.decided.now);
    let is_open = matches!(text(&before["phase"]), "Pending" | "InProgress");
    let mut made = before.clone();
    match (look.is_rolling, is_open) {
        (false, false) => return before.is_object().then_some(before),
        (false, true) => {
            let mut workers: Vec<&str> = look.graph.workers().map(|part| part.name()).collect();
            workers.sort_unstable();
            made["phase"] = json!("Completed");
            made["endTime"] = json!(now);
            made["updatedComponents"] = json!(workers);
            let message = "Rolling update completed";
            plan.notices.push(Notice::normal("RollingUpdateCompleted", message));
        }
        (true, false) => {
            made = json!({"phase": "Pending", "startTime": now});
            let message = format!("Rolling update to worker hash {} started", look.decided.hash);
            plan.notices.push(Notice::normal("RollingUpdateStarted", message));
        }
        (true, true) => {
            made["phase"] = json!("InProgress");
            if !look.updated.is_empty() {
                made["updatedComponents"] = json!(look.updated);
            }
        }
    }
    Some(made)
}
