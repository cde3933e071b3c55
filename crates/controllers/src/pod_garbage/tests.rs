//! Plans for pods that nobody else removes.

use serde_json::{Value, json};

use super::*;

fn pod(metadata: Value, phase: &str) -> Object {
    let mut all = json!({"namespace": "a", "name": "p", "uid": "u", "resourceVersion": "1"});
    for (key, value) in metadata.as_object().into_iter().flatten() {
        all[key] = value.clone();
    }
    Object::new(json!({"metadata": all, "status": {"phase": phase}}))
}

fn steps(pod: &Object, home: Home) -> Vec<String> {
    let plan = plan::plan(pod, &home, Timestamp::from_second(100).expect("a time"));
    plan.to_string().lines().map(str::to_owned).collect()
}

#[test]
fn pods_without_a_node_to_end_them_are_ended() {
    let going = json!({"deletionTimestamp": "1970-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 30});
    let failed = "patch v1 Pod a/p/status {\"status\":{\"phase\":\"Failed\"}}";
    let delete = "delete v1 Pod a/p";
    let wait = "wake on change";
    assert_eq!(steps(&pod(json!({}), "Pending"), Home::None), [wait]);
    assert_eq!(steps(&pod(going.clone(), "Pending"), Home::None), [failed, delete, wait]);
    assert_eq!(steps(&pod(going.clone(), "Running"), Home::There), [wait]);
    assert_eq!(steps(&pod(going, "Running"), Home::OutOfService), [failed, delete, wait]);
    let held = json!({"deletionTimestamp": "1970-01-01T00:00:00Z", "finalizers": ["x"],
        "deletionGracePeriodSeconds": 0});
    assert_eq!(steps(&pod(held.clone(), "Pending"), Home::None), [failed, wait]);
    assert_eq!(steps(&pod(held, "Failed"), Home::None), [wait]);
}

#[test]
fn pods_of_a_node_that_is_gone_go_after_a_while() {
    let at = |second| Home::Missing(Timestamp::from_second(second).expect("a time"));
    assert_eq!(steps(&pod(json!({}), "Running"), at(70)), ["wake after 10s"]);
    let ended = steps(&pod(json!({}), "Running"), at(60));
    assert_eq!(ended.len(), 3);
    assert!(ended[0].contains("\"reason\":\"DeletionByPodGC\""), "{ended:?}");
    assert!(ended[0].contains("\"message\":\"PodGC: node no longer exists\""), "{ended:?}");
    assert_eq!(
        steps(&pod(json!({}), "Succeeded"), at(60)),
        ["delete v1 Pod a/p", "wake on change"]
    );
}

#[test]
fn of_finished_pods_the_evicted_and_the_oldest_go() {
    let made = |name: &str, second: u32, phase: &str, reason: &str| {
        let time = format!("1970-01-01T00:00:{second:02}Z");
        Arc::new(Object::new(json!({"metadata": {"namespace": "a", "name": name, "uid": name,
            "creationTimestamp": time}, "status": {"phase": phase, "reason": reason}})))
    };
    let all = [
        made("old", 1, "Succeeded", ""),
        made("new", 9, "Failed", ""),
        made("evicted", 8, "Failed", "Evicted"),
        made("running", 0, "Running", ""),
    ];
    let text = |max| -> Vec<String> {
        sweep::surplus(&all, max).iter().map(ToString::to_string).collect()
    };
    assert_eq!(text(1), ["delete v1 Pod a/evicted", "delete v1 Pod a/old"]);
    assert!(text(3).is_empty());
}
