//! An event of core/v1 as one of events.k8s.io/v1, and back.
//!
//! Upstream: pkg/apis/events/v1/conversion.go

use serde_json::{Map, Value, json};

/// The names of the same thing in core/v1 and in events.k8s.io/v1.
const RENAMED: [(&str, &str); 6] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
];
const COUNT: (&str, &str) = ("count", "deprecatedCount");

pub fn to_new(event: &Value) -> Value {
    rename(event, "events.k8s.io/v1", |name| {
        let pairs = RENAMED.iter().chain([&COUNT]);
        pairs.into_iter().find(|(old, _)| *old == name).map(|(_, new)| *new)
    })
}

pub fn to_core(event: &Value) -> Value {
    let mut core = rename(event, "v1", |name| {
        let pairs = RENAMED.iter().chain([&COUNT]);
        pairs.into_iter().find(|(_, new)| *new == name).map(|(old, _)| *old)
    });
    // Fields that core/v1 always shows.
    if let Some(map) = core.as_object_mut() {
        map.entry("involvedObject").or_insert(json!({}));
        map.entry("source").or_insert(json!({}));
        for name in ["firstTimestamp", "lastTimestamp", "eventTime"] {
            map.entry(name).or_insert(Value::Null);
        }
        for name in ["reportingComponent", "reportingInstance"] {
            map.entry(name).or_insert(json!(""));
        }
    }
    core
}

fn rename(event: &Value, version: &str, new_name: impl Fn(&str) -> Option<&'static str>) -> Value {
    let mut map = Map::new();
    for (name, value) in event.as_object().into_iter().flatten() {
        let name = new_name(name).unwrap_or(name);
        map.insert(name.to_owned(), value.clone());
    }
    map.insert("apiVersion".to_owned(), json!(version));
    Value::Object(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_converted_twice_is_itself() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"},
            "involvedObject": {"kind": "Pod"}, "message": "m", "source": {"component": "c"},
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": null, "eventTime": null,
            "count": 3, "reportingComponent": "r", "reportingInstance": "i", "reason": "Because",
        });
        let new = to_new(&core);
        assert_eq!(new["regarding"]["kind"], "Pod");
        assert_eq!(new["note"], "m");
        assert_eq!(new["deprecatedCount"], 3);
        assert_eq!(new["reportingController"], "r");
        assert_eq!(new["apiVersion"], "events.k8s.io/v1");
        assert_eq!(to_core(&new), core);
    }
}
