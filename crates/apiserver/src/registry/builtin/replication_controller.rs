//! ReplicationControllers.
//!
//! Upstream: pkg/registry/core/replicationcontroller/strategy.go

use serde_json::{Value, json};

use super::{pod_spec, replica_set, workload};
use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, object, set_default};
use crate::registry::field::Field;
use crate::registry::label_selector;
use crate::registry::strategy::{DefaultPropagation, Properties, Strategy};

pub struct ReplicationController;

impl Strategy for ReplicationController {
    fn properties(&self) -> Properties {
        Properties {
            default_propagation: DefaultPropagation::Orphan,
            ..Properties::WITH_STATUS_AND_GENERATION
        }
    }

    fn default(&self, controller: &mut Value) {
        let labels = edit::at(controller, &["spec", "template", "metadata", "labels"]).clone();
        let labelled = !edit::is_empty(&labels);
        if let Some(spec) = object(controller, "spec") {
            set_default(spec, "replicas", 1);
            if labelled && edit::is_empty(edit::at(spec, &["selector"])) {
                edit::set(spec, "selector", labels.clone());
            }
            if let Some(template) = edit::at_mut(spec, &["template"]) {
                pod_spec::default_template(template);
            }
        }
        if let Some(metadata) = object(controller, "metadata")
            && labelled
            && edit::is_empty(edit::at(metadata, &["labels"]))
        {
            edit::set(metadata, "labels", labels);
        }
    }

    fn empty_status(&self) -> Value {
        json!({"replicas": 0})
    }

    fn validate(&self, controller: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(controller);
        let spec = root.at("spec");
        checks::non_negative(&spec.at("minReadySeconds"), &mut errors);
        if spec.count("selector") == 0 {
            errors.push(spec.at("selector").required(""));
        }
        checks::non_negative(&spec.at("replicas"), &mut errors);
        let template = spec.at("template");
        if !template.is_set() {
            errors.push(template.required(""));
            return errors;
        }
        let metadata = template.at("metadata");
        let wanted = spec.map("selector");
        if wanted.is_some_and(|it| !label_selector::map_matches(it, metadata.raw("labels"))) {
            errors.push(metadata.at("labels").invalid(workload::MISMATCH));
        }
        pod_spec::validate_template(&template, &mut errors);
        workload::validate_endless(&template, "ReplicationController", &mut errors);
        errors
    }

    fn validate_update(&self, controller: &Value, _old: &Value, subresource: &str) -> Errors {
        match subresource {
            "status" => replica_set::validate_status(&Field::root(controller).at("status")),
            _ => self.validate(controller),
        }
    }

    fn warnings(&self, controller: &Value, old: Option<&Value>) -> Vec<String> {
        workload::warnings(controller, old, &["spec", "template", "spec"])
    }
}
