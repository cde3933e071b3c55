//! Pods: the one word that says how a pod is, and how it is found.
//!
//! Upstream: pkg/printers/internalversion/printers.go (printPod, printPodTemplate)

use serde_json::{Value, json};

use super::super::read::{
    age, at, condition, condition_is_true, containers, integer, is_deleted, is_true, labels, list,
    name, text, text_or,
};
use super::super::{Column, Printer, cells};
use crate::age::human;
use crate::timestamp;

pub static PRINTERS: &[Printer] = &[
    Printer { conditions: pod_conditions, ..Printer::new("", "Pod", POD, pod) },
    Printer::new("", "PodTemplate", POD_TEMPLATE, |object, _| {
        let (names, images) = containers(at(object, &["template", "spec"]));
        let labels = labels(at(object, &["template", "metadata", "labels"]));
        cells![name(object), names, images, labels]
    }),
];

const POD: &[Column] = &[
    Column::NAME,
    Column::text("Ready", "How many of the containers are ready."),
    Column::text("Status", "What the containers are doing, in a word."),
    Column::text("Restarts", "How often containers were restarted, and when last."),
    Column::AGE,
    Column::text("IP", "The address of the pod.").wide(),
    Column::text("Node", "The node the pod runs on.").wide(),
    Column::text("Nominated Node", "The node that is being cleared for the pod.").wide(),
    Column::text("Readiness Gates", "How many of the readiness gates are passed.").wide(),
];

const POD_TEMPLATE: &[Column] = &[
    Column::NAME,
    Column::text("Containers", "The names of the containers in the template."),
    Column::text("Images", "The images of the containers in the template."),
    Column::text("Pod Labels", "The labels that pods get."),
];

/// The reason of a pod that has lost its node.
const NODE_LOST: &str = "NodeLost";

fn pod(pod: &Value, now: i64) -> Vec<Value> {
    let standing = standing(pod);
    cells![
        name(pod),
        format!("{}/{}", standing.ready, containers_total(pod)),
        standing.reason,
        standing.restarts.text(now),
        age(pod, now),
        address(pod),
        text_or(pod, &["spec", "nodeName"], "<none>"),
        text_or(pod, &["status", "nominatedNodeName"], "<none>"),
        readiness_gates(pod),
    ]
}

/// kubectl knows by these that a pod is done.
fn pod_conditions(pod: &Value) -> Vec<Value> {
    let message = match text(pod, &["status", "phase"]) {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return Vec::new(),
    };
    let reason = text(pod, &["status", "phase"]);
    vec![json!({"type": "Completed", "status": "True", "reason": reason, "message": message})]
}

/// What is said of a pod's containers together.
struct Standing {
    reason: String,
    ready: usize,
    restarts: Restarts,
}

#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<i64>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count += integer(status, &["restartCount"]);
        let ended = text(status, &["lastState", "terminated", "finishedAt"]);
        self.last = self.last.max(timestamp::parse(ended));
    }

    /// `3`, or `3 (5m ago)`.
    fn text(self, now: i64) -> String {
        match self.last {
            Some(last) if self.count != 0 => {
                format!("{} ({} ago)", self.count, human(now.saturating_sub(last)))
            }
            _ => self.count.to_string(),
        }
    }
}

fn standing(pod: &Value) -> Standing {
    let start = initialization(pod);
    let mut reason = start.reason.clone().unwrap_or_else(|| overall_reason(pod).to_owned());
    let (mut ready, mut restarts) = (start.ready_sidecars, start.restarts);
    if start.reason.is_none() || condition_is_true(pod, "Initialized") {
        restarts = start.sidecar_restarts;
        let mut any_running = false;
        // The first container has the last word.
        for status in list(pod, &["status", "containerStatuses"]).iter().rev() {
            restarts.add(status);
            match trouble(status) {
                Some(trouble) => reason = trouble,
                None if is_ready_and_running(status) => {
                    any_running = true;
                    ready += 1;
                }
                None => {}
            }
        }
        if reason == "Completed" && any_running {
            let is_ready = condition_is_true(pod, "Ready");
            reason = if is_ready { "Running" } else { "NotReady" }.to_owned();
        }
    }
    if is_deleted(pod) {
        let is_over = matches!(text(pod, &["status", "phase"]), "Succeeded" | "Failed");
        if text(pod, &["status", "reason"]) == NODE_LOST {
            reason = "Unknown".to_owned();
        } else if !is_over {
            reason = "Terminating".to_owned();
        }
    }
    Standing { reason, ready, restarts }
}

/// What is said of the pod as a whole, before looking at containers.
fn overall_reason(pod: &Value) -> &str {
    const GATED: &str = "SchedulingGated";
    let scheduled = condition(pod, "PodScheduled");
    if scheduled.is_some_and(|one| text(one, &["reason"]) == GATED) {
        return GATED;
    }
    text_or(pod, &["status", "reason"], text(pod, &["status", "phase"]))
}

/// How far the init containers are.
#[derive(Default)]
struct Initialization {
    /// Why the pod is not initialized yet.
    reason: Option<String>,
    ready_sidecars: usize,
    restarts: Restarts,
    sidecar_restarts: Restarts,
}

fn initialization(pod: &Value) -> Initialization {
    let mut start = Initialization::default();
    let containers = list(pod, &["spec", "initContainers"]);
    for (index, status) in list(pod, &["status", "initContainerStatuses"]).iter().enumerate() {
        let container = containers.iter().find(|one| one["name"] == status["name"]);
        let is_sidecar = container.is_some_and(is_sidecar);
        start.restarts.add(status);
        if is_sidecar {
            start.sidecar_restarts.add(status);
        }
        let ended = at(status, &["state", "terminated"]);
        if !ended.is_null() && integer(ended, &["exitCode"]) == 0 {
            continue;
        }
        if is_sidecar && is_true(status, &["started"]) {
            start.ready_sidecars += usize::from(is_true(status, &["ready"]));
            continue;
        }
        let why = match text(status, &["state", "waiting", "reason"]) {
            _ if !ended.is_null() => end_reason(ended),
            "" | "PodInitializing" => format!("{index}/{}", containers.len()),
            waiting => waiting.to_owned(),
        };
        start.reason = Some(format!("Init:{why}"));
        break;
    }
    start
}

/// Why a container does not run.
fn trouble(status: &Value) -> Option<String> {
    let waiting = text(status, &["state", "waiting", "reason"]);
    if !waiting.is_empty() {
        return Some(waiting.to_owned());
    }
    let ended = at(status, &["state", "terminated"]);
    if ended.is_null() { None } else { Some(end_reason(ended)) }
}

fn end_reason(ended: &Value) -> String {
    match (text(ended, &["reason"]), integer(ended, &["signal"])) {
        ("", 0) => format!("ExitCode:{}", integer(ended, &["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn is_ready_and_running(status: &Value) -> bool {
    is_true(status, &["ready"]) && !at(status, &["state", "running"]).is_null()
}

/// An init container that goes on running beside the others.
fn is_sidecar(container: &Value) -> bool {
    text(container, &["restartPolicy"]) == "Always"
}

fn containers_total(pod: &Value) -> usize {
    let sidecars = list(pod, &["spec", "initContainers"]).iter().filter(|one| is_sidecar(one));
    list(pod, &["spec", "containers"]).len() + sidecars.count()
}

fn address(pod: &Value) -> &str {
    let first = list(pod, &["status", "podIPs"]).first();
    let ip = first.map(|one| text(one, &["ip"])).filter(|ip| !ip.is_empty());
    ip.unwrap_or_else(|| text_or(pod, &["status", "podIP"], "<none>"))
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(pod, &["spec", "readinessGates"]);
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let passed = gates.iter().filter(|gate| condition_is_true(pod, text(gate, &["conditionType"])));
    format!("{}/{}", passed.count(), gates.len())
}

#[cfg(test)]
mod tests;
