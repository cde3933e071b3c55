//! Plays a node: pods that exist run, pods that are deleted go.
//!
//! What a pod does is written on it, so that a template says it for all its pods:
//!
//! | annotation | means | without it |
//! |---|---|---|
//! | `play/start-after` | seconds until it runs | 0 |
//! | `play/ready-after` | seconds from then until it is ready, or `never` | 0 |
//! | `play/ends` | `Succeeded` or `Failed` | it runs on |
//! | `play/ends-after` | seconds it runs before it ends | 1 |
//! | `play/fails-first` | so many of its owner's pods fail, whatever `play/ends` says | 0 |
//! | `play/fails-attempts` | pods of the first so many attempts of a JobSet fail | 0 |
//! | `play/exit-code` | of its containers, if it fails | 1 |
//! | `play/reason` | why it failed, in its status | none |
//! | `play/grace` | seconds it takes to go once it is deleted | 0 |
//!
//! The address of a pod follows from its name, so that it does not depend on who came first.

use std::collections::BTreeMap;
use std::time::Duration;

use reconcile::conditions::time;
use reconcile::plan::{Deletion, Target};
use reconcile::{Context, Kind, Object, conditions};
use serde_json::{Value, json};
use tokio::time::Instant;

pub const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");

const START_AFTER: &str = "play/start-after";
const READY_AFTER: &str = "play/ready-after";
const ENDS: &str = "play/ends";
const ENDS_AFTER: &str = "play/ends-after";
const FAILS_FIRST: &str = "play/fails-first";
const FAILS_ATTEMPTS: &str = "play/fails-attempts";
/// On the pods of a JobSet: which attempt they are of.
const ATTEMPT: &str = "jobset.sigs.k8s.io/restart-attempt";
const EXIT_CODE: &str = "play/exit-code";
const REASON: &str = "play/reason";
const GRACE: &str = "play/grace";

/// Makes every pod do what is written on it. Never returns.
pub async fn play(context: Context) {
    let cache = context.cache(POD);
    let mut stage = Stage::default();
    loop {
        let seen = cache.seen();
        let pods = cache.all();
        stage.forget_all_but(&pods);
        let mut next: Option<Instant> = None;
        for pod in &pods {
            match stage.cue(pod, Instant::now()) {
                Cue::Now(act) => perform(&context, pod, &act).await,
                Cue::At(at) => next = Some(next.map_or(at, |next| next.min(at))),
                Cue::Never => {}
            }
        }
        let news = cache.reaches(seen + 1);
        match next {
            None => news.await,
            Some(at) => {
                let _ = tokio::time::timeout_at(at, news).await;
            }
        }
    }
}

/// What a pod is to do.
#[derive(Debug, PartialEq)]
enum Cue {
    Now(Act),
    At(Instant),
    Never,
}

#[derive(Debug, PartialEq)]
enum Act {
    Go,
    Run { is_ready: bool },
    BecomeReady,
    Succeed,
    Fail,
}

/// What the player remembers of each pod, by UID.
#[derive(Default)]
struct Stage {
    since: BTreeMap<String, Since>,
    /// Which pods of each owner were seen, in order.
    siblings: BTreeMap<String, Vec<String>>,
}

#[derive(Clone, Copy)]
struct Since {
    seen: Instant,
    ran: Option<Instant>,
    going: Option<Instant>,
}

impl Stage {
    fn forget_all_but(&mut self, pods: &[std::sync::Arc<Object>]) {
        self.since.retain(|uid, _| pods.iter().any(|pod| pod.uid == *uid));
    }

    fn cue(&mut self, pod: &Object, now: Instant) -> Cue {
        let place = self.place(pod);
        let since = self.since.entry(pod.uid.clone());
        let since = since.or_insert(Since { seen: now, ran: None, going: None });
        let phase = pod.value["status"]["phase"].as_str().unwrap_or_default();
        if pod.is_terminating() {
            let going = *since.going.get_or_insert(now);
            return due(going, seconds(pod, GRACE).unwrap_or(0), now, Act::Go);
        }
        match phase {
            "" | "Pending" => {
                let is_ready = pod.annotation(READY_AFTER).is_none();
                let wait = seconds(pod, START_AFTER).unwrap_or(0);
                due(since.seen, wait, now, Act::Run { is_ready })
            }
            "Running" => {
                let ran = *since.ran.get_or_insert(now);
                let fails = seconds(pod, FAILS_FIRST).is_some_and(|first| place < first)
                    || seconds(pod, FAILS_ATTEMPTS).is_some_and(|most| attempt(pod) < most);
                let end = match pod.annotation(ENDS) {
                    _ if fails => Some(Act::Fail),
                    Some("Failed") => Some(Act::Fail),
                    Some(_) => Some(Act::Succeed),
                    None => None,
                };
                let is_ready = conditions::is_true(&pod.value["status"], "Ready");
                let ready = seconds(pod, READY_AFTER).filter(|_| !is_ready);
                let ready = ready.map(|wait| due(ran, wait, now, Act::BecomeReady));
                let ends_after = seconds(pod, ENDS_AFTER).unwrap_or(1);
                let end = end.map(|end| due(ran, ends_after, now, end));
                earlier(ready.unwrap_or(Cue::Never), end.unwrap_or(Cue::Never))
            }
            _ => Cue::Never,
        }
    }

    /// How many pods of the same owner came before.
    fn place(&mut self, pod: &Object) -> u64 {
        let owner = pod.controller().unwrap_or_default().to_owned();
        let siblings = self.siblings.entry(owner).or_default();
        let at = siblings.iter().position(|uid| *uid == pod.uid).unwrap_or_else(|| {
            siblings.push(pod.uid.clone());
            siblings.len() - 1
        });
        at as u64
    }
}

fn seconds(pod: &Object, annotation: &str) -> Option<u64> {
    pod.annotation(annotation)?.parse().ok()
}

fn attempt(pod: &Object) -> u64 {
    pod.label(ATTEMPT).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn due(since: Instant, seconds: u64, now: Instant, act: Act) -> Cue {
    let at = since + Duration::from_secs(seconds);
    if now >= at { Cue::Now(act) } else { Cue::At(at) }
}

/// The first of two cues.
fn earlier(one: Cue, other: Cue) -> Cue {
    match (one, other) {
        (Cue::Never, other) => other,
        (one, Cue::Never) => one,
        (Cue::At(one), Cue::At(other)) => Cue::At(one.min(other)),
        (Cue::At(_), now @ Cue::Now(_)) | (now @ Cue::Now(_), _) => now,
    }
}

async fn perform(context: &Context, pod: &Object, act: &Act) {
    let requests = context.requests("node", Default::default());
    if *act == Act::Go {
        let now = Deletion { grace_seconds: Some(0), ..Deletion::default() };
        let _ = requests.delete(&Target::of(POD, pod), &now).await;
        return;
    }
    let status = json!({"status": status(pod, act, &time(context.environment.now()))});
    let _ = requests.patch(&Target::of(POD, pod).part("status"), &status).await;
}

fn status(pod: &Object, act: &Act, now: &str) -> Value {
    let is_ready = matches!(act, Act::BecomeReady | Act::Run { is_ready: true });
    let exit_code = match act {
        Act::Succeed => Some(0),
        Act::Fail => Some(seconds(pod, EXIT_CODE).unwrap_or(1)),
        _ => None,
    };
    let phase = match act {
        Act::Succeed => "Succeeded",
        Act::Fail => "Failed",
        _ => "Running",
    };
    let containers = pod.value["spec"]["containers"].as_array().cloned().unwrap_or_default();
    let containers: Vec<Value> =
        containers.iter().map(|one| container(one, is_ready, exit_code, now)).collect();
    let ready = if is_ready { "True" } else { "False" };
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status,
        "lastTransitionTime": now})
    };
    let address = address(&pod.name.name);
    let mut status = json!({
        "phase": phase,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "hostIP": "192.0.2.1",
        "conditions": [condition("ContainersReady", ready), condition("Initialized", "True"),
            condition("PodScheduled", "True"), condition("Ready", ready)],
        "containerStatuses": containers,
    });
    if pod.value["status"]["startTime"].is_null() {
        status["startTime"] = json!(now);
    }
    if let (Act::Fail, Some(reason)) = (act, pod.annotation(REASON)) {
        status["reason"] = json!(reason);
    }
    status
}

fn container(container: &Value, is_ready: bool, exit_code: Option<u64>, now: &str) -> Value {
    let state = match exit_code {
        None => json!({"running": {"startedAt": now}}),
        Some(code) => json!({"terminated": {"exitCode": code, "startedAt": now,
            "finishedAt": now, "reason": if code == 0 { "Completed" } else { "Error" }}}),
    };
    json!({"name": container["name"], "image": container["image"], "imageID": "",
        "restartCount": 0, "ready": is_ready, "started": exit_code.is_none(), "state": state})
}

/// An address that follows from a name.
fn address(name: &str) -> String {
    let fold = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let [_, _, high, low] = name.bytes().fold(0x811c_9dc5, fold).to_be_bytes();
    format!("10.244.{high}.{}", low.clamp(1, 254))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, annotations: Value, phase: &str) -> Object {
        Object::new(json!({"metadata": {"name": name, "uid": name, "annotations": annotations,
            "ownerReferences": [{"uid": "owner", "controller": true}]},
            "status": {"phase": phase}}))
    }

    fn cues(stage: &mut Stage, pod: &Object, begin: Instant, at: &[u64]) -> Vec<String> {
        let mut cues = Vec::new();
        for seconds in at {
            cues.push(match stage.cue(pod, begin + Duration::from_secs(*seconds)) {
                Cue::Now(act) => format!("{act:?}"),
                Cue::At(at) => format!("in {}", (at - begin).as_secs() - seconds),
                Cue::Never => "never".to_owned(),
            });
        }
        cues
    }

    #[tokio::test]
    async fn a_pod_does_what_is_written_on_it() {
        let begin = Instant::now();
        let mut stage = Stage::default();
        let plain = pod("a", json!({}), "Pending");
        assert_eq!(cues(&mut stage, &plain, begin, &[0]), ["Run { is_ready: true }"]);
        assert_eq!(cues(&mut stage, &pod("a", json!({}), "Running"), begin, &[5]), ["never"]);
        let slow = json!({"play/start-after": "3", "play/ready-after": "never"});
        let slow = pod("b", slow, "Pending");
        assert_eq!(cues(&mut stage, &slow, begin, &[0, 3]), ["in 3", "Run { is_ready: false }"]);
        let job = json!({"play/ends": "Succeeded", "play/ends-after": "10"});
        let job = pod("c", job, "Running");
        assert_eq!(cues(&mut stage, &job, begin, &[0, 10]), ["in 10", "Succeed"]);
    }

    #[tokio::test]
    async fn the_first_pods_of_an_owner_may_fail() {
        let begin = Instant::now();
        let mut stage = Stage::default();
        let written = json!({"play/ends": "Succeeded", "play/fails-first": "1"});
        let first = pod("a", written.clone(), "Running");
        let second = pod("b", written, "Running");
        assert_eq!(cues(&mut stage, &first, begin, &[0, 1]), ["in 1", "Fail"]);
        assert_eq!(cues(&mut stage, &second, begin, &[0, 1]), ["in 1", "Succeed"]);
    }

    #[tokio::test]
    async fn the_pods_of_the_first_attempts_may_fail() {
        let begin = Instant::now();
        let mut stage = Stage::default();
        let written = json!({"play/ends": "Succeeded", "play/fails-attempts": "1"});
        let of = |name: &str, attempt: &str| {
            let mut pod = pod(name, written.clone(), "Running").value.clone();
            pod["metadata"]["labels"] = json!({ATTEMPT: attempt});
            Object::new(pod)
        };
        assert_eq!(cues(&mut stage, &of("a", "0"), begin, &[0, 1]), ["in 1", "Fail"]);
        assert_eq!(cues(&mut stage, &of("b", "1"), begin, &[0, 1]), ["in 1", "Succeed"]);
    }
}
