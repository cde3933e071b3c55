//! Plans of budgets, as data.

use serde_json::{Value, json};

use super::observe::Scale;
use super::*;

fn budget(spec: Value, status: Value) -> Object {
    Object::new(json!({"metadata": {"namespace": "a", "name": "b", "uid": "u", "generation": 2},
        "spec": spec, "status": status}))
}

/// Pods by letter: `r` ready, `n` not ready, `t` ready and going.
fn observed(pods: &str, scale: usize) -> Observed {
    let pod = |(number, letter): (usize, char)| {
        let mut pod = json!({"metadata": {"namespace": "a", "name": number.to_string()},
            "status": {"conditions": [{"type": "Ready",
                "status": if letter == 'n' { "False" } else { "True" }}]}});
        if letter == 't' {
            pod["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:00:00Z");
        }
        Arc::new(Object::new(pod))
    };
    let pods = pods.chars().enumerate().map(pod).collect();
    Observed { pods, scale: Scale::Known(scale), unmanaged: 0 }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

#[test]
fn budgets_count_what_they_can_spare() {
    // Expected, desired, healthy, allowed.
    let cases = [
        (json!({"minAvailable": 2}), "rrr", 3, [3, 2, 3, 1]),
        (json!({"minAvailable": 3}), "rrn", 3, [3, 3, 2, 0]),
        (json!({"minAvailable": "50%"}), "rrr", 5, [5, 3, 3, 0]),
        (json!({"maxUnavailable": 1}), "rrr", 3, [3, 2, 3, 1]),
        (json!({"maxUnavailable": "34%"}), "rrr", 3, [3, 1, 3, 2]),
        (json!({"maxUnavailable": 9}), "rrt", 3, [3, 0, 2, 2]),
        (json!({"minAvailable": 0}), "", 0, [0, 0, 0, 0]),
    ];
    for (spec, pods, scale, [expected, desired, healthy, allowed]) in cases {
        let plan = plan::plan(&budget(spec.clone(), json!({})), &observed(pods, scale), at(0));
        let status = plan.status.expect("a status");
        let found = ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"]
            .map(|field| status[field].as_u64().expect("a number"));
        assert_eq!(found, [expected, desired, healthy, allowed], "{spec} {pods}");
        let reason = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
        assert_eq!(status["conditions"][0]["reason"], reason);
        // The server would fill it in, and the status would look changed.
        assert_eq!(status["conditions"][0]["message"], "");
        assert_eq!(status["observedGeneration"], 2);
    }
}

#[test]
fn an_eviction_that_was_allowed_counts_until_it_is_over_or_overdue() {
    let status =
        json!({"disruptedPods": {"0": "1970-01-01T00:00:00Z", "9": "1970-01-01T00:00:00Z"}});
    let object = budget(json!({"minAvailable": 1}), status);
    let early = plan::plan(&object, &observed("rr", 2), at(60));
    let status = early.status.expect("a status");
    assert_eq!(status["disruptedPods"], json!({"0": "1970-01-01T00:00:00Z"}));
    assert_eq!(status["disruptionsAllowed"], 0);
    assert_eq!(early.wake, reconcile::Wake::After(std::time::Duration::from_secs(60)));
    let late = plan::plan(&object, &observed("rr", 2), at(120));
    let status = late.status.expect("a status");
    assert!(status.get("disruptedPods").is_none());
    assert_eq!(status["disruptionsAllowed"], 1);
    assert_eq!(late.notices[0].reason, "NotDeleted");
}

#[test]
fn nothing_is_spared_while_nobody_knows_the_scale() {
    let mut seen = observed("rr", 0);
    seen.scale = Scale::Unknown("found no controllers for pod \"0\"".to_owned());
    let object = budget(json!({"maxUnavailable": 1}), json!({"disruptionsAllowed": 1}));
    let plan = plan::plan(&object, &seen, at(0));
    let status = plan.status.expect("a status");
    assert_eq!(status["disruptionsAllowed"], 0);
    assert_eq!(status["conditions"][0]["reason"], "SyncFailed");
    assert_eq!(status["conditions"][0]["message"], "found no controllers for pod \"0\"");
}

#[test]
fn a_disruption_that_did_not_happen_is_taken_back() {
    let pod = |second: &str| {
        Object::new(json!({"metadata": {"namespace": "a", "name": "p", "uid": "p"},
            "status": {"phase": "Running", "conditions": [{"type": "DisruptionTarget",
                "status": "True", "lastTransitionTime": format!("1970-01-01T00:00:{second}Z")}]}}))
    };
    assert_eq!(stale::plan(&pod("10"), at(100)).to_string(), "wake after 30s\n");
    let text = stale::plan(&pod("10"), at(130)).to_string();
    assert!(text.contains("\"status\":\"False\""), "{text}");
}
