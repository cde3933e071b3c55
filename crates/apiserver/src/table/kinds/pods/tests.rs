//! How pods are shown, case by case: the pod, then Ready, Status and Restarts.

use serde_json::{Value, json};

use super::super::super::tests::{NOW, ago, check};
use super::super::super::{Row, row};

/// A pod with two containers, and whatever else the case needs.
fn shown(pod: Value) -> Row {
    let mut whole = json!({
        "metadata": {"name": "p", "creationTimestamp": ago(300)},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
        "status": {"phase": "Running"},
    });
    merge(&mut whole, pod);
    row("", "Pod", &whole, NOW)
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn check_pod(why: &str, pod: Value, ready: &str, status: &str, restarts: &str) {
    let cells = shown(pod).cells;
    assert_eq!(cells[1..4], [json!(ready), json!(status), json!(restarts)], "{why}");
}

fn running(restarts: i64) -> Value {
    json!({"ready": true, "restartCount": restarts, "state": {"running": {}}})
}

fn waiting(reason: &str) -> Value {
    json!({"ready": false, "state": {"waiting": {"reason": reason}}})
}

fn ended(how: Value) -> Value {
    json!({"ready": false, "state": {"terminated": how}})
}

fn containers(statuses: Value) -> Value {
    json!({"status": {"containerStatuses": statuses}})
}

fn initializing(containers: Value, statuses: Value) -> Value {
    json!({
        "spec": {"initContainers": containers},
        "status": {"phase": "Pending", "initContainerStatuses": statuses},
    })
}

#[test]
fn running_pods_count_their_ready_containers() {
    check_pod("nothing known", json!({}), "0/2", "Running", "0");
    check_pod("pending", json!({"status": {"phase": "Pending"}}), "0/2", "Pending", "0");
    let both = containers(json!([running(0), running(0)]));
    check_pod("both run", both, "2/2", "Running", "0");
    let one = json!({"ready": false, "state": {"running": {}}});
    check_pod("one runs", containers(json!([running(1), one])), "1/2", "Running", "1");
    let without_state = json!({"ready": true});
    check_pod("ready without state", containers(json!([without_state])), "0/2", "Running", "0");
}

#[test]
fn the_first_container_in_trouble_names_the_status() {
    let crashing = containers(json!([waiting("CrashLoopBackOff"), running(0)]));
    check_pod("crash loop", crashing, "1/2", "CrashLoopBackOff", "0");
    let pulling = containers(json!([waiting("ImagePullBackOff"), waiting("ErrImagePull")]));
    check_pod("the first wins", pulling, "0/2", "ImagePullBackOff", "0");
    let creating = containers(json!([waiting("ContainerCreating"), running(0)]));
    check_pod("creating", creating, "1/2", "ContainerCreating", "0");
    let killed = containers(json!([ended(json!({"reason": "OOMKilled", "exitCode": 137}))]));
    check_pod("killed", killed, "0/2", "OOMKilled", "0");
    let coded = containers(json!([ended(json!({"exitCode": 3}))]));
    check_pod("exit code", coded, "0/2", "ExitCode:3", "0");
    let signalled = containers(json!([ended(json!({"exitCode": 137, "signal": 9}))]));
    check_pod("signal", signalled, "0/2", "Signal:9", "0");
    let reasonless = containers(json!([{"state": {"waiting": {}}}]));
    check_pod("waiting for nothing said", reasonless, "0/2", "Running", "0");
}

#[test]
fn completed_beside_running_is_running_if_the_pod_is_ready() {
    let done = ended(json!({"reason": "Completed", "exitCode": 0}));
    let mut pod = containers(json!([done.clone(), running(0)]));
    check_pod("not ready", pod.clone(), "1/2", "NotReady", "0");
    pod["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
    check_pod("ready", pod, "1/2", "Running", "0");
    let mut over = containers(json!([done.clone(), done]));
    over["status"]["phase"] = json!("Succeeded");
    check_pod("over", over, "0/2", "Completed", "0");
}

#[test]
fn the_status_of_a_pod_has_its_own_reason() {
    let evicted = json!({"status": {"phase": "Failed", "reason": "Evicted"}});
    check_pod("evicted", evicted, "0/2", "Evicted", "0");
    let gated = json!({"status": {"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"},
    ]}});
    check_pod("gated", gated, "0/2", "SchedulingGated", "0");
    let unscheduled = json!({"status": {"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
    ]}});
    check_pod("unschedulable", unscheduled, "0/2", "Pending", "0");
}

#[test]
fn deletion_shows_unless_the_pod_is_over() {
    let deleted = |phase: &str, reason: &str| {
        json!({
            "metadata": {"deletionTimestamp": ago(1)},
            "status": {"phase": phase, "reason": reason},
        })
    };
    check_pod("deleted", deleted("Running", ""), "0/2", "Terminating", "0");
    check_pod("node lost", deleted("Running", "NodeLost"), "0/2", "Unknown", "0");
    check_pod("already over", deleted("Succeeded", ""), "0/2", "Succeeded", "0");
    check_pod("already failed", deleted("Failed", ""), "0/2", "Failed", "0");
    let alive = json!({"status": {"reason": "NodeLost"}});
    check_pod("lost but not deleted", alive, "0/2", "NodeLost", "0");
}

#[test]
fn init_containers_come_first() {
    let two = json!([{"name": "i"}, {"name": "j"}]);
    let done = json!({"name": "i", "state": {"terminated": {"exitCode": 0}}});
    let not_begun = json!({"name": "i", "state": {"waiting": {"reason": "PodInitializing"}}});
    let at_first = initializing(two.clone(), json!([not_begun, {"name": "j"}]));
    check_pod("none done", at_first, "0/2", "Init:0/2", "0");
    let running = json!({"name": "j", "state": {"running": {}}});
    let at_second = initializing(two.clone(), json!([done.clone(), running]));
    check_pod("one done", at_second, "0/2", "Init:1/2", "0");
    let looping = json!({"name": "i", "restartCount": 4,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"finishedAt": ago(125)}}});
    let stuck = initializing(two.clone(), json!([looping]));
    check_pod("crashing", stuck, "0/2", "Init:CrashLoopBackOff", "4 (2m5s ago)");
    let ends = [
        (json!({"exitCode": 1}), "Init:ExitCode:1"),
        (json!({"exitCode": 1, "signal": 15}), "Init:Signal:15"),
        (json!({"exitCode": 1, "reason": "Error"}), "Init:Error"),
    ];
    for (end, status) in ends {
        let failed = json!({"name": "i", "state": {"terminated": end}});
        let pod = initializing(two.clone(), json!([failed]));
        check_pod("failed", pod, "0/2", status, "0");
    }
    let mut after = initializing(
        two,
        json!([
            {"name": "i", "restartCount": 7, "state": {"terminated": {"exitCode": 0}}},
            {"name": "j", "state": {"terminated": {"exitCode": 0}}},
        ]),
    );
    after["status"]["containerStatuses"] = json!([waiting("PodInitializing")]);
    check_pod("restarts of before are forgotten", after, "0/2", "PodInitializing", "0");
}

#[test]
fn sidecars_are_counted_with_the_containers() {
    let specs = json!([{"name": "s", "restartPolicy": "Always"}, {"name": "i"}]);
    let up = json!({"name": "s", "started": true, "ready": true, "restartCount": 2,
        "state": {"running": {}}, "lastState": {"terminated": {"finishedAt": ago(60)}}});
    let pending = json!({"name": "i", "state": {"waiting": {"reason": "PodInitializing"}}});
    let during = initializing(specs.clone(), json!([up.clone(), pending]));
    check_pod("one up", during, "1/3", "Init:1/2", "2 (60s ago)");
    let done = json!({"name": "i", "restartCount": 5, "state": {"terminated": {"exitCode": 0}}});
    let mut after = initializing(specs.clone(), json!([up, done]));
    after["status"]["phase"] = json!("Running");
    after["status"]["containerStatuses"] = json!([running(1), running(0)]);
    check_pod("all up", after, "3/3", "Running", "3 (60s ago)");
    let starting = json!({"name": "s", "started": false, "state": {"running": {}}});
    let before = initializing(specs.clone(), json!([starting]));
    check_pod("not started", before, "0/3", "Init:0/2", "0");
    let mut again = initializing(
        specs,
        json!([
            {"name": "s", "started": false, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
            {"name": "i", "state": {"terminated": {"exitCode": 0}}},
        ]),
    );
    again["status"]["conditions"] = json!([{"type": "Initialized", "status": "True"}]);
    again["status"]["containerStatuses"] = json!([running(0), running(0)]);
    check_pod("it fails later", again, "2/3", "Init:CrashLoopBackOff", "0");
}

#[test]
fn restarts_say_when_the_last_was() {
    let restarted = |count: i64, seconds: i64| {
        json!({"ready": true, "restartCount": count, "state": {"running": {}},
            "lastState": {"terminated": {"finishedAt": ago(seconds)}}})
    };
    let both = containers(json!([restarted(1, 600), restarted(1, 180)]));
    check_pod("the latest of two", both, "2/2", "Running", "2 (3m ago)");
    let never = containers(json!([restarted(0, 600)]));
    check_pod("no restarts", never, "1/2", "Running", "0");
    check_pod("unknown when", containers(json!([running(5)])), "1/2", "Running", "5");
}

#[test]
fn the_wide_columns_say_where() {
    let none: Vec<Value> = vec![json!("<none>"); 4];
    assert_eq!(shown(json!({})).cells[5..], none);
    let pod = json!({
        "spec": {
            "nodeName": "n1",
            "readinessGates": [{"conditionType": "up"}, {"conditionType": "down"}],
        },
        "status": {
            "podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
            "nominatedNodeName": "n2",
            "conditions": [{"type": "up", "status": "True"}, {"type": "down", "status": "False"}],
        },
    });
    let expected = ["10.0.0.1", "n1", "n2", "1/2"].map(Value::from);
    assert_eq!(shown(pod).cells[5..], expected);
    let old = json!({"status": {"podIP": "10.0.0.9"}});
    assert_eq!(shown(old).cells[5], "10.0.0.9");
}

#[test]
fn pods_that_are_done_say_so() {
    let conditions = |phase: &str| shown(json!({"status": {"phase": phase}})).conditions;
    assert!(conditions("Running").is_empty());
    assert_eq!(
        conditions("Succeeded"),
        [json!({
            "type": "Completed", "status": "True", "reason": "Succeeded",
            "message": "The pod has completed successfully.",
        })]
    );
    assert_eq!(
        conditions("Failed"),
        [json!({
            "type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed.",
        })]
    );
}

#[test]
fn templates_list_containers_and_labels() {
    check(
        "",
        "PodTemplate",
        json!({"template": {
            "metadata": {"labels": {"app": "web", "a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i:1"}, {"name": "d", "image": "j"}]},
        }}),
        json!(["x", "c,d", "i:1,j", "a=b,app=web"]),
    );
}
