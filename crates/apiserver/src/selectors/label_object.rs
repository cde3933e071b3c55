//! Label selectors as objects: `matchLabels` and `matchExpressions`.
//!
//! Upstream: apimachinery/pkg/apis/meta/v1/validation/validation.go (ValidateLabelSelector),
//! apimachinery/pkg/apis/meta/v1/helpers.go (LabelSelectorAsSelector)

use serde_json::Value;

use super::labels::{Requirement, Selector, Test};
use super::names::{label_key_problems, label_value_problems};
use crate::field_error::FieldError;
use crate::object::{list, text};

/// What is wrong with a `LabelSelector` at `path`.
pub fn validate(selector: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        let at = format!("{path}.matchLabels");
        let of_key = label_key_problems(key);
        errors.extend(of_key.into_iter().map(|text| FieldError::invalid(&at, key.as_str(), text)));
        let value = value.as_str().unwrap_or_default();
        let of_value = label_value_problems(value);
        errors.extend(of_value.into_iter().map(|text| FieldError::invalid(&at, value, text)));
    }
    for (index, expression) in list(&selector["matchExpressions"]).iter().enumerate() {
        validate_expression(expression, &format!("{path}.matchExpressions[{index}]"), &mut errors);
    }
    errors
}

fn validate_expression(expression: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let values = list(&expression["values"]);
    match text(&expression["operator"]) {
        "In" | "NotIn" if values.is_empty() => errors.push(FieldError::required(
            format!("{path}.values"),
            "must be specified when `operator` is 'In' or 'NotIn'",
        )),
        "In" | "NotIn" => {}
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.push(FieldError::forbidden(
            format!("{path}.values"),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        "Exists" | "DoesNotExist" => {}
        other => errors.push(FieldError::invalid(
            format!("{path}.operator"),
            other,
            "not a valid selector operator",
        )),
    }
    let key = text(&expression["key"]);
    for problem in label_key_problems(key) {
        errors.push(FieldError::invalid(format!("{path}.key"), key, problem));
    }
    for (index, value) in values.iter().enumerate() {
        for problem in label_value_problems(text(value)) {
            let at = format!("{path}.values[{index}]");
            errors.push(FieldError::invalid(at, text(value), problem));
        }
    }
}

pub(super) fn from_object(
    selector: Option<&Value>,
    path: &str,
) -> Result<Selector, Vec<FieldError>> {
    let Some(selector) = selector.filter(|selector| !selector.is_null()) else {
        return Ok(Selector::Nothing);
    };
    let errors = validate(selector, path);
    if !errors.is_empty() {
        return Err(errors);
    }
    let equalities =
        selector["matchLabels"].as_object().into_iter().flatten().map(|(key, value)| Requirement {
            key: key.clone(),
            test: Test::Equals(text(value).to_owned()),
        });
    let expressions = list(&selector["matchExpressions"]).iter().map(|expression| Requirement {
        key: text(&expression["key"]).to_owned(),
        test: test_of(expression),
    });
    Ok(Selector::of(equalities.chain(expressions).collect()))
}

/// Of an expression that is valid.
fn test_of(expression: &Value) -> Test {
    let mut values: Vec<String> =
        list(&expression["values"]).iter().map(|value| text(value).to_owned()).collect();
    values.sort();
    values.dedup();
    match text(&expression["operator"]) {
        "In" => Test::In(values),
        "NotIn" => Test::NotIn(values),
        "Exists" => Test::Exists,
        _ => Test::DoesNotExist,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absent_selects_nothing_and_empty_selects_everything() {
        assert_eq!(from_object(None, "s").unwrap(), Selector::Nothing);
        assert_eq!(from_object(Some(&Value::Null), "s").unwrap(), Selector::Nothing);
        assert!(from_object(Some(&json!({})), "s").unwrap().is_everything());
    }

    #[test]
    fn an_object_prints_as_the_text_would() {
        let object = json!({
            "matchLabels": {"app": "web", "a": ""},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["b", "a", "b"]},
                {"key": "env", "operator": "NotIn", "values": ["x"]},
                {"key": "up", "operator": "Exists"},
                {"key": "down", "operator": "DoesNotExist", "values": []},
            ],
        });
        let selector = from_object(Some(&object), "spec.selector").unwrap();
        assert_eq!(selector.to_string(), "a=,app=web,!down,env notin (x),tier in (a,b),up");
    }

    #[test]
    fn refusals_name_the_field() {
        let cases = [
            (
                json!({"key": "a", "operator": "In"}),
                "s.matchExpressions[0].values: Required value: must be specified when `operator` \
                 is 'In' or 'NotIn'",
            ),
            (
                json!({"key": "a", "operator": "Exists", "values": ["x"]}),
                "s.matchExpressions[0].values: Forbidden: may not be specified when `operator` is \
              'Exists' or 'DoesNotExist'",
            ),
            (
                json!({"key": "a", "operator": "Gt", "values": ["1"]}),
                "s.matchExpressions[0].operator: Invalid value: \"Gt\": not a valid selector \
                 operator",
            ),
        ];
        for (expression, message) in cases {
            let errors = validate(&json!({"matchExpressions": [expression]}), "s");
            assert_eq!(errors.len(), 1);
            assert_eq!(errors[0].to_string(), message);
        }
        let bad = json!({"matchLabels": {"a b": "c d"}, "matchExpressions": [
            {"key": "", "operator": "In", "values": ["-"]},
        ]});
        let paths: Vec<_> = validate(&bad, "s").into_iter().map(|error| error.path).collect();
        assert_eq!(
            paths,
            [
                "s.matchLabels",
                "s.matchLabels",
                "s.matchExpressions[0].key",
                "s.matchExpressions[0].key",
                "s.matchExpressions[0].values[0]",
            ]
        );
        assert!(from_object(Some(&bad), "s").is_err());
    }
}
