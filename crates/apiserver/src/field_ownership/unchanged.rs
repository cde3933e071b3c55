//! Whether a write would change anything worth a revision.

use serde_json::{Map, Value};

/// Whether an object is the one that is stored, but for its revision and for when its managers
/// last wrote.
pub fn is_unchanged(object: &Value, current: &Value) -> bool {
    let (Value::Object(object), Value::Object(current)) = (object, current) else {
        return object == current;
    };
    same_fields(object, current, |name, one, other| match name {
        "metadata" => is_same_metadata(one, other),
        _ => one == other,
    })
}

fn is_same_metadata(one: Option<&Value>, other: Option<&Value>) -> bool {
    let (Some(Value::Object(one)), Some(Value::Object(other))) = (one, other) else {
        return one == other;
    };
    same_fields(one, other, |name, one, other| match name {
        "resourceVersion" => true,
        "managedFields" => are_same_managers(one, other),
        _ => one == other,
    })
}

fn are_same_managers(one: Option<&Value>, other: Option<&Value>) -> bool {
    let (Some(Value::Array(one)), Some(Value::Array(other))) = (one, other) else {
        return one == other;
    };
    let is_same = |(one, other): (&Value, &Value)| match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            same_fields(one, other, |name, one, other| name == "time" || one == other)
        }
        _ => one == other,
    };
    one.len() == other.len() && one.iter().zip(other).all(is_same)
}

/// Whether all fields that either has are the same.
fn same_fields(
    one: &Map<String, Value>,
    other: &Map<String, Value>,
    is_same: impl Fn(&str, Option<&Value>, Option<&Value>) -> bool,
) -> bool {
    one.iter().all(|(name, value)| is_same(name, Some(value), other.get(name)))
        && other
            .iter()
            .filter(|(name, _)| !one.contains_key(*name))
            .all(|(name, value)| is_same(name, None, Some(value)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_revisions_and_times_of_managers_do_not_count() {
        let object = |version: &str, time: &str, data: &str| {
            json!({"kind": "ConfigMap", "data": {"a": data}, "metadata": {
                "resourceVersion": version, "name": "c",
                "managedFields": [{"manager": "m", "time": time}],
            }})
        };
        let stored = object("1", "2024-01-01T00:00:00Z", "1");
        assert!(is_unchanged(&object("2", "2025-01-01T00:00:00Z", "1"), &stored));
        assert!(!is_unchanged(&object("1", "2024-01-01T00:00:00Z", "2"), &stored));
        let mut other = stored.clone();
        other["metadata"]["managedFields"][0]["manager"] = json!("n");
        assert!(!is_unchanged(&other, &stored));
        let mut bare = stored.clone();
        bare["metadata"].as_object_mut().unwrap().remove("resourceVersion");
        assert!(is_unchanged(&bare, &stored));
        bare["metadata"].as_object_mut().unwrap().remove("managedFields");
        assert!(!is_unchanged(&bare, &stored) && !is_unchanged(&stored, &bare));
    }
}
