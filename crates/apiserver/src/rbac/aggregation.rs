//! Cluster roles whose rules are those of other cluster roles, chosen by labels.
//!
//! Computed here, so that `admin`, `edit` and `view` work before a controller has written their
//! rules. A role that aggregates has no rules of its own: the controller would overwrite them.
//!
//! Upstream: pkg/controller/clusterroleaggregation

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::rules::Rule;

pub(super) type Labels = BTreeMap<String, String>;

/// One of a role's `clusterRoleSelectors`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selector {
    terms: Vec<(String, Requirement)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
    /// An operator nobody knows; validation refuses it.
    Never,
}

/// A cluster role as the index holds it.
#[derive(Debug, Default)]
pub(super) struct ClusterRole {
    pub labels: Labels,
    /// `Some` for a role that aggregates, even if it selects nothing.
    pub selectors: Option<Vec<Selector>>,
    /// What the role grants.
    pub rules: Arc<[Rule]>,
}

impl ClusterRole {
    pub fn from_value(object: &Value) -> ClusterRole {
        let selectors = object["aggregationRule"].as_object().map(|rule| {
            let list = rule.get("clusterRoleSelectors").and_then(Value::as_array);
            list.into_iter().flatten().map(Selector::from_value).collect()
        });
        let rules = match selectors {
            Some(_) => Arc::from([]),
            None => Rule::list(&object["rules"]).into(),
        };
        ClusterRole { labels: labels(&object["metadata"]["labels"]), selectors, rules }
    }

    fn selects(&self, other: &ClusterRole) -> bool {
        self.selectors.iter().flatten().any(|selector| selector.matches(&other.labels))
    }
}

/// Whether a change of this role can change what other roles grant.
pub(super) fn matters(roles: &BTreeMap<Arc<str>, ClusterRole>, changed: &ClusterRole) -> bool {
    changed.selectors.is_some() || roles.values().any(|role| role.selects(changed))
}

/// Computes what every aggregating role grants.
pub(super) fn aggregate(roles: &mut BTreeMap<Arc<str>, ClusterRole>) {
    let aggregating: Vec<Arc<str>> = roles
        .iter()
        .filter(|(_, role)| role.selectors.is_some())
        .map(|(name, _)| Arc::clone(name))
        .collect();
    for name in aggregating {
        let rules = rules_of(roles, &name);
        if let Some(role) = roles.get_mut(&name) {
            role.rules = rules.into();
        }
    }
}

/// The rules of all plain roles that can be reached from one; roles may select each other in a
/// circle.
fn rules_of(roles: &BTreeMap<Arc<str>, ClusterRole>, start: &str) -> Vec<Rule> {
    let mut seen = BTreeSet::from([start]);
    let mut waiting = vec![start];
    let mut plain = BTreeSet::new();
    while let Some(name) = waiting.pop() {
        let Some(role) = roles.get(name) else { continue };
        for (other_name, other) in roles.iter().filter(|(_, other)| role.selects(other)) {
            if !seen.insert(other_name) {
                continue;
            }
            match other.selectors {
                Some(_) => waiting.push(other_name),
                None => {
                    plain.insert(other_name);
                }
            }
        }
    }
    let mut rules: Vec<Rule> = Vec::new();
    let mut known = BTreeSet::new();
    for rule in plain.into_iter().filter_map(|name| roles.get(name)).flat_map(|r| r.rules.iter()) {
        if known.insert(rule) {
            rules.push(rule.clone());
        }
    }
    rules
}

impl Selector {
    fn from_value(value: &Value) -> Selector {
        let mut terms = Vec::new();
        for (key, value) in value["matchLabels"].as_object().into_iter().flatten() {
            let value = value.as_str().unwrap_or_default().to_owned();
            terms.push((key.clone(), Requirement::In(vec![value])));
        }
        for expression in value["matchExpressions"].as_array().into_iter().flatten() {
            let key = expression["key"].as_str().unwrap_or_default().to_owned();
            terms.push((key, Requirement::from_value(expression)));
        }
        Selector { terms }
    }

    fn matches(&self, labels: &Labels) -> bool {
        self.terms.iter().all(|(key, requirement)| requirement.holds(labels.get(key)))
    }
}

impl Requirement {
    fn from_value(expression: &Value) -> Requirement {
        let values = || {
            let list = expression["values"].as_array().into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        match expression["operator"].as_str().unwrap_or_default() {
            "In" => Requirement::In(values()),
            "NotIn" => Requirement::NotIn(values()),
            "Exists" => Requirement::Exists,
            "DoesNotExist" => Requirement::DoesNotExist,
            _ => Requirement::Never,
        }
    }

    fn holds(&self, label: Option<&String>) -> bool {
        match self {
            Requirement::In(values) => label.is_some_and(|label| values.contains(label)),
            Requirement::NotIn(values) => !label.is_some_and(|label| values.contains(label)),
            Requirement::Exists => label.is_some(),
            Requirement::DoesNotExist => label.is_none(),
            Requirement::Never => false,
        }
    }
}

fn labels(value: &Value) -> Labels {
    let pairs = value.as_object().into_iter().flatten();
    pairs.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn roles(list: &[(&str, Value)]) -> BTreeMap<Arc<str>, ClusterRole> {
        let mut roles: BTreeMap<Arc<str>, ClusterRole> = list
            .iter()
            .map(|(name, object)| (Arc::from(*name), ClusterRole::from_value(object)))
            .collect();
        aggregate(&mut roles);
        roles
    }

    fn verbs(roles: &BTreeMap<Arc<str>, ClusterRole>, name: &str) -> String {
        let verbs: Vec<&str> = roles[name].rules.iter().map(|rule| &*rule.verbs[0]).collect();
        verbs.join(",")
    }

    fn plain(labels: Value, verb: &str) -> Value {
        json!({"metadata": {"labels": labels}, "rules": [{"verbs": [verb]}]})
    }

    fn aggregating(labels: Value, selector: Value) -> Value {
        json!({
            "metadata": {"labels": labels}, "rules": [{"verbs": ["stale"]}],
            "aggregationRule": {"clusterRoleSelectors": [selector]}
        })
    }

    #[test]
    fn rules_come_through_roles_that_aggregate_themselves() {
        let roles = roles(&[
            ("a", aggregating(json!({}), json!({"matchLabels": {"to": "a"}}))),
            ("b", aggregating(json!({"to": "a"}), json!({"matchLabels": {"to": "b"}}))),
            ("c", plain(json!({"to": "b"}), "get")),
            ("d", plain(json!({"to": "a"}), "list")),
            ("e", plain(json!({"to": "x"}), "watch")),
        ]);
        assert_eq!(verbs(&roles, "a"), "get,list");
        assert_eq!(verbs(&roles, "b"), "get");
    }

    #[test]
    fn a_circle_ends() {
        let roles = roles(&[
            ("a", aggregating(json!({"x": "1"}), json!({"matchLabels": {"x": "1"}}))),
            ("b", aggregating(json!({"x": "1"}), json!({"matchLabels": {"x": "1"}}))),
            ("c", plain(json!({"x": "1"}), "get")),
        ]);
        assert_eq!(verbs(&roles, "a"), "get");
        assert_eq!(verbs(&roles, "b"), "get");
    }

    #[test]
    fn expressions_select() {
        let cases = [
            (json!({"key": "k", "operator": "In", "values": ["v", "w"]}), "get"),
            (json!({"key": "k", "operator": "NotIn", "values": ["v"]}), "list"),
            (json!({"key": "k", "operator": "Exists"}), "get"),
            (json!({"key": "k", "operator": "DoesNotExist"}), "list"),
            (json!({"key": "k", "operator": "Gt", "values": ["1"]}), ""),
        ];
        for (expression, expected) in cases {
            let selector = json!({"matchExpressions": [expression]});
            let roles = roles(&[
                ("a", aggregating(json!({"k": "other", "j": "1"}), selector)),
                ("b", plain(json!({"k": "v"}), "get")),
                ("c", plain(json!({}), "list")),
            ]);
            assert_eq!(verbs(&roles, "a"), expected);
        }
    }
}
