//! Which nodes a pod's node selector and required node affinity allow.

use reconcile::Object;
use serde_json::Value;

/// The field of a node that terms may name.
pub const NAME_FIELD: &str = "metadata.name";

pub fn allows(pod_spec: &Value, node: &Object) -> bool {
    let wanted = pod_spec["nodeSelector"].as_object();
    let selects =
        wanted.into_iter().flatten().all(|(key, value)| node.label(key) == value.as_str());
    let required =
        &pod_spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    if !selects || required.is_null() {
        return selects;
    }
    let terms = required["nodeSelectorTerms"].as_array();
    terms.into_iter().flatten().any(|term| matches(term, node))
}

/// A term without requirements matches nothing.
fn matches(term: &Value, node: &Object) -> bool {
    let list = |name: &str| term[name].as_array().map_or(&[][..], Vec::as_slice);
    let (labels, fields) = (list("matchExpressions"), list("matchFields"));
    if labels.is_empty() && fields.is_empty() {
        return false;
    }
    let label = |key: &str| node.label(key);
    let field = |key: &str| (key == NAME_FIELD).then_some(&*node.name.name);
    labels.iter().all(|one| holds(one, label)) && fields.iter().all(|one| holds(one, field))
}

fn holds<'a>(requirement: &Value, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
    let found = value_of(requirement["key"].as_str().unwrap_or_default());
    let values = requirement["values"].as_array();
    let values = || values.into_iter().flatten().filter_map(Value::as_str);
    let compare = || {
        let found = found?.parse::<i64>().ok()?;
        let bound = values().next()?.parse::<i64>().ok()?;
        Some(found.cmp(&bound))
    };
    match requirement["operator"].as_str().unwrap_or_default() {
        "In" => found.is_some_and(|found| values().any(|value| value == found)),
        "NotIn" => found.is_none_or(|found| values().all(|value| value != found)),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => compare().is_some_and(std::cmp::Ordering::is_gt),
        "Lt" => compare().is_some_and(std::cmp::Ordering::is_lt),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn terms_are_alternatives_and_requirements_are_not() {
        let node = Object::new(json!({"metadata": {"name": "n",
            "labels": {"zone": "a", "cores": "8"}}}));
        let term = |requirements: Value| {
            json!({"affinity": {"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution":
                    {"nodeSelectorTerms": requirements}}}})
        };
        let one = |key: &str, operator: &str, values: Value| {
            let requirement = json!({"key": key, "operator": operator, "values": values});
            json!({"matchExpressions": [requirement]})
        };
        let cases = [
            (json!({}), true),
            (json!({"nodeSelector": {"zone": "a"}}), true),
            (json!({"nodeSelector": {"zone": "b"}}), false),
            (term(json!([])), false),
            (term(json!([{}])), false),
            (
                term(json!([one("zone", "In", json!(["b"])), one("cores", "Gt", json!(["4"]))])),
                true,
            ),
            (term(json!([one("cores", "Lt", json!(["8"]))])), false),
            (term(json!([one("rack", "NotIn", json!(["x"]))])), true),
            (term(json!([one("rack", "Exists", json!([]))])), false),
            (term(json!([one("rack", "DoesNotExist", json!([]))])), true),
            (
                term(json!([{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": ["n"]}]}])),
                true,
            ),
            (
                term(json!([{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": ["m"]}]}])),
                false,
            ),
        ];
        for (spec, expected) in cases {
            assert_eq!(allows(&spec, &node), expected, "{spec}");
        }
    }
}
