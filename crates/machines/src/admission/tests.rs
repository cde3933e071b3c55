//! What is answered to single questions.

use serde_json::json;

use super::{default, judge};

#[test]
fn what_goes_or_stays_as_it_is_is_not_judged() {
    let broken = json!({"metadata": {}, "spec": {"cpu": 0}});
    assert!(judge(&broken, &json!(null), None).refusal.is_some());
    assert!(judge(&broken, &broken, None).refusal.is_none());
    let mut going = broken.clone();
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    going["spec"]["cpu"] = json!(-1);
    assert!(judge(&going, &broken, None).refusal.is_none());
}

#[test]
fn a_disk_that_is_there_does_not_change_its_image() {
    let with = |image: &str| {
        json!({"spec": {"cpu": 1, "memory": "1Gi", "disks": [{"name": "root", "size": "1Gi",
            "storageClassName": "a", "image": image}]}})
    };
    let answer = judge(&with("http://b"), &with("http://a"), None);
    assert!(answer.refusal.is_none());
    assert_eq!(answer.warnings, ["disk \"root\" was made before: its image stays"]);
}

#[test]
fn what_is_whole_is_written_as_it_is() {
    let whole = json!({"spec": {"cpu": 1, "memory": "1Gi", "disks": [{"name": "root",
        "size": "1Gi", "storageClassName": "a"}], "startStrategy": {"autoStart": false}}});
    assert!(default(&whole, Some("b")).spec.is_none());
}
