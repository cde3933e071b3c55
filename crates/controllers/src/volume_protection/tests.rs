//! Plans of finalizers.

use reconcile::Step;
use serde_json::{Value, json};

use super::*;

fn object(finalizers: &[&str], going: Option<&str>, phase: &str) -> Object {
    let mut object = json!({"metadata": {"name": "x", "finalizers": finalizers},
        "status": {"phase": phase}});
    if let Some(going) = going {
        object["metadata"]["deletionTimestamp"] = json!(going);
    }
    Object::new(object)
}

fn finalizers(plan: &Plan) -> Option<Value> {
    match plan.steps.first() {
        Some(Step::Replace { object, .. }) => Some(object["metadata"]["finalizers"].clone()),
        _ => None,
    }
}

#[test]
fn a_claim_is_held_while_a_pod_uses_it() {
    let (own, going) = ("kubernetes.io/pvc-protection", Some("2026-01-01T00:00:00Z"));
    let cases = [
        (object(&[], None, ""), false, Some(json!([own]))),
        (object(&[own], None, ""), false, None),
        (object(&[own, "x"], going, ""), true, None),
        (object(&[own, "x"], going, ""), false, Some(json!(["x"]))),
        (object(&["x"], going, ""), true, None),
    ];
    for (claim, is_used, expected) in cases {
        assert_eq!(
            finalizers(&plan::claim(&claim, is_used)),
            expected,
            "{} {is_used}",
            claim.value
        );
    }
}

#[test]
fn a_volume_is_held_while_it_is_bound() {
    let (own, going) = ("kubernetes.io/pv-protection", Some("2026-01-01T00:00:00Z"));
    let cases = [
        (object(&[], None, "Available"), Some(json!([own]))),
        (object(&[own], going, "Bound"), None),
        (object(&[own], going, "Released"), Some(json!([]))),
    ];
    for (volume, expected) in cases {
        assert_eq!(finalizers(&plan::volume(&volume)), expected, "{}", volume.value);
    }
}

#[test]
fn pods_use_the_claims_they_name_and_those_made_for_them() {
    let pod = Object::new(json!({"metadata": {"namespace": "a", "name": "p"},
        "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "w", "ephemeral": {}}, {"name": "z", "emptyDir": {}}]}}));
    assert_eq!(plan::claims(&pod), [Name::new("a", "c"), Name::new("a", "p-w")]);
    assert!(!uses(&pod, &Name::new("a", "c")), "it has no node");
}
