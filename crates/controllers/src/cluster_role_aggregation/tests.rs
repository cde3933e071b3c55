//! Plans of roles made of others.

use reconcile::Step;
use serde_json::{Value, json};

use super::*;

fn role(name: &str, verbs: &[&str], aggregation: Value) -> Arc<Object> {
    let rules: Vec<Value> = verbs.iter().map(|verb| json!({"verbs": [verb]})).collect();
    Arc::new(Object::new(json!({"metadata": {"name": name}, "rules": rules,
        "aggregationRule": aggregation})))
}

fn aggregated(verbs: &[&str], selected: &[Arc<Object>]) -> Option<String> {
    let any = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    let plan = plan::plan(&role("all", verbs, any), &selected.to_vec());
    let Some(Step::Replace { object, .. }) = plan.steps.first() else { return None };
    let rules = object["rules"].as_array().expect("rules");
    let verbs: Vec<&str> = rules.iter().map(|rule| rule["verbs"][0].as_str().unwrap()).collect();
    Some(verbs.join(" "))
}

#[test]
fn the_rules_are_those_of_all_selected_each_once() {
    let plain = |name: &str, verbs: &[&str]| role(name, verbs, Value::Null);
    let two = [plain("a", &["get", "list"]), plain("b", &["list", "watch"])];
    let cases = [
        (vec![], Some("get list watch")),
        (vec!["watch", "get", "list"], Some("get list watch")),
        (vec!["get", "list", "watch"], None),
    ];
    for (verbs, expected) in cases {
        assert_eq!(aggregated(&verbs, &two).as_deref(), expected, "{verbs:?}");
    }
    assert_eq!(aggregated(&["get"], &[]).as_deref(), Some(""));
    assert_eq!(aggregated(&[], &[]), None);
}

#[test]
fn a_role_with_rules_of_its_own_is_left_alone() {
    let plan = plan::plan(&role("plain", &["get"], Value::Null), &Vec::new());
    assert!(plan.steps.is_empty());
}
