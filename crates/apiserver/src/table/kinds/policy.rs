//! What may be disturbed, and what comes first.
//!
//! Upstream: pkg/printers/internalversion/printers.go

use serde_json::Value;

use super::super::read::{age, at, condition, integer, is_true, name, plain, text, text_or};
use super::super::{Column, Printer, cells};

const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";

pub static PRINTERS: &[Printer] = &[
    Printer::new("policy", "PodDisruptionBudget", BUDGET, budget),
    Printer::new("scheduling.k8s.io", "PriorityClass", PRIORITY_CLASS, priority_class),
    Printer::new(FLOW_CONTROL, "FlowSchema", FLOW_SCHEMA, flow_schema),
    Printer::new(FLOW_CONTROL, "PriorityLevelConfiguration", PRIORITY_LEVEL, priority_level),
];

const BUDGET: &[Column] = &[
    Column::NAME,
    Column::text("Min Available", "How many pods must stay."),
    Column::text("Max Unavailable", "How many pods may be missing."),
    Column::integer("Allowed Disruptions", "How many pods may be disturbed at once."),
    Column::AGE,
];

const PRIORITY_CLASS: &[Column] = &[
    Column::NAME,
    Column::integer("Value", "The priority; a larger one comes first."),
    Column::boolean("Global-Default", "Whether pods get it that ask for none."),
    Column::AGE,
    Column::text("PreemptionPolicy", "Whether pods may push out others."),
];

const FLOW_SCHEMA: &[Column] = &[
    Column::NAME,
    Column::text("PriorityLevel", "The level of the requests that match."),
    Column::text("MatchingPrecedence", "Of schemas that match, the lowest wins."),
    Column::text("DistinguisherMethod", "How requests are told apart."),
    Column::AGE,
    Column::text("MissingPL", "Whether there is no such priority level."),
];

const PRIORITY_LEVEL: &[Column] = &[
    Column::NAME,
    Column::text("Type", "Whether requests of the level are limited."),
    Column::text("NominalConcurrencyShares", "The share of the level."),
    Column::text("Queues", "How many queues there are."),
    Column::text("HandSize", "How many queues a flow is dealt."),
    Column::text("QueueLengthLimit", "How long a queue may be."),
    Column::AGE,
];

fn budget(object: &Value, now: i64) -> Vec<Value> {
    let or_not_applicable = |value: &Value| match value {
        Value::Null => "N/A".to_owned(),
        some => plain(some),
    };
    cells![
        name(object),
        or_not_applicable(at(object, &["spec", "minAvailable"])),
        or_not_applicable(at(object, &["spec", "maxUnavailable"])),
        integer(object, &["status", "disruptionsAllowed"]),
        age(object, now),
    ]
}

fn priority_class(object: &Value, now: i64) -> Vec<Value> {
    cells![
        name(object),
        integer(object, &["value"]),
        is_true(object, &["globalDefault"]),
        age(object, now),
        text(object, &["preemptionPolicy"]),
    ]
}

fn flow_schema(object: &Value, now: i64) -> Vec<Value> {
    let dangling = condition(object, "Dangling").map(|one| text(one, &["status"]));
    cells![
        name(object),
        text(object, &["spec", "priorityLevelConfiguration", "name"]),
        integer(object, &["spec", "matchingPrecedence"]),
        text_or(object, &["spec", "distinguisherMethod", "type"], "<none>"),
        age(object, now),
        dangling.unwrap_or("?"),
    ]
}

fn priority_level(object: &Value, now: i64) -> Vec<Value> {
    let limited = at(object, &["spec", "limited"]);
    let queuing = at(limited, &["limitResponse", "queuing"]);
    let number = |of: &Value, field: &str| match of {
        Value::Null => Value::from("<none>"),
        some => Value::from(integer(some, &[field])),
    };
    cells![
        name(object),
        text(object, &["spec", "type"]),
        number(limited, "nominalConcurrencyShares"),
        number(queuing, "queues"),
        number(queuing, "handSize"),
        number(queuing, "queueLengthLimit"),
        age(object, now),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::check;
    use super::FLOW_CONTROL;

    #[test]
    fn budgets_have_one_bound_or_the_other() {
        let budget =
            |spec: serde_json::Value| json!({"spec": spec, "status": {"disruptionsAllowed": 2}});
        let kind = "PodDisruptionBudget";
        check(
            "policy",
            kind,
            budget(json!({"minAvailable": 1})),
            json!(["x", "1", "N/A", 2, "5m"]),
        );
        check(
            "policy",
            kind,
            budget(json!({"maxUnavailable": "25%"})),
            json!(["x", "N/A", "25%", 2, "5m"]),
        );
    }

    #[test]
    fn priorities() {
        check(
            "scheduling.k8s.io",
            "PriorityClass",
            json!({"value": 1000, "globalDefault": true, "preemptionPolicy": "Never"}),
            json!(["x", 1000, true, "5m", "Never"]),
        );
        check(
            FLOW_CONTROL,
            "FlowSchema",
            json!({
                "spec": {"priorityLevelConfiguration": {"name": "p"}, "matchingPrecedence": 10,
                    "distinguisherMethod": {"type": "ByUser"}},
                "status": {"conditions": [{"type": "Dangling", "status": "False"}]},
            }),
            json!(["x", "p", 10, "ByUser", "5m", "False"]),
        );
        check(FLOW_CONTROL, "FlowSchema", json!({}), json!(["x", "", 0, "<none>", "5m", "?"]));
        let kind = "PriorityLevelConfiguration";
        check(
            FLOW_CONTROL,
            kind,
            json!({"spec": {"type": "Limited", "limited": {
                "nominalConcurrencyShares": 30,
                "limitResponse": {
                    "queuing": {"queues": 64, "handSize": 8, "queueLengthLimit": 50},
                },
            }}}),
            json!(["x", "Limited", 30, 64, 8, 50, "5m"]),
        );
        check(
            FLOW_CONTROL,
            kind,
            json!({"spec": {"type": "Exempt"}}),
            json!(["x", "Exempt", "<none>", "<none>", "<none>", "<none>", "5m"]),
        );
    }
}
