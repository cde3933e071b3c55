//! Goldens of what is decided and said about pods.

use k8s_openapi::jiff::Timestamp;
use reconcile::Object;
use serde_json::{Value, json};

use super::lifecycle::{Observed, Refused, Seen, next};
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
        let seen: &mut Seen = observed.containers.entry(name.to_owned()).or_default();
        let attempt = u32::try_from(seen.runs.len()).unwrap();
        let mut run = |state| {
            let id = ContainerId::new("u", name, attempt);
            seen.runs.push(Container { id, image: "i".into(), failures: attempt, state });
        };
        let parts: Vec<&str> = state.split([':', '@']).collect();
        match parts[..] {
            ["running"] => run(State::Running { since: at(NOW - 100) }),
            ["stopping"] => {
                run(State::Running { since: at(NOW - 100) });
                seen.is_stopping = true;
            }
            ["ill"] => {
                run(State::Running { since: at(NOW - 100) });
                seen.health.is_alive = false;
            }
            ["unready"] => {
                run(State::Running { since: at(NOW - 100) });
                seen.health.is_ready = false;
            }
            ["exit", code, ago] => {
                let ended = at(NOW - ago.parse::<i64>().unwrap());
                let code = code.parse().unwrap();
                let (signal, reason) = (None, None);
                run(State::Exited(Exit { began: ended, ended, code, signal, reason }));
            }
            ["refused", times, ago] => {
                let refusal = Refusal { reason: "RunContainerError", message: "no".into() };
                let at = at(NOW - ago.parse::<i64>().unwrap());
                seen.refused = Some(Refused { refusal, at, times: times.parse().unwrap() });
            }
            _ => panic!("{one}"),
        }
    }
    observed
}

/// Policy and containers, what is observed, what is decided, and the phase.
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
];

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
    let status = whole(&pod, &observed("a=running"), (overdue.stage, &place), at(NOW + 5));
    assert_eq!(
        (&status["phase"], &status["reason"]),
        (&json!("Failed"), &json!("DeadlineExceeded"))
    );
}

#[test]
fn the_delay_before_a_restart_doubles_from_ten_seconds_to_five_minutes() {
    let delays: Vec<u64> = (0..10).map(|failures| delay(failures).as_secs()).collect();
    assert_eq!(delays, [0, 0, 10, 20, 40, 80, 160, 300, 300, 300]);
}

#[test]
fn conditions_and_container_states_are_told_as_clients_know_them() {
    let place = Place { address: "10.0.0.1".into(), runtime: "fake" };
    let told = |policy: &str, containers: &str, seen: &str| {
        let pod = Object::new(pod(policy, containers));
        let seen = observed(seen);
        let stage = next(&pod, &seen, at(NOW)).stage;
        let status = whole(&pod, &seen, (stage, &place), at(NOW));
        let conditions = status["conditions"].as_array().unwrap();
        let conditions: Vec<String> = conditions
            .iter()
            .map(|one| {
                let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
                format!(
                    "{}={} {} {}",
                    text("type"),
                    text("status"),
                    text("reason"),
                    text("message")
                )
                .trim_end()
                .to_owned()
            })
            .collect();
        (conditions.join("; "), status)
    };
    let (conditions, status) = told("Always", "init:i main:a", "");
    assert_eq!(
        conditions,
        "PodReadyToStartContainers=True; Initialized=False ContainersNotInitialized containers \
         with incomplete status: [i]; Ready=False ContainersNotReady containers with unready \
         status: [a]; ContainersReady=False ContainersNotReady containers with unready status: \
         [a]; PodScheduled=True"
    );
    assert_eq!(status["containerStatuses"][0]["state"]["waiting"]["reason"], "PodInitializing");
    let init = &status["initContainerStatuses"][0]["state"]["waiting"]["reason"];
    assert_eq!(init, "ContainerCreating");
    let (conditions, _) = told("Always", "main:a", "a=running");
    assert!(conditions.contains("; Ready=True; ContainersReady=True;"), "{conditions}");
    let (conditions, _) = told("Always", "main:a", "a=unready");
    assert!(conditions.contains("Ready=False ContainersNotReady"), "{conditions}");
    let (conditions, _) = told("Never", "main:a", "a=exit:0@0");
    assert!(conditions.contains("Ready=False PodCompleted"), "{conditions}");
    let (_, status) = told("Always", "main:a", "a=exit:3@0 a=exit:4@3");
    let container = &status["containerStatuses"][0];
    assert_eq!(
        container["state"]["waiting"],
        json!({"reason": "CrashLoopBackOff",
        "message": "back-off 10s restarting failed container=a pod=p_d(u)"})
    );
    assert_eq!(container["lastState"]["terminated"]["exitCode"], 4);
    assert_eq!((&container["restartCount"], &container["ready"]), (&json!(1), &json!(false)));
}
