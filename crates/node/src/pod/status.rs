//! What a pod's status says: phase, conditions, containers. Pure.
//!
//! Upstream: pkg/kubelet/kubelet_pods.go (getPhase), pkg/kubelet/status/generate.go

use k8s_openapi::jiff::Timestamp;
use reconcile::Object;
use reconcile::conditions::{self, Condition, Truth};
use serde_json::{Map, Value, json};

use super::container_status::{container, exit, waits_for_resize};
use super::ephemeral;
use super::lifecycle::{Observed, Seen, Stage};
use super::restart::{Fate, fate};
use super::spec::{Role, Spec, containers};
use crate::runtime::{Container, Exit, Refusal};

const RESIZE_PENDING: &str = "PodResizePending";

/// What the status needs to know of the node.
#[derive(Clone, Debug)]
pub struct Place {
    pub address: String,
    /// The name of the runtime.
    pub runtime: &'static str,
}

/// The fields of the status that differ from what the object says; empty if none do.
pub fn changes(
    pod: &Object,
    observed: &Observed,
    (stage, place): (Stage, &Place),
    now: Timestamp,
) -> Map<String, Value> {
    let status = whole(pod, observed, (stage, place), now);
    let held = &pod.value["status"];
    let fields = status.as_object().cloned().unwrap_or_default();
    fields.into_iter().filter(|(name, value)| held[name] != *value).collect()
}

/// The status as a whole, with what others said of the pod.
pub fn whole(
    pod: &Object,
    observed: &Observed,
    (stage, place): (Stage, &Place),
    now: Timestamp,
) -> Value {
    let specs = containers(pod);
    let mut status = pod.value["status"].clone();
    if status["startTime"].is_null() {
        status["startTime"] = json!(conditions::time(now));
    }
    let host = std::slice::from_ref(&place.address);
    set_addresses(&mut status, ("hostIP", "hostIPs"), host);
    if let Some(sandbox) = &observed.sandbox {
        let own: Vec<String> = sandbox.addresses.iter().map(ToString::to_string).collect();
        set_addresses(&mut status, ("podIP", "podIPs"), if own.is_empty() { host } else { &own });
    }
    // Who reads that a pod has failed may count on it that nothing of it runs.
    let is_running = |seen: &Seen| seen.runs.last().is_some_and(Container::is_running);
    let is_held = observed.containers.values().any(is_running);
    let failure = failure(observed, stage).filter(|_| !is_held);
    let phase = match (status["phase"].as_str(), failure) {
        (Some(ended @ ("Succeeded" | "Failed")), _) => ended.to_owned(),
        (_, Some(why)) => {
            status["reason"] = json!(why.reason);
            status["message"] = json!(why.message);
            "Failed".to_owned()
        }
        _ => phase(&specs, observed, stage, now).to_owned(),
    };
    status["phase"] = json!(phase);
    let told = |is_init: bool| -> Value {
        let of = specs.iter().filter(|spec| (spec.role != Role::Main) == is_init);
        of.map(|spec| container(pod, spec, observed, (stage, place), now)).collect()
    };
    if stage == Stage::Rejected {
        // Nothing was ever done for its containers, so there is nothing to tell of them.
        return status;
    }
    status["containerStatuses"] = told(false);
    let init = told(true);
    if init.as_array().is_some_and(|list| !list.is_empty()) {
        status["initContainerStatuses"] = init;
    }
    let added = ephemeral::containers(pod);
    if !added.is_empty() {
        let tell = |spec: &Spec<'_>| container(pod, spec, observed, (stage, place), now);
        status["ephemeralContainerStatuses"] = added.iter().map(tell).collect();
    }
    if pod.generation() > 0 {
        status["observedGeneration"] = json!(pod.generation());
    }
    set_conditions(pod, &specs, &mut status, (observed, stage), now);
    tell_of_resize(pod, &specs, &mut status, now);
    let evicted = observed.evicted.as_ref().filter(|_| stage == Stage::Evicted && !is_held);
    if let Some(evicted) = evicted {
        let mut list = status["conditions"].as_array().cloned().unwrap_or_default();
        let condition = Condition {
            kind: "DisruptionTarget",
            status: Truth::True,
            reason: "TerminationByKubelet",
            message: &evicted.message,
            observed_generation: Some(pod.generation()).filter(|it| *it > 0),
        };
        conditions::set(&mut list, &condition, now);
        status["conditions"] = Value::Array(list);
    }
    status
}

/// Says that a running container does not get what its pod asks for by now.
fn tell_of_resize(pod: &Object, specs: &[Spec<'_>], status: &mut Value, now: Timestamp) {
    let lists = ["containerStatuses", "initContainerStatuses"];
    let told = lists.iter().filter_map(|list| status[list].as_array()).flatten();
    let waits = told.into_iter().any(|one| {
        let spec = specs.iter().find(|spec| one["name"] == spec.name);
        spec.is_some_and(|spec| waits_for_resize(one, spec))
    });
    let mut list = status["conditions"].as_array().cloned().unwrap_or_default();
    list.retain(|one| waits || one["type"] != RESIZE_PENDING);
    if waits {
        let condition = Condition {
            kind: RESIZE_PENDING,
            status: Truth::True,
            reason: "Infeasible",
            message: "containers of this node get their resources when they start",
            observed_generation: Some(pod.generation()).filter(|it| *it > 0),
        };
        conditions::set(&mut list, &condition, now);
    }
    status["conditions"] = Value::Array(list);
}

fn set_addresses(status: &mut Value, (one, all): (&str, &str), addresses: &[String]) {
    status[one] = json!(addresses.first());
    status[all] = addresses.iter().map(|address| json!({"ip": address})).collect();
}

/// Why the pod has failed, where its containers do not tell.
fn failure(observed: &Observed, stage: Stage) -> Option<Refusal> {
    match stage {
        Stage::Overdue => Some(Refusal {
            reason: "DeadlineExceeded",
            message: "Pod was active on the node longer than the specified deadline".to_owned(),
        }),
        Stage::Rejected => observed.rejected.clone(),
        Stage::Evicted => observed.evicted.clone(),
        _ => None,
    }
}

/// The table of phases.
pub fn phase(
    specs: &[Spec<'_>],
    observed: &Observed,
    stage: Stage,
    now: Timestamp,
) -> &'static str {
    let empty = Seen::default();
    let seen = |spec: &Spec<'_>| observed.containers.get(spec.name).unwrap_or(&empty);
    let of = |role: Role| specs.iter().filter(move |spec| spec.role == role);
    let runs = |spec: &Spec<'_>| seen(spec).runs.last().is_some_and(Container::is_running);
    let is_held = specs.iter().any(runs);
    let is_ending = stage != Stage::Lives;
    // Initialisation that failed for good, before anything else ran.
    let has_failed =
        |spec: &Spec<'_>| matches!(fate(seen(spec), spec, now), Fate::Ended { succeeded: false });
    let has_run = |spec: &Spec<'_>| !seen(spec).runs.is_empty();
    if !of(Role::Main).any(has_run) {
        // A pod that goes before it began did not succeed.
        let is_lost = of(Role::Init).any(has_failed) || is_ending;
        return if is_lost && !is_held { "Failed" } else { "Pending" };
    }
    if !of(Role::Main).all(has_run) {
        return if is_ending && !is_held { "Failed" } else { "Pending" };
    }
    let exits: Vec<Option<&Exit>> = of(Role::Main).map(|spec| exit(seen(spec))).collect();
    if exits.iter().any(Option::is_none) {
        return "Running";
    }
    let again =
        of(Role::Main).any(|spec| !matches!(fate(seen(spec), spec, now), Fate::Ended { .. }));
    // A sidecar that still runs has to end before the pod does.
    if is_held || (again && !is_ending) {
        return "Running";
    }
    let all_good = exits.iter().flatten().all(|exit| exit.code == 0);
    if all_good { "Succeeded" } else { "Failed" }
}

fn set_conditions(
    pod: &Object,
    specs: &[Spec<'_>],
    status: &mut Value,
    (observed, stage): (&Observed, Stage),
    now: Timestamp,
) {
    let phase = status["phase"].as_str().unwrap_or_default().to_owned();
    let is_over = ["Succeeded", "Failed"].contains(&phase.as_str());
    let names = |field: &str, flag: &str| -> Vec<String> {
        let list = status[field].as_array().into_iter().flatten();
        let named = list.filter(|one| one[flag] != true);
        named.filter_map(|one| Some(one["name"].as_str()?.to_owned())).collect()
    };
    let mut unready = names("containerStatuses", "ready");
    let sidecars: Vec<&str> =
        specs.iter().filter(|spec| spec.role == Role::Sidecar).map(|spec| spec.name).collect();
    let incomplete: Vec<String> = names("initContainerStatuses", "ready")
        .into_iter()
        .filter(|name| !(sidecars.contains(&name.as_str()) && started(status, name)))
        .collect();
    let unready_init = names("initContainerStatuses", "ready");
    unready.extend(unready_init.into_iter().filter(|name| sidecars.contains(&name.as_str())));
    let has_run = specs.iter().any(|spec| {
        spec.role == Role::Main
            && observed.containers.get(spec.name).is_some_and(|seen| !seen.runs.is_empty())
    });
    let initialised = match incomplete.is_empty() || has_run || phase == "Succeeded" {
        true => Told::yes(),
        false => Told::no(
            "ContainersNotInitialized",
            format!("containers with incomplete status: [{}]", incomplete.join(" ")),
        ),
    };
    let containers_ready = match (phase.as_str(), unready.is_empty()) {
        ("Succeeded", _) => Told::no("PodCompleted", String::new()),
        ("Failed", _) => Told::no("PodFailed", String::new()),
        (_, true) => Told::yes(),
        (_, false) => Told::no(
            "ContainersNotReady",
            format!("containers with unready status: [{}]", unready.join(" ")),
        ),
    };
    let ready = gates(pod, status, &containers_ready);
    let can_start = match observed.volumes.is_none() && stage == Stage::Lives && !is_over {
        true => Told::yes(),
        false => Told::no("", String::new()),
    };
    let mut list = status["conditions"].as_array().cloned().unwrap_or_default();
    let observed_generation = Some(pod.generation()).filter(|generation| *generation > 0);
    for (kind, told) in [
        ("PodReadyToStartContainers", can_start),
        ("Initialized", initialised),
        ("Ready", ready),
        ("ContainersReady", containers_ready),
        ("PodScheduled", Told::yes()),
    ] {
        let Told { status, reason, message } = &told;
        let (status, message) = (*status, message.as_str());
        let condition = Condition { kind, status, reason, message, observed_generation };
        conditions::set(&mut list, &condition, now);
    }
    status["conditions"] = Value::Array(list);
}

fn started(status: &Value, name: &str) -> bool {
    let list = status["initContainerStatuses"].as_array().into_iter().flatten();
    list.clone().any(|one| one["name"] == name && one["started"] == true)
}

/// A pod is ready when its containers are and everybody who has a say agrees.
fn gates(pod: &Object, status: &Value, containers: &Told) -> Told {
    if containers.status != Truth::True {
        return containers.clone();
    }
    let gates = pod.value["spec"]["readinessGates"].as_array().into_iter().flatten();
    let gates = gates.filter_map(|gate| gate["conditionType"].as_str());
    let mut problems = Vec::new();
    for gate in gates {
        match conditions::find(status, gate) {
            None => problems.push(format!(
                "corresponding condition of pod readiness gate \"{gate}\" does not exist."
            )),
            Some(found) if found["status"] != "True" => problems.push(format!(
                "the status of pod readiness gate \"{gate}\" is not \"True\", but {}",
                found["status"].as_str().unwrap_or_default()
            )),
            Some(_) => {}
        }
    }
    match problems.is_empty() {
        true => Told::yes(),
        false => Told::no("ReadinessGatesNotReady", problems.join(", ")),
    }
}

/// What a condition says.
#[derive(Clone)]
struct Told {
    status: Truth,
    reason: &'static str,
    message: String,
}

impl Told {
    fn yes() -> Told {
        Told { status: Truth::True, reason: "", message: String::new() }
    }

    fn no(reason: &'static str, message: String) -> Told {
        Told { status: Truth::False, reason, message }
    }
}
