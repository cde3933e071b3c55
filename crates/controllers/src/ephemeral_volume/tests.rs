//! Plans of claims.

use serde_json::json;

use super::plan::plan;
use super::*;

fn pod() -> Object {
    let template = json!({"metadata": {"labels": {"a": "b"}},
        "spec": {"accessModes": ["ReadWriteOnce"]}});
    Object::new(
        json!({"metadata": {"namespace": "n", "name": "p", "uid": "u"}, "spec": {"volumes": [
        {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}},
        {"name": "other", "emptyDir": {}}]}}),
    )
}

fn claim(owner: &str) -> Arc<Object> {
    Arc::new(Object::new(json!({"metadata": {"namespace": "n", "name": "p-scratch",
        "ownerReferences": [{"kind": "Pod", "name": "p", "uid": owner, "controller": true}]}})))
}

#[test]
fn a_pod_gets_the_claims_of_its_ephemeral_volumes_once() {
    let made = plan(&pod(), &[]);
    assert_eq!(made.to_string(), "create v1 PersistentVolumeClaim n/p-scratch\nwake on change\n");
    assert_eq!(plan(&pod(), &[claim("u")]).to_string(), "wake on change\n");
    assert!(Controller::concerns(&pod()));
    assert!(!Controller::concerns(&Object::new(json!({"spec": {"volumes": [{"emptyDir": {}}]}}))));
}

#[test]
fn a_claim_of_another_is_left_alone_and_said() {
    let refused = plan(&pod(), &[claim("another")]);
    assert!(refused.steps.is_empty());
    let message = "PVC n/p-scratch was not created for pod n/p (pod is not owner)";
    assert_eq!(refused.notices[0].message, message);
}

#[test]
fn a_pod_that_goes_gets_nothing() {
    let mut going = pod().value.clone();
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(plan(&Object::new(going), &[]).steps.is_empty());
}
