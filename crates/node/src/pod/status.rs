//! What a pod's status says: phase, conditions, containers. Pure.
//!
//! Upstream: pkg/kubelet/kubelet_pods.go (getPhase), pkg/kubelet/status/generate.go

use k8s_openapi::jiff::Timestamp;
use reconcile::Object;
use reconcile::conditions::{self, Condition, Truth};
use serde_json::{Map, Value, json};

use super::lifecycle::{Observed, Seen, Stage};
use super::restart::{Fate, fate};
use super::spec::{Restart, Role, Spec, containers, of_pod};
use crate::runtime::{Container, Exit, State};

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
    let phase = match status["phase"].as_str() {
        Some(ended @ ("Succeeded" | "Failed")) => ended.to_owned(),
        _ if stage == Stage::Overdue => {
            status["reason"] = json!("DeadlineExceeded");
            let message = "Pod was active on the node longer than the specified deadline";
            status["message"] = json!(message);
            "Failed".to_owned()
        }
        _ => phase(pod, &specs, observed, stage, now).to_owned(),
    };
    status["phase"] = json!(phase);
    let told = |is_init: bool| -> Value {
        let of = specs.iter().filter(|spec| (spec.role != Role::Main) == is_init);
        of.map(|spec| container(pod, spec, observed, (stage, place), now)).collect()
    };
    status["containerStatuses"] = told(false);
    let init = told(true);
    if init.as_array().is_some_and(|list| !list.is_empty()) {
        status["initContainerStatuses"] = init;
    }
    if pod.generation() > 0 {
        status["observedGeneration"] = json!(pod.generation());
    }
    set_conditions(pod, &specs, &mut status, (observed, stage), now);
    status
}

fn set_addresses(status: &mut Value, (one, all): (&str, &str), addresses: &[String]) {
    status[one] = json!(addresses.first());
    status[all] = addresses.iter().map(|address| json!({"ip": address})).collect();
}

/// The table of phases.
pub fn phase(
    pod: &Object,
    specs: &[Spec<'_>],
    observed: &Observed,
    stage: Stage,
    now: Timestamp,
) -> &'static str {
    let empty = Seen::default();
    let seen = |spec: &Spec<'_>| observed.containers.get(spec.name).unwrap_or(&empty);
    let mains = || specs.iter().filter(|spec| spec.role == Role::Main);
    let never = of_pod(pod) == Restart::Never || stage != Stage::Lives;
    let has_run = mains().any(|spec| !seen(spec).runs.is_empty());
    if !has_run {
        let failed = specs
            .iter()
            .filter(|spec| spec.role == Role::Init)
            .any(|spec| exit(seen(spec)).is_some_and(|exit| exit.code != 0));
        return if failed && never { "Failed" } else { "Pending" };
    }
    if mains().any(|spec| seen(spec).runs.is_empty()) {
        return if stage == Stage::Terminating { "Failed" } else { "Pending" };
    }
    let exits: Vec<Option<&Exit>> = mains().map(|spec| exit(seen(spec))).collect();
    if exits.iter().any(Option::is_none) {
        return "Running";
    }
    // A sidecar that still runs has to end before the pod does.
    let runs = |spec: &Spec<'_>| seen(spec).runs.last().is_some_and(Container::is_running);
    let is_held = specs.iter().any(runs);
    let again =
        mains().any(|spec| !matches!(fate(seen(spec), spec.restart, now), Fate::Ended { .. }));
    if is_held || (again && stage == Stage::Lives) {
        return "Running";
    }
    let all_good = exits.iter().flatten().all(|exit| exit.code == 0);
    if all_good { "Succeeded" } else { "Failed" }
}

fn exit(seen: &Seen) -> Option<&Exit> {
    match &seen.runs.last()?.state {
        State::Exited(exit) => Some(exit),
        State::Running { .. } => None,
    }
}

fn container(
    pod: &Object,
    spec: &Spec<'_>,
    observed: &Observed,
    (stage, place): (Stage, &Place),
    now: Timestamp,
) -> Value {
    let empty = Seen::default();
    let seen = observed.containers.get(spec.name).unwrap_or(&empty);
    let last = seen.runs.last();
    let before = seen.runs.len().checked_sub(2).and_then(|index| seen.runs.get(index));
    let mut state = match last {
        Some(run) => state_of(pod, run, place),
        None => json!({"waiting": waiting(pod, spec, observed)}),
    };
    let mut last_state = before.map_or_else(|| json!({}), |run| state_of(pod, run, place));
    if stage == Stage::Lives && exit(seen).is_some() {
        let wait = match (fate(seen, spec.restart, now), &seen.refused) {
            (Fate::Wait { .. }, Some(refused)) => Some(reason(&refused.refusal)),
            (Fate::Wait { delay, .. }, None) => Some(crash_loop(pod, spec, delay.as_secs())),
            _ => None,
        };
        if let Some(wait) = wait {
            last_state = std::mem::replace(&mut state, json!({"waiting": wait}));
        }
    }
    let is_running = state["running"].is_object();
    let is_started = is_running && seen.health.is_started;
    let is_ready = match spec.role {
        Role::Init => exit(seen).is_some_and(|exit| exit.code == 0),
        _ => is_started && seen.health.is_ready && stage == Stage::Lives && !seen.is_stopping,
    };
    let mut told = json!({
        "name": spec.name,
        "image": spec.value["image"],
        "imageID": "",
        "ready": is_ready,
        "started": is_started,
        "restartCount": last.map_or(0, |run| run.id.attempt),
        "state": state,
        "lastState": last_state,
    });
    if let Some(run) = last {
        told["containerID"] = json!(container_id(pod, run, place));
    }
    told
}

fn waiting(pod: &Object, spec: &Spec<'_>, observed: &Observed) -> Value {
    let seen = observed.containers.get(spec.name);
    if let Some(refused) = seen.and_then(|seen| seen.refused.as_ref()) {
        return reason(&refused.refusal);
    }
    let has_init = pod.value["spec"]["initContainers"].as_array().is_some_and(|it| !it.is_empty());
    let is_initialising = spec.role == Role::Main && has_init;
    json!({"reason": if is_initialising { "PodInitializing" } else { "ContainerCreating" }})
}

fn reason(refusal: &crate::runtime::Refusal) -> Value {
    json!({"reason": refusal.reason, "message": refusal.message})
}

fn crash_loop(pod: &Object, spec: &Spec<'_>, seconds: u64) -> Value {
    let delay = match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    };
    let message = format!(
        "back-off {delay} restarting failed container={} pod={}_{}({})",
        spec.name, pod.name.name, pod.name.namespace, pod.uid
    );
    json!({"reason": "CrashLoopBackOff", "message": message})
}

fn state_of(pod: &Object, run: &Container, place: &Place) -> Value {
    let exit = match &run.state {
        State::Running { since } => {
            return json!({"running": {"startedAt": conditions::time(*since)}});
        }
        State::Exited(exit) => exit,
    };
    let usual = if exit.code == 0 { "Completed" } else { "Error" };
    let mut terminated = json!({
        "exitCode": exit.code,
        "reason": exit.reason.unwrap_or(usual),
        "startedAt": conditions::time(exit.began),
        "finishedAt": conditions::time(exit.ended),
        "containerID": container_id(pod, run, place),
    });
    if let Some(signal) = exit.signal {
        terminated["signal"] = json!(signal);
    }
    json!({"terminated": terminated})
}

fn container_id(pod: &Object, run: &Container, place: &Place) -> String {
    let attempt = run.id.attempt.to_string();
    let parts = [pod.uid.as_str(), &run.id.name, &attempt];
    format!("{}://{}", place.runtime, reconcile::names::digest(&parts))
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
