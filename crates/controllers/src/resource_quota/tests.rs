//! Plans of quotas.

use amounts::Quantity;
use amounts::pod::Amounts;
use reconcile::Wake;
use serde_json::{Value, json};

use super::*;

fn quota(status: Value) -> Object {
    Object::new(json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"namespace": "a", "name": "q", "uid": "u"},
        "spec": {"hard": {"pods": "2", "requests.cpu": "4"}}, "status": status,
    }))
}

fn used(pods: i64) -> Amounts {
    [("pods".to_owned(), Quantity::from_i64(pods)), ("secrets".to_owned(), Quantity::from_i64(3))]
        .into()
}

#[test]
fn a_quota_says_what_it_limits_and_nothing_else() {
    let right = json!({"hard": {"pods": "2", "requests.cpu": "4"},
        "used": {"pods": "1", "requests.cpu": "0"}});
    let cases = [
        (json!({}), Some(right.clone())),
        (json!({"hard": {"pods": "9"}, "used": {"pods": "1"}}), Some(right.clone())),
        (right, None),
    ];
    for (status, expected) in cases {
        let plan = plan::plan(&quota(status.clone()), &Observed::Counted(used(1)));
        assert_eq!(plan.status, expected, "{status}");
    }
}

#[test]
fn a_quota_that_is_charged_all_the_time_is_counted_later() {
    let plan = plan::plan(&quota(json!({})), &Observed::Later(COUNT_INTERVAL));
    assert!(plan.status.is_none());
    assert_eq!(plan.wake, Wake::After(COUNT_INTERVAL));
}

#[test]
fn a_status_is_complete_when_it_has_all_that_is_limited() {
    let hard = json!({"pods": "2", "requests.cpu": "4"});
    let cases = [
        (json!({}), false),
        (json!({"hard": hard, "used": {"pods": "1"}}), false),
        (json!({"hard": {"pods": "2"}, "used": {"pods": "1", "requests.cpu": "0"}}), false),
        (json!({"hard": hard, "used": {"pods": "1", "requests.cpu": "0"}}), true),
    ];
    for (status, expected) in cases {
        assert_eq!(plan::is_complete(&quota(status.clone())), expected, "{status}");
    }
}
