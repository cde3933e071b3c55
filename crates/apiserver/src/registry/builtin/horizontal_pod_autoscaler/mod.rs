//! HorizontalPodAutoscalers: stored as autoscaling/v2, served as that and as v1.
//!
//! Upstream: pkg/apis/autoscaling/v2/defaults.go, pkg/apis/autoscaling/validation/validation.go

use serde_json::{Value, json};

use crate::registry::amount;
use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, object, set_default};
use crate::registry::field::Field;
use crate::registry::names;
use crate::registry::strategy::{Context, Properties, Strategy};

pub mod convert;

const STABILIZATION_SECONDS_MAX: i64 = 3600;
const PERIOD_SECONDS_MAX: i64 = 1800;
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
    ("External", "external"),
];

pub struct HorizontalPodAutoscaler;

impl Strategy for HorizontalPodAutoscaler {
    fn properties(&self) -> Properties {
        Properties::WITH_STATUS
    }

    fn default(&self, scaler: &mut Value) {
        if is_first_version(scaler) {
            let mut second = convert::to_v2(scaler);
            default_second(&mut second);
            *scaler = convert::to_v1(&second);
        } else {
            default_second(scaler);
        }
    }

    fn empty_status(&self) -> Value {
        json!({"desiredReplicas": 0, "currentMetrics": null})
    }

    fn prepare_create(&self, scaler: &mut Value, _context: &Context<'_>) {
        if is_first_version(scaler) {
            edit::set(scaler, "status", json!({"currentReplicas": 0, "desiredReplicas": 0}));
        }
    }

    fn validate(&self, scaler: &Value) -> Errors {
        match is_first_version(scaler) {
            true => validate_second(&convert::to_v2(scaler)),
            false => validate_second(scaler),
        }
    }
}

/// The rules are those of v2, whichever version is written.
fn is_first_version(scaler: &Value) -> bool {
    edit::text(scaler, &["apiVersion"]) == "autoscaling/v1"
}

fn default_second(scaler: &mut Value) {
    let Some(spec) = object(scaler, "spec") else { return };
    set_default(spec, "minReplicas", 1);
    if edit::is_empty(edit::at(spec, &["metrics"])) {
        let target = json!({"type": "Utilization", "averageUtilization": 80});
        let resource = json!({"name": "cpu", "target": target});
        edit::set(spec, "metrics", json!([{"type": "Resource", "resource": resource}]));
    }
    let Some(behavior) = edit::at_mut(spec, &["behavior"]) else { return };
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    if let Some(up) = object(behavior, "scaleUp") {
        set_default(up, "stabilizationWindowSeconds", 0);
        set_default(up, "selectPolicy", "Max");
        set_default(up, "policies", json!([pods, percent]));
    }
    if let Some(down) = object(behavior, "scaleDown") {
        set_default(down, "selectPolicy", "Max");
        set_default(down, "policies", json!([percent]));
    }
}

fn validate_second(scaler: &Value) -> Errors {
    let mut errors = Errors::new();
    let root = Field::root(scaler);
    let spec = root.at("spec");
    let least = spec.at("minReplicas");
    if least.as_int().is_some_and(|it| it < 1) {
        errors.push(least.invalid("must be greater than or equal to 1"));
    }
    let most = spec.at("maxReplicas");
    let most_value = most.as_int().unwrap_or(0);
    if most_value < 1 {
        errors.push(most.invalid_value(most_value, "must be greater than 0"));
    }
    if least.as_int().is_some_and(|it| most_value < it) {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.push(most.invalid_value(most_value, detail));
    }
    let target = spec.at("scaleTargetRef");
    for name in ["kind", "name"] {
        checks::named(&target.at(name), names::path_segment, &mut errors);
    }
    for metric in spec.items("metrics") {
        validate_metric(&metric, &mut errors);
    }
    let behavior = spec.at("behavior");
    for direction in ["scaleUp", "scaleDown"] {
        validate_rules(&behavior.at(direction), &mut errors);
    }
    errors
}

fn validate_metric(metric: &Field<'_>, errors: &mut Errors) {
    let kind = metric.at("type");
    if kind.as_text().is_empty() {
        errors.push(kind.required("must specify a metric source type"));
    } else if !SOURCES.iter().any(|(name, _)| *name == kind.as_text()) {
        let known: Vec<&str> = SOURCES.iter().map(|(name, _)| *name).collect();
        errors.push(kind.not_supported(&known));
    }
    let set: Vec<&str> =
        SOURCES.iter().map(|(_, field)| *field).filter(|field| metric.has(field)).collect();
    for field in set.iter().skip(1) {
        let detail = "must populate the given metric source only";
        errors.push(metric.at(field).forbidden(detail));
    }
    let expected = SOURCES.iter().find(|(name, _)| *name == kind.as_text());
    let Some((_, field)) = expected else { return };
    if !metric.has(field) {
        let detail = "must populate information for the given metric source";
        return errors.push(metric.at(field).required(detail));
    }
    let source = metric.at(field);
    match *field {
        "resource" | "containerResource" => checks::present(&source.at("name"), errors),
        _ => {
            let name = source.at("metric");
            checks::named(&name.at("name"), names::path_segment, errors);
        }
    }
    validate_target(&source.at("target"), errors);
}

fn validate_target(target: &Field<'_>, errors: &mut Errors) {
    let kind = target.at("type");
    checks::one_of(&kind, &["AverageValue", "Utilization", "Value"], errors);
    for name in ["value", "averageValue"] {
        let field = target.at(name);
        if field.is_set() && !amount::is_positive(field.value) {
            errors.push(field.invalid("must be positive"));
        }
    }
    let utilization = target.at("averageUtilization");
    if utilization.as_int().is_some_and(|it| it < 1) {
        errors.push(utilization.invalid("must be greater than 0"));
    }
}

fn validate_rules(rules: &Field<'_>, errors: &mut Errors) {
    if !rules.is_set() {
        return;
    }
    let window = rules.at("stabilizationWindowSeconds");
    match window.as_int() {
        Some(..0) => errors.push(window.invalid("must be greater than or equal to zero")),
        Some(seconds) if seconds > STABILIZATION_SECONDS_MAX => {
            errors.push(
                window
                    .invalid(format!("must be less than or equal to {STABILIZATION_SECONDS_MAX}")),
            );
        }
        _ => {}
    }
    let select = rules.at("selectPolicy");
    checks::absent_or_one_of(&select, &["Disabled", "Max", "Min"], errors);
    if rules.count("policies") == 0 {
        errors.push(rules.at("policies").required("must specify at least one Policy"));
    }
    for policy in rules.items("policies") {
        checks::one_of(&policy.at("type"), &["Percent", "Pods"], errors);
        for name in ["value", "periodSeconds"] {
            let field = policy.at(name);
            let value = field.as_int().unwrap_or(0);
            if value <= 0 {
                errors.push(field.invalid_value(value, "must be greater than zero"));
            }
            if name == "periodSeconds" && value > PERIOD_SECONDS_MAX {
                let detail = format!("must be less than or equal to {PERIOD_SECONDS_MAX}");
                errors.push(field.invalid(detail));
            }
        }
    }
}
