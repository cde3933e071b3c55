//! Labels and what selects by them, in a form that can be compared and kept in maps.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

pub type Labels = BTreeMap<Arc<str>, Arc<str>>;

/// Reads a map of texts.
pub fn read(value: &Value) -> Labels {
    let entries = value.as_object().into_iter().flatten();
    entries.map(|(key, value)| (Arc::from(key.as_str()), Arc::from(text(value)))).collect()
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// One condition on the value of a label or a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirement {
    pub key: Arc<str>,
    pub operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    In(Vec<Arc<str>>),
    NotIn(Vec<Arc<str>>),
    Exists,
    DoesNotExist,
    Greater(i64),
    Less(i64),
    /// What nobody understands holds of nothing.
    Unknown,
}

impl Requirement {
    pub fn is(key: &str, value: &str) -> Requirement {
        Requirement { key: key.into(), operator: Operator::In(vec![value.into()]) }
    }

    pub fn read(expression: &Value) -> Requirement {
        let values = || list(&expression["values"]).map(|value| Arc::from(text(value))).collect();
        let number = || list(&expression["values"]).next().and_then(|one| text(one).parse().ok());
        let operator = match text(&expression["operator"]) {
            "In" => Operator::In(values()),
            "NotIn" => Operator::NotIn(values()),
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            "Gt" => number().map_or(Operator::Unknown, Operator::Greater),
            "Lt" => number().map_or(Operator::Unknown, Operator::Less),
            _ => Operator::Unknown,
        };
        Requirement { key: text(&expression["key"]).into(), operator }
    }

    pub fn holds(&self, found: Option<&str>) -> bool {
        let is_among = |values: &[Arc<str>], found: &str| values.iter().any(|one| **one == *found);
        match (&self.operator, found) {
            (Operator::In(values), Some(found)) => is_among(values, found),
            (Operator::NotIn(values), found) => found.is_none_or(|found| !is_among(values, found)),
            (Operator::Exists, found) => found.is_some(),
            (Operator::DoesNotExist, found) => found.is_none(),
            (Operator::Greater(bound), Some(found)) => {
                found.parse::<i64>().is_ok_and(|found| found > *bound)
            }
            (Operator::Less(bound), Some(found)) => {
                found.parse::<i64>().is_ok_and(|found| found < *bound)
            }
            (Operator::In(_) | Operator::Greater(_) | Operator::Less(_), None)
            | (Operator::Unknown, _) => false,
        }
    }
}

/// A label selector. One that is absent matches nothing, an empty one everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Selector {
    pub requirements: Vec<Requirement>,
    pub is_absent: bool,
}

impl Selector {
    pub fn read(value: &Value) -> Selector {
        if value.is_null() {
            return Selector { requirements: Vec::new(), is_absent: true };
        }
        let labels = value["matchLabels"].as_object().into_iter().flatten();
        let mut requirements: Vec<_> =
            labels.map(|(key, value)| Requirement::is(key, text(value))).collect();
        requirements.extend(list(&value["matchExpressions"]).map(Requirement::read));
        Selector { requirements, is_absent: false }
    }

    pub fn matches(&self, labels: &Labels) -> bool {
        let holds = |one: &Requirement| one.holds(labels.get(&one.key).map(|value| &**value));
        !self.is_absent && self.requirements.iter().all(holds)
    }
}

/// One alternative of a node affinity. An empty one matches no node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeTerm {
    pub expressions: Vec<Requirement>,
    pub fields: Vec<Requirement>,
}

impl NodeTerm {
    pub fn read(value: &Value) -> NodeTerm {
        NodeTerm {
            expressions: list(&value["matchExpressions"]).map(Requirement::read).collect(),
            fields: list(&value["matchFields"]).map(Requirement::read).collect(),
        }
    }

    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        if self.expressions.is_empty() && self.fields.is_empty() {
            return false;
        }
        let of_label = |one: &Requirement| one.holds(labels.get(&one.key).map(|value| &**value));
        let of_field =
            |one: &Requirement| one.holds((&*one.key == "metadata.name").then_some(name));
        self.expressions.iter().all(of_label) && self.fields.iter().all(of_field)
    }

    /// The names that a node may have to match, if the term says so.
    pub fn names(&self) -> Option<&[Arc<str>]> {
        self.fields.iter().find_map(|one| match &one.operator {
            Operator::In(names) if &*one.key == "metadata.name" => Some(names.as_slice()),
            _ => None,
        })
    }
}

/// The alternatives of a `NodeSelector`, of which one must match.
pub fn node_terms(value: &Value) -> Option<Vec<NodeTerm>> {
    if value.is_null() {
        return None;
    }
    Some(list(&value["nodeSelectorTerms"]).map(NodeTerm::read).collect())
}
