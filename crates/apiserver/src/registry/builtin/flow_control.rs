//! FlowSchemas and PriorityLevelConfigurations.
//!
//! Upstream: pkg/apis/flowcontrol/{v1/defaults.go,validation/validation.go}

use serde_json::Value;

use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, object, set_default, set_default_nonzero};
use crate::registry::field::Field;
use crate::registry::strategy::{Properties, Strategy};

const PRECEDENCE_MAX: i64 = 10_000;

pub struct FlowSchema;

impl Strategy for FlowSchema {
    fn properties(&self) -> Properties {
        Properties::WITH_STATUS_AND_GENERATION
    }

    fn default(&self, schema: &mut Value) {
        if let Some(spec) = object(schema, "spec") {
            set_default_nonzero(spec, "matchingPrecedence", 1000);
        }
    }

    fn validate(&self, schema: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(schema);
        let spec = root.at("spec");
        let precedence = spec.at("matchingPrecedence");
        let value = precedence.as_int().unwrap_or(0);
        if value <= 0 {
            errors.push(precedence.invalid_value(value, "must be a positive value"));
        }
        if value > PRECEDENCE_MAX {
            let detail = format!("must not be greater than {PRECEDENCE_MAX}");
            errors.push(precedence.invalid(detail));
        }
        let level = spec.at("priorityLevelConfiguration");
        checks::present(&level.at("name"), &mut errors);
        for rule in spec.items("rules") {
            if rule.count("subjects") == 0 {
                let detail = "subjects must contain at least one value";
                errors.push(rule.at("subjects").required(detail));
            }
            if rule.count("resourceRules") == 0 && rule.count("nonResourceRules") == 0 {
                errors.push(rule.required(
                    "at least one of resourceRules and nonResourceRules has to be non-empty",
                ));
            }
        }
        errors
    }
}

pub struct PriorityLevelConfiguration;

impl Strategy for PriorityLevelConfiguration {
    fn properties(&self) -> Properties {
        Properties::WITH_STATUS_AND_GENERATION
    }

    fn default(&self, level: &mut Value) {
        if let Some(exempt) = edit::at_mut(level, &["spec", "exempt"]) {
            set_default(exempt, "nominalConcurrencyShares", 0);
            set_default(exempt, "lendablePercent", 0);
        }
        let Some(limited) = edit::at_mut(level, &["spec", "limited"]) else { return };
        set_default(limited, "nominalConcurrencyShares", 30);
        set_default(limited, "lendablePercent", 0);
        let queuing = edit::at_mut(limited, &["limitResponse", "queuing"]);
        if let Some(queuing) = queuing {
            set_default_nonzero(queuing, "queues", 64);
            set_default_nonzero(queuing, "handSize", 8);
            set_default_nonzero(queuing, "queueLengthLimit", 50);
        }
    }

    fn validate(&self, level: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(level);
        let spec = root.at("spec");
        let kind = spec.at("type");
        let detail = |kind: &str| format!("must be nil if the type is {kind}");
        match kind.as_text() {
            "Exempt" if spec.has("limited") => {
                let text = "must be nil if the type is not Limited";
                errors.push(spec.at("limited").forbidden(text));
            }
            "Exempt" => {}
            "Limited" => {
                if spec.has("exempt") {
                    errors.push(spec.at("exempt").forbidden(detail("Limited")));
                }
                let limited = spec.at("limited");
                match limited.is_set() {
                    false => {
                        let text = "must not be empty when type is Limited";
                        errors.push(limited.required(text));
                    }
                    true => validate_limited(&limited, &mut errors),
                }
            }
            _ => errors.push(kind.not_supported(&["Exempt", "Limited"])),
        }
        errors
    }
}

fn validate_limited(limited: &Field<'_>, errors: &mut Errors) {
    checks::non_negative(&limited.at("nominalConcurrencyShares"), errors);
    checks::in_range(&limited.at("lendablePercent"), 0, 100, errors);
    let response = limited.at("limitResponse");
    let kind = response.at("type");
    match kind.as_text() {
        "Reject" if response.has("queuing") => {
            let detail = "must be nil if limited.limitResponse.type is not Limited";
            errors.push(response.at("queuing").forbidden(detail));
        }
        "Reject" => {}
        "Queue" if !response.has("queuing") => {
            let detail = "must not be empty if limited.limitResponse.type is Limited";
            errors.push(response.at("queuing").required(detail));
        }
        "Queue" => {
            let queuing = response.at("queuing");
            for name in ["queues", "handSize", "queueLengthLimit"] {
                let field = queuing.at(name);
                if field.as_int().is_some_and(|it| it <= 0) {
                    errors.push(field.invalid("must be positive"));
                }
            }
            let (hand, queues) = (queuing.int("handSize"), queuing.int("queues"));
            if let (Some(hand), Some(queues)) = (hand, queues)
                && hand > queues
            {
                let detail = format!("should not be greater than queues ({queues})");
                errors.push(queuing.at("handSize").invalid(detail));
            }
        }
        _ => errors.push(kind.not_supported(&["Queue", "Reject"])),
    }
}
