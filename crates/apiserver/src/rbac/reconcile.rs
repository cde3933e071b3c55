//! What the server puts back, at its start, of the roles and bindings every cluster has.
//!
//! What somebody took away comes back, what somebody added stays, and whoever wants an object left
//! alone sets its annotation to `"false"`.
//!
//! Upstream: pkg/registry/rbac/reconciliation

use serde_json::{Value, json};

use super::GROUP;
use super::bootstrap::AUTOUPDATE_ANNOTATION;
use super::cover::covers;
use super::rules::Rule;
use crate::registry::edit;

/// The object as it should be; `None` if it is so, is to be left alone, or is of another group.
pub fn reconciled(found: &Value, expected: &Value) -> Option<Value> {
    let is_ours = edit::text(expected, &["apiVersion"]).starts_with(GROUP);
    let kept = edit::text(found, &["metadata", "annotations", AUTOUPDATE_ANNOTATION]) == "false";
    if !is_ours || kept {
        return None;
    }
    let mut object = found.clone();
    for field in ["labels", "annotations"] {
        add_metadata(&mut object, expected, field);
    }
    match edit::has(expected, &["roleRef"]) {
        true => restore_binding(&mut object, expected),
        false => restore_role(&mut object, expected),
    }
    if object == *found {
        return None;
    }
    crate::object::remove_meta(&mut object, "resourceVersion");
    Some(object)
}

fn add_metadata(object: &mut Value, expected: &Value, field: &str) {
    for (key, value) in edit::map(expected, &["metadata", field]).into_iter().flatten() {
        let metadata = edit::object(object, "metadata");
        if let Some(map) = metadata.and_then(|metadata| edit::object(metadata, field))
            && !edit::has(map, &[key])
        {
            edit::set(map, key, value.clone());
        }
    }
}

/// The rules of a role that aggregates are those of others.
fn restore_role(object: &mut Value, expected: &Value) {
    if edit::has(expected, &["aggregationRule"]) {
        let selectors = edit::list(expected, &["aggregationRule", "clusterRoleSelectors"]);
        let Some(rule) = edit::object(object, "aggregationRule") else { return };
        append(rule, "clusterRoleSelectors", selectors);
        return;
    }
    let held = Rule::list(edit::at(object, &["rules"]));
    let wanted = edit::list(expected, &["rules"]).iter();
    let missing: Vec<Value> = wanted
        .filter(|rule| covers(&held, &Rule::list(&json!([rule]))).is_err())
        .cloned()
        .collect();
    append(object, "rules", &missing);
}

/// A binding to another role than the one it is for is another binding.
fn restore_binding(object: &mut Value, expected: &Value) {
    if edit::at(object, &["roleRef"]) != edit::at(expected, &["roleRef"]) {
        edit::copy_field(object, expected, "roleRef");
        edit::copy_field(object, expected, "subjects");
        return;
    }
    append(object, "subjects", edit::list(expected, &["subjects"]));
}

fn append(object: &mut Value, field: &str, more: &[Value]) {
    let missing: Vec<Value> =
        more.iter().filter(|one| !edit::list(object, &[field]).contains(one)).cloned().collect();
    if missing.is_empty() {
        return;
    }
    edit::set_default(object, field, json!([]));
    if let Some(list) = object.get_mut(field).and_then(Value::as_array_mut) {
        list.extend(missing);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(rules: Value) -> Value {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "r", "labels": {"l": "1"}}, "rules": rules})
    }

    fn rule(verbs: &[&str]) -> Value {
        json!({"verbs": verbs, "apiGroups": [""], "resources": ["pods"]})
    }

    #[test]
    fn what_was_taken_comes_back_and_what_was_added_stays() {
        let expected = role(json!([rule(&["get"]), rule(&["list"])]));
        let cases = [
            (json!([rule(&["get", "list"])]), None),
            (json!([rule(&["*"])]), None),
            (json!([rule(&["list"])]), Some(json!([rule(&["list"]), rule(&["get"])]))),
            (
                json!([rule(&["watch"])]),
                Some(json!([rule(&["watch"]), rule(&["get"]), rule(&["list"])])),
            ),
            (Value::Null, Some(json!([rule(&["get"]), rule(&["list"])]))),
        ];
        for (found, wanted) in cases {
            let answer = reconciled(&role(found.clone()), &expected);
            assert_eq!(answer.map(|it| it["rules"].clone()), wanted, "{found}");
        }
        let mut kept = role(json!([]));
        kept["metadata"]["annotations"] = json!({AUTOUPDATE_ANNOTATION: "false"});
        assert_eq!(reconciled(&kept, &expected), None);
    }

    #[test]
    fn bindings_get_their_subjects_and_their_role_back() {
        let binding = |name: &str, subjects: Value| {
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "b"},
                "roleRef": {"name": name}, "subjects": subjects})
        };
        let expected = binding("r", json!([{"name": "a"}]));
        assert_eq!(reconciled(&expected, &expected), None);
        let found = binding("r", json!([{"name": "x"}]));
        let wanted = binding("r", json!([{"name": "x"}, {"name": "a"}]));
        assert_eq!(reconciled(&found, &expected), Some(wanted));
        let found = binding("other", json!([{"name": "x"}]));
        assert_eq!(reconciled(&found, &expected), Some(expected.clone()));
    }

    #[test]
    fn an_aggregating_role_gets_its_selectors_back() {
        let of = |selectors: Value| {
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "r"},
                "aggregationRule": {"clusterRoleSelectors": selectors}, "rules": []})
        };
        let (a, b) = (json!({"matchLabels": {"a": "1"}}), json!({"matchLabels": {"b": "1"}}));
        let answer = reconciled(&of(json!([b])), &of(json!([a])));
        assert_eq!(answer, Some(of(json!([b, a]))));
    }
}
