//! DaemonSets.
//!
//! Upstream: pkg/registry/apps/daemonset/strategy.go, pkg/apis/apps/v1/defaults.go

use serde_json::{Value, json};

use super::{pod_spec, workload};
use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, object, set_default, text};
use crate::registry::field::Field;
use crate::registry::strategy::{Context, Properties, Strategy};

/// Counts the templates a daemon set has had; old clients read it.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub struct DaemonSet;

impl Strategy for DaemonSet {
    fn properties(&self) -> Properties {
        Properties::WITH_STATUS_AND_GENERATION
    }

    fn default(&self, set: &mut Value) {
        let Some(spec) = object(set, "spec") else { return };
        if let Some(strategy) = object(spec, "updateStrategy") {
            set_default(strategy, "type", "RollingUpdate");
            if text(strategy, &["type"]) == "RollingUpdate"
                && let Some(rolling) = object(strategy, "rollingUpdate")
            {
                set_default(rolling, "maxUnavailable", 1);
                set_default(rolling, "maxSurge", 0);
            }
        }
        set_default(spec, "revisionHistoryLimit", 10);
        if let Some(template) = object(spec, "template") {
            pod_spec::default_template(template);
        }
    }

    fn empty_status(&self) -> Value {
        json!({
            "currentNumberScheduled": 0,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 0,
            "numberReady": 0,
        })
    }

    fn prepare_create(&self, set: &mut Value, _context: &Context<'_>) {
        set_template_generation(set, 1);
    }

    fn prepare_update(&self, set: &mut Value, old: &Value, context: &Context<'_>) {
        let generation = text(old, &["metadata", "annotations", TEMPLATE_GENERATION]);
        let mut generation = generation.parse().unwrap_or(1);
        let template = |it: &Value| edit::at(it, &["spec", "template"]).clone();
        if context.subresource.is_empty() && template(set) != template(old) {
            generation += 1;
        }
        set_template_generation(set, generation);
    }

    fn validate(&self, set: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(set);
        let spec = root.at("spec");
        workload::validate_selector(&spec, "daemonset", &mut errors);
        workload::validate_template(&spec, "DaemonSet", &mut errors);
        checks::non_negative(&spec.at("minReadySeconds"), &mut errors);
        validate_strategy(&spec.at("updateStrategy"), &mut errors);
        checks::non_negative(&spec.at("revisionHistoryLimit"), &mut errors);
        errors
    }

    fn validate_update(&self, set: &Value, old: &Value, subresource: &str) -> Errors {
        if subresource == "status" {
            return Errors::new();
        }
        let mut errors = self.validate(set);
        workload::validate_selector_update(&Field::root(set), old, &mut errors);
        errors
    }

    fn warnings(&self, set: &Value, old: Option<&Value>) -> Vec<String> {
        workload::warnings(set, old, &["spec", "template", "spec"])
    }
}

fn set_template_generation(set: &mut Value, generation: i64) {
    let Some(metadata) = object(set, "metadata") else { return };
    if let Some(annotations) = object(metadata, "annotations") {
        edit::set(annotations, TEMPLATE_GENERATION, generation.to_string());
    }
}

fn validate_strategy(strategy: &Field<'_>, errors: &mut Errors) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.text("type") {
        "OnDelete" => {}
        "RollingUpdate" if !rolling.is_set() => errors.push(rolling.required("")),
        "RollingUpdate" => {
            let unavailable = rolling.at("maxUnavailable");
            let surge = rolling.at("maxSurge");
            for field in [&unavailable, &surge] {
                checks::count_or_percent(field, errors);
                checks::not_more_than_whole(field, errors);
            }
            match (checks::is_zero(unavailable.value), checks::is_zero(surge.value)) {
                (false, false) => {
                    let detail = "may not be set when maxUnavailable is non-zero";
                    errors.push(surge.invalid(detail));
                }
                (true, true) => {
                    errors.push(unavailable.required("cannot be 0 when maxSurge is 0"));
                }
                _ => {}
            }
        }
        _ => errors.push(strategy.at("type").not_supported(&["OnDelete", "RollingUpdate"])),
    }
}
