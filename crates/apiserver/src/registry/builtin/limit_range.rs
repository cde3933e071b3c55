//! LimitRanges.
//!
//! Upstream: pkg/apis/core/v1/defaults.go (SetDefaults_LimitRangeItem), ValidateLimitRange

use serde_json::Value;

use crate::registry::amount;
use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, each_mut, object, set_default};
use crate::registry::field::Field;
use crate::registry::names;
use crate::registry::strategy::{Properties, Strategy};

pub struct LimitRange;

impl Strategy for LimitRange {
    fn properties(&self) -> Properties {
        Properties { allows_create_on_update: true, ..Properties::DEFAULT }
    }

    /// The most is the default limit, the default limit the default request, else the least.
    fn default(&self, range: &mut Value) {
        for item in each_mut(range, &["spec", "limits"]) {
            if edit::text(item, &["type"]) == "Container" {
                fill(item, "default", "max");
                fill(item, "defaultRequest", "default");
                fill(item, "defaultRequest", "min");
            }
        }
    }

    fn validate(&self, range: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(range);
        let spec = root.at("spec");
        let mut seen: Vec<&str> = Vec::new();
        for item in spec.items("limits") {
            let kind = item.at("type");
            checks::faults(&kind, names::qualified_name(kind.as_text()), &mut errors);
            if seen.contains(&kind.as_text()) {
                errors.push(kind.duplicate());
            }
            seen.push(item.text("type"));
            validate_item(&item, &mut errors);
        }
        errors
    }
}

fn fill(item: &mut Value, into: &str, from: &str) {
    let Some(amounts) = edit::map(item, &[from]).cloned() else { return };
    if amounts.is_empty() {
        return;
    }
    let Some(into) = object(item, into) else { return };
    for (name, amount) in amounts {
        set_default(into, &name, amount);
    }
}

fn validate_item(item: &Field<'_>, errors: &mut Errors) {
    match item.text("type") {
        "Pod" => {
            for name in ["default", "defaultRequest"] {
                if item.count(name) > 0 {
                    let detail = "may not be specified when `type` is 'Pod'";
                    errors.push(item.at(name).forbidden(detail));
                }
            }
        }
        "PersistentVolumeClaim" => {
            let given = |list: &str| item.key(list, "storage").is_set();
            if !given("min") && !given("max") {
                let detail = "either minimum or maximum storage value is required, but neither \
                              was provided";
                errors.push(item.at("limits").required(detail));
            }
        }
        _ => {}
    }
    let lists = ["min", "defaultRequest", "default", "max"];
    for (index, low) in lists.iter().enumerate() {
        for high in &lists[index + 1..] {
            validate_order(item, low, high, errors);
        }
    }
    for (name, ratio) in item.entries("maxLimitRequestRatio") {
        let one = crate::quantity::Quantity::from_i64(1);
        let Some(value) = amount::read(ratio.value) else { continue };
        if value < one {
            errors.push(ratio.invalid(format!("ratio {value} is less than 1")));
        }
        let least = amount::read(item.key("min", name).value);
        let most = amount::read(item.key("max", name).value);
        if let (Some(least), Some(most)) = (least, most)
            && least > crate::quantity::Quantity::ZERO
        {
            let largest = most.milli_value() as f64 / least.milli_value() as f64;
            if value.milli_value() as f64 / 1000.0 > largest {
                errors.push(
                    ratio.invalid(format!("ratio {value} is greater than max/min = {largest:.6}")),
                );
            }
        }
    }
}

fn validate_order(item: &Field<'_>, low: &str, high: &str, errors: &mut Errors) {
    let word = |list: &str| match list {
        "min" => "min value".to_owned(),
        "max" => "max value".to_owned(),
        "default" => "default value".to_owned(),
        _ => "default request value".to_owned(),
    };
    for (name, field) in item.entries(low) {
        let bound = amount::read(item.key(high, name).value);
        let (Some(value), Some(bound)) = (amount::read(field.value), bound) else { continue };
        if value > bound {
            // Upstream names the greater list for defaults, the lesser for the minimum.
            let detail = format!("{} {value} is greater than {} {bound}", word(low), word(high));
            errors.push(field.invalid(detail));
        }
    }
}
