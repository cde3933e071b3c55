//! Claims and who owns them.

use super::*;

fn with_claims(policy: Value) -> Value {
    json!({"replicas": 1, "persistentVolumeClaimRetentionPolicy": policy,
        "volumeClaimTemplates": [{"metadata": {"name": "data", "labels": {"tier": "x"}},
            "spec": {"accessModes": ["ReadWriteOnce"]}}]})
}

fn claim(ordinal: i64, owners: Value) -> Arc<Object> {
    let name = format!("data-db-{ordinal}");
    Arc::new(Object::new(json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "a", "name": name, "uid": name, "resourceVersion": "4",
            "ownerReferences": owners},
    })))
}

fn seen(set: &Object, pods: &[(i64, Now)], claims: &[Arc<Object>]) -> Observed {
    let revision = revision(set, 1);
    let pods: Vec<_> = pods.iter().map(|(at, now)| pod(*at, *now, &revision)).collect();
    let mut observed = observed(&pods, &[revision]);
    observed.claims =
        claims.iter().map(|claim| (claim.name.name.to_string(), claim.clone())).collect();
    observed
}

#[test]
fn a_pod_is_made_with_its_claims() {
    let set = set("one", with_claims(json!({})));
    let plan = planned(&set, &seen(&set, &[], &[]));
    let lines: Vec<String> = plan.steps.iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["create v1 PersistentVolumeClaim a/data-db-0", "create v1 Pod a/db-0"]);
    let Step::Create { object, .. } = &plan.steps[0] else { panic!("{plan}") };
    assert_eq!(object["metadata"]["labels"], json!({"app": "db", "tier": "x"}));
    assert_eq!(object["spec"], json!({"accessModes": ["ReadWriteOnce"]}));
    assert_eq!(object["metadata"]["ownerReferences"], Value::Null);
    let Step::Create { object, .. } = &plan.steps[1] else { panic!("{plan}") };
    assert_eq!(
        object["spec"]["volumes"],
        json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}])
    );
    let message = "create Claim data-db-0 Pod db-0 in StatefulSet db success";
    assert_eq!(plan.notices[0].message, message);
}

#[test]
fn a_claim_that_is_missing_is_made_for_a_pod_that_waits() {
    let set = set("one", with_claims(json!({})));
    let observed = seen(&set, &[(0, Now::Pending)], &[]);
    assert_eq!(steps(&set, &observed), ["create v1 PersistentVolumeClaim a/data-db-0"]);
}

#[test]
fn no_pod_is_made_while_its_claim_goes() {
    let set = set("one", with_claims(json!({"whenScaled": "Delete"})));
    let stale = claim(0, json!([{"kind": "Pod", "name": "db-0", "uid": "earlier"}]));
    assert!(steps(&set, &seen(&set, &[], &[stale])).is_empty());
    let mut going = claim(0, json!([])).value.clone();
    going["metadata"]["deletionTimestamp"] = json!("2025-01-01T00:00:00Z");
    let plan = planned(&set, &seen(&set, &[], &[Arc::new(Object::new(going))]));
    assert!(plan.steps.is_empty(), "{plan}");
    assert_eq!(plan.notices[0].reason, "FailedCreate");
}

/// The policy and who owns the claim of a pod that stays, and of one that is to go.
#[test]
fn claims_are_owned_as_the_policy_says() {
    let table = [
        ("Retain", "Retain", "", ""),
        ("Delete", "Retain", "StatefulSet", "StatefulSet"),
        ("Retain", "Delete", "", "Pod"),
        ("Delete", "Delete", "StatefulSet", "Pod"),
    ];
    for (deleted, scaled, stays, goes) in table {
        let policy = json!({"whenDeleted": deleted, "whenScaled": scaled});
        let set = set("one", with_claims(policy));
        let claims = [claim(0, json!([])), claim(1, json!([]))];
        let pods = [(0, Now::Ready), (1, Now::Ready)];
        let plan = planned(&set, &seen(&set, &pods, &claims));
        let owner = |name: &str| {
            let found = plan.steps.iter().find_map(|step| match step {
                Step::Replace { target, change: Some(patch), .. } if &*target.name.name == name => {
                    patch["metadata"]["ownerReferences"][0]["kind"].as_str()
                }
                _ => None,
            });
            found.unwrap_or_default().to_owned()
        };
        let found = (owner("data-db-0"), owner("data-db-1"));
        assert_eq!(found, (stays.to_owned(), goes.to_owned()), "{deleted} {scaled}");
        let delete = plan.steps.last().map(ToString::to_string);
        assert_eq!(delete.as_deref(), Some("delete v1 Pod a/db-1"));
    }
}

#[test]
fn a_claim_that_another_controls_is_left_alone() {
    let set = set("one", with_claims(json!({"whenDeleted": "Delete"})));
    let strangers = claim(0, json!([{"kind": "Other", "uid": "o", "controller": true}]));
    assert!(steps(&set, &seen(&set, &[(0, Now::Ready)], &[strangers])).is_empty());
}
