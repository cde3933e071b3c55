//! Events: stored as core/v1, served as that and as events.k8s.io/v1.
//!
//! Upstream: pkg/registry/core/event/strategy.go, pkg/apis/core/validation/events.go

use serde_json::Value;

use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, text};
use crate::registry::field::Field;
use crate::registry::names::{self, NameRule};
use crate::registry::strategy::{DefaultPropagation, Properties, Strategy};

pub mod convert;

const NOTE_BYTES_MAX: usize = 1024;
const REPORTER_BYTES_MAX: usize = 128;

/// Of core/v1, which takes almost anything.
pub struct Event;

impl Strategy for Event {
    fn properties(&self) -> Properties {
        PROPERTIES
    }

    fn validate(&self, event: &Value) -> Errors {
        let mut errors = Errors::new();
        validate_namespace(&Field::root(event), "involvedObject", &mut errors);
        errors
    }
}

/// Of events.k8s.io/v1, which knows what it wants.
pub struct NewEvent;

impl Strategy for NewEvent {
    fn properties(&self) -> Properties {
        PROPERTIES
    }

    fn validate(&self, event: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(event);
        validate_namespace(&root, "regarding", &mut errors);
        if !root.has("eventTime") {
            errors.push(root.at("eventTime").required(""));
        }
        validate_reporter(&root, &mut errors);
        for name in ["action", "reason"] {
            let field = root.at(name);
            checks::present(&field, &mut errors);
            if field.as_text().len() > REPORTER_BYTES_MAX {
                let detail = format!("can have at most {REPORTER_BYTES_MAX} characters");
                errors.push(field.invalid(detail));
            }
        }
        let note = root.at("note");
        if note.as_text().len() > NOTE_BYTES_MAX {
            errors.push(note.invalid(format!("can have at most {NOTE_BYTES_MAX} characters")));
        }
        let kind = root.at("type");
        if !["Normal", "Warning"].contains(&kind.as_text()) {
            errors.push(kind.invalid_value(kind.as_text(), ""));
        }
        errors
    }

    fn validate_update(&self, event: &Value, old: &Value, _subresource: &str) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(event);
        let fixed = [
            "regarding",
            "reason",
            "reportingController",
            "reportingInstance",
            "action",
            "type",
            "note",
            "related",
            "eventTime",
        ];
        for name in fixed {
            checks::immutable(&root.at(name), edit::at(old, &[name]), &mut errors);
        }
        errors
    }
}

const PROPERTIES: Properties = Properties {
    name_rule: NameRule::PathSegment,
    allows_create_on_update: true,
    default_propagation: DefaultPropagation::None,
    ..Properties::DEFAULT
};

/// An event lives where its object lives; those of cluster objects live in `default`.
fn validate_namespace(root: &Field<'_>, object: &str, errors: &mut Errors) {
    let own = text(root.value, &["metadata", "namespace"]);
    let object = root.at(object);
    let namespace = object.at("namespace");
    match namespace.as_text() {
        "" if !["", "default", "kube-system"].contains(&own) => {
            let detail = "not allowed in namespace";
            errors.push(namespace.invalid_value("", detail));
        }
        "" => {}
        other if other != own => {
            errors.push(namespace.invalid("does not match event.namespace"));
        }
        _ => {}
    }
}

fn validate_reporter(root: &Field<'_>, errors: &mut Errors) {
    let controller = root.at("reportingController");
    if controller.as_text().is_empty() {
        errors.push(controller.required(""));
    }
    checks::faults(&controller, names::qualified_name(controller.as_text()), errors);
    let instance = root.at("reportingInstance");
    checks::present(&instance, errors);
    if instance.as_text().len() > REPORTER_BYTES_MAX {
        let detail = format!("can have at most {REPORTER_BYTES_MAX} characters");
        errors.push(instance.invalid(detail));
    }
}
