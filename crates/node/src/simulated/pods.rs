//! The pods of simulated nodes: what becomes of each next, and when.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::{self, Condition, Truth};
use reconcile::plan::{Deletion, Step, Target};
use reconcile::reconciler::Settings;
use reconcile::{
    Cache, Context, Error, Kind, Name, Object, Plan, Reconciler, Wake, Watches, names,
};
use serde_json::{Value, json};

use super::behaviour::Behaviour;
use super::{ANNOTATION, NAME, NODE, POD};

/// Pods written at the same time.
const WORKERS_MAX: usize = 128;

pub struct Controller;

impl Reconciler for Controller {
    /// Whether the pod is on one of our nodes.
    type Observed = bool;
    const NAME: &'static str = NAME;
    const KIND: Kind = POD;

    fn concerns(pod: &Object) -> bool {
        pod.value["spec"]["nodeName"].is_string()
    }

    fn settings(&self) -> Settings {
        Settings { workers_max: WORKERS_MAX, ..Settings::default() }
    }

    fn watches(&self, watches: &mut Watches) {
        watches.reads(NODE);
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<bool, Error> {
        Ok(is_ours(&context.cache(NODE), object))
    }

    fn plan(&self, object: &Object, is_ours: &bool, now: Timestamp) -> Result<Plan, Error> {
        Ok(if *is_ours { next(object, now) } else { Plan::nothing() })
    }
}

fn is_ours(nodes: &Cache, pod: &Object) -> bool {
    let Some(node) = pod.value["spec"]["nodeName"].as_str() else { return false };
    let node = nodes.get(&Name::new("", node));
    node.is_some_and(|node| node.annotation(ANNOTATION) == Some("true"))
}

/// What becomes of a pod next.
pub fn next(pod: &Object, now: Timestamp) -> Plan {
    let behaviour = Behaviour::of(pod);
    if pod.is_terminating() {
        return stop(pod, &behaviour, now);
    }
    match pod.value["status"]["phase"].as_str().unwrap_or_default() {
        "Succeeded" | "Failed" => Plan::nothing(),
        "Running" => run(pod, &behaviour, now),
        _ => start(pod, &behaviour, now),
    }
}

/// A pod that is deleted ends after its stop time, but not later than its grace period allows.
fn stop(pod: &Object, behaviour: &Behaviour, now: Timestamp) -> Plan {
    let grace = pod.value["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    let deadline: Option<Timestamp> = pod.meta("deletionTimestamp").parse().ok();
    let began = deadline.map(|at| at.as_millisecond() - grace * 1_000);
    let wait = behaviour.stop.min(Duration::from_secs(grace.unsigned_abs()));
    let passed = began.map_or(Duration::MAX, |began| since(began, now));
    if passed < wait {
        return later(wait - passed);
    }
    let options = Deletion { grace_seconds: Some(0), ..Deletion::default() };
    let step = Step::Delete { target: Target::of(POD, pod), options };
    Plan { steps: vec![step], ..Plan::nothing() }
}

fn start(pod: &Object, behaviour: &Behaviour, now: Timestamp) -> Plan {
    let status = &pod.value["status"];
    let mut new = status.clone();
    if let Some(reason) = &behaviour.waiting {
        if status["containerStatuses"][0]["state"]["waiting"]["reason"] == reason.as_str() {
            return Plan::nothing();
        }
        return report(waiting(pod, new, reason, now), Wake::OnChange);
    }
    if !behaviour.start.is_zero() {
        let Some(began) = milliseconds(&status["startTime"]) else {
            let new = waiting(pod, new, "ContainerCreating", now);
            return report(new, Wake::After(behaviour.start));
        };
        let passed = since(began, now);
        if passed < behaviour.start {
            return later(behaviour.start - passed);
        }
    }
    accept(pod, &mut new, now);
    new["phase"] = json!("Running");
    let is_ready = behaviour.ready.is_zero() && !behaviour.unready;
    new["containerStatuses"] =
        containers(pod, is_ready, json!({"running": {"startedAt": time(now)}}));
    set_ready(pod, &mut new, Readiness::of(is_ready), now);
    let ready = (!is_ready && !behaviour.unready).then_some(behaviour.ready);
    let soonest = [ready, behaviour.exit_after].into_iter().flatten().min();
    report(new, soonest.map_or(Wake::OnChange, Wake::After))
}

fn run(pod: &Object, behaviour: &Behaviour, now: Timestamp) -> Plan {
    let status = &pod.value["status"];
    let running = &status["containerStatuses"][0]["state"]["running"];
    let passed = milliseconds(&running["startedAt"]).map_or(Duration::MAX, |at| since(at, now));
    if let Some(after) = behaviour.exit_after
        && passed >= after
    {
        return finish(pod, behaviour, now);
    }
    let mut new = status.clone();
    let is_ready = conditions::is_true(status, "Ready");
    let becomes_ready = !is_ready && !behaviour.unready && passed >= behaviour.ready;
    let left = |until: Duration| until.saturating_sub(passed);
    let exit = behaviour.exit_after.map(left);
    let exit = exit.map_or(Wake::OnChange, Wake::After);
    if becomes_ready {
        new["containerStatuses"] = containers(pod, true, json!({"running": running}));
        set_ready(pod, &mut new, Readiness::Ready, now);
        return report(new, exit);
    }
    let ready = (!is_ready && !behaviour.unready).then(|| Wake::After(left(behaviour.ready)));
    Plan { wake: exit.or_earlier(ready.unwrap_or_default()), ..Plan::nothing() }
}

/// Its containers end; those that are to be restarted are.
fn finish(pod: &Object, behaviour: &Behaviour, now: Timestamp) -> Plan {
    let status = &pod.value["status"];
    let mut new = status.clone();
    let code = behaviour.exit_code;
    let reason = if code == 0 { "Completed" } else { "Error" };
    let began = &status["containerStatuses"][0]["state"]["running"]["startedAt"];
    let terminated = json!({"terminated": {"exitCode": code, "reason": reason,
        "startedAt": began, "finishedAt": time(now), "containerID": container_id(pod, 0)}});
    let policy = pod.value["spec"]["restartPolicy"].as_str().unwrap_or("Always");
    let restarts = policy == "Always" || (policy == "OnFailure" && code != 0);
    if restarts {
        let running = json!({"running": {"startedAt": time(now)}});
        let mut list = containers(pod, behaviour.ready.is_zero() && !behaviour.unready, running);
        for (index, container) in list.as_array_mut().into_iter().flatten().enumerate() {
            let before = &status["containerStatuses"][index]["restartCount"];
            container["restartCount"] = json!(before.as_i64().unwrap_or(0) + 1);
            container["lastState"] = terminated.clone();
        }
        new["containerStatuses"] = list;
        return report(new, behaviour.exit_after.map_or(Wake::OnChange, Wake::After));
    }
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    new["phase"] = json!(phase);
    new["containerStatuses"] = containers(pod, false, terminated);
    let readiness = if code == 0 { Readiness::Completed } else { Readiness::Failed };
    set_ready(pod, &mut new, readiness, now);
    report(new, Wake::OnChange)
}

fn report(status: Value, wake: Wake) -> Plan {
    Plan { status: Some(status), wake, ..Plan::nothing() }
}

fn later(after: Duration) -> Plan {
    Plan { wake: Wake::After(after), ..Plan::nothing() }
}

/// The node has taken the pod.
fn accept(pod: &Object, status: &mut Value, now: Timestamp) {
    if status["startTime"].is_null() {
        status["startTime"] = json!(time(now));
    }
    let [first, second, third] = address(&pod.uid);
    let address = format!("10.{}.{second}.{third}", 128 | first);
    status["podIP"] = json!(address);
    status["podIPs"] = json!([{"ip": address}]);
    for kind in ["PodReadyToStartContainers", "Initialized"] {
        set(pod, status, (kind, Truth::True, ""), now);
    }
}

fn waiting(pod: &Object, mut status: Value, reason: &str, now: Timestamp) -> Value {
    if status["startTime"].is_null() {
        status["startTime"] = json!(time(now));
    }
    status["phase"] = json!("Pending");
    let mut list = containers(pod, false, json!({"waiting": {"reason": reason}}));
    for container in list.as_array_mut().into_iter().flatten() {
        container["started"] = json!(false);
        if let Some(fields) = container.as_object_mut() {
            fields.remove("containerID");
        }
    }
    status["containerStatuses"] = list;
    set(pod, &mut status, ("Initialized", Truth::True, ""), now);
    set_ready(pod, &mut status, Readiness::Unready, now);
    status
}

#[derive(Clone, Copy, PartialEq)]
enum Readiness {
    Ready,
    Unready,
    Completed,
    Failed,
}

impl Readiness {
    fn of(is_ready: bool) -> Readiness {
        if is_ready { Readiness::Ready } else { Readiness::Unready }
    }
}

fn set_ready(pod: &Object, status: &mut Value, readiness: Readiness, now: Timestamp) {
    let (truth, reason) = match readiness {
        Readiness::Ready => (Truth::True, ""),
        Readiness::Unready => (Truth::False, "ContainersNotReady"),
        Readiness::Completed => (Truth::False, "PodCompleted"),
        Readiness::Failed => (Truth::False, "PodFailed"),
    };
    for kind in ["Ready", "ContainersReady"] {
        set(pod, status, (kind, truth, reason), now);
    }
}

fn set(
    pod: &Object,
    status: &mut Value,
    (kind, truth, reason): (&'static str, Truth, &'static str),
    now: Timestamp,
) {
    let mut list = status["conditions"].as_array().cloned().unwrap_or_default();
    let message = match reason {
        "ContainersNotReady" => format!("containers with unready status: [{}]", names_of(pod)),
        _ => String::new(),
    };
    let observed_generation = Some(pod.generation()).filter(|generation| *generation > 0);
    let condition =
        Condition { kind, status: truth, reason, message: &message, observed_generation };
    conditions::set(&mut list, &condition, now);
    status["conditions"] = Value::Array(list);
}

fn names_of(pod: &Object) -> String {
    let list = pod.value["spec"]["containers"].as_array();
    let names = list.into_iter().flatten().filter_map(|container| container["name"].as_str());
    names.collect::<Vec<_>>().join(" ")
}

fn containers(pod: &Object, is_ready: bool, state: Value) -> Value {
    let list = pod.value["spec"]["containers"].as_array();
    let before = &pod.value["status"]["containerStatuses"];
    let status = |(index, container): (usize, &Value)| {
        json!({
            "name": container["name"],
            "image": container["image"],
            "imageID": format!("simulated://{}", container["image"].as_str().unwrap_or_default()),
            "containerID": container_id(pod, index),
            "ready": is_ready,
            "started": state["running"].is_object(),
            "restartCount": before[index]["restartCount"].as_i64().unwrap_or(0),
            "state": state,
            "lastState": before[index]["lastState"].as_object().cloned().unwrap_or_default(),
        })
    };
    list.into_iter().flatten().enumerate().map(status).collect()
}

fn container_id(pod: &Object, index: usize) -> String {
    format!("simulated://{}", names::digest(&[&pod.uid, &index.to_string()]))
}

/// Three bytes that follow from a pod's UID, the first below 128.
fn address(uid: &str) -> [u8; 3] {
    let mut sum: u32 = 0x811c_9dc5;
    for byte in uid.bytes() {
        sum = (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    let [_, first, second, third] = sum.to_be_bytes();
    [first & 127, second, third]
}

fn time(now: Timestamp) -> String {
    conditions::time(now)
}

fn milliseconds(value: &Value) -> Option<i64> {
    let at: Timestamp = value.as_str()?.parse().ok()?;
    Some(at.as_millisecond())
}

/// How long ago something was. Times in objects are whole seconds, so this may be up to a second
/// too long; never too short.
fn since(began: i64, now: Timestamp) -> Duration {
    Duration::from_millis(u64::try_from(now.as_millisecond() - began).unwrap_or(0))
}
