//! Label selectors inside objects: their validation, and whether labels match.
//!
//! Upstream: apimachinery/pkg/apis/meta/v1/validation/validation.go, .../meta/v1/helpers.go

use serde_json::{Map, Value};

use super::checks::{self, Errors};
use super::edit;
use super::field::Field;
use super::names;

/// Whether a selector with labels of a bad form is refused; preferences may have any.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Values {
    Checked,
    Any,
}

pub fn validate(selector: &Field<'_>, errors: &mut Errors) {
    validate_with(selector, Values::Checked, errors);
}

pub fn validate_with(selector: &Field<'_>, values: Values, errors: &mut Errors) {
    checks::labels(&selector.at("matchLabels"), errors);
    for expression in selector.items("matchExpressions") {
        validate_expression(&expression, values, errors);
    }
}

fn validate_expression(expression: &Field<'_>, values: Values, errors: &mut Errors) {
    let count = expression.count("values");
    match expression.text("operator") {
        "In" | "NotIn" if count == 0 => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(expression.at("values").required(detail));
        }
        "Exists" | "DoesNotExist" if count > 0 => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(expression.at("values").forbidden(detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => errors.push(expression.at("operator").invalid("not a valid selector operator")),
    }
    checks::label_name(&expression.at("key"), errors);
    if values == Values::Checked {
        for value in expression.items("values") {
            checks::faults(&value, names::label_value(value.as_text()), errors);
        }
    }
}

/// An absent selector matches nothing, an empty one everything.
pub fn matches(selector: &Value, labels: &Value) -> bool {
    if selector.is_null() {
        return false;
    }
    let wanted = edit::map(selector, &["matchLabels"]);
    let has = |(key, value): (&String, &Value)| labels.get(key) == Some(value);
    wanted.into_iter().flatten().all(has)
        && edit::list(selector, &["matchExpressions"])
            .iter()
            .all(|it| expression_matches(it, labels))
}

fn expression_matches(expression: &Value, labels: &Value) -> bool {
    let found = labels.get(edit::text(expression, &["key"]));
    let listed = || found.is_some_and(|it| edit::list(expression, &["values"]).contains(it));
    match edit::text(expression, &["operator"]) {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        _ => false,
    }
}

/// Whether a selector selects by anything at all.
pub fn is_empty(selector: &Value) -> bool {
    edit::is_empty(edit::at(selector, &["matchLabels"]))
        && edit::is_empty(edit::at(selector, &["matchExpressions"]))
}

/// Whether every wanted label is there; for the plain maps of older kinds.
pub fn map_matches(wanted: &Map<String, Value>, labels: &Value) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_match_as_selectors_say() {
        let labels = json!({"app": "web", "tier": "front"});
        let cases = [
            (json!({}), true),
            (Value::Null, false),
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "db"}}), false),
            (json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]}), true),
            (json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}), false),
            (
                json!({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["a"]}]}),
                true,
            ),
        ];
        for (selector, expected) in cases {
            assert_eq!(matches(&selector, &labels), expected, "{selector}");
        }
    }
}
