//! How large an object may become before anybody works on it.
//!
//! A short body can stand for a long object: defaults are filled in wherever a list has an element.
//! What could never be stored is refused before each step that would make it larger still.

use serde_json::Value;

use crate::status::Error;

/// What admission and the server add to an object, at most in practice.
const ROOM_BYTES: usize = 64 * 1_024;

/// Refuses an object that is larger than any that can be stored.
pub fn check(object: &Value) -> Result<(), Error> {
    let mut left = store::VALUE_BYTES_MAX;
    match take(object, &mut left) {
        Some(()) => Ok(()),
        None => Err(too_large()),
    }
}

/// Whether an object, with what is still added to it, is short enough to be stored.
pub fn leaves_room(object: &Value) -> bool {
    let mut left = store::VALUE_BYTES_MAX / 2;
    if take(object, &mut left).is_some() {
        return true;
    }
    // What is escaped is longer than it looks: where it matters, it is written out.
    let bytes = serde_json::to_vec(object).map_or(usize::MAX, |text| text.len());
    bytes <= store::VALUE_BYTES_MAX - ROOM_BYTES
}

pub fn too_large() -> Error {
    Error::too_large(store::VALUE_BYTES_MAX)
}

/// Takes at most what the JSON of a value is long; stops as soon as nothing is left.
fn take(value: &Value, left: &mut usize) -> Option<()> {
    let own = match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 1,
        Value::String(text) => text.len() + 2,
        Value::Array(list) => 2 + list.len().saturating_sub(1),
        Value::Object(map) => 2 + map.len().saturating_sub(1),
    };
    *left = left.checked_sub(own)?;
    match value {
        Value::Array(list) => list.iter().try_for_each(|element| take(element, left)),
        Value::Object(map) => map.iter().try_for_each(|(key, value)| {
            *left = left.checked_sub(key.len() + 3)?;
            take(value, left)
        }),
        _ => Some(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn never_more_is_taken_than_the_json_is_long() {
        let object = json!({"a": [1, -2.5, "x\ny", null, true, {}], "b": {"c": [], "d": "ü"}});
        let mut left = 1_000;
        take(&object, &mut left).unwrap();
        assert!(1_000 - left <= object.to_string().len());
        assert!(1_000 - left >= object.to_string().len() - 8);
    }

    #[test]
    fn an_object_of_more_than_can_be_stored_is_refused() {
        assert_eq!(check(&json!({"a": "x".repeat(1_000_000)})), Ok(()));
        let error = check(&json!({"a": "x".repeat(2_000_000)})).unwrap_err();
        assert_eq!((error.code, &*error.reason), (413, "RequestEntityTooLarge"));
    }
}
