//! Label selectors as objects carry them: `matchLabels` and `matchExpressions`.

use serde_json::Value;

use crate::Error;
use crate::object::Object;

/// A selector that was understood.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Selector {
    requirements: Vec<Requirement>,
    /// A selector that is not there matches nothing.
    is_absent: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Reads a `LabelSelector`. An empty one matches everything, an absent one nothing.
    pub fn read(value: &Value) -> Result<Selector, Error> {
        if value.is_null() {
            return Ok(Selector { is_absent: true, ..Selector::default() });
        }
        let mut selector = Selector::of_labels(&value["matchLabels"]);
        for expression in value["matchExpressions"].as_array().into_iter().flatten() {
            selector.requirements.push(requirement(expression)?);
        }
        Ok(selector)
    }

    /// A plain map of labels, as Services and ReplicationControllers have.
    pub fn of_labels(labels: &Value) -> Selector {
        let labels = labels.as_object().into_iter().flatten();
        let requirements = labels.map(|(key, value)| {
            let values = vec![value.as_str().unwrap_or_default().to_owned()];
            Requirement { key: key.clone(), operator: Operator::In(values) }
        });
        Selector { requirements: requirements.collect(), is_absent: false }
    }

    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The labels that must have one certain value.
    pub(crate) fn exact(&self) -> impl Iterator<Item = (&str, &str)> {
        self.requirements.iter().filter(|_| !self.is_absent).filter_map(|requirement| {
            match &requirement.operator {
                Operator::In(values) if values.len() == 1 => {
                    Some((requirement.key.as_str(), values[0].as_str()))
                }
                _ => None,
            }
        })
    }

    pub fn matches(&self, object: &Object) -> bool {
        self.matches_labels(&object.value["metadata"]["labels"])
    }

    pub fn matches_labels(&self, labels: &Value) -> bool {
        let holds = |requirement: &Requirement| {
            let found = labels.get(&requirement.key).and_then(Value::as_str);
            match (&requirement.operator, found) {
                (Operator::In(values), Some(found)) => values.iter().any(|value| value == found),
                (Operator::In(_), None) => false,
                (Operator::NotIn(values), found) => {
                    found.is_none_or(|found| values.iter().all(|value| value != found))
                }
                (Operator::Exists, found) => found.is_some(),
                (Operator::DoesNotExist, found) => found.is_none(),
            }
        };
        !self.is_absent && self.requirements.iter().all(holds)
    }
}

fn requirement(expression: &Value) -> Result<Requirement, Error> {
    let key = expression["key"].as_str().unwrap_or_default().to_owned();
    let values = expression["values"].as_array().into_iter().flatten();
    let values = values.map(|value| value.as_str().unwrap_or_default().to_owned()).collect();
    let operator = match expression["operator"].as_str().unwrap_or_default() {
        "In" => Operator::In(values),
        "NotIn" => Operator::NotIn(values),
        "Exists" => Operator::Exists,
        "DoesNotExist" => Operator::DoesNotExist,
        other => {
            let reason = format!("{other:?} is not an operator of a label selector");
            return Err(Error::terminal(reason));
        }
    };
    Ok(Requirement { key, operator })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_match_as_their_expressions_say() {
        let labels = json!({"app": "web", "tier": "front"});
        let cases = [
            (json!({}), true),
            (json!(null), false),
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "db"}}), false),
            (expression("app", "In", &["web", "db"]), true),
            (expression("app", "NotIn", &["web"]), false),
            (expression("zone", "NotIn", &["a"]), true),
            (expression("tier", "Exists", &[]), true),
            (expression("tier", "DoesNotExist", &[]), false),
        ];
        for (selector, expected) in cases {
            let read = Selector::read(&selector).expect("a selector");
            assert_eq!(read.matches_labels(&labels), expected, "{selector}");
        }
        assert!(Selector::read(&expression("a", "Near", &[])).is_err());
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
    }
}
