//! Events, in either of their two forms.
//!
//! Upstream: pkg/printers/internalversion/printers.go (printEvent)

use serde_json::Value;

use super::super::read::{at, integer, name, text, text_or};
use super::super::{Column, Printer, cells};
use crate::age;

pub static PRINTERS: &[Printer] = &[
    Printer::new("", "Event", EVENT, event),
    Printer::new("events.k8s.io", "Event", EVENT, event),
];

const EVENT: &[Column] = &[
    Column::text("Last Seen", "How long ago it last happened."),
    Column::text("Type", "Normal, or Warning."),
    Column::text("Reason", "Why it happened, in a word."),
    Column::text("Object", "The object it happened to."),
    Column::text("Subobject", "The part of the object it happened to.").wide(),
    Column::text("Source", "Who reported it.").wide(),
    Column::text("Message", "What happened."),
    Column::text("First Seen", "How long ago it first happened.").wide(),
    Column::text("Count", "How often it happened.").wide(),
    Column { format: "name", ..Column::text("Name", "The name of the event.").wide() },
];

fn event(event: &Value, now: i64) -> Vec<Value> {
    let object = either(event, "involvedObject", "regarding");
    let (last_seen, first_seen) = seen(event, now);
    let message = text_or(event, &["message"], text(event, &["note"]));
    cells![
        last_seen,
        text(event, &["type"]),
        text(event, &["reason"]),
        target(object),
        text(object, &["fieldPath"]),
        source(event),
        message.trim(),
        first_seen,
        occurrences(event),
        name(event),
    ]
}

/// The field under its name in the core group, or under that in `events.k8s.io`.
fn either<'a>(event: &'a Value, old: &str, new: &str) -> &'a Value {
    match at(event, &[old]) {
        Value::Null => at(event, &[new]),
        found => found,
    }
}

/// How long ago it was last and first seen.
fn seen(event: &Value, now: i64) -> (String, String) {
    const NEVER: &str = "<unknown>";
    let ago = |value: &Value| age::since(value.as_str(), now);
    let mut first = ago(either(event, "firstTimestamp", "deprecatedFirstTimestamp"));
    if first == NEVER {
        first = ago(at(event, &["eventTime"]));
    }
    let series = at(event, &["series"]);
    if !series.is_null() {
        return (ago(at(series, &["lastObservedTime"])), first);
    }
    match ago(either(event, "lastTimestamp", "deprecatedLastTimestamp")) {
        never if never == NEVER => (first.clone(), first),
        last => (last, first),
    }
}

fn occurrences(event: &Value) -> i64 {
    let series = at(event, &["series"]);
    if !series.is_null() {
        return integer(series, &["count"]);
    }
    // What happens once need not be counted.
    match either(event, "count", "deprecatedCount").as_i64() {
        Some(0) | None => 1,
        Some(count) => count,
    }
}

fn target(object: &Value) -> String {
    let kind = text(object, &["kind"]).to_lowercase();
    match text(object, &["name"]) {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &Value) -> String {
    let source = either(event, "source", "deprecatedSource");
    let reporter = either(event, "reportingComponent", "reportingController");
    let component = text_or(source, &["component"], reporter.as_str().unwrap_or_default());
    match text_or(source, &["host"], text(event, &["reportingInstance"])) {
        "" => component.to_owned(),
        host => format!("{component}, {host}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::{ago, check};

    #[test]
    fn an_event_of_the_core_group() {
        check(
            "",
            "Event",
            json!({
                "firstTimestamp": ago(600), "lastTimestamp": ago(60), "count": 4,
                "type": "Warning", "reason": "BackOff", "message": " Back-off restarting\n",
                "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}"},
                "source": {"component": "kubelet", "host": "n1"},
            }),
            json!([
                "60s",
                "Warning",
                "BackOff",
                "pod/p",
                "spec.containers{c}",
                "kubelet, n1",
                "Back-off restarting",
                "10m",
                4,
                "x"
            ]),
        );
    }

    #[test]
    fn an_event_that_happened_once_and_one_that_goes_on() {
        check(
            "",
            "Event",
            json!({
                "eventTime": "2024-05-06T07:07:39.000000Z", "firstTimestamp": null,
                "reportingComponent": "scheduler", "reportingInstance": "s-1",
                "involvedObject": {"kind": "Node"}, "type": "Normal", "reason": "R",
            }),
            json!(["30s", "Normal", "R", "node", "", "scheduler, s-1", "", "30s", 1, "x"]),
        );
        check(
            "events.k8s.io",
            "Event",
            json!({
                "eventTime": "2024-05-06T07:07:39.000000Z",
                "series": {"count": 9, "lastObservedTime": "2024-05-06T07:08:07.000000Z"},
                "reportingController": "c", "regarding": {"kind": "Pod", "name": "p"},
                "type": "Normal", "reason": "R", "note": "hello",
            }),
            json!(["2s", "Normal", "R", "pod/p", "", "c", "hello", "30s", 9, "x"]),
        );
        check(
            "",
            "Event",
            json!({}),
            json!(["<unknown>", "", "", "", "", "", "", "<unknown>", 1, "x"]),
        );
    }
}
