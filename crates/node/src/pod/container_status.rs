//! What a pod's status says of one container. Pure.
//!
//! Upstream: pkg/kubelet/kubelet_pods.go (convertToAPIContainerStatuses)

use k8s_openapi::jiff::Timestamp;
use reconcile::{Object, conditions};
use serde_json::{Value, json};

use super::lifecycle::{Observed, Seen, Stage};
use super::restart::{Fate, fate};
use super::spec::{Role, Spec};
use super::status::Place;
use crate::runtime::{Container, ContainerId, Exit, Refusal, START_ERROR, State};

/// What all containers of a pod may say at their end, together.
const MESSAGES_BYTES_MAX: usize = 12 << 10;
/// How a run ended of which nothing is left.
const LOST_CODE: i32 = 137;
const LOST: &str = "ContainerStatusUnknown";
/// Exit code of a program that could not be started.
const START_ERROR_CODE: i32 = 128;

pub fn container(
    pod: &Object,
    spec: &Spec<'_>,
    observed: &Observed,
    (stage, place): (Stage, &Place),
    now: Timestamp,
) -> Value {
    let empty = Seen::default();
    let seen = observed.containers.get(spec.name).unwrap_or(&empty);
    let room = MESSAGES_BYTES_MAX / observed.containers.len().max(1);
    let state_of = |run: &Container| state_of(pod, run, place, message(seen, run, room));
    let last = seen.runs.last();
    let before = seen.runs.len().checked_sub(2).and_then(|index| seen.runs.get(index));
    let mut state = match last {
        Some(run) => state_of(run),
        None => json!({"waiting": waiting(pod, spec, seen)}),
    };
    let mut last_state = before.map_or_else(|| json!({}), state_of);
    if stage == Stage::Lives && exit(seen).is_some() {
        let wait = match (fate(seen, spec, now), &seen.refused) {
            (Fate::Wait { .. }, Some(refused)) => Some(reason(&refused.refusal)),
            (Fate::Wait { delay, .. }, None) => Some(crash_loop(pod, spec, delay.as_secs())),
            _ => None,
        };
        if let Some(wait) = wait {
            last_state = std::mem::replace(&mut state, json!({"waiting": wait}));
        }
    }
    let is_started = state["running"].is_object() && seen.health.is_started;
    let is_ready = match (spec.role, stage) {
        (Role::Ephemeral, _) => false,
        (Role::Init, _) => exit(seen).is_some_and(|exit| exit.code == 0),
        (_, Stage::Lives) => is_started && seen.health.is_ready && !seen.is_stopping,
        // It may serve until it has ended; that it gets nothing new, its endpoints say.
        (_, Stage::Terminating) => is_started && seen.health.is_ready,
        _ => false,
    };
    let mut told = json!({
        "name": spec.name,
        "image": last.map_or(spec.image(), |run| run.image.as_str()),
        "imageID": last.map_or("", |run| run.image_id.as_str()),
        "ready": is_ready,
        "started": is_started,
        "restartCount": last.map_or(0, |run| run.id.attempt),
        "state": state,
        "lastState": last_state,
    });
    let mounts = mounts(spec.value);
    if !mounts.is_empty() {
        told["volumeMounts"] = Value::Array(mounts);
    }
    let id = last.map(|run| container_id(pod, run, place));
    let resources = match &id {
        Some(id) => started_with(pod, spec, id),
        None => &spec.value["resources"],
    };
    let has = |field: &str| resources[field].as_object().is_some_and(|held| !held.is_empty());
    if last.is_some_and(Container::is_running) && (has("limits") || has("requests")) {
        told["resources"] = resources.clone();
        if has("requests") {
            told["allocatedResources"] = resources["requests"].clone();
        }
    }
    if let Some(id) = id {
        told["containerID"] = json!(id);
    }
    told
}

/// What a run was started with is what it has: limits do not change while it runs, whatever the
/// pod says by now.
fn started_with<'a>(pod: &'a Object, spec: &Spec<'a>, id: &str) -> &'a Value {
    let lists = ["containerStatuses", "initContainerStatuses"];
    let mut all = lists.iter().filter_map(|list| pod.value["status"][list].as_array()).flatten();
    let told = all.find(|one| one["containerID"] == id && one["state"]["running"].is_object());
    told.map_or(&spec.value["resources"], |told| &told["resources"])
}

/// Whether a container that runs has other resources than its pod says by now.
pub fn waits_for_resize(told: &Value, spec: &Spec<'_>) -> bool {
    let wanted = &spec.value["resources"];
    let differs = |field: &str| {
        let amounts = |of: &Value| of[field].as_object().cloned().unwrap_or_default();
        amounts(&told["resources"]) != amounts(wanted)
    };
    told["state"]["running"].is_object() && (differs("limits") || differs("requests"))
}

/// How the newest run ended, if it has.
pub fn exit(seen: &Seen) -> Option<&Exit> {
    match &seen.runs.last()?.state {
        State::Exited(exit) => Some(exit),
        State::Running { .. } => None,
    }
}

/// Returns the newest run that the status reports, for a container whose runtime no longer has it.
pub fn lost(pod: &Object, name: &str, now: Timestamp) -> Option<(Container, Option<String>)> {
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let mut all = lists.iter().filter_map(|list| pod.value["status"][list].as_array()).flatten();
    let told = all.find(|one| one["name"] == name && one["containerID"].is_string())?;
    let ended = [&told["state"]["terminated"], &told["lastState"]["terminated"]];
    let (began, exit, message) = match ended.into_iter().find(|it| it.is_object()) {
        Some(ended) if !told["state"]["running"].is_object() => {
            let code = ended["exitCode"].as_i64().and_then(|code| i32::try_from(code).ok());
            let signal = ended["signal"].as_i64().and_then(|it| i32::try_from(it).ok());
            let ended_at = time(&ended["finishedAt"]).unwrap_or(now);
            let reason = [LOST, START_ERROR].into_iter().find(|it| ended["reason"] == *it);
            let exit = (code.unwrap_or(LOST_CODE), signal, ended_at, reason);
            (&ended["startedAt"], exit, ended["message"].as_str().map(str::to_owned))
        }
        _ => {
            let message = "The container could not be located when the pod was terminated";
            let exit = (LOST_CODE, None, now, Some(LOST));
            (&told["state"]["running"]["startedAt"], exit, Some(message.to_owned()))
        }
    };
    let (code, signal, ended, reason) = exit;
    let began = time(began).unwrap_or(ended);
    let attempt = told["restartCount"].as_u64().and_then(|count| u32::try_from(count).ok());
    let attempt = attempt.unwrap_or(0);
    let run = Container {
        id: ContainerId::new(&pod.uid, name, attempt),
        image: told["image"].as_str().unwrap_or_default().to_owned(),
        image_id: told["imageID"].as_str().unwrap_or_default().to_owned(),
        native_id: told["containerID"]
            .as_str()
            .and_then(|id| id.split_once("://"))
            .map(|(_, id)| id.to_owned()),
        failures: attempt,
        state: State::Exited(Exit { began, ended, code, signal, reason }),
    };
    Some((run, message))
}

/// The run of a container that is not restarted and whose program could not be started. It has the
/// number of the attempt that failed, so that observing it again yields the same run.
pub fn failed_start(uid: &str, spec: &Spec<'_>, seen: &Seen) -> Option<(Container, String)> {
    let refused = seen.refused.as_ref().filter(|it| it.image == spec.image())?;
    if refused.refusal.reason != START_ERROR || spec.runs_again(START_ERROR_CODE) {
        return None;
    }
    let is_newer = |attempt: &u32| seen.runs.last().is_none_or(|run| run.id.attempt < *attempt);
    let attempt = refused.attempt.filter(is_newer)?;
    let (began, reason) = (refused.at, Some(START_ERROR));
    let exit = Exit { began, ended: began, code: START_ERROR_CODE, signal: None, reason };
    let run = Container {
        id: ContainerId::new(uid, spec.name, attempt),
        image: refused.image.clone(),
        image_id: String::new(),
        native_id: None,
        failures: 0,
        state: State::Exited(exit),
    };
    Some((run, refused.refusal.message.clone()))
}

/// What the status tells that a run said at its end.
pub fn told_message(pod: &Object, id: &ContainerId) -> Option<String> {
    let lists = ["containerStatuses", "initContainerStatuses"];
    let mut all = lists.iter().filter_map(|list| pod.value["status"][list].as_array()).flatten();
    let told = all.find(|one| one["name"] == *id.name)?;
    let count = told["restartCount"].as_u64()?;
    let attempt = u64::from(id.attempt);
    let ended = match (&told["state"]["terminated"], &told["lastState"]["terminated"]) {
        (now, _) if now.is_object() && attempt == count => now,
        // One that waits to run again tells of its newest run there.
        (now, last) if !now.is_object() && told["state"]["waiting"].is_object() => {
            last.as_object().filter(|_| attempt == count).map(|_| last)?
        }
        (_, last) if attempt + 1 == count => last,
        _ => return None,
    };
    ended["message"].as_str().map(str::to_owned)
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

fn waiting(pod: &Object, spec: &Spec<'_>, seen: &Seen) -> Value {
    if let Some(refused) = seen.refused.as_ref().filter(|it| it.image == spec.image()) {
        return reason(&refused.refusal);
    }
    let has_init = pod.value["spec"]["initContainers"].as_array().is_some_and(|it| !it.is_empty());
    json!({"reason": if has_init { "PodInitializing" } else { "ContainerCreating" }})
}

fn reason(refusal: &Refusal) -> Value {
    // A run that was refused is a `StartError`, a container that waits for the next one is not.
    let reason = match refusal.reason {
        START_ERROR => "RunContainerError",
        other => other,
    };
    json!({"reason": reason, "message": refusal.message})
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

/// What a run had to say, as much as there is room for.
fn message<'a>(seen: &'a Seen, run: &Container, room: usize) -> Option<&'a str> {
    let message = seen.messages.get(&run.id.attempt).filter(|message| !message.is_empty())?;
    let mut end = message.len().min(room);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    Some(&message[..end])
}

fn state_of(pod: &Object, run: &Container, place: &Place, message: Option<&str>) -> Value {
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
    if let Some(message) = message {
        terminated["message"] = json!(message);
    }
    json!({"terminated": terminated})
}

fn container_id(pod: &Object, run: &Container, place: &Place) -> String {
    if let Some(native) = &run.native_id {
        return format!("{}://{native}", place.runtime);
    }
    let attempt = run.id.attempt.to_string();
    let parts = [pod.uid.as_str(), &run.id.name, &attempt];
    format!("{}://{}", place.runtime, reconcile::names::digest(&parts))
}

/// Where the container sees which volumes.
fn mounts(container: &Value) -> Vec<Value> {
    let mounts = container["volumeMounts"].as_array().into_iter().flatten();
    let told = mounts.map(|mount| {
        let mut told = json!({"name": mount["name"], "mountPath": mount["mountPath"]});
        if mount["readOnly"] == true {
            told["readOnly"] = json!(true);
            let recursive = match mount["recursiveReadOnly"].as_str() {
                Some("Enabled" | "IfPossible") => "Enabled",
                _ => "Disabled",
            };
            told["recursiveReadOnly"] = json!(recursive);
        }
        told
    });
    told.collect()
}
