//! When two JSON values are the same to server-side apply, and which comes first.
//!
//! Numbers are one kind: 1 and 1.0 are the same. The order is numbers, strings, booleans, lists,
//! objects, null; it decides the order of keys and values within a set of fields.

use std::cmp::Ordering;

use serde_json::{Number, Value};

/// The order of two values.
pub fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let pairs = left.iter().zip(right).map(|(left, right)| compare(left, right));
            first_difference(pairs).then(left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => {
            let pairs = left.iter().zip(right).map(|((left_name, left), (right_name, right))| {
                left_name.cmp(right_name).then_with(|| compare(left, right))
            });
            first_difference(pairs).then(left.len().cmp(&right.len()))
        }
        _ => rank(left).cmp(&rank(right)),
    }
}

/// Whether two values are the same.
pub fn equal(left: &Value, right: &Value) -> bool {
    // Most values that are the same are written the same.
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            left == right || compare_numbers(left, right) == Ordering::Equal
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(one, two)| equal(one, two))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(name, left)| match right.get(name) {
                    Some(right) => equal(left, right),
                    None => false,
                })
        }
        _ => left == right,
    }
}

fn first_difference(mut pairs: impl Iterator<Item = Ordering>) -> Ordering {
    pairs.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    if let (Some(left), Some(right)) = (left.as_i64(), right.as_i64()) {
        return left.cmp(&right);
    }
    if let (Some(left), Some(right)) = (left.as_u64(), right.as_u64()) {
        return left.cmp(&right);
    }
    let left = left.as_f64().unwrap_or_default();
    left.total_cmp(&right.as_f64().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_ordered_by_kind_and_then_by_value() {
        let sorted = [
            json!(-2),
            json!(-1.5),
            json!(0),
            json!(0.5),
            json!(9),
            json!(10),
            json!(u64::MAX),
            json!(""),
            json!("10"),
            json!("9"),
            json!("a"),
            json!(false),
            json!(true),
            json!([]),
            json!([1]),
            json!([1, 2]),
            json!([2]),
            json!({}),
            json!({"a": 1}),
            json!({"a": 1, "b": 0}),
            json!({"a": 2}),
            json!({"b": 0}),
            json!(null),
        ];
        for (at, left) in sorted.iter().enumerate() {
            for (other, right) in sorted.iter().enumerate() {
                assert_eq!(compare(left, right), at.cmp(&other), "{left} and {right}");
                assert_eq!(equal(left, right), at == other, "{left} and {right}");
            }
        }
    }

    #[test]
    fn a_whole_number_is_the_same_however_it_is_written() {
        assert!(equal(&json!({"a": [1]}), &json!({"a": [1.0]})));
        assert_eq!(compare(&json!(1), &json!(1.0)), Ordering::Equal);
    }
}
