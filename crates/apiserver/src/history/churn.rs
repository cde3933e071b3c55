//! What of the past may be thinned out: changes that nobody wanted and that come again.

use bytes::Bytes;
use serde_json::Value;
use store::Key;

use crate::object;
use crate::persist::Stored;

/// Who is alive is written every few seconds, and what is said again is counted in its event.
const COUNTED: [&str; 2] = ["leases/", "events/"];

/// Whether a change is of the status alone, or only says that somebody is alive or says something
/// again.
pub fn is_churn(key: &Key, before: &Bytes, after: &Bytes) -> bool {
    if COUNTED.iter().any(|prefix| key.as_str().starts_with(prefix)) {
        return true;
    }
    match (without_status(before), without_status(after)) {
        (Some(before), Some(after)) => before == after,
        // What is sealed, or no object, is not ours to judge.
        _ => false,
    }
}

fn without_status(value: &Bytes) -> Option<Value> {
    if value.first() != Some(&b'{') {
        return None;
    }
    let mut object: Value = serde_json::from_slice(Stored::read(value).text()).ok()?;
    object.as_object_mut()?.remove("status")?;
    object::remove_meta(&mut object, "managedFields");
    Some(object)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_status_is_churn() {
        let key = Key::new("pods/a/b").unwrap();
        let bytes = |value: Value| Bytes::from(value.to_string());
        let pod = |image: &str, phase: &str| {
            bytes(json!({"metadata": {"name": "b"}, "spec": {"image": image},
                "status": {"phase": phase}}))
        };
        assert!(is_churn(&key, &pod("i", "Pending"), &pod("i", "Running")));
        assert!(!is_churn(&key, &pod("i", "Pending"), &pod("j", "Pending")));
        let map = |text: &str| bytes(json!({"metadata": {}, "data": {"a": text}}));
        assert!(!is_churn(&key, &map("1"), &map("1")), "an object without a status");
        let sealed = Bytes::from_static(b"\0setpoint-sealed-1\0x");
        assert!(!is_churn(&Key::new("secrets/a/b").unwrap(), &sealed, &sealed));
        for key in ["leases/a/b", "events/a/b"] {
            assert!(is_churn(&Key::new(key).unwrap(), &map("1"), &map("2")), "{key}");
        }
        assert!(!is_churn(&Key::new("events.x/a/b").unwrap(), &map("1"), &map("2")));
    }
}
