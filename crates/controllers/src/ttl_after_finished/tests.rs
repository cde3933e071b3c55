//! Plans for finished Jobs.

use serde_json::{Value, json};

use super::*;

fn text(ttl: Value, conditions: Value, second: i64) -> String {
    let job = Object::new(json!({"metadata": {"namespace": "a", "name": "j", "uid": "u"},
        "spec": {"ttlSecondsAfterFinished": ttl}, "status": {"conditions": conditions}}));
    plan::plan(&job, Timestamp::from_second(second).expect("a time")).to_string()
}

#[test]
fn a_finished_job_goes_when_its_time_is_over() {
    let over = json!([{"type": "Failed", "status": "True",
        "lastTransitionTime": "1970-01-01T00:01:00Z"}]);
    assert_eq!(text(json!(30), over.clone(), 70), "wake after 20s\n");
    assert_eq!(text(json!(30), over.clone(), 90), "delete batch/v1 Job a/j\nwake on change\n");
    assert_eq!(text(json!(0), over.clone(), 60), "delete batch/v1 Job a/j\nwake on change\n");
    assert_eq!(text(json!(null), over, 90), "wake on change\n");
    assert_eq!(text(json!(30), json!([]), 90), "wake on change\n");
}
