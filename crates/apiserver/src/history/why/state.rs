//! How an object is, and what it waits for, told from it and from its pods alone.

use serde_json::{Value, json};
use store::Batch;

use super::hints::hint;
use super::sentences::{self, cut, list};
use crate::history::moment;
use crate::object;

/// Things that are waited for, at most.
const WAITING_MAX: usize = 20;
/// Conditions that say that it is over, one way or the other.
const FINISHED: [&str; 4] = ["Complete", "Completed", "Succeeded", "SuccessCriteriaMet"];
const FAILED: [&str; 3] = ["Failed", "Failure", "StartupPolicyFailed"];
/// Conditions that say that it does what it is for.
const WELL: [&str; 5] = ["Ready", "Available", "Established", "Bound", "Running"];

/// Kinds that say nothing of how they are until they have ended: their pods do.
const PODS_ALONE: [&str; 2] = ["TrainJob", "JobSet"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Running,
    Waiting,
    Failed,
    Finished,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            State::Running => "Running",
            State::Waiting => "Waiting",
            State::Failed => "Failed",
            State::Finished => "Finished",
        }
    }
}

/// Something that is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub sentence: String,
    pub hint: &'static str,
}

impl Waiting {
    fn new(sentence: String) -> Waiting {
        let hint = hint(&sentence);
        Waiting { sentence, hint }
    }

    pub fn to_json(&self) -> Value {
        json!({"sentence": self.sentence, "hint": self.hint})
    }
}

/// How it is.
#[derive(Debug)]
pub struct Judged {
    pub state: State,
    pub sentence: String,
    pub waiting: Vec<Waiting>,
}

/// An object that is no more.
pub fn gone(target: &Value, last: Option<&Batch>) -> Judged {
    let by = last.map(|batch| {
        let actor = sentences::actor(&batch.provenance);
        format!(
            " by {actor} at {} (revision {})",
            moment::text(batch.provenance.time),
            batch.revision
        )
    });
    let sentence = format!("{} is deleted{}", subject(target), by.unwrap_or_default());
    Judged { state: State::Finished, sentence, waiting: Vec::new() }
}

/// How an object is that is there; `pods` are those that belong to it.
pub fn judge(target: &Value, pods: &[Value]) -> Judged {
    let subject = subject(target);
    let judged = |state, what: &str| Judged {
        state,
        sentence: format!("{subject} {what}"),
        waiting: Vec::new(),
    };
    let mut judged = if object::is_terminating(target) {
        let mut judged = judged(State::Waiting, "is being deleted");
        for finalizer in object::finalizers(target) {
            judged.waiting.push(Waiting::new(format!("the finalizer {finalizer} to be removed")));
        }
        judged
    } else if target["kind"] == "Pod" && target["apiVersion"] == "v1" {
        let (state, what) = pod_state(target);
        judged(state, &what)
    } else if let Some((state, what)) = over(target) {
        judged(state, &what)
    } else if let Some((state, what)) = counted(target).or_else(|| worded(target)) {
        judged(state, &what)
    } else if PODS_ALONE.iter().any(|kind| target["kind"] == *kind) {
        let (state, what) = by_pods(pods);
        judged(state, &what)
    } else {
        judged(State::Running, "exists; no status conditions reported")
    };
    if judged.state == State::Failed
        && target["kind"] != "Pod"
        && let Some(first) = first_failure(pods)
    {
        judged.sentence = format!("{}; {first}", judged.sentence);
    }
    if judged.state == State::Waiting {
        wait_for(target, pods, &mut judged.waiting);
    }
    judged.waiting.truncate(WAITING_MAX);
    judged
}

fn subject(target: &Value) -> String {
    format!("{} {}", target["kind"].as_str().unwrap_or("object"), object::name(target))
}

fn conditions(target: &Value) -> &[Value] {
    list(&target["status"]["conditions"])
}

fn is_true(condition: &Value) -> bool {
    condition["status"] == "True"
}

fn named<'a>(target: &'a Value, names: &[&str]) -> Option<&'a Value> {
    let is_named = |one: &&Value| names.iter().any(|name| one["type"] == *name);
    conditions(target).iter().find(is_named)
}

fn because(condition: &Value) -> String {
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    match (text("reason"), text("message")) {
        ("", "") => String::new(),
        (reason, "") => format!(": {reason}"),
        ("", message) => format!(": {}", cut(message)),
        (reason, message) => format!(": {} ({reason})", cut(message)),
    }
}

fn over(target: &Value) -> Option<(State, String)> {
    let find = |names: &[&str]| {
        let is_it = |one: &&Value| is_true(one) && names.iter().any(|name| one["type"] == *name);
        conditions(target).iter().find(is_it)
    };
    if let Some(condition) = find(&FAILED) {
        return Some((State::Failed, format!("failed{}", because(condition))));
    }
    if find(&FINISHED).is_some() {
        return Some((State::Finished, "is finished".to_owned()));
    }
    find(&["Suspended"]).map(|_| (State::Waiting, "is suspended (Suspended)".to_owned()))
}

/// Kinds that count what is ready.
fn counted(target: &Value) -> Option<(State, String)> {
    let (spec, status) = (&target["spec"], &target["status"]);
    let number = |value: &Value| value.as_i64();
    let (ready, wanted) = match target["kind"].as_str()? {
        "Deployment"
        | "ReplicaSet"
        | "StatefulSet"
        | "ReplicationController"
        | "LeaderWorkerSet" => {
            (number(&status["readyReplicas"]), number(&spec["replicas"]).unwrap_or(1))
        }
        "DaemonSet" => (number(&status["numberReady"]), number(&status["desiredNumberScheduled"])?),
        "Job" => {
            let succeeded = number(&status["succeeded"]).unwrap_or(0);
            let wanted = number(&spec["completions"]).or(number(&spec["parallelism"]));
            let ready = number(&status["ready"]).unwrap_or(0) + succeeded;
            (
                Some(ready),
                wanted.unwrap_or(1).min(number(&spec["parallelism"]).unwrap_or(1) + succeeded),
            )
        }
        _ => return None,
    };
    let ready = ready.unwrap_or(0);
    let observed = status["observedGeneration"].as_i64();
    let generation = target["metadata"]["generation"].as_i64().unwrap_or(0);
    if observed.is_some_and(|observed| observed < generation) {
        return Some((State::Waiting, "has a change that its controller has not seen".to_owned()));
    }
    let updated = status["updatedReplicas"].as_i64();
    if target["kind"] == "Deployment" && updated.unwrap_or(0) < wanted {
        let updated = updated.unwrap_or(0);
        let text = format!("has {updated} of {wanted} replicas of its newest form, {ready} ready");
        return Some((State::Waiting, text));
    }
    let text = format!("has {ready} of {wanted} ready");
    Some((if ready >= wanted { State::Running } else { State::Waiting }, text))
}

/// What the pods of an object come to, those left out that are on their way out.
fn by_pods(pods: &[Value]) -> (State, String) {
    let there: Vec<&Value> = pods.iter().filter(|pod| !object::is_terminating(pod)).collect();
    if there.is_empty() {
        return (State::Waiting, "has no pods yet".to_owned());
    }
    let runs = |pod: &&&Value| matches!(pod_state(pod).0, State::Running | State::Finished);
    let (ready, wanted) = (there.iter().filter(runs).count(), there.len());
    let state = if ready == wanted { State::Running } else { State::Waiting };
    (state, format!("has {ready} of {wanted} pods ready"))
}

/// Kinds that say it in a condition or in a word.
fn worded(target: &Value) -> Option<(State, String)> {
    if let Some(condition) = named(target, &WELL) {
        let name = condition["type"].as_str().unwrap_or_default();
        return Some(match is_true(condition) {
            true => (State::Running, format!("is well: {name} is True")),
            false => (State::Waiting, format!("waits: {name} is not True{}", because(condition))),
        });
    }
    let status = &target["status"];
    let word = ["phase", "state", "printableStatus"];
    let word = word.iter().find_map(|field| status[*field].as_str())?;
    let state = match word.to_ascii_lowercase().as_str() {
        "failed" | "error" | "lost" => State::Failed,
        "succeeded" | "completed" | "finished" => State::Finished,
        "running" | "ready" | "bound" | "active" | "successful" | "available" => State::Running,
        _ => State::Waiting,
    };
    Some((state, format!("is {word}")))
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let fields = ["initContainerStatuses", "containerStatuses"];
    fields.into_iter().flat_map(|field| list(&pod["status"][field]))
}

/// How the pod that failed first did, which is where one looks next.
fn first_failure(pods: &[Value]) -> Option<String> {
    let ended = |pod: &Value| {
        let ends = containers(pod).filter(|one| one["state"]["terminated"]["exitCode"] != 0);
        let times = ends.filter_map(|one| one["state"]["terminated"]["finishedAt"].as_str());
        times.min().unwrap_or("~").to_owned()
    };
    let failed = pods.iter().filter(|pod| pod_state(pod).0 == State::Failed);
    let first = failed.min_by_key(|pod| (object::is_terminating(pod), ended(pod)))?;
    Some(format!("pod {} {}", object::name(first), pod_state(first).1))
}

fn pod_state(pod: &Value) -> (State, String) {
    let status = &pod["status"];
    match status["phase"].as_str().unwrap_or("Pending") {
        "Succeeded" => (State::Finished, "is finished".to_owned()),
        "Failed" => {
            let text = |field: &str| status[field].as_str().unwrap_or_default();
            let ended = containers(pod).find_map(|container| {
                let ended = &container["state"]["terminated"];
                let code = ended["exitCode"].as_i64().filter(|code| *code != 0)?;
                let name = container["name"].as_str().unwrap_or_default();
                let reason = ended["reason"].as_str().unwrap_or("Error");
                let said = ended["message"].as_str().unwrap_or_default().trim();
                let said = said.lines().next_back().map(|line| format!(": {}", cut(line)));
                let said = said.unwrap_or_default();
                Some(format!(": container {name} ended with code {code} ({reason}){said}"))
            });
            let said = [text("reason"), text("message")].join(" ");
            let said = if said.trim().is_empty() { String::new() } else { format!(": {said}") };
            (State::Failed, format!("failed{}", ended.unwrap_or(said)))
        }
        "Running" if named(pod, &["Ready"]).is_some_and(is_true) => {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or("its node");
            (State::Running, format!("runs on {node}"))
        }
        phase => (State::Waiting, format!("is {phase} and not ready")),
    }
}

/// What stands between an object and doing what it is for.
fn wait_for(target: &Value, pods: &[Value], waiting: &mut Vec<Waiting>) {
    let mut add = |sentence: String| {
        if waiting.iter().all(|one| one.sentence != sentence) {
            waiting.push(Waiting::new(sentence));
        }
    };
    if target["kind"] == "Pod" {
        return pod_waits(target).into_iter().for_each(add);
    }
    for condition in conditions(target) {
        let is_bad = condition["type"] == "ReplicaFailure" && is_true(condition);
        let kind = condition["type"].as_str().unwrap_or_default();
        if is_bad || WELL.contains(&kind) && !is_true(condition) {
            add(format!("{kind}{}", because(condition)));
        }
    }
    let is_waiting = |pod: &&Value| pod_state(pod).0 == State::Waiting;
    let mut by_reason: Vec<(String, Vec<&str>)> = Vec::new();
    for pod in pods.iter().filter(is_waiting) {
        for sentence in pod_waits(pod) {
            match by_reason.iter_mut().find(|(known, _)| *known == sentence) {
                Some((_, names)) => names.push(object::name(pod)),
                None => by_reason.push((sentence, vec![object::name(pod)])),
            }
        }
    }
    for (sentence, names) in by_reason {
        add(match &names[..] {
            [one] => format!("pod {one}: {sentence}"),
            [first, rest @ ..] => format!("pod {first} and {} more: {sentence}", rest.len()),
            [] => sentence,
        });
    }
}

fn pod_waits(pod: &Value) -> Vec<String> {
    let is_placed = !pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    if !is_placed {
        let gates = list(&pod["spec"]["schedulingGates"]);
        let names: Vec<&str> = gates.iter().filter_map(|gate| gate["name"].as_str()).collect();
        if !names.is_empty() {
            return vec![format!("a node, once its gates are removed: {}", names.join(", "))];
        }
        let said = named(pod, &["PodScheduled"]).filter(|one| !is_true(one)).map(because);
        return vec![format!("a node{}", said.unwrap_or_default())];
    }
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    let mut waits = Vec::new();
    for field in ["initContainerStatuses", "containerStatuses"] {
        for container in list(&pod["status"][field]) {
            let name = container["name"].as_str().unwrap_or_default();
            let state = &container["state"];
            if let Some(reason) = state["waiting"]["reason"].as_str() {
                let message = state["waiting"]["message"].as_str().unwrap_or_default();
                let message =
                    if message.is_empty() { String::new() } else { format!(", {}", cut(message)) };
                let ended = container["lastState"]["terminated"]["exitCode"].as_i64();
                let ended = ended.map(|code| format!(" (it ended with code {code})"));
                let ended = ended.unwrap_or_default();
                waits.push(format!("container {name}: {reason}{message}{ended}"));
            } else if state["running"].is_object() && container["ready"] == false {
                waits.push(format!("container {name} is running but not ready"));
            }
        }
    }
    if waits.is_empty() {
        waits.push(format!("node {node} to start it"));
    }
    waits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(target: &Value, pods: &[Value]) -> String {
        let judged = judge(target, pods);
        let waiting: Vec<&str> = judged.waiting.iter().map(|one| one.sentence.as_str()).collect();
        format!("{}: {} | {}", judged.state.name(), judged.sentence, waiting.join(" | "))
    }

    fn pod(spec: Value, status: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec,
            "status": status})
    }

    #[test]
    fn a_pod_says_what_it_waits_for() {
        let scheduled = json!([{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient cpu."}]);
        let pending = pod(json!({}), json!({"phase": "Pending", "conditions": scheduled}));
        assert_eq!(
            told(&pending, &[]),
            "Waiting: Pod p is Pending and not ready | a node: 0/1 nodes are available: 1 \
             Insufficient cpu. (Unschedulable)"
        );
        assert!(!judge(&pending, &[]).waiting[0].hint.is_empty());
        let state = json!({"waiting": {"reason": "ImagePullBackOff"}});
        let status = json!({"phase": "Pending",
            "containerStatuses": [{"name": "c", "state": state}]});
        let pulling = pod(json!({"nodeName": "n"}), status);
        assert_eq!(
            told(&pulling, &[]),
            "Waiting: Pod p is Pending and not ready | container c: ImagePullBackOff"
        );
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let running = json!({"phase": "Running", "conditions": ready});
        assert_eq!(
            told(&pod(json!({"nodeName": "n"}), running), &[]),
            "Running: Pod p runs on n | "
        );
    }

    #[test]
    fn others_wait_for_their_pods() {
        let set = json!({"kind": "Deployment", "metadata": {"name": "d"},
            "spec": {"replicas": 2}, "status": {"updatedReplicas": 2, "readyReplicas": 0}});
        let pods = [pod(json!({}), json!({})), pod(json!({}), json!({}))];
        assert_eq!(
            told(&set, &pods),
            "Waiting: Deployment d has 0 of 2 ready | pod p and 1 more: a node"
        );
        let job = json!({"kind": "TrainJob", "metadata": {"name": "t"},
            "status": {"conditions": [{"type": "Failed", "status": "True", "reason": "R"}]}});
        assert_eq!(told(&job, &pods), "Failed: TrainJob t failed: R | ");
        let end = |at: &str, code: i64, reason: &str, message: &str| {
            let ended = json!({"exitCode": code, "reason": reason, "message": message,
                "finishedAt": at});
            let status = json!([{"name": "c", "state": {"terminated": ended}}]);
            pod(json!({}), json!({"phase": "Failed", "containerStatuses": status}))
        };
        let ended = [end("T2", 143, "Error", ""), end("T1", 128, "StartError", "a\nno python\n")];
        assert_eq!(
            told(&job, &ended),
            "Failed: TrainJob t failed: R; pod p failed: container c ended with code 128 \
             (StartError): no python | "
        );
        // Those that say nothing before their end are as their pods are.
        let job = json!({"kind": "TrainJob", "metadata": {"name": "t"}, "status": {}});
        assert_eq!(told(&job, &[]), "Waiting: TrainJob t has no pods yet | ");
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let runs = pod(json!({"nodeName": "n"}), json!({"phase": "Running", "conditions": ready}));
        assert_eq!(
            told(&job, &[runs.clone(), pods[0].clone()]),
            "Waiting: TrainJob t has 1 of 2 pods ready | pod p: a node"
        );
        assert_eq!(told(&job, &[runs]), "Running: TrainJob t has 1 of 1 pods ready | ");
    }
}
