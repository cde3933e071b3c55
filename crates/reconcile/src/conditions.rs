//! Conditions of a status: set by type, with the time of the last transition kept.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

/// A condition to be set.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition<'a> {
    pub kind: &'a str,
    pub status: Truth,
    pub reason: &'a str,
    pub message: &'a str,
    /// The generation it was decided for; left out where a kind has no such field.
    pub observed_generation: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    True,
    False,
    Unknown,
}

impl Truth {
    pub fn name(self) -> &'static str {
        match self {
            Truth::True => "True",
            Truth::False => "False",
            Truth::Unknown => "Unknown",
        }
    }
}

/// Sets a condition in a list of them; the time changes only when the status does.
pub fn set(conditions: &mut Vec<Value>, condition: &Condition<'_>, now: Timestamp) {
    let mut made = json!({
        "type": condition.kind,
        "status": condition.status.name(),
        "lastTransitionTime": time(now),
    });
    // The server keeps no empty texts, so one that was set would look changed for ever.
    for (field, text) in [("reason", condition.reason), ("message", condition.message)] {
        if !text.is_empty() {
            made[field] = json!(text);
        }
    }
    if let Some(generation) = condition.observed_generation {
        made["observedGeneration"] = json!(generation);
    }
    match conditions.iter_mut().find(|one| one["type"] == condition.kind) {
        Some(found) => {
            if found["status"] == made["status"] && found["lastTransitionTime"].is_string() {
                made["lastTransitionTime"] = found["lastTransitionTime"].clone();
            }
            *found = made;
        }
        None => conditions.push(made),
    }
}

/// Whether a status has a condition that is true.
pub fn is_true(status: &Value, kind: &str) -> bool {
    let found = find(status, kind);
    found.is_some_and(|condition| condition["status"] == "True")
}

pub fn find<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

/// A time as the API writes it: whole seconds.
pub fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_transition_time_changes_with_the_status_only() {
        let at = |second| Timestamp::from_second(second).expect("a time");
        let ready = |status, message| Condition {
            kind: "Ready",
            status,
            reason: "R",
            message,
            observed_generation: Some(2),
        };
        let mut conditions = Vec::new();
        set(&mut conditions, &ready(Truth::False, "no"), at(10));
        set(&mut conditions, &ready(Truth::False, "still not"), at(20));
        assert_eq!(conditions[0]["lastTransitionTime"], "1970-01-01T00:00:10Z");
        assert_eq!(conditions[0]["message"], "still not");
        set(&mut conditions, &ready(Truth::True, ""), at(30));
        assert_eq!(conditions[0]["lastTransitionTime"], "1970-01-01T00:00:30Z");
        assert_eq!(conditions.len(), 1);
        assert!(is_true(&json!({"conditions": conditions}), "Ready"));
    }
}
