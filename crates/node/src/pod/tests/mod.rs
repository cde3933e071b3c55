//! Goldens of what is decided and said about pods.

mod admission;
mod environment;
mod handlers;
mod restarts;
mod said;

use k8s_openapi::jiff::Timestamp;
use reconcile::Object;
use serde_json::{Value, json};

use super::lifecycle::{Health, Observed, Refused, Seen, next};
use super::restart::delay;
use super::status::{Place, whole};
use crate::runtime::{Container, ContainerId, Exit, Refusal, State};

const NOW: i64 = 1_000_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// `policy` and containers such as `init:a sidecar:b main:c`.
fn pod(policy: &str, containers: &str) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "d",
        "name": "p", "uid": "u"}, "spec": {"restartPolicy": policy, "nodeName": "n",
        "initContainers": [], "containers": []}, "status": {"phase": "Pending"}});
    for one in containers.split(' ') {
        let (role, name) = one.split_once(':').unwrap();
        let mut container = json!({"name": name, "image": "i"});
        let field = if role == "main" { "containers" } else { "initContainers" };
        if role == "sidecar" {
            container["restartPolicy"] = json!("Always");
        }
        pod["spec"][field].as_array_mut().unwrap().push(container);
    }
    pod
}

/// `c=running c=exit:1@10 c=refused:2@5`: runs of containers, and how many seconds ago they ended.
fn observed(text: &str) -> Observed {
    let mut observed = Observed::default();
    for one in text.split(' ').filter(|one| !one.is_empty()) {
        let (name, state) = one.split_once('=').unwrap();
        see(observed.containers.entry(name.to_owned()).or_default(), name, state);
    }
    observed
}

fn see(seen: &mut Seen, name: &str, text: &str) {
    let parts: Vec<&str> = text.split([':', '@']).collect();
    let number = |text: &str| text.parse::<i64>().unwrap();
    if let ["refused", times, ago] = parts[..] {
        let refusal = Refusal { reason: "RunContainerError", message: "no".into() };
        let (at, image) = (at(NOW - number(ago)), "i".to_owned());
        let (times, attempt) = (times.parse().unwrap(), Some(0));
        seen.refused = Some(Refused { refusal, at, times, image, attempt });
        return;
    }
    let state = match parts[..] {
        [how, code, ago] => {
            let ended = at(NOW - number(ago));
            let ran = if how == "long" { 601 } else { 0 };
            let began = at(ended.as_second() - ran);
            let (code, signal, reason) = (code.parse().unwrap(), None, None);
            State::Exited(Exit { began, ended, code, signal, reason })
        }
        _ => State::Running { since: at(NOW - 100) },
    };
    let health = |is_started, is_ready, is_alive| Health { is_started, is_ready, is_alive };
    match parts[0] {
        "stopping" => seen.is_stopping = true,
        "ill" => seen.health = health(true, true, false),
        "unready" => seen.health = health(true, false, true),
        "unstarted" => seen.health = health(false, false, true),
        "stillborn" => seen.health = health(false, false, false),
        "running" | "exit" | "long" | "old" | "gone" => {}
        other => panic!("{other}"),
    }
    let image = if ["old", "gone"].contains(&parts[0]) { "before" } else { "i" };
    let attempt = u32::try_from(seen.runs.len()).unwrap();
    let id = ContainerId::new("u", name, attempt);
    seen.runs.push(run_of(id, image, attempt, state));
}

fn run_of(id: ContainerId, image: &str, failures: u32, state: State) -> Container {
    let image = image.to_owned();
    Container { id, image, image_id: String::new(), native_id: None, failures, state }
}

/// Policy and containers, what is observed, what is decided, and the phase.
#[rustfmt::skip]
const LIVES: &[(&str, &str, &str, &str, &str)] = &[
    ("Always", "main:a", "", "start a #0 failures 0; Lives", "Pending"),
    ("Always", "main:a main:b", "a=running", "start b #0 failures 0; Lives", "Pending"),
    ("Always", "main:a", "a=running", "Lives", "Running"),
    ("Always", "main:a", "a=exit:0@0", "start a #1 failures 1; Lives", "Running"),
    ("Always", "main:a", "a=exit:1@0 a=exit:1@3", "Lives, wake after 7s", "Running"),
    ("Always", "main:a", "a=exit:1@0 a=exit:1@10", "start a #2 failures 2; Lives", "Running"),
    (
        "Always",
        "main:a",
        "a=exit:1@0 a=exit:1@0 a=exit:1@0",
        "forget a #0; Lives, wake after 20s",
        "Running",
    ),
    ("OnFailure", "main:a", "a=exit:0@0", "Lives still", "Succeeded"),
    ("OnFailure", "main:a", "a=exit:2@0", "start a #1 failures 1; Lives", "Running"),
    ("Never", "main:a", "a=exit:2@0", "Lives still", "Failed"),
    ("Never", "main:a", "a=exit:0@0", "Lives still", "Succeeded"),
    ("Never", "main:a main:b", "a=exit:0@0 b=running", "Lives", "Running"),
    ("Never", "main:a main:b", "a=exit:0@0 b=exit:1@0", "Lives still", "Failed"),
    ("Always", "init:i init:j main:a", "", "start i #0 failures 0; Lives", "Pending"),
    ("Always", "init:i init:j main:a", "i=running", "Lives", "Pending"),
    ("Always", "init:i init:j main:a", "i=exit:0@9", "start j #0 failures 0; Lives", "Pending"),
    ("Always", "init:i main:a", "i=exit:1@9", "start i #1 failures 1; Lives", "Pending"),
    ("Never", "init:i main:a", "i=exit:1@9", "Lives still", "Failed"),
    ("Always", "init:i main:a", "i=exit:0@9", "start a #0 failures 0; Lives", "Pending"),
    // Once a main container ran, initialisation is not repeated.
    ("Always", "init:i main:a", "a=exit:1@9", "start a #1 failures 1; Lives", "Running"),
    ("Always", "sidecar:s main:a", "", "start s #0 failures 0; Lives", "Pending"),
    ("Always", "sidecar:s main:a", "s=running", "start a #0 failures 0; Lives", "Pending"),
    (
        "Never",
        "sidecar:s main:a",
        "s=exit:0@0 a=running",
        "start s #1 failures 1; Lives",
        "Running",
    ),
    (
        "Never",
        "sidecar:s main:a",
        "s=running a=exit:0@0",
        "stop s #0 in 30s PodEnds; Lives",
        "Running",
    ),
    ("Never", "sidecar:s main:a", "s=exit:143@0 a=exit:0@0", "Lives still", "Succeeded"),
    ("Always", "main:a", "a=ill", "stop a #0 in 30s Unhealthy; Lives", "Running"),
    ("Always", "main:a", "a=refused:1@4", "Lives, wake after 6s", "Pending"),
    ("Always", "main:a", "a=refused:1@10", "start a #0 failures 0; Lives", "Pending"),
    // Phases of 4.1 that are not above: main containers.
    ("Always", "main:a main:b", "a=exit:0@0 b=exit:0@0",
        "start a #1 failures 1; start b #1 failures 1; Lives", "Running"),
    ("Always", "main:a main:b", "a=exit:1@0 b=running", "start a #1 failures 1; Lives", "Running"),
    ("OnFailure", "main:a main:b", "a=exit:0@0 b=exit:3@0", "start b #1 failures 1; Lives",
        "Running"),
    ("OnFailure", "main:a main:b", "a=exit:0@0 b=exit:0@0", "Lives still", "Succeeded"),
    ("Never", "main:a main:b", "a=exit:1@0", "start b #0 failures 0; Lives", "Pending"),
    ("Never", "main:a main:b", "a=exit:1@0 b=running", "Lives", "Running"),
    ("Never", "main:a main:b", "a=exit:0@0 b=exit:0@0", "Lives still", "Succeeded"),
    // Initialisation.
    ("OnFailure", "init:i main:a", "i=exit:1@9", "start i #1 failures 1; Lives", "Pending"),
    ("Never", "init:i init:j main:a", "i=exit:0@9 j=exit:2@1", "Lives still", "Failed"),
    ("Always", "init:i main:a", "i=exit:1@3 i=exit:1@3", "Lives, wake after 7s", "Pending"),
    ("Never", "init:i main:a", "i=exit:0@9 a=exit:0@1", "Lives still", "Succeeded"),
    ("Never", "sidecar:s init:i main:a", "s=running i=exit:1@1",
        "stop s #0 in 30s PodEnds; Lives", "Pending"),
    ("Never", "sidecar:s init:i main:a", "s=exit:143@0 i=exit:1@1", "Lives still", "Failed"),
    // Sidecars hold up what comes after them until they have started, and not longer.
    ("Always", "sidecar:s init:i main:a", "s=unstarted", "Lives", "Pending"),
    ("Always", "sidecar:s init:i main:a", "s=running", "start i #0 failures 0; Lives", "Pending"),
    ("Always", "sidecar:s init:i main:a", "s=unready", "start i #0 failures 0; Lives", "Pending"),
    ("Always", "sidecar:s main:a", "s=exit:1@0", "start s #1 failures 1; Lives", "Pending"),
    ("Always", "sidecar:s sidecar:t main:a", "s=running t=unstarted", "Lives", "Pending"),
    ("Always", "sidecar:s main:a", "s=exit:1@0 a=exit:1@0",
        "start s #1 failures 1; start a #1 failures 1; Lives", "Running"),
    // Both of a sidecar and of the rest that are ill.
    ("Always", "sidecar:s main:a", "s=ill a=running", "stop s #0 in 30s Unhealthy; Lives",
        "Running"),
    ("Always", "main:a", "a=stillborn", "stop a #0 in 30s Unstarted; Lives", "Running"),
    // Who ran for ten minutes has recovered.
    ("Always", "main:a", "a=exit:1@0 a=exit:1@0 a=long:1@0",
        "forget a #0; start a #3 failures 1; Lives", "Running"),
    // Another image: the run ends whatever the policy says, and its failures are forgotten.
    ("Always", "main:a", "a=old", "stop a #0 in 30s Changed; Lives", "Running"),
    ("Never", "main:a", "a=old", "stop a #0 in 30s Changed; Lives", "Running"),
    ("Never", "main:a", "a=gone:143@0", "start a #1 failures 0; Lives", "Running"),
    ("Always", "main:a", "a=exit:1@0 a=exit:1@0 a=gone:1@0",
        "forget a #0; start a #3 failures 0; Lives", "Running"),
    ("Always", "init:i main:a", "i=gone:0@0", "start a #0 failures 0; Lives", "Pending"),
];

/// Policies of containers: of the pod, of the container, its rules, the exit code, whether again.
#[rustfmt::skip]
const RESTARTS: &[(&str, &str, &str, i32, bool)] = &[
    ("Always", "", "", 0, true), ("Always", "", "", 1, true),
    ("OnFailure", "", "", 0, false), ("OnFailure", "", "", 1, true),
    ("Never", "", "", 0, false), ("Never", "", "", 1, false),
    ("Always", "Never", "", 1, false), ("Never", "Always", "", 0, true),
    ("Always", "OnFailure", "", 0, false), ("Never", "OnFailure", "", 1, true),
    ("Never", "Never", "In 42 43", 42, true), ("Never", "Never", "In 42 43", 1, false),
    ("Never", "Never", "NotIn 1", 42, true), ("Never", "Never", "NotIn 1", 1, false),
    ("Always", "Always", "In 3", 4, true), ("Never", "OnFailure", "In 3", 0, false),
];

#[test]
fn containers_restart_as_their_own_policy_and_rules_say() {
    for (of_pod, own, rule, code, expected) in RESTARTS {
        let mut value = pod(of_pod, "main:a");
        let container = &mut value["spec"]["containers"][0];
        if !own.is_empty() {
            container["restartPolicy"] = json!(own);
        }
        if let Some((operator, values)) = rule.split_once(' ') {
            let values: Vec<i32> = values.split(' ').map(|it| it.parse().unwrap()).collect();
            container["restartPolicyRules"] = json!([{"action": "Restart",
                "exitCodes": {"operator": operator, "values": values}}]);
        }
        let pod = Object::new(value);
        let again = super::spec::containers(&pod)[0].runs_again(*code);
        assert_eq!(again, *expected, "{of_pod} {own} {rule} {code}");
    }
}

#[test]
fn one_grace_period_is_for_all_who_end_one_after_another() {
    let mut value = pod("Always", "sidecar:s main:a");
    value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    value["metadata"]["deletionGracePeriodSeconds"] = json!(10);
    let pod = Object::new(value);
    for (waited, left) in [(0, "10s"), (7, "3s"), (9, "2s"), (60, "2s")] {
        let ending_since = Some(at(NOW - waited));
        let seen = Observed { ending_since, ..observed("s=running a=exit:0@0") };
        let decided = next(&pod, &seen, at(NOW)).to_string();
        assert_eq!(decided, format!("stop s #0 in {left} PodEnds; Terminating"));
    }
}

#[test]
fn the_grace_of_a_probe_is_for_what_that_probe_ends() {
    for (seen, probe, decided) in [
        ("a=ill", "livenessProbe", "stop a #0 in 3s Unhealthy; Lives"),
        ("a=stillborn", "livenessProbe", "stop a #0 in 30s Unstarted; Lives"),
        ("a=stillborn", "startupProbe", "stop a #0 in 3s Unstarted; Lives"),
    ] {
        let mut value = pod("Always", "main:a");
        value["spec"]["containers"][0][probe] = json!({"terminationGracePeriodSeconds": 3});
        assert_eq!(next(&Object::new(value), &observed(seen), at(NOW)).to_string(), decided);
    }
}

/// Of a container that always fails: when it is started, in seconds after the first start.
#[test]
fn a_container_that_fails_is_started_ever_later() {
    let pod = Object::new(pod("Always", "main:a"));
    let mut seen = observed("");
    let (mut clock, mut starts) = (NOW, Vec::new());
    while starts.len() < 9 {
        let next = next(&pod, &seen, at(clock));
        let start = next.deeds.iter().find_map(|deed| match deed {
            super::lifecycle::Deed::Start { attempt, failures, .. } => Some((*attempt, *failures)),
            _ => None,
        });
        match (start, next.wake) {
            (Some((attempt, failures)), _) => {
                starts.push(clock - NOW);
                let id = ContainerId::new("u", "a", attempt);
                let (began, ended, signal, reason) = (at(clock), at(clock), None, None);
                let state = State::Exited(Exit { began, ended, code: 1, signal, reason });
                let run = run_of(id, "i", failures, state);
                seen.containers.entry("a".into()).or_default().runs.push(run);
            }
            (None, reconcile::Wake::After(after)) => clock += after.as_secs() as i64,
            (None, other) => panic!("{other:?}"),
        }
    }
    assert_eq!(starts, [0, 0, 10, 30, 70, 150, 310, 610, 910]);
}

#[test]
fn pods_live_by_the_table() {
    for (policy, containers, seen, decided, phase) in LIVES {
        let pod = Object::new(pod(policy, containers));
        let seen = observed(seen);
        let next = next(&pod, &seen, at(NOW));
        assert_eq!(next.to_string(), *decided, "{policy} {containers} {seen:?}");
        let place = Place { address: "10.0.0.1".into(), runtime: "fake" };
        let status = whole(&pod, &seen, (next.stage, &place), at(NOW));
        assert_eq!(status["phase"], *phase, "{policy} {containers} {seen:?}");
    }
}

#[test]
fn a_pod_that_is_deleted_stops_its_mains_and_then_its_sidecars_in_reverse() {
    let mut value = pod("Always", "sidecar:s sidecar:t main:a main:b");
    value["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    value["metadata"]["deletionGracePeriodSeconds"] = json!(5);
    let pod = Object::new(value);
    for (seen, decided) in [
        (
            "s=running t=running a=running b=running",
            "stop a #0 in 5s PodEnds; stop b #0 in 5s PodEnds; Terminating",
        ),
        ("s=running t=running a=stopping b=exit:0@0", "Terminating"),
        ("s=running t=running a=exit:0@0 b=exit:0@0", "stop t #0 in 5s PodEnds; Terminating"),
        ("s=running t=exit:0@0 a=exit:0@0 b=exit:0@0", "stop s #0 in 5s PodEnds; Terminating"),
        ("s=exit:0@0 t=exit:0@0 a=exit:0@0 b=exit:0@0", "Terminating still"),
        ("", "Terminating still"),
    ] {
        assert_eq!(next(&pod, &observed(seen), at(NOW)).to_string(), decided, "{seen}");
    }
}

#[test]
fn a_pod_that_ended_or_is_overdue_starts_nothing() {
    let mut value = pod("Always", "main:a");
    value["status"]["phase"] = json!("Failed");
    let over = next(&Object::new(value.clone()), &observed(""), at(NOW));
    assert_eq!(over.to_string(), "Over still");
    value["status"] = json!({"phase": "Running", "startTime": at(NOW - 10).to_string()});
    value["spec"]["activeDeadlineSeconds"] = json!(15);
    let pod = Object::new(value.clone());
    let waits = next(&pod, &observed("a=running"), at(NOW));
    assert_eq!(waits.to_string(), "Lives, wake after 5s");
    let overdue = next(&pod, &observed("a=running"), at(NOW + 5));
    assert_eq!(overdue.to_string(), "stop a #0 in 30s PodEnds; Overdue");
    let place = Place { address: "10.0.0.1".into(), runtime: "fake" };
    for (seen, phase, reason) in [
        ("a=running", "Running", Value::Null),
        ("a=stopping", "Running", Value::Null),
        ("a=exit:143@0", "Failed", json!("DeadlineExceeded")),
    ] {
        let status = whole(&pod, &observed(seen), (overdue.stage, &place), at(NOW + 5));
        assert_eq!((&status["phase"], &status["reason"]), (&json!(phase), &reason), "{seen}");
    }
}

#[test]
fn the_delay_before_a_restart_doubles_from_ten_seconds_to_five_minutes() {
    let delays: Vec<u64> = (0..10).map(|failures| delay(failures).as_secs()).collect();
    assert_eq!(delays, [0, 0, 10, 20, 40, 80, 160, 300, 300, 300]);
}
