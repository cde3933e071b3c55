//! Plans of pods on tainted nodes.

use std::time::Duration;

use reconcile::Wake;
use serde_json::{Value, json};

use super::*;

fn pod(tolerations: Value) -> Object {
    Object::new(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "a", "name": "p", "uid": "p", "generation": 1},
        "spec": {"nodeName": "n", "tolerations": tolerations},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn tainted(keys: &[&str], age: Duration) -> Observed {
    let taint = |key: &&str| Taint { key: (*key).to_owned(), value: String::new(), age };
    Observed { taints: keys.iter().map(taint).collect(), is_unheard: false }
}

/// `stays`, `goes`, or how long it stays.
fn fate(tolerations: Value, keys: &[&str], age: u64) -> String {
    let observed = tainted(keys, Duration::from_secs(age));
    let plan = plan::plan(&pod(tolerations), &observed, at(100));
    let deletes = plan.steps.iter().any(|step| step.to_string() == "delete v1 Pod a/p");
    match plan.wake {
        _ if deletes => "goes".to_owned(),
        Wake::OnChange => "stays".to_owned(),
        Wake::After(after) => format!("stays {after:?}"),
    }
}

#[test]
fn a_pod_stays_as_long_as_it_tolerates_every_taint() {
    let for_seconds = |key: &str, seconds: i64| {
        json!({"key": key, "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": seconds})
    };
    let cases = [
        (json!([]), vec![], 0, "stays"),
        (json!([]), vec!["x"], 0, "goes"),
        (json!([{"operator": "Exists"}]), vec!["x", "y"], 0, "stays"),
        (json!([{"key": "x", "operator": "Exists"}]), vec!["x", "y"], 0, "goes"),
        (json!([{"key": "x", "value": "other"}]), vec!["x"], 0, "goes"),
        (json!([{"key": "x", "operator": "Exists", "effect": "NoSchedule"}]), vec!["x"], 0, "goes"),
        (json!([for_seconds("x", 30)]), vec!["x"], 10, "stays 20s"),
        (json!([for_seconds("x", 30)]), vec!["x"], 30, "goes"),
        (json!([for_seconds("x", 0)]), vec!["x"], 0, "goes"),
        (json!([for_seconds("x", 30), for_seconds("y", 9)]), vec!["x", "y"], 0, "stays 9s"),
    ];
    for (tolerations, keys, age, expected) in cases {
        assert_eq!(fate(tolerations.clone(), &keys, age), expected, "{tolerations} {keys:?} {age}");
    }
}

#[test]
fn who_has_to_go_is_told_why_first() {
    let plan = plan::plan(&pod(json!([])), &tainted(&["x"], Duration::ZERO), at(100));
    assert_eq!(
        plan.to_string(),
        "patch v1 Pod a/p/status {\"status\":{\"conditions\":[\
         {\"status\":\"True\",\"type\":\"Ready\"},\
         {\"lastTransitionTime\":\"1970-01-01T00:01:40Z\",\
         \"message\":\"Taint manager: deleting due to NoExecute taint\",\
         \"observedGeneration\":1,\"reason\":\"DeletionByTaintManager\",\
         \"status\":\"True\",\"type\":\"DisruptionTarget\"}]}}\n\
         delete v1 Pod a/p\n\
         Normal TaintManagerEviction: Marking for deletion Pod a/p\n\
         wake on change\n"
    );
}

#[test]
fn a_pod_on_a_node_that_is_not_heard_of_is_not_ready() {
    let observed = Observed { is_unheard: true, ..tainted(&[], Duration::ZERO) };
    let plan = plan::plan(&pod(json!([])), &observed, at(100));
    assert_eq!(
        plan.steps[0].to_string(),
        "patch v1 Pod a/p/status {\"status\":{\"conditions\":[\
         {\"lastTransitionTime\":\"1970-01-01T00:01:40Z\",\"status\":\"False\",\
         \"type\":\"Ready\"}]}}"
    );
    assert_eq!(plan.steps.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_taint_ages_by_the_clock_that_nobody_sets() {
    let seen = observe::FirstSeen::default();
    let (node, begin) = (reconcile::Name::new("", "n"), tokio::time::Instant::now());
    let taint = |added: &str| json!({"key": "x", "effect": "NoExecute", "timeAdded": added});
    let said = taint("1970-01-01T00:01:30Z");
    let age = |taint: &Value, wall: i64, seconds: u64| {
        let now = begin + Duration::from_secs(seconds);
        seen.dated(&node, std::slice::from_ref(taint), (at(wall), now))[0].age.as_secs()
    };
    assert_eq!(age(&said, 100, 0), 10);
    assert_eq!(age(&said, 9_000, 5), 15);
    assert_eq!(age(&said, 0, 7), 17);
    // Another time is another taint; one that went begins anew.
    assert_eq!(age(&taint(""), 100, 7), 0);
    assert_eq!(age(&said, 100, 8), 10);
}
